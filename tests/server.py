"""A whole server for tests, with its real processes.

Owns one `mlxcel-server` (or the same supervised processes with a test module as a worker), its run
directory, log and port, and finds its processes. HTTP requests are made by client.py. All calls
block and may be made on any thread.
"""

from __future__ import annotations

import http.client
import json
import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import tomli_w

from deploy.run import process
from shared.fleet import load_fleet
from shared.rundir import BASE_ENV
from tests.wait import wait_for

ROOT = Path(__file__).resolve().parents[1]


def find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_alive(item: psutil.Process) -> bool:
    try:
        return item.is_running() and item.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def none_lives(processes: Sequence[psutil.Process]) -> bool:
    return not any(map(is_alive, processes))


def write_fleet(
    folder: Path,
    *workers: Mapping[str, Any],
    gateway: Mapping[str, Any] | None = None,
    supervisor: Mapping[str, Any] | None = None,
) -> Path:
    """Write a fleet file and return its path."""
    table = {"gateway": gateway or {}, "supervisor": supervisor or {}, "workers": list(workers)}
    path = folder / "fleet.toml"
    path.write_text(tomli_w.dumps(table))
    return path


class Server:
    """One server, its processes and its run directory.

    Args:
        folder: used by this server only, with a path short enough for sockets.
        words: the command line of `mlxcel-server` without the port.
        modules: worker name → module to run instead of the worker's. The processes are then
            started here, each under its supervisor, and `words` is `--config FILE`.
        environ: added to the environment of this process.
        program: the command to run instead of this checkout's.
    """

    def __init__(
        self,
        folder: Path,
        *words: str,
        port: int | None = None,
        modules: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
        program: Sequence[str] | None = None,
    ) -> None:
        self.folder = folder
        self.port = port or find_free_port()
        self.log = folder / f"{self.port}-{time.monotonic_ns()}.log"
        # The folder of the sockets.
        self.temporary = folder / "t"
        self.temporary.mkdir(exist_ok=True)
        self.run_directory = self.temporary / f"mlxcel-{os.getuid()}" / str(self.port)
        own = {"PYTHONPATH": str(ROOT), BASE_ENV: str(self.temporary)}
        self._environ = os.environ | own | dict(environ or {})
        if program is not None:
            del self._environ["PYTHONPATH"]
        if modules is None:
            program = program or [sys.executable, "-m", "deploy.entry", "deploy.cli"]
            command = [*program, "--port", str(self.port), *words]
            self._started = [self._start(command, folder)]
        else:
            self._environ["MLXCEL_PORT"] = str(self.port)
            self._started = [self._start(c, ROOT) for c in _plan(Path(words[1]), modules)]

    def _start(self, command: Sequence[str], folder: Path) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, env=self._environ, cwd=folder
            )

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The launcher, or with `modules` the supervisor of the gateway."""
        return self._started[0]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, path: str) -> tuple[int, Any]:
        """Return status and body of a GET; status 0 without an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        except (OSError, http.client.HTTPException):
            return 0, {}
        finally:
            connection.close()

    def wait_until_ready(self) -> None:
        """Wait until every worker is ready; fail if the server ends."""
        wait_for(lambda: self._has_ended() or self._is_ready(), 120)
        assert not self._has_ended(), self.log.read_text()

    def _has_ended(self) -> bool:
        return any(item.poll() is not None for item in self._started)

    def _is_ready(self) -> bool:
        status, report = self.ask("/health")
        return status == 200 and all(row["state"] == "ready" for row in report["workers"])

    def tree(self) -> list[psutil.Process]:
        """Return all descendants of the processes started here."""
        found = [psutil.Process(item.pid) for item in self._started if item.poll() is None]
        return [child for item in found for child in item.children(recursive=True)]

    def find(self, module: str, name: str | None = None) -> list[psutil.Process]:
        """Return the processes that run a module with `python -m`.

        Args:
            name: of the worker, if there are several.
        """
        found = []
        for item in filter(is_alive, self.tree()):
            words = item.cmdline()
            if words[1:3] == ["-m", module] and name in (None, *words[3:]):
                found.append(item)
        return found

    def worker(self, name: str | None = None) -> psutil.Process:
        """Return the one process of a text worker."""
        (found,) = wait_for(lambda: self.find("workers.text", name))
        return found

    def kill_worker(self, name: str | None = None) -> None:
        """Kill a text worker without a clean exit, as a Metal fault does."""
        self.worker(name).kill()

    def kill_gateway(self) -> None:
        (found,) = self.find("gateway")
        found.kill()

    def address(self, index: int = 0) -> str:
        """Return the gRPC address of a worker."""
        return f"unix:{self.run_directory}/w{index}.sock"

    def close(self) -> None:
        for item in self._started:
            if item.poll() is None:
                item.terminate()
        for item in self._started:
            try:
                item.wait(15)
            except subprocess.TimeoutExpired:
                item.kill()
                item.wait()


def _plan(config: Path, modules: Mapping[str, str]) -> Iterator[list[str]]:
    """Yield the command lines of a fleet, with the modules of some workers replaced."""
    for item in process.plan(load_fleet(config), sys.executable, config):
        words = shlex.split(item.line.removeprefix("exec "))
        if item.name in modules:
            words[words.index("--") + 3] = modules[item.name]
        yield words


@contextmanager
def serve(folder: Path, *words: str, **options: Any) -> Iterator[Server]:
    """Start a server, wait until it is ready, and stop it at the end."""
    server = Server(folder, *words, **options)
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.close()


@contextmanager
def serve_fleet(
    folder: Path,
    *workers: Mapping[str, Any],
    gateway: Mapping[str, Any] | None = None,
    supervisor: Mapping[str, Any] | None = None,
    **options: Any,
) -> Iterator[Server]:
    """Start a server with a fleet file of these tables."""
    config = write_fleet(folder, *workers, gateway=gateway, supervisor=supervisor)
    with serve(folder, "--config", str(config), **options) as server:
        yield server
