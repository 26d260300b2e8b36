"""The run directory: where it is, who may use it, and what is put back."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time

import pytest

from shared import rundir
from shared.rundir import Lock, RunDirectoryError


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The run directory of a server."""
    monkeypatch.setenv(rundir.BASE_ENV, str(tmp_path / "base"))
    return rundir.open_run_directory(8080)


def take_lock(folder, name="a.lock"):
    lock = Lock(folder / name)
    assert lock.acquire(0)
    return lock


def test_only_its_owner_can_read_it(folder, tmp_path):
    assert folder == tmp_path / "base" / f"mlxcel-{os.getuid()}" / "8080"
    for path in (folder, folder.parent):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_linux_keeps_it_in_the_temporary_folder(monkeypatch, tmp_path):
    monkeypatch.delenv(rundir.BASE_ENV, raising=False)
    monkeypatch.setattr(rundir, "_IS_DARWIN", False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert rundir.locate(1) == tmp_path / f"mlxcel-{os.getuid()}" / "1"


@pytest.mark.parametrize("has_cache_folder", [True, False])
def test_macos_keeps_it_where_nothing_is_swept(monkeypatch, tmp_path, has_cache_folder):
    cache = tmp_path / "C"
    monkeypatch.delenv(rundir.BASE_ENV, raising=False)
    monkeypatch.setattr(rundir, "_IS_DARWIN", True)
    # A launch daemon, a login over ssh and a terminal have different ones.
    monkeypatch.setenv("TMPDIR", "/elsewhere")
    monkeypatch.setenv("HOME", str(tmp_path))

    def confstr(number):
        assert number == 65538
        if not has_cache_folder:
            raise OSError(22, "Invalid argument")
        return f"{cache}/"

    monkeypatch.setattr(os, "confstr", confstr)
    base = cache if has_cache_folder else tmp_path / ".mlxcel"
    assert rundir.locate(1) == base / f"mlxcel-{os.getuid()}" / "1"
    assert rundir.open_run_directory(1).is_dir()


def test_the_longest_socket_path_of_macos_fits():
    # _CS_DARWIN_USER_CACHE_DIR resolved, a user id and the names of a large fleet.
    cache = "/private/var/folders/zz/zyxvpxvq6csfxvn_n0000000000000/C"
    assert len(f"{cache}/mlxcel-1234567890/65535/w10.12.sock") <= 103


def test_a_folder_that_can_not_be_created_is_one_sentence(monkeypatch, tmp_path):
    (tmp_path / f"mlxcel-{os.getuid()}").write_text("")
    monkeypatch.setenv(rundir.BASE_ENV, str(tmp_path))
    with pytest.raises(RunDirectoryError, match=f"set {rundir.BASE_ENV}"):
        rundir.open_run_directory(1)


def test_a_lock_has_one_owner(folder):
    lock = take_lock(folder)
    assert not Lock(lock.path).acquire(0)
    lock.release()
    assert Lock(lock.path).acquire(0)


@pytest.mark.parametrize("lost", ["file", "folder"])
def test_a_lock_file_that_is_gone_is_put_back(folder, lost):
    lock = take_lock(folder)
    lock.path.unlink() if lost == "file" else shutil.rmtree(folder.parent)
    assert lock.keep()
    assert lock.keep()
    assert not Lock(lock.path).acquire(0)


def test_a_lock_that_another_process_took_meanwhile_is_lost(folder):
    lock = take_lock(folder)
    lock.path.unlink()
    heir = take_lock(folder)
    assert not lock.keep()
    assert heir.keep()


def test_files_are_touched_before_a_sweeper_removes_them(folder):
    lock = take_lock(folder)
    old_s = time.time() - 86_400
    os.utime(lock.path, (old_s, old_s))
    assert lock.keep()
    assert lock.path.stat().st_mtime > old_s + 80_000
