"""A real redis-server for tests, on a socket in its own folder, without files."""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path

from tests.wait import wait_for

PROGRAM = "redis-server"


def is_installed() -> bool:
    return shutil.which(PROGRAM) is not None


class RedisServer:
    """One server; it can be stopped, restarted without its data, and frozen.

    Args:
        folder: used by this server only, with a path short enough for a socket.
    """

    def __init__(self, folder: Path) -> None:
        self._socket = folder / "redis.sock"
        self._command = [
            *(PROGRAM, "--port", "0", "--unixsocket", str(self._socket), "--dir", str(folder)),
            *("--save", "", "--appendonly", "no"),
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"unix://{self._socket}"

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        wait_for(self._socket.exists, 10)

    def stop(self) -> None:
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait(10)
        self._socket.unlink(missing_ok=True)

    def freeze(self) -> None:
        """Stop answering, with connections left open."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
