"""Servers that many tests share: starting one takes seconds."""

from __future__ import annotations

import pytest

from tests import checkpoint
from tests.client import connect
from tests.server import serve_fleet

# One worker per kind of cache and vocabulary, each with eight slots.
FAMILIES = ("llama", "sliding", "recurrent", "bytes", "quantised")


@pytest.fixture(scope="session")
def make_folder(tmp_path_factory):
    """Make folders with short paths, as sockets lie below them, to start servers in."""

    def make():
        folder = tmp_path_factory.mktemp("s")
        # A user's own, which must not be taken for the package.
        (folder / "gateway.py").write_text("raise SystemExit('not this one')\n")
        return folder

    return make


@pytest.fixture(scope="session")
def zoo(make_folder):
    """A server with a worker for each family, named like it; `llama` is the default.

    Tests leave it idle and with all its workers alive.
    """
    workers = [
        {"name": family, "model": str(checkpoint.build(family)), "alias": [family], "parallel": 8}
        for family in FAMILIES
    ]
    with serve_fleet(make_folder(), *workers) as server:
        yield server


@pytest.fixture(scope="session")
async def client(zoo):
    """A client of the zoo; its requests name no model."""
    async with connect(zoo.url) as client:
        yield client
