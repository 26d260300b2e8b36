"""What can be known to fail before anything is started.

Answers in one line what would otherwise end as a process that starts and dies. Runs on the
system's own Python as well, before the environment exists.
"""

from __future__ import annotations

import argparse
import errno
import os
import socket
import sys
import tempfile
from pathlib import Path

from shared import rundir
from shared.config import resolve
from shared.declaration import ConfigError
from shared.fleet import load_fleet
from shared.lifecycle import EXIT_PERMANENT, PermanentError
from shared.settings import GatewaySettings
from shared.settings.value import is_socket


def check_port(host: str, port: int) -> None:
    """Make sure that the gateway can listen there.

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
    """Return a port on which nothing listens; beside a socket it names the run directory alone.

    Raises:
        PermanentError: the gateway can't listen at that address at all.
    """
    if is_socket(host):
        _check_socket(Path(host))
        return _bind("127.0.0.1", 0)
    return _bind(host, 0)


def _check_socket(path: Path) -> None:
    """Refuse a path at which somebody listens, or nobody can; a socket left behind is replaced."""
    if path.exists() and not path.is_socket():
        raise PermanentError(f"{path} exists and is no socket; choose another --host")
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            if path.parent.is_dir():
                return
            raise PermanentError(f"there is no folder {path.parent} for the socket") from None
        except OSError as failure:
            raise PermanentError(f"can't listen on {path}: {failure}") from None
    raise PermanentError(f"somebody listens on {path} already; choose another --host")


def _bind(host: str, port: int) -> int:
    """Listen for a moment, as the gateway will; return the port."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            # Connections that are still closing are no obstacle.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            return int(probe.getsockname()[1])
    except OSError as failure:
        raise PermanentError(_explain(failure, host, port)) from None


def _explain(failure: OSError, host: str, port: int) -> str:
    if failure.errno == errno.EADDRINUSE:
        if is_ours(port):
            return say_running(port)
        return f"port {port} is in use by another program; choose another port"
    return f"can't listen on {host} port {port}: {failure.strerror}"


def say_running(port: int) -> str:
    """Return the line for a server that is there already."""
    return f"mlxcel-server already runs on port {port}; stop it, or choose another port"


def is_ours(port: int) -> bool:
    """Return whether a server of this user runs on a port: it holds locks in its run directory."""
    folder = Path(tempfile.gettempdir()).resolve() / f"mlxcel-{os.getuid()}" / str(port)
    return any(_is_held(path) for path in folder.glob("*.lock"))


def _is_held(path: Path) -> bool:
    lock = rundir.Lock(path)
    if not lock.acquire(0):
        return True
    lock.release()
    return False


def main() -> None:
    """Check the port of a fleet file."""
    parser = argparse.ArgumentParser(prog="deploy.run.preflight", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, help="fleet file")
    options = parser.parse_args()
    try:
        table = load_fleet(options.config).gateway
        gateway = resolve(GatewaySettings, options, os.environ, table, "gateway")
        check_port(gateway.host, gateway.port)
    except (ConfigError, PermanentError) as failure:
        print(f"error: {failure}", file=sys.stderr)
        sys.exit(EXIT_PERMANENT)


if __name__ == "__main__":
    main()
