"""Servers that many tests share: starting one takes seconds."""

from __future__ import annotations

import pytest

from tests import checkpoint
from tests.checkpoint import ROOT, starter_folder
from tests.client import connect
from tests.server import serve_fleet

# One worker per kind of cache and vocabulary, each with eight slots.
FAMILIES = ("llama", "sliding", "recurrent", "bytes", "quantised")

CONTEXT_TOKENS = 1536
# A token of these models takes 512 bytes, and they take 256 tokens at a time.
PAGE_TOKENS, PAGE_BYTES = 256, 256 * 512
BUDGET_BYTES = 11 * PAGE_BYTES


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
def odd(make_folder):
    """A server that takes no other names than its workers': each has something of its own.

    `narrow`, the default, has little context; `poor` little memory; `kv8` and `kv4` quantise
    their keys and values.
    """
    plain, wide = (str(checkpoint.build(family)) for family in ("bytes", "wide"))
    options = {
        "narrow": {"model": plain, "ctx_size": 4 * CONTEXT_TOKENS},
        "poor": {"model": plain, "request_memory_budget": BUDGET_BYTES},
        "kv8": {"model": wide, "kv_bits": 8},
        "kv4": {"model": wide, "kv_bits": 4},
    }
    workers = [{"name": name, "alias": [name], **more} for name, more in options.items()]
    with serve_fleet(make_folder(), *workers, gateway={"strict_model": True}) as server:
        yield server


@pytest.fixture(scope="session")
def hermes(make_folder):
    """A server whose models have a template with tools and thoughts, which SmolLM2's has not.

    `smol`, the default, is SmolLM2: it spells `</think>` in three tokens and `<tool_call>` in
    five; `tiny` a random llama.
    """
    template = str(ROOT / "tests" / "data" / "hermes.jinja")
    common = {"chat_template_file": template, "parallel": 8}
    with serve_fleet(
        make_folder(),
        {"name": "smol", "model": str(starter_folder()), "alias": ["smol"], **common},
        {"name": "tiny", "model": str(checkpoint.build("llama")), "alias": ["tiny"], **common},
        gateway={"json_object": True},
    ) as server:
        yield server


@pytest.fixture(scope="session")
async def client(zoo):
    """A client of the zoo; its requests name no model."""
    async with connect(zoo.url) as client:
        yield client
