"""Checks the address of the gateway before anything is started.

A taken port is reported in one line instead of by a process that starts and dies. Imports the
standard library alone: `make run` starts it with the system's Python, before the environment
exists.
"""

from __future__ import annotations

import argparse
import errno
import os
import socket
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from shared import rundir
from shared.address import is_socket
from shared.lifecycle import EXIT_PERMANENT, PermanentError

# Default and environment names as shared/settings/gateway.py declares them; a test compares.
ADDRESS: Final[Mapping[str, tuple[object, tuple[str, ...]]]] = {
    "host": ("127.0.0.1", ("MLXCEL_HOST", "LLAMA_ARG_HOST")),
    "port": (8080, ("MLXCEL_PORT", "LLAMA_ARG_PORT")),
}

_CONNECT_S: Final = 1.0


def check_port(host: str, port: int) -> None:
    """Check that the gateway can listen there.

    Raises:
        PermanentError: it can't.
    """
    if not 0 < port < 65536:
        raise PermanentError(f"port {port} is not between 1 and 65535; use another --port")
    if is_socket(host):
        _check_socket(Path(host))
    else:
        _bind(host, port)


def find_port(host: str) -> int:
    """Return a free port; with a socket as host, it only names the run directory.

    Raises:
        PermanentError: the gateway can't listen at that address at all.
    """
    if is_socket(host):
        _check_socket(Path(host))
        return _bind("127.0.0.1", 0)
    return _bind(host, 0)


def _check_socket(path: Path) -> None:
    """Refuse a path that is in use or can't be used; a stale socket is fine, it gets replaced."""
    if path.exists() and not path.is_socket():
        raise PermanentError(f"{path} exists and is not a socket; choose another --host")
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            if path.parent.is_dir():
                return
            raise PermanentError(f"{path}: the folder does not exist") from None
        except OSError as failure:
            raise PermanentError(f"can't listen on {path}: {failure}") from None
    raise PermanentError(f"another process listens on {path}; choose another --host")


def _bind(host: str, port: int) -> int:
    """Bind every address of a host as the gateway will, and return the port."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        for family, kind, _, _, address in found:
            port = _bind_one(family, kind, (address[0], port, *address[2:]))
    except OSError as failure:
        raise PermanentError(_explain(failure, host, port)) from None
    return port


def _bind_one(family: int, kind: int, address: tuple[object, ...]) -> int:
    """Bind one address and return the port.

    Connects first: with SO_REUSEADDR, BSD binds an address although another program listens on
    every address, and takes its connections.
    """
    if address[1]:
        with socket.socket(family, kind) as probe:
            probe.settimeout(_CONNECT_S)
            if probe.connect_ex(address) == 0:
                raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
    with socket.socket(family, kind) as probe:
        # Connections in TIME_WAIT don't count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # "::" means IPv6 alone, as with asyncio.
        if family == socket.AF_INET6:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        probe.bind(address)
        return int(probe.getsockname()[1])


def _explain(failure: OSError, host: str, port: int) -> str:
    if failure.errno == errno.EADDRINUSE:
        if is_ours(port):
            return say_running(port)
        return f"port {port} is in use by another program; choose another port"
    return f"can't listen on {host} port {port}: {failure.strerror}"


def say_running(port: int) -> str:
    """Return the message for a server that already runs."""
    return f"mlxcel-server already runs on port {port}; stop it or choose another port"


def is_ours(port: int) -> bool:
    """Return whether a server of this user runs on a port: it holds locks in its run directory."""
    return any(_is_held(path) for path in rundir.locate(port).glob("*.lock"))


def _is_held(path: Path) -> bool:
    lock = rundir.Lock(path)
    if not lock.acquire(0):
        return True
    lock.release()
    return False


def read_address(path: Path, environ: Mapping[str, str]) -> tuple[str, int]:
    """Return host and port from the environment or a fleet file, using the standard library alone.

    A taken port has to be reported before a long installation, and shared.settings needs msgspec,
    which that installs. Errors in other settings are reported by the processes that read them.

    Raises:
        PermanentError: the file can't be read, or the port is not a number.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as failure:
        raise PermanentError(f"{path}: {failure}") from None

    def find(name: str) -> str:
        default, names = ADDRESS[name]
        given = (environ[name] for name in names if name in environ)
        return str(next(given, table.get("gateway", {}).get(name, default)))

    try:
        return find("host"), int(find("port"))
    except ValueError:
        raise PermanentError(f"port {find('port')!r} is not a whole number") from None


def main() -> None:
    parser = argparse.ArgumentParser(prog="deploy.run.preflight", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, help="fleet file")
    options = parser.parse_args()
    try:
        check_port(*read_address(options.config, os.environ))
    except PermanentError as failure:
        print(f"error: {failure}", file=sys.stderr)
        sys.exit(EXIT_PERMANENT)


if __name__ == "__main__":
    main()
