"""Prompt-cache entries on disk: what comes back, and what is never trusted."""

import os
import resource
import time
from contextlib import contextmanager

import pytest

from shared.rundir import Lock
from tests.unit.text.cache.test_prefix_cache import NAME, Clock, add, ids_of, row
from tests.wait import wait_for
from workers.text.cache.prefix_cache import PrefixCache, PrefixLimits
from workers.text.cache.prefix_store import PrefixStore

_LIMITS = PrefixLimits(capacity_bytes=1 << 20, max_entries=10, ttl_s=60.0, min_tokens=2)
_IDS = [1, 2, 3, 4, 5]


def open_cache(folder, capacity_bytes=1 << 20, digest="model"):
    return PrefixCache(_LIMITS, PrefixStore(folder, digest, capacity_bytes), Clock())


def files(folder):
    return sorted(folder.rglob("[!.]*.safetensors"))


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


def test_replicas_together_keep_the_folder_within_its_bytes(kept):
    (first,) = files(kept)
    caches = [open_cache(kept, capacity_bytes=int(2.5 * first.stat().st_size)) for _ in range(2)]
    for index in range(6):
        before = files(kept)
        # The oldest goes: a file system's clock may tick this seldom.
        time.sleep(0.01)
        caches[index % 2].add(b"%d" % index, _IDS, row(_IDS))
        wait_for(lambda before=before: files(kept) != before and len(files(kept)) <= 2)
    # What one has removed under the other is no longer found there, and no fault.
    for cache in caches:
        cache.reset()
        assert cache.find(b"0", [*_IDS, 6]) is None


def test_what_can_not_be_read_does_not_keep_a_worker_from_starting(kept):
    folder = files(kept)[0].parent
    (folder / "a.safetensors").mkdir()
    (folder / "b.safetensors").symlink_to(folder / "nowhere")
    # Nobody writes to it: whoever opened it would wait for ever.
    os.mkfifo(folder / "c.safetensors")
    found, _ = open_cache(kept).find(NAME, [*_IDS, 6])
    assert ids_of(found) == _IDS


def test_what_a_killed_process_left_half_written_is_removed_and_what_is_being_written_not(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / ".1.safetensors").write_bytes(b"half")
    lock = Lock(folder / ".2.safetensors")
    lock.acquire(0)
    open_cache(tmp_path)
    assert [path.name for path in folder.iterdir()] == [".2.safetensors"]
    lock.release()


def test_a_full_disk_costs_nothing_but_the_entries(tmp_path, caplog):
    cache = open_cache(tmp_path)
    with files_of_at_most(1024):
        for index in range(3):
            cache.add(b"%d" % index, _IDS, row(_IDS))
            wait_for(cache._store._waiting.empty)
        wait_for(lambda: "going on without" in caplog.text and not list(tmp_path.rglob(".*")))
    assert caplog.text.count("going on without") == 1
    add(cache, _IDS)
    wait_for(lambda: files(tmp_path))


@contextmanager
def files_of_at_most(nbytes):
    """Make writing more than that to a file fail."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
