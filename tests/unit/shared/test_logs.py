"""The log at level debug: records of the server, none of the libraries that log every poll."""

from __future__ import annotations

import subprocess
import sys

import pytest

_LOG = """
import logging, sys
from shared import logs
logs.set_up("gateway", sys.argv[1])
for name in ("gateway.server", "grpc._cython.cygrpc", "grpc.aio", "asyncio", "httpx"):
    logging.getLogger(name).debug("low %s", name)
    logging.getLogger(name).error("high %s", name)
"""


@pytest.mark.parametrize(("level", "low"), [("debug", ["gateway.server"]), ("info", [])])
def test_debug_records_are_the_servers_own(level: str, low: list[str]) -> None:
    command = [sys.executable, "-c", _LOG, level]
    log = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    lines = [line.rpartition(": ")[2].split() for line in log.splitlines()]
    assert [name for word, name in lines if word == "low"] == low
    assert sum(word == "high" for word, _ in lines) == 5
