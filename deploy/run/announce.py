"""Prints that the server answers, and a command to try it.

Runs as the launcher's companion, whose exit ends nothing else. Polls /health until it answers 200,
prints, and exits; exits silently when the process that started it has ended.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import os
import shlex
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from deploy.run.parent_watch import ParentWatch
from shared.address import is_socket
from shared.config import resolve
from shared.fleet import load_fleet
from shared.kind import DEFAULT, KINDS, Trial
from shared.settings import GatewaySettings

_PAUSE_S: Final = 0.2
_TIMEOUT_S: Final = 2.0
# What to connect to when the server listens on every address.
_LOOPBACK: Final = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}


def choose_trial(kinds: Sequence[str]) -> Trial:
    """Return the request to suggest for a fleet with workers of some kinds."""
    kind = DEFAULT if DEFAULT in kinds else next(iter(kinds), "")
    return KINDS[kind].trial if kind else Trial("/v1/models")


def render(gateway: GatewaySettings, trial: Trial) -> str:
    """Return the lines that tell a user what to do now."""
    host, option, key = _find_host(gateway), "", ""
    url = f"http://[{host}]:{gateway.port}" if ":" in host else f"http://{host}:{gateway.port}"
    if is_socket(gateway.host):
        url, option = "http://localhost", f" --unix-socket {shlex.quote(gateway.host)}"
    if gateway.api_key or gateway.api_key_file:
        key = " -H 'Authorization: Bearer YOUR-KEY'"
    url += gateway.api_prefix
    sent = f" -H 'Content-Type: application/json'{key} -d '{trial.body}'" if trial.body else key
    address = gateway.host if option else url
    return (
        f"\nmlxcel-server answers at {address}  (Ctrl-C stops it). Try:\n\n"
        f"  curl -N{option} {url}{trial.path}{sent}\n"
    )


def is_ready(gateway: GatewaySettings) -> bool:
    """Return whether /health answers 200. Proxies of the environment are not used."""
    connection = http.client.HTTPConnection(_find_host(gateway), gateway.port, timeout=_TIMEOUT_S)
    with contextlib.closing(connection):
        try:
            if is_socket(gateway.host):
                connection.sock = socket.socket(socket.AF_UNIX)
                connection.sock.settimeout(_TIMEOUT_S)
                connection.sock.connect(gateway.host)
            connection.request("GET", f"{gateway.api_prefix}/health")
            # Under a prefix it needs a key; 401 shows that the gateway answers.
            return connection.getresponse().status in (200, 401)
        except (OSError, http.client.HTTPException):
            return False


def _find_host(gateway: GatewaySettings) -> str:
    return _LOOPBACK.get(gateway.host, gateway.host)


def main() -> None:
    """Wait for the server of a fleet file and announce it."""
    parser = argparse.ArgumentParser(prog="deploy.run.announce", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, help="fleet file")
    options = parser.parse_args()
    # Also notices a launcher that ended before this line.
    parent = ParentWatch(os.environ)
    fleet = load_fleet(options.config)
    gateway = resolve(GatewaySettings, options, os.environ, fleet.gateway, "gateway")
    kinds = [entry.kind for entry in fleet.workers]
    while not is_ready(gateway):
        time.sleep(_PAUSE_S)
        if parent.is_gone():
            return
    print(render(gateway, choose_trial(kinds)), flush=True)


if __name__ == "__main__":
    main()
