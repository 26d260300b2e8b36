"""Flags and environment names of the reference and of llama-server that are not served.

Each has the sentence it is refused with, so that none is ignored silently. Values that ask for
what this server does anyway are accepted. Pure data; docs/configuration.md shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Refusal:
    """Names that are refused together, and what to do instead."""

    sentence: str
    flags: tuple[str, ...] = ()
    env: tuple[str, ...] = ()


REFUSED: Final = (
    Refusal(
        "one server serves the models of its fleet file; list them there",
        flags=(
            "--models-dir",
            "--models-max",
            "--models-autoload",
            "--no-models-autoload",
            "--models-preset",
            "--tags",
        ),
        env=(
            "LLAMA_ARG_MODELS_DIR",
            "LLAMA_ARG_MODELS_MAX",
            "LLAMA_ARG_MODELS_AUTOLOAD",
            "LLAMA_ARG_MODELS_PRESET",
            "LLAMA_ARG_TAGS",
        ),
    ),
    Refusal(
        "hub models are in the hub's own cache; set HF_HOME to move it",
        flags=("--model-store-root",),
        env=("MLXCEL_MODELS_DIR", "MLXCEL_CACHE_DIR"),
    ),
    Refusal(
        "name the model with -m, as owner/name",
        flags=("--hf-repo",),
        env=("LLAMA_ARG_HF_REPO", "MLXCEL_DEFAULT_ORG"),
    ),
    Refusal("set HF_TOKEN in the environment", flags=("--hf-token",)),
    Refusal(
        "adapters are not loaded; fuse them into the model with mlx_lm.fuse",
        flags=(
            "--lora",
            "--adapter",
            "--lora-scaled",
            "--lora-init-without-apply",
            "--lora-fuse",
        ),
    ),
    Refusal(
        "all slots decode in one batch; set their number with --parallel",
        flags=("--max-batch-size", "--no-batch"),
    ),
    Refusal(
        "the prefill chunk depends on what is decoding; --batch-size is the largest",
        flags=("--max-batch-prefill", "--max-batch-prefill-tokens", "--prefill-grant-interval"),
        env=("MLXCEL_MAX_BATCH_PREFILL_TOKENS", "MLXCEL_PREFILL_GRANT_INTERVAL"),
    ),
    Refusal(
        "the newest sequence of the lowest priority is always preempted first",
        flags=("--preemption-policy",),
    ),
    Refusal(
        "the watchdog's limit is --step-timeout",
        flags=("--decode-timeout",),
        env=("MLXCEL_DECODE_TIMEOUT",),
    ),
    Refusal(
        "one event loop serves all connections",
        flags=("--threads-http",),
        env=("LLAMA_ARG_THREADS_HTTP",),
    ),
    Refusal(
        "one process owns the port; several servers take a port each",
        flags=("--reuse-port",),
        env=("LLAMA_ARG_REUSE_PORT",),
    ),
    Refusal(
        "put a proxy that speaks TLS in front",
        flags=("--ssl-cert-file", "--ssl-key-file"),
        env=("LLAMA_ARG_SSL_CERT_FILE", "LLAMA_ARG_SSL_KEY_FILE"),
    ),
    Refusal(
        "speculative decoding is not served",
        flags=(
            "--model-draft",
            "--draft-model",
            "--spec-draft-model",
            "-md",
            "--draft",
            "--draft-max",
            "--spec-draft-n-max",
            "--draft-n",
            "--draft-kind",
            "--draft-block-size",
            "--prompt-lookup-max-batch",
            "--spec-type",
        ),
        env=(
            "LLAMA_ARG_SPEC_DRAFT_MODEL",
            "LLAMA_ARG_SPEC_DRAFT_N_MAX",
            "LLAMA_ARG_DRAFT_MAX",
            "MLXCEL_ENABLE_MTP_B1",
            "MLXCEL_MTP_ADAPTIVE",
        ),
    ),
    Refusal("there is no image worker", flags=("--image-model",), env=("MLXCEL_IMAGE_MODEL",)),
    Refusal(
        "no model here takes images, video or audio",
        flags=(
            "--vision-cache-size",
            "--max-image-payload-size",
            "--max-images",
            "--max-image-width",
            "--max-image-height",
            "--max-image-decode-alloc-bytes",
            "--media-path",
            "--no-mmproj",
            "--image-min-tokens",
            "--image-max-tokens",
            "--video-max-frames",
            "--enable-vlm-prefix-cache",
        ),
        env=(
            "LLAMA_ARG_MAX_IMAGE_PAYLOAD_SIZE",
            "LLAMA_ARG_MAX_IMAGES",
            "LLAMA_ARG_MAX_IMAGE_WIDTH",
            "LLAMA_ARG_MAX_IMAGE_HEIGHT",
            "LLAMA_ARG_MAX_IMAGE_DECODE_ALLOC_BYTES",
            "LLAMA_ARG_MMPROJ_AUTO",
            "LLAMA_ARG_IMAGE_MIN_TOKENS",
            "LLAMA_ARG_IMAGE_MAX_TOKENS",
            "MLXCEL_ENABLE_VLM_PREFIX_CACHE",
            "MLXCEL_ALLOW_PRIVATE_MEDIA_URLS",
            "MLXCEL_VIDEO_DIR_ALLOWLIST",
        ),
    ),
    Refusal("settings are read at the start and not changed over HTTP", flags=("--settings",)),
    Refusal(
        "slots are not saved by hand; --prompt-cache-dir keeps prompts on disk",
        flags=("--slot-save-path",),
    ),
    Refusal("a model is always warmed up", flags=("--warmup", "--no-warmup")),
    Refusal("the order of the samplers is fixed", flags=("--samplers", "--sampler-seq")),
    Refusal(
        "the prompt cache's size is --prompt-cache-capacity-bytes",
        flags=("--cache-ram",),
        env=("LLAMA_ARG_CACHE_RAM",),
    ),
    Refusal(
        "only prefixes of prompts are reused",
        flags=("--cache-reuse",),
        env=("LLAMA_ARG_CACHE_REUSE",),
    ),
    Refusal(
        "the prompt cache keeps whole prefixes, snapshots among them, under one limit",
        flags=(
            "--prompt-cache-snapshot-capacity-bytes",
            "--prompt-cache-snapshot-max-entries",
            "--prompt-cache-snapshot-ttl",
            "--apc-enabled",
            "--apc-block-size",
            "--apc-num-blocks",
            "--apc-hash",
        ),
        env=(
            "MLXCEL_PROMPT_CACHE_SNAPSHOT_CAPACITY_BYTES",
            "MLXCEL_PROMPT_CACHE_SNAPSHOT_MAX_ENTRIES",
            "MLXCEL_PROMPT_CACHE_SNAPSHOT_TTL",
            "APC_ENABLED",
            "APC_BLOCK_SIZE",
            "APC_NUM_BLOCKS",
            "APC_HASH",
        ),
    ),
    Refusal(
        "the memory of keys and values follows from --request-memory-budget and the worker's share",
        flags=("--max-kv-size", "--kv-cache-budget"),
        env=("LLAMA_ARG_MAX_KV_SIZE", "MLXCEL_KV_CACHE_BUDGET"),
    ),
    Refusal(
        "keys and values are quantised with --kv-bits and --kv-group-size",
        flags=(
            "--cache-type-k",
            "--cache-type-v",
            "--kv-cache-mode",
            "--kv-quant-scheme",
            "--kv-skip-last-layer",
        ),
        env=("LLAMA_ARG_CACHE_TYPE_K", "LLAMA_ARG_CACHE_TYPE_V"),
    ),
    Refusal("contexts are not shifted", flags=("--context-shift", "--keep")),
    Refusal("workers do not sleep", flags=("--sleep-idle-seconds",)),
    Refusal(
        "grammars and schemas come with requests",
        flags=("--grammar", "--grammar-file", "--json-schema", "--json-schema-file"),
    ),
    Refusal(
        "no language is favoured; requests may send logit_bias",
        flags=("--lang-bias",),
        env=("LLAMA_ARG_LANG_BIAS",),
    ),
    Refusal(
        "set the log level with --log-level, and a file with --log-file",
        flags=(
            "-v",
            "--verbose",
            "--verbosity",
            "--log-disable",
            "--log-colors",
            "--log-prefix",
            "--log-timestamps",
        ),
        env=(
            "LLAMA_ARG_LOG_COLORS",
            "LLAMA_ARG_LOG_PREFIX",
            "LLAMA_ARG_LOG_TIMESTAMPS",
        ),
    ),
    Refusal(
        "this server does not answer Vertex AI's prediction requests",
        env=("AIP_MODE",),
    ),
    Refusal("weights are used as they are", env=("MLXCEL_SURGERY",)),
    Refusal("prompts of other users are never shown", env=("LLAMA_SERVER_SLOTS_DEBUG",)),
)

_OFF: Final = ("0", "false", "off", "no", "disabled")
# Name → values that ask for what this server does anyway; "" is a flag without a value.
INERT: Final[Mapping[str, tuple[str, ...]]] = {
    "--warmup": ("",),
    "--no-mmproj": ("",),
    "LLAMA_ARG_MMPROJ_AUTO": _OFF,
    "--spec-type": ("none",),
    "--keep": ("0",),
    "--cache-reuse": ("0",),
    "LLAMA_ARG_CACHE_REUSE": ("0",),
    "--apc-enabled": _OFF,
    "APC_ENABLED": _OFF,
    "--max-kv-size": ("0",),
    "LLAMA_ARG_MAX_KV_SIZE": ("0",),
    "--kv-cache-budget": ("auto",),
    "MLXCEL_KV_CACHE_BUDGET": ("auto",),
    "--cache-type-k": ("f16",),
    "--cache-type-v": ("f16",),
    "LLAMA_ARG_CACHE_TYPE_K": ("f16",),
    "LLAMA_ARG_CACHE_TYPE_V": ("f16",),
}

FLAGS: Final[Mapping[str, str]] = {
    flag: refusal.sentence for refusal in REFUSED for flag in refusal.flags
}
ENVIRONMENT: Final[Mapping[str, str]] = {
    name: refusal.sentence for refusal in REFUSED for name in refusal.env
}
