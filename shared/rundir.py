"""The run directory `<tmp>/mlxcel-<uid>/<http port>/` of one server.

Holds the unix sockets of its processes and a lock file for each; only the owner can read it.
Nothing in it is needed after a restart. Blocking calls, made at start.
"""

from __future__ import annotations

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


class RunDirectoryError(Exception):
    """The run directory can't be used; the message says why and what to do."""


def open_run_directory(port: int) -> Path:
    """Create the run directory of the server on an HTTP port.

    Raises:
        RunDirectoryError: another user owns it.
    """
    parent = Path(tempfile.gettempdir()).resolve() / f"mlxcel-{os.getuid()}"
    path = parent / str(port)
    for folder in (parent, path):
        folder.mkdir(mode=0o700, exist_ok=True)
        info = folder.lstat()
        if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid():
            raise RunDirectoryError(f"{folder} belongs to another user; remove it or set TMPDIR")
        folder.chmod(0o700)
    return path


def socket_path(directory: Path, name: str) -> Path:
    """Return the path of a socket.

    Raises:
        RunDirectoryError: the path exceeds the platform's limit.
    """
    path = directory / name
    if len(os.fsencode(path)) > MAX_SOCKET_PATH_BYTES:
        raise RunDirectoryError(
            f"{path} exceeds the {MAX_SOCKET_PATH_BYTES} bytes of a socket path; "
            "set TMPDIR to a shorter folder"
        )
    return path


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
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as failure:
                if failure.errno not in (errno.EAGAIN, errno.EACCES):
                    os.close(fd)
                    raise
                if time.monotonic() >= deadline:
                    os.close(fd)
                    return False
                time.sleep(0.05)
            else:
                self._fd = fd
                return True

    def release(self) -> None:
        """Release the lock. The file stays: removing it would race."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
