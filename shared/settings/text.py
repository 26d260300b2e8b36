"""Settings of a text worker. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from shared.declaration import Setting
from shared.settings.process import WIRE_WEIGHTS, KeepWarm, LogLevel, Offline, Wired
from shared.settings.sampling import SamplingSettings
from shared.settings.template import TemplateSettings
from shared.settings.value import SLOTS, Budget, Count, Size


@dataclass(frozen=True)
class SlotSettings:
    """Model and slots."""

    model: Annotated[
        str,
        Setting(
            "-m --model LLAMA_ARG_MODEL",
            "Model: a folder in mlx-lm's format, or owner/name on the Hugging Face hub.",
        ),
    ] = ""
    alias: Annotated[
        tuple[str, ...],
        Setting(
            "-a --alias LLAMA_ARG_ALIAS",
            "Names the model also answers to; the first one is shown.",
        ),
    ] = ()
    parallel: Annotated[
        int,
        Meta(ge=1, le=256),
        Setting(
            "--parallel --n-parallel LLAMA_ARG_N_PARALLEL",
            "Slots: sequences decoded together.",
            unit="sequences",
            means={"-1": SLOTS},
        ),
    ] = SLOTS
    ctx_size: Annotated[
        Count,
        Setting(
            "-c --ctx-size LLAMA_ARG_CTX_SIZE",
            "Context of all slots together, divided evenly. 0: the model's full context in each "
            "slot.",
            unit="tokens",
        ),
    ] = 0
    predict: Annotated[
        int,
        Meta(ge=-1),
        Setting(
            "-n --predict --n-predict LLAMA_ARG_N_PREDICT",
            "Token limit of requests without one; -1: up to the end of the context.",
            unit="tokens",
        ),
    ] = -1
    prefill_chunk: Annotated[
        int,
        Meta(ge=1),
        Setting(
            "-b --batch-size --prefill-chunk-size LLAMA_ARG_BATCH",
            "Prompt tokens of one prefill step at most; fewer while others decode and where a step "
            "would take more than a few seconds.",
            unit="tokens",
        ),
    ] = 512


@dataclass(frozen=True)
class TextSettings(TemplateSettings, SamplingSettings, SlotSettings):
    """Text worker."""

    preemption: Annotated[
        bool,
        Setting(
            "--preemption --enable-preemption MLXCEL_PREEMPTION",
            "Pause the newest low-priority sequence when a high-priority request waits for a slot.",
        ),
    ] = True
    request_memory_budget: Annotated[
        Budget,
        Meta(ge=0),
        Setting(
            "--request-memory-budget MLXCEL_REQUEST_MEMORY_BUDGET",
            "Memory of all running requests together, at most what the worker's share leaves. "
            "Without it, all of that.",
            unit="bytes",
        ),
    ] = 0
    cache_prompt: Annotated[
        bool,
        Setting(
            "--cache-prompt --prompt-cache --prompt-cache-enabled LLAMA_ARG_CACHE_PROMPT "
            "MLXCEL_PROMPT_CACHE_ENABLED",
            "Reuse the computed prefix of earlier prompts.",
        ),
    ] = True
    prompt_cache_capacity_bytes: Annotated[
        Size,
        Meta(ge=1),
        Setting(
            "--prompt-cache-capacity-bytes MLXCEL_PROMPT_CACHE_CAPACITY_BYTES",
            "Memory of the prompt cache; running requests may evict from it.",
            unit="bytes",
        ),
    ] = 2 * 1024**3
    prompt_cache_max_entries: Annotated[
        Count,
        Setting(
            "--prompt-cache-max-entries MLXCEL_PROMPT_CACHE_MAX_ENTRIES",
            "Most entries of the prompt cache.",
            unit="entries",
        ),
    ] = 1024
    prompt_cache_ttl_s: Annotated[
        Count,
        Setting(
            "--prompt-cache-ttl MLXCEL_PROMPT_CACHE_TTL",
            "Drop an entry this long after its last use.",
            unit="s",
        ),
    ] = 3600
    prompt_cache_min_prefix: Annotated[
        Count,
        Setting(
            "--prompt-cache-min-prefix MLXCEL_PROMPT_CACHE_MIN_PREFIX",
            "Shortest common prefix that is reused.",
            unit="tokens",
        ),
    ] = 32
    prompt_cache_dir: Annotated[
        str,
        Setting(
            "--prompt-cache-dir MLXCEL_PROMPT_CACHE_DIR",
            "Folder that keeps entries across restarts; empty: none.",
            is_path=True,
        ),
    ] = ""
    prompt_cache_dir_bytes: Annotated[
        Size,
        Meta(ge=1),
        Setting(
            "--prompt-cache-dir-bytes MLXCEL_PROMPT_CACHE_DIR_BYTES",
            "Most bytes in that folder, per model.",
            unit="bytes",
        ),
    ] = 8 * 1024**3
    kv_bits: Annotated[
        Literal[0, 4, 8],
        Setting(
            "--kv-bits MLXCEL_KV_BITS",
            "Quantise keys and values to this many bits; 0: off. A quantised cache can't be "
            "batched: one sequence at a time.",
        ),
    ] = 0
    kv_group_size: Annotated[
        Literal[32, 64, 128],
        Setting("--kv-group-size MLXCEL_KV_GROUP_SIZE", "Group size of quantised keys and values."),
    ] = 64
    spm_infill: Annotated[
        bool,
        Setting(
            "--spm-infill MLXCEL_SPM_INFILL",
            "Put the suffix before the prefix in infill prompts, as some models expect.",
        ),
    ] = False
    offline: Offline = False
    revision: Annotated[
        str,
        Setting(
            "--revision MLXCEL_REVISION",
            "Branch, tag or commit of the model on the hub.",
        ),
    ] = ""
    wired: Wired = WIRE_WEIGHTS
    keep_warm: KeepWarm = True
    log_level: LogLevel = "info"
