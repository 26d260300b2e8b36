"""Servers shared by the tests: one with the starter model, one with the audio models."""

from __future__ import annotations

import openai
import pytest

from tests.checkpoint import starter_folder
from tests.example import read_pages, read_reference, run_commands
from tests.server import ROOT, serve_fleet

NAME = "SmolLM2-135M-Instruct"


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A server whose default `max_tokens` is 48."""
    worker = {
        "name": "text",
        "model": str(starter_folder()),
        "alias": [NAME],
        "parallel": 8,
        "predict": 48,
    }
    gateway = {"metrics": True}
    with serve_fleet(tmp_path_factory.mktemp("s"), worker, gateway=gateway) as server:
        yield server


@pytest.fixture(scope="session")
def outcomes(server):
    """The outcome of every example of the reference and the documentation, run together."""
    commands = {e.label: e.text for e in read_pages("text") if e.is_command}
    return run_commands(read_reference() | commands, server.url)


@pytest.fixture(scope="session")
def studio(tmp_path_factory):
    """A server with one audio worker: English transcription and speech."""
    worker = {
        "name": "studio",
        "kind": "audio",
        "model": str(ROOT / "models" / "whisper-tiny.en"),
        "speech_model": str(ROOT / "models" / "Kokoro-82M"),
        "queue_depth": 4,
    }
    with serve_fleet(tmp_path_factory.mktemp("s"), worker) as server:
        yield server


@pytest.fixture
async def studio_client(studio):
    async with openai.AsyncOpenAI(
        base_url=f"{studio.url}/v1", api_key="none", max_retries=0
    ) as client:
        yield client
