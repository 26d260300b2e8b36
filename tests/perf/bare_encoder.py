"""The baselines of embeddings, each in its own process.

`python -m tests.perf.bare_encoder ENGINE MODEL` reads one JSON list of texts per line on stdin and
prints the seconds, tokenizing included. Rows are sorted by length and computed in fixed batches.
`mlx` is this project's network in a loop without a server, `onnx` is onnxruntime with the same
weights.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

ROWS = 32
# As many tokens as in one pass of the server.
TOKENS = 512
Forward = Callable[["np.ndarray[Any, Any]", "np.ndarray[Any, Any]"], "np.ndarray[Any, Any]"]


def main() -> None:
    engine, folder = sys.argv[1], Path(sys.argv[2])
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    forward = {"mlx": load_mlx, "onnx": load_onnx}[engine](folder)
    print("ready", flush=True)
    for line in sys.stdin:
        texts = json.loads(line)
        start_s = time.perf_counter()
        embed(tokenizer, forward, texts)
        print(time.perf_counter() - start_s, flush=True)


def embed(tokenizer: Tokenizer, forward: Forward, texts: list[str]) -> np.ndarray[Any, Any]:
    """Return the vector of each text."""
    rows = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
    order = sorted(range(len(rows)), key=lambda index: len(rows[index]))
    vectors = None
    while order:
        width = len(rows[order[-1]])
        count = max(1, min(ROWS, TOKENS // width))
        batch, order = order[-count:], order[:-count]
        ids = np.zeros((len(batch), width), np.int64)
        mask = np.zeros((len(batch), width), np.float32)
        for row, index in enumerate(batch):
            ids[row, : len(rows[index])] = rows[index]
            mask[row, : len(rows[index])] = 1
        made = forward(ids, mask)
        vectors = np.empty((len(texts), made.shape[1]), np.float32) if vectors is None else vectors
        vectors[batch] = made / np.linalg.norm(made, axis=1, keepdims=True)
    assert vectors is not None
    return vectors


def load_mlx(folder: Path) -> Forward:
    """Return the forward pass of this project's network."""
    import mlx.core as mx  # noqa: PLC0415 - each engine is loaded in its own process only

    from workers.embed.network.family import (  # noqa: PLC0415
        FAMILIES,
        build_encoder,
        read_weights,
    )
    from workers.embed.pooling import POOLS  # noqa: PLC0415

    mx.set_default_device(mx.cpu if not mx.metal.is_available() else mx.gpu)
    config = json.loads((folder / "config.json").read_text())
    family = FAMILIES[config["model_type"]]
    network, _ = build_encoder(family, config, read_weights(folder), with_head=False)
    mx.eval(network.parameters())

    def forward(ids: Any, mask: Any) -> Any:
        lengths = mx.array(mask.sum(axis=1).astype(np.int32))
        full = None if mask.all() else lengths
        return np.array(POOLS["mean"](network(mx.array(ids), full), lengths))

    return forward


def load_onnx(folder: Path) -> Forward:
    """Return the forward pass of onnxruntime."""
    import onnxruntime  # noqa: PLC0415

    from tests.perf import encoder_graph  # noqa: PLC0415

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(
        encoder_graph.build(folder).SerializeToString(), options, ["CPUExecutionProvider"]
    )
    return lambda ids, mask: session.run(None, {"ids": ids, "mask": mask})[0]


if __name__ == "__main__":
    main()
