"""The server that the clients talk to, with its models.

Owns the long model: a random llama whose answers end by themselves and whose context holds an
agent's prompt. Runs on the caller's thread.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import mlx.core as mx

from tests import checkpoint, encoder_checkpoint
from tests.checkpoint import ROOT, starter_folder
from tests.server import Server, serve_fleet

KEY: Final = "a-key-of-this-server"
_CONTEXT_TOKENS: Final = 131_072
# Twice as large as another row, the row of the end makes it the likeliest token now and then.
_GAIN: Final = 2.0
# What clients need that differs from the reference: see docs/clients.md.
_SETTINGS: Final = {
    "api_key": [KEY],
    "json_object": True,
    "builtin_tools": "drop",
    "completions_delta": False,
    "metrics": True,
}


@contextmanager
def serve_clients(folder: Path) -> Iterator[Server]:
    """Start the server: `smol` writes words, `long` takes long prompts, and two encoders."""
    template = str(ROOT / "tests" / "data" / "hermes.jinja")
    embed = ROOT / "models" / "all-MiniLM-L6-v2"
    rerank = encoder_checkpoint.build(folder / "rerank", "bert", reranks=True)
    text = {"chat_template_file": template, "parallel": 4}
    workers = [
        {"name": "smol", "model": str(starter_folder()), "alias": ["smol"], **text},
        {"name": "long", "model": str(_write_long_model(folder)), "alias": ["long"], **text},
        {"name": "embed", "kind": "embed", "model": str(embed), "alias": ["embedder"]},
        {"name": "rerank", "kind": "rerank", "model": str(rerank), "alias": ["ranker"]},
    ]
    with serve_fleet(folder, *workers, gateway=_SETTINGS) as server:
        yield server


def _write_long_model(folder: Path) -> Path:
    """Copy the random llama; give it a long context and a likelier end."""
    copied = folder / "long"
    shutil.copytree(checkpoint.build("llama"), copied)
    path = copied / "config.json"
    config = json.loads(path.read_text()) | {"max_position_embeddings": _CONTEXT_TOKENS}
    path.write_text(json.dumps(config))
    (weights_file,) = copied.glob("*.safetensors")
    weights = mx.load(str(weights_file))
    head = weights["lm_head.weight"]
    end = config["eos_token_id"]
    head[end] = _GAIN * head[1000]
    mx.eval(head)
    mx.save_safetensors(str(weights_file), weights | {"lm_head.weight": head}, {"format": "mlx"})
    return copied
