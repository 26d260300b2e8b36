"""Says that the server answers, and how to try it.

Runs beside honcho, not under it: honcho ends everything when one of its processes exits. Asks
for /health until it is well, prints, and leaves; leaves silently when whoever started it goes.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import os
import shlex
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from deploy.run.parent_watch import ParentWatch
from shared.config import resolve
from shared.fleet import load_fleet
from shared.settings import GatewaySettings
from shared.settings.value import is_socket

_PAUSE_S: Final = 0.2
_TIMEOUT_S: Final = 2.0
_QUESTION: Final = (
    '{"messages":[{"role":"user","content":"What is the capital of France?"}],'
    '"temperature":0,"stream":true}'
)
# Kind of worker → the path it is tried at, and with what; any other is asked for its name.
_TRIALS: Final[Mapping[str, tuple[str, str]]] = {
    "text": ("/v1/chat/completions", _QUESTION),
    "embed": ("/v1/embeddings", '{"input":"The cat sits on the mat."}'),
    "rerank": (
        "/v1/rerank",
        '{"query":"where do cats sleep","documents":["On rugs.","Markets fell today."]}',
    ),
}
# What to connect to when the server listens on every address.
_LOOPBACK: Final = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}


def invite(gateway: GatewaySettings, kind: str = "text") -> str:
    """Return the lines that tell a user what to do now.

    Args:
        kind: of the worker that is to be tried.
    """
    host, way, key = _reach(gateway), "", ""
    url = f"http://[{host}]:{gateway.port}" if ":" in host else f"http://{host}:{gateway.port}"
    if is_socket(gateway.host):
        url, way = "http://localhost", f" --unix-socket {shlex.quote(gateway.host)}"
    if gateway.api_key or gateway.api_key_file:
        key = " -H 'Authorization: Bearer YOUR-KEY'"
    url += gateway.api_prefix
    path, body = _TRIALS.get(kind, ("/v1/models", ""))
    sent = f" -H 'Content-Type: application/json'{key} -d '{body}'" if body else key
    place = gateway.host if way else url
    return (
        f"\nmlxcel-server answers at {place}  (Ctrl-C stops it). Try:\n\n"
        f"  curl -N{way} {url}{path}{sent}\n"
    )


def is_ready(gateway: GatewaySettings) -> bool:
    """Return whether /health answers well. No proxy of the environment is asked."""
    connection = http.client.HTTPConnection(_reach(gateway), gateway.port, timeout=_TIMEOUT_S)
    with contextlib.closing(connection):
        try:
            if is_socket(gateway.host):
                connection.sock = socket.socket(socket.AF_UNIX)
                connection.sock.settimeout(_TIMEOUT_S)
                connection.sock.connect(gateway.host)
            connection.request("GET", f"{gateway.api_prefix}/health")
            # Under a prefix it is not open to everybody, and says nothing more to us.
            return connection.getresponse().status in (200, 401)
        except (OSError, http.client.HTTPException):
            return False


def _reach(gateway: GatewaySettings) -> str:
    return _LOOPBACK.get(gateway.host, gateway.host)


def main() -> None:
    """Wait for the server of a fleet file and announce it."""
    parser = argparse.ArgumentParser(prog="deploy.run.announce", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, help="fleet file")
    options = parser.parse_args()
    # Tells also of a launcher that was gone before this process had come so far.
    ancestry = ParentWatch(os.environ)
    fleet = load_fleet(options.config)
    gateway = resolve(GatewaySettings, options, os.environ, fleet.gateway, "gateway")
    kinds = [entry.kind for entry in fleet.workers]
    while not is_ready(gateway):
        time.sleep(_PAUSE_S)
        if ancestry.is_gone():
            return
    print(invite(gateway, "text" if "text" in kinds else next(iter(kinds), "")), flush=True)


if __name__ == "__main__":
    main()
