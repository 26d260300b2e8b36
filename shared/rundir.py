"""The run directory `<base>/mlxcel-<uid>/<http port>/` of one server.

Holds the unix sockets of its processes, a lock file for each, the fleet file that `mlxcel-server`
writes, and the reasons of failed starts; only the owner can read it. Nothing in it is needed after
a restart. Blocking calls. Imports the standard library alone: a bare Python uses it too.

The base is a folder that is not swept, the same for every session of a user. macOS sweeps TMPDIR
after three days and gives each kind of session its own; its cache folder has neither fault. Linux
keeps TMPDIR: XDG_RUNTIME_DIR is removed when the user logs out, and a server may go on. What a
sweeper removes nevertheless is put back.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

# sizeof(sockaddr_un.sun_path) less its NUL: unix(7) and Darwin's sys/un.h.
MAX_SOCKET_PATH_BYTES: Final = 103 if sys.platform == "darwin" else 107
_IS_DARWIN: Final = sys.platform == "darwin"
# Sets the base folder.
BASE_ENV: Final = "MLXCEL_RUN_DIR"
# _CS_DARWIN_USER_CACHE_DIR, "will not be automatically cleaned": confstr(3), Darwin's unistd.h.
_DARWIN_USER_CACHE_DIR: Final = 65538
# Sweepers remove what has not been used for days; XDG_RUNTIME_DIR's may after six hours.
_TOUCH_S: Final = 3600.0


class RunDirectoryError(Exception):
    """The run directory can't be used; the message says why and what to do."""


def locate(port: int) -> Path:
    """Return the run directory of the server on an HTTP port; it may not exist."""
    return _find_base() / f"mlxcel-{os.getuid()}" / str(port)


def _find_base() -> Path:
    if base := os.environ.get(BASE_ENV):
        return Path(base).resolve()
    if not _IS_DARWIN:
        return Path(tempfile.gettempdir()).resolve()
    try:
        base = os.confstr(_DARWIN_USER_CACHE_DIR)
    except (OSError, ValueError):
        base = None
    return Path(base).resolve() if base else Path.home() / ".mlxcel"


def open_run_directory(port: int) -> Path:
    """Create the run directory of the server on an HTTP port.

    Raises:
        RunDirectoryError: another user owns it, or it can't be created.
    """
    path = locate(port)
    path.parent.parent.mkdir(parents=True, exist_ok=True)
    _make_private(path)
    for folder in (path.parent, path):
        folder.chmod(0o700)
    return path


def restore_folder(path: Path) -> None:
    """Create a folder in the run directory, and its parent, if they are gone.

    Raises:
        RunDirectoryError: another user owns one of them, or it can't be created.
    """
    if not path.is_dir():
        _make_private(path)


def _make_private(path: Path) -> None:
    for folder in (path.parent, path):
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            info = folder.lstat()
        except OSError as failure:
            raise RunDirectoryError(
                f"can't create {folder}: {failure.strerror}; set {BASE_ENV} to another folder"
            ) from None
        if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid():
            raise RunDirectoryError(
                f"{folder} belongs to another user; remove it or set {BASE_ENV}"
            )


def socket_path(directory: Path, name: str) -> Path:
    """Return the path of a socket.

    Raises:
        RunDirectoryError: the path exceeds the platform's limit.
    """
    path = directory / name
    if len(os.fsencode(path)) > MAX_SOCKET_PATH_BYTES:
        raise RunDirectoryError(
            f"{path} exceeds the {MAX_SOCKET_PATH_BYTES} bytes of a socket path; "
            f"set {BASE_ENV} to a shorter folder"
        )
    return path


def write_private(path: Path, text: str) -> None:
    """Write a file atomically that only its owner can read: it may hold keys."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    fresh.replace(path)


def touch(path: Path) -> None:
    """Keep a file from being swept; does nothing if that was done within the hour."""
    with contextlib.suppress(OSError):
        if time.time() - path.stat().st_mtime > _TOUCH_S:
            os.utime(path)


class Lock:
    """An advisory file lock; the system releases it when the process ends.

    Taken before binding a unix socket: a second gRPC server on the path would silently take it
    over.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None

    def acquire(self, timeout_s: float) -> bool:
        """Return whether the lock was acquired within `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        while not self._try():
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.05)
        return True

    def keep(self) -> bool:
        """Put the lock file back if it is gone; return whether this process holds the lock.

        False: another process has locked a new file of that name.

        Raises:
            OSError, RunDirectoryError: the file can't be created.
        """
        if self._fd is None:
            return False
        if _is_file(self._fd, self.path):
            touch(self.path)
            return True
        restore_folder(self.path.parent)
        old = self._fd
        if self._try():
            os.close(old)
            return True
        return False

    def release(self) -> None:
        """Release the lock. The file stays: removing it would race."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _try(self) -> bool:
        """Lock the file that now has the path; return whether that succeeded."""
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as failure:
            os.close(fd)
            if failure.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            return False
        # Removed after it was opened: another process may have locked a new file by now.
        if not _is_file(fd, self.path):
            os.close(fd)
            return False
        self._fd = fd
        return True


def _is_file(fd: int, path: Path) -> bool:
    """Return whether a path still names an open file."""
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except OSError:
        return False
