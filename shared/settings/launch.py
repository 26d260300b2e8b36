"""Settings of the command `mlxcel-server` itself: which workers a given model makes."""

from __future__ import annotations

from dataclasses import dataclass

from shared.declaration import setting


@dataclass(frozen=True)
class LaunchSettings:
    """Launcher: what -m is served as."""

    embeddings: bool = setting(
        False,
        "Serve the model of -m as an embedding model, and no text. Models that can't be anything "
        "else need no flag.",
        flags=("--embeddings", "--embedding"),
        env=("LLAMA_ARG_EMBEDDINGS",),
    )
    reranking: bool = setting(
        False,
        "Serve the model of -m as a reranker, and no text. Models that can't be anything else "
        "need no flag.",
        flags=("--reranking", "--rerank"),
        env=("LLAMA_ARG_RERANKING",),
    )
