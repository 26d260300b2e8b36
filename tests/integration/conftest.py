"""Servers that many tests share, since starting one takes seconds."""

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
    """Make folders to start servers in, with paths short enough for sockets."""

    def make():
        folder = tmp_path_factory.mktemp("s")
        # A module of the user, which must not shadow the package.
        (folder / "gateway.py").write_text("raise SystemExit('not this one')\n")
        return folder

    return make


@pytest.fixture(scope="session")
def fleet(make_folder):
    """A server with one worker per family, named after it; `llama` is the default.

    Tests leave it idle, with all workers alive.
    """
    workers = [
        {"name": family, "model": str(checkpoint.build(family)), "alias": [family], "parallel": 8}
        for family in FAMILIES
    ]
    with serve_fleet(make_folder(), *workers) as server:
        yield server


@pytest.fixture(scope="session")
def limited(make_folder):
    """A server with `strict_model` whose workers have small limits.

    `narrow`, the default, has a small context; `poor` little memory; `kv8` and `kv4` quantised
    keys and values.
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
    """A server whose models have a template with tools and reasoning, unlike SmolLM2's own.

    `smol`, the default, is SmolLM2, which encodes `</think>` in three tokens and `<tool_call>` in
    five; `tiny` is a random llama.
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
async def client(fleet):
    """A client of `fleet`; its requests name no model."""
    async with connect(fleet.url) as client:
        yield client
