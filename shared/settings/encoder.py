"""Settings of the workers that read texts and write none: embeddings and reranking.

Flags that the REST reference has for both kinds at once are declared for both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from shared.declaration import setting
from shared.settings import process

# llama-server's name for scoring, among ways of pooling.
RANK: Final = "rank"


def _queue_depth() -> Any:
    return setting(
        64,
        "Requests that may be at the worker; one more is answered 503.",
        flags=("--embedding-queue-depth",),
        env=("MLXCEL_EMBEDDING_QUEUE_DEPTH",),
        unit="requests",
    )


def _request_timeout_s() -> Any:
    return setting(
        120,
        "Longest time one request may take; 0: the default.",
        flags=("--embedding-request-timeout-secs",),
        env=("MLXCEL_EMBEDDING_REQUEST_TIMEOUT_SECS",),
        unit="s",
    )


def _batch_tokens() -> Any:
    return setting(
        0,
        "Tokens of one micro-batch, padding included; a longer text runs alone. 0: what keeps the "
        "device busy.",
        flags=("--embedding-batch-tokens",),
        env=("MLXCEL_EMBEDDING_BATCH_TOKENS",),
        unit="tokens",
    )


def _max_length() -> Any:
    return setting(
        0,
        "Longest text; what is beyond is cut off. 0: what the model takes, at most 8192.",
        flags=("--embedding-max-length",),
        env=("MLXCEL_EMBEDDING_MAX_LENGTH",),
        unit="tokens",
    )


@dataclass(frozen=True)
class EmbedSettings:
    """Embedding worker: the model, its batches and what it makes of a text."""

    model: str = setting(
        "",
        "Folder of an embedding model, or owner/name on the Hugging Face hub.",
        flags=("--embedding-model",),
        env=("LLAMA_ARG_EMBEDDING_MODEL", "MLXCEL_EMBEDDING_MODEL"),
    )
    alias: tuple[str, ...] = setting(
        (),
        "Names the model also answers to; the first is the one shown.",
        flags=("--embedding-alias",),
        env=("MLXCEL_EMBEDDING_ALIAS",),
    )
    pooling: str = setting(
        "",
        "How the vectors of a text's tokens become one; empty: what the model was trained with. "
        "rank: the model of -m is a reranker.",
        flags=("--pooling",),
        env=("LLAMA_ARG_POOLING", "MLXCEL_EMBEDDING_POOLING"),
        choices=("", "mean", "cls", "last", "max", RANK),
    )
    embd_normalize: int = setting(
        -2,
        "Normalisation of vectors: -1 none, 0 largest component to 32760, 1 taxicab, 2 Euclidean, "
        "more: that p-norm. -2: what the model was trained with.",
        flags=("--embd-normalize",),
        env=("MLXCEL_EMBD_NORMALIZE",),
    )
    batch_size: int = setting(
        32,
        "Texts of one micro-batch.",
        flags=("--embedding-batch-size",),
        env=("MLXCEL_EMBEDDING_BATCH_SIZE",),
        unit="texts",
    )
    batch_tokens: int = _batch_tokens()
    max_length: int = _max_length()
    queue_depth: int = _queue_depth()
    request_timeout_s: int = _request_timeout_s()
    offline: bool = process.offline()
    revision: str = setting(
        "",
        "Branch, tag or commit of a hub model.",
        flags=("--embedding-revision",),
        env=("MLXCEL_EMBEDDING_REVISION",),
    )
    log_level: str = process.log_level()


@dataclass(frozen=True)
class RerankSettings:
    """Reranking worker: the model and its batches."""

    model: str = setting(
        "",
        "Folder of a reranker, or owner/name on the Hugging Face hub.",
        flags=("--reranker-model",),
        env=("LLAMA_ARG_RERANKER_MODEL", "MLXCEL_RERANKER_MODEL"),
    )
    alias: tuple[str, ...] = setting(
        (),
        "Names the model also answers to; the first is the one shown.",
        flags=("--reranker-alias",),
        env=("MLXCEL_RERANKER_ALIAS",),
    )
    batch_size: int = setting(
        0,
        "Pairs of query and document of one micro-batch; 0: 8.",
        flags=("--rerank-batch-size",),
        env=("MLXCEL_RERANK_BATCH_SIZE",),
        unit="pairs",
    )
    batch_tokens: int = _batch_tokens()
    max_length: int = _max_length()
    queue_depth: int = _queue_depth()
    request_timeout_s: int = _request_timeout_s()
    offline: bool = process.offline()
    revision: str = setting(
        "",
        "Branch, tag or commit of a hub model.",
        flags=("--reranker-revision",),
        env=("MLXCEL_RERANKER_REVISION",),
    )
    log_level: str = process.log_level()
