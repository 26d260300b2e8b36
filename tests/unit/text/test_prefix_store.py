"""Prompt-cache entries on disk: what comes back, and what is never trusted."""

import time

import pytest

from tests.unit.text.test_prefix_cache import NAME, Clock, add, ids_of, row
from workers.text.prefix_cache import PrefixCache, PrefixLimits
from workers.text.prefix_store import PrefixStore

_LIMITS = PrefixLimits(capacity_bytes=1 << 20, max_entries=10, ttl_s=60.0, min_tokens=2)
_IDS = [1, 2, 3, 4, 5]


def open_cache(folder, capacity_bytes=1 << 20, digest="model"):
    return PrefixCache(_LIMITS, PrefixStore(folder, digest, capacity_bytes), Clock())


def files(folder):
    return sorted(folder.rglob("[!.]*.safetensors"))


def wait_for(condition):
    deadline_s = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


@pytest.fixture
def kept(tmp_path):
    """A folder with one entry."""
    add(open_cache(tmp_path), _IDS)
    wait_for(lambda: files(tmp_path))
    return tmp_path


def test_an_entry_outlives_its_process(kept):
    found, common = open_cache(kept).find(NAME, [*_IDS, 6])
    assert common == 5
    assert ids_of(found) == _IDS


def test_a_part_of_an_entry_serves_too(kept):
    found, common = open_cache(kept).find(NAME, [1, 2, 3, 9, 9])
    assert (ids_of(found), common) == ([1, 2, 3], 3)


def test_an_entry_of_another_namespace_or_model_is_not_found(kept):
    assert open_cache(kept).find(b"other", [*_IDS, 6]) is None
    assert open_cache(kept, digest="other").find(NAME, [*_IDS, 6]) is None


def test_a_flipped_bit_is_noticed_and_the_file_removed(kept):
    (path,) = files(kept)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert open_cache(kept).find(NAME, [*_IDS, 6]) is None
    assert files(kept) == []


@pytest.mark.parametrize("keep", [0, 4, 40, -1])
def test_a_torn_file_is_removed_at_the_start(kept, keep):
    (path,) = files(kept)
    path.write_bytes(path.read_bytes()[:keep])
    assert open_cache(kept).find(NAME, [*_IDS, 6]) is None
    assert files(kept) == []


@pytest.mark.parametrize(
    "content", [b"", b"\xff" * 100, b"\x02" + b"\0" * 7 + b"{}", b"\x02" + b"\0" * 7 + b"[]"]
)
def test_a_foreign_file_is_removed_at_the_start(tmp_path, content):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "x.safetensors").write_bytes(content)
    (folder / "notes.txt").write_bytes(content)
    assert open_cache(tmp_path).find(NAME, [*_IDS, 6]) is None
    assert list(folder.iterdir()) == []


def test_the_folder_stays_within_its_bytes_by_the_oldest(kept):
    (oldest,) = files(kept)
    cache = open_cache(kept, capacity_bytes=int(1.5 * oldest.stat().st_size))
    cache.add(b"second", _IDS, row(_IDS))
    wait_for(lambda: len(files(kept)) == 1 and files(kept) != [oldest])
