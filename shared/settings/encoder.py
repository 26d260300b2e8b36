"""Settings of the workers that read text and generate none: embeddings and reranking.

A flag that the REST reference has for both kinds is one alias here, used by both groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal

from msgspec import Meta

from shared.declaration import Setting
from shared.settings.process import WIRE_WEIGHTS, KeepWarm, LogLevel, Offline, Wired
from shared.settings.value import Count, Timeout

# llama-server's --pooling value that makes the model a reranker.
RANK: Final = "rank"

_QueueDepth = Annotated[
    int,
    Meta(ge=1),
    Setting(
        "--embedding-queue-depth MLXCEL_EMBEDDING_QUEUE_DEPTH",
        "Requests in the worker, waiting and running; further ones get a 503.",
        unit="requests",
        means={"0": 1},
    ),
]
_RequestTimeout = Annotated[
    Timeout,
    Setting(
        "--embedding-request-timeout-secs MLXCEL_EMBEDDING_REQUEST_TIMEOUT_SECS",
        "Time limit of a request.",
        unit="s",
        means={"0": 120},
    ),
]
_BatchTokens = Annotated[
    Count,
    Setting(
        "--embedding-batch-tokens MLXCEL_EMBEDDING_BATCH_TOKENS",
        "Tokens of one micro-batch, padding included; a longer text runs alone. 0: chosen for the "
        "device.",
        unit="tokens",
    ),
]
_MaxLength = Annotated[
    Count,
    Setting(
        "--embedding-max-length MLXCEL_EMBEDDING_MAX_LENGTH",
        "Longest text; the rest is cut off. 0: the model's limit, at most 8192.",
        unit="tokens",
    ),
]


@dataclass(frozen=True)
class EmbedSettings:
    """Embedding worker."""

    model: Annotated[
        str,
        Setting(
            "--embedding-model LLAMA_ARG_EMBEDDING_MODEL MLXCEL_EMBEDDING_MODEL",
            "Embedding model: a folder, or owner/name on the Hugging Face hub.",
        ),
    ] = ""
    alias: Annotated[
        tuple[str, ...],
        Setting(
            "--embedding-alias MLXCEL_EMBEDDING_ALIAS",
            "Names the embedding model also answers to; the first one is shown.",
        ),
    ] = ()
    pooling: Annotated[
        Literal["", "mean", "cls", "last", "max", "rank"],
        Setting(
            "--pooling LLAMA_ARG_POOLING MLXCEL_EMBEDDING_POOLING",
            "How token vectors become one vector; empty: the model's own way. rank: serve the "
            "model of -m as a reranker.",
        ),
    ] = ""
    embd_normalize: Annotated[
        int,
        Meta(ge=-2, le=2**31 - 1),
        Setting(
            "--embd-normalize MLXCEL_EMBD_NORMALIZE",
            "Normalisation of vectors: -2 the model's own, -1 none, 0 largest component to 32760, "
            "1 taxicab, 2 Euclidean, more: that p-norm.",
        ),
    ] = -2
    batch_size: Annotated[
        int,
        Meta(ge=1),
        Setting(
            "--embedding-batch-size MLXCEL_EMBEDDING_BATCH_SIZE",
            "Texts of one micro-batch.",
            unit="texts",
        ),
    ] = 32
    batch_tokens: _BatchTokens = 0
    max_length: _MaxLength = 0
    queue_depth: _QueueDepth = 64
    request_timeout_s: _RequestTimeout = 120
    offline: Offline = False
    revision: Annotated[
        str,
        Setting(
            "--embedding-revision MLXCEL_EMBEDDING_REVISION",
            "Branch, tag or commit of the embedding model on the hub.",
        ),
    ] = ""
    wired: Wired = WIRE_WEIGHTS
    keep_warm: KeepWarm = True
    log_level: LogLevel = "info"


@dataclass(frozen=True)
class RerankSettings:
    """Reranking worker."""

    model: Annotated[
        str,
        Setting(
            "--reranker-model LLAMA_ARG_RERANKER_MODEL MLXCEL_RERANKER_MODEL",
            "Reranker: a folder, or owner/name on the Hugging Face hub.",
        ),
    ] = ""
    alias: Annotated[
        tuple[str, ...],
        Setting(
            "--reranker-alias MLXCEL_RERANKER_ALIAS",
            "Names the reranker also answers to; the first one is shown.",
        ),
    ] = ()
    batch_size: Annotated[
        int,
        Meta(ge=1),
        Setting(
            "--rerank-batch-size MLXCEL_RERANK_BATCH_SIZE",
            "Pairs of query and document in one micro-batch.",
            unit="pairs",
            means={"0": 8},
        ),
    ] = 8
    batch_tokens: _BatchTokens = 0
    max_length: _MaxLength = 0
    queue_depth: _QueueDepth = 64
    request_timeout_s: _RequestTimeout = 120
    offline: Offline = False
    revision: Annotated[
        str,
        Setting(
            "--reranker-revision MLXCEL_RERANKER_REVISION",
            "Branch, tag or commit of the reranker on the hub.",
        ),
    ] = ""
    wired: Wired = WIRE_WEIGHTS
    keep_warm: KeepWarm = True
    log_level: LogLevel = "info"
