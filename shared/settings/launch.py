"""Settings of the command `mlxcel-server` itself. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from shared.declaration import Setting


@dataclass(frozen=True)
class LaunchSettings:
    """Launcher."""

    embeddings: Annotated[
        bool,
        Setting(
            "--embeddings --embedding LLAMA_ARG_EMBEDDINGS",
            "Serve the model of -m as an embedding model. Not needed for models that can be "
            "nothing else.",
        ),
    ] = False
    log_file: Annotated[
        str,
        Setting(
            "--log-file LLAMA_ARG_LOG_FILE LLAMA_LOG_FILE",
            "Write the log to this file instead of the standard output. It is renamed at 20 MB, "
            "and four older ones are kept.",
            is_path=True,
        ),
    ] = ""
    reranking: Annotated[
        bool,
        Setting(
            "--reranking --rerank LLAMA_ARG_RERANKING",
            "Serve the model of -m as a reranker. Not needed for models that can be nothing else.",
        ),
    ] = False
