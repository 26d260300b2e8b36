"""Settings of a text worker. Pure data."""

from __future__ import annotations

from dataclasses import dataclass

from shared.declaration import setting
from shared.settings import process
from shared.settings.sampling import SamplingSettings
from shared.settings.template import TemplateSettings
from shared.settings.value import SLOTS, parse_bytes, parse_slots


@dataclass(frozen=True)
class SlotSettings:
    """The model and its slots."""

    model: str = setting(
        "",
        "Folder of an mlx-lm model, or owner/name on the Hugging Face hub.",
        flags=("-m", "--model"),
        env=("LLAMA_ARG_MODEL",),
    )
    alias: tuple[str, ...] = setting(
        (),
        "Names the model also answers to; the first is the one shown.",
        flags=("-a", "--alias"),
        env=("LLAMA_ARG_ALIAS",),
    )
    parallel: int = setting(
        SLOTS,
        "Slots: sequences that decode together; -1 on a command line: as many as usual.",
        flags=("--parallel", "--n-parallel"),
        env=("LLAMA_ARG_N_PARALLEL",),
        unit="sequences",
        parse=parse_slots,
        least=1,
        most=256,
    )
    ctx_size: int = setting(
        0,
        "Context of all slots together; each gets its part. 0: what the model was trained for, "
        "per slot.",
        flags=("-c", "--ctx-size"),
        env=("LLAMA_ARG_CTX_SIZE",),
        unit="tokens",
        least=0,
    )
    predict: int = setting(
        -1,
        "Completion tokens when a request names no limit; -1: to the end of the context.",
        flags=("-n", "--predict", "--n-predict"),
        env=("LLAMA_ARG_N_PREDICT",),
        unit="tokens",
        least=-1,
    )
    prefill_chunk: int = setting(
        512,
        "Prompt tokens of one prefill step while nothing decodes; fewer while others decode.",
        flags=("-b", "--batch-size", "--prefill-chunk-size"),
        env=("LLAMA_ARG_BATCH",),
        unit="tokens",
        least=1,
    )


@dataclass(frozen=True)
class TextSettings(TemplateSettings, SamplingSettings, SlotSettings):
    """Text worker: the model, its slots and its defaults."""

    preemption: bool = setting(
        True,
        "Take the youngest low-priority sequence out when a high one waits for its slot.",
        flags=("--preemption", "--enable-preemption"),
        env=("MLXCEL_PREEMPTION",),
    )
    request_memory_budget: int = setting(
        0,
        "Memory of all running requests together; it can only lower what the worker's share "
        "leaves. 0: that share.",
        flags=("--request-memory-budget",),
        env=("MLXCEL_REQUEST_MEMORY_BUDGET",),
        unit="bytes",
        parse=parse_bytes,
    )
    cache_prompt: bool = setting(
        True,
        "Reuse what earlier prompts have computed.",
        flags=("--cache-prompt", "--prompt-cache", "--prompt-cache-enabled"),
        env=("LLAMA_ARG_CACHE_PROMPT", "MLXCEL_PROMPT_CACHE_ENABLED"),
    )
    prompt_cache_capacity_bytes: int = setting(
        2 * 1024**3,
        "Memory of the prompt cache; running requests may push it out.",
        flags=("--prompt-cache-capacity-bytes",),
        env=("MLXCEL_PROMPT_CACHE_CAPACITY_BYTES",),
        unit="bytes",
        parse=parse_bytes,
    )
    prompt_cache_max_entries: int = setting(
        1024,
        "Entries of the prompt cache.",
        flags=("--prompt-cache-max-entries",),
        env=("MLXCEL_PROMPT_CACHE_MAX_ENTRIES",),
        unit="entries",
        least=0,
    )
    prompt_cache_ttl_s: int = setting(
        3600,
        "Time after its last use at which an entry goes.",
        flags=("--prompt-cache-ttl",),
        env=("MLXCEL_PROMPT_CACHE_TTL",),
        unit="s",
        least=0,
    )
    prompt_cache_min_prefix: int = setting(
        32,
        "Shortest common beginning that is reused.",
        flags=("--prompt-cache-min-prefix",),
        env=("MLXCEL_PROMPT_CACHE_MIN_PREFIX",),
        unit="tokens",
        least=0,
    )
    prompt_cache_dir: str = setting(
        "",
        "Folder in which entries outlive the worker; empty: none.",
        flags=("--prompt-cache-dir",),
        env=("MLXCEL_PROMPT_CACHE_DIR",),
        is_path=True,
    )
    prompt_cache_dir_bytes: int = setting(
        8 * 1024**3,
        "Most that folder may hold per model.",
        flags=("--prompt-cache-dir-bytes",),
        env=("MLXCEL_PROMPT_CACHE_DIR_BYTES",),
        unit="bytes",
        parse=parse_bytes,
    )
    kv_bits: int = setting(
        0,
        "Bits of quantised keys and values, 4 or 8; 0: as the model computes them. Quantised "
        "caches can't be batched: one sequence at a time.",
        flags=("--kv-bits",),
        env=("MLXCEL_KV_BITS",),
    )
    kv_group_size: int = setting(
        64,
        "Group size of quantised keys and values.",
        flags=("--kv-group-size",),
        env=("MLXCEL_KV_GROUP_SIZE",),
        least=1,
    )
    spm_infill: bool = setting(
        False,
        "Fill gaps with the text after them in front, as some models are trained to.",
        flags=("--spm-infill",),
        env=("MLXCEL_SPM_INFILL",),
    )
    offline: bool = process.offline()
    revision: str = setting(
        "",
        "Branch, tag or commit of a hub model.",
        flags=("--revision",),
        env=("MLXCEL_REVISION",),
    )
    log_level: str = process.log_level()
