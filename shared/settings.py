"""Every setting of every process: the one place where names, defaults and help are written.

`shared/config.py` reads them; `--help`, docs/configuration.md and the comments of the sample
fleet file are printed from here. Names and defaults are those of the REST reference where it
has them.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass

from shared.config import setting


def parse_bytes(text: str) -> int:
    """Return the bytes of "12G", "512M", "4096".

    Raises:
        ValueError: not a positive size.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", text, re.IGNORECASE)
    if match is None:
        raise ValueError(f"{text!r} is not a size such as 12G or 512M")
    size = int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " "))
    if size <= 0:
        raise ValueError(f"{text!r} is not a positive size")
    return size


def parse_keys(text: str) -> tuple[str, ...]:
    """Return the keys of a comma list, read as a row of CSV: nothing is trimmed, `"a,b"` is one.

    Raises:
        ValueError: there is none. An empty list must not open the server to everybody.
    """
    keys = tuple(key for row in csv.reader([text]) for key in row if key)
    if not keys:
        raise ValueError("holds no key")
    return keys


@dataclass(frozen=True)
class GatewaySettings:
    """Gateway: the HTTP address and what is admitted through it."""

    host: str = setting(
        "127.0.0.1",
        "Address to listen on.",
        flags=("--host",),
        env=("MLXCEL_HOST", "LLAMA_ARG_HOST"),
    )
    port: int = setting(
        8080,
        "Port to listen on; also names the run directory of this server's processes.",
        flags=("--port",),
        env=("MLXCEL_PORT", "LLAMA_ARG_PORT"),
    )
    api_key: tuple[str, ...] = setting(
        (),
        "Key that requests must carry; may be given again, or as a comma list. Keys of flag, "
        "environment, file and key file add up.",
        flags=("--api-key",),
        env=("LLAMA_API_KEY",),
        additive=True,
        secret=True,
        parse=parse_keys,
    )
    api_key_file: tuple[str, ...] = setting(
        (),
        "File with one key per line; lines that start with # are comments.",
        flags=("--api-key-file",),
        env=("LLAMA_ARG_API_KEY_FILE",),
        additive=True,
        is_path=True,
    )
    strict_model: bool = setting(
        False,
        "Answer 404 for a model name that no worker serves, instead of using the default worker.",
        flags=("--strict-model",),
        env=("MLXCEL_STRICT_MODEL",),
    )
    timeout_s: int = setting(
        3600,
        "Longest time one request may take.",
        flags=("--timeout",),
        env=("LLAMA_ARG_TIMEOUT",),
        unit="s",
    )
    max_queue_depth: int = setting(
        32,
        "Requests that may wait for a slot, per worker; one more is answered 503.",
        flags=("--max-queue-depth",),
        env=("MLXCEL_MAX_QUEUE_DEPTH",),
        unit="requests",
    )
    max_body_bytes: int = setting(
        32 * 1024 * 1024,
        "Largest JSON body.",
        flags=("--max-body-bytes",),
        env=("MLXCEL_MAX_BODY_BYTES",),
        unit="bytes",
        parse=parse_bytes,
    )
    sse_ping_interval_s: int = setting(
        30,
        "Seconds of silence after which a stream gets a comment line; -1 turns it off.",
        flags=("--sse-ping-interval",),
        env=("LLAMA_ARG_SSE_PING_INTERVAL",),
        unit="s",
    )
    resume_timeout_s: int = setting(
        120,
        "How long a running request waits for its worker to come back.",
        flags=("--resume-timeout",),
        env=("MLXCEL_RESUME_TIMEOUT",),
        unit="s",
    )
    log_level: str = setting(
        "info",
        "How much to log.",
        flags=("--log-level",),
        env=("MLXCEL_LOG_LEVEL",),
        choices=("debug", "info", "warning", "error"),
    )


@dataclass(frozen=True)
class TextSettings:
    """Text worker: the model, its slots and its defaults."""

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
        4,
        "Slots: sequences that decode together.",
        flags=("--parallel", "--n-parallel"),
        env=("LLAMA_ARG_N_PARALLEL",),
        unit="sequences",
    )
    ctx_size: int = setting(
        0,
        "Context of all slots together; each gets its part. 0: what the model was trained for, "
        "per slot.",
        flags=("-c", "--ctx-size"),
        env=("LLAMA_ARG_CTX_SIZE",),
        unit="tokens",
    )
    predict: int = setting(
        -1,
        "Completion tokens when a request names no limit; -1: to the end of the context.",
        flags=("-n", "--predict", "--n-predict"),
        env=("LLAMA_ARG_N_PREDICT",),
        unit="tokens",
    )
    prefill_chunk: int = setting(
        512,
        "Prompt tokens of one prefill step while nothing decodes; fewer while others decode.",
        flags=("-b", "--batch-size", "--prefill-chunk-size"),
        env=("LLAMA_ARG_BATCH",),
        unit="tokens",
    )
    temperature: float = setting(
        0.8,
        "Sampling temperature when a request names none; 0 is greedy.",
        flags=("--temp", "--temperature"),
        env=("MLXCEL_TEMPERATURE",),
    )
    top_k: int = setting(
        40, "Default top-k; 0 is off.", flags=("--top-k",), env=("LLAMA_ARG_TOP_K",)
    )
    top_p: float = setting(
        0.95, "Default top-p; 1 is off.", flags=("--top-p",), env=("MLXCEL_TOP_P",)
    )
    min_p: float = setting(
        0.05, "Default min-p; 0 is off.", flags=("--min-p",), env=("MLXCEL_MIN_P",)
    )
    typical_p: float = setting(
        1.0,
        "Default typical-p; 1 is off.",
        flags=("--typical", "--typical-p"),
        env=("MLXCEL_TYPICAL_P",),
    )
    top_n_sigma: float = setting(
        -1.0,
        "Default top-n-sigma; 0 or less is off.",
        flags=("--top-nsigma",),
        env=("MLXCEL_TOP_N_SIGMA",),
    )
    xtc_probability: float = setting(
        0.0,
        "Default chance of XTC per token; 0 is off.",
        flags=("--xtc-probability",),
        env=("MLXCEL_XTC_PROBABILITY",),
    )
    xtc_threshold: float = setting(
        0.1,
        "Default probability above which XTC removes tokens.",
        flags=("--xtc-threshold",),
        env=("MLXCEL_XTC_THRESHOLD",),
    )
    repeat_penalty: float = setting(
        1.0,
        "Default repetition penalty; 1 is off.",
        flags=("--repeat-penalty",),
        env=("MLXCEL_REPEAT_PENALTY",),
    )
    repeat_last_n: int = setting(
        64,
        "Default window of the penalties; 0 turns them off.",
        flags=("--repeat-last-n",),
        env=("MLXCEL_REPEAT_LAST_N",),
        unit="tokens",
    )
    frequency_penalty: float = setting(
        0.0,
        "Default frequency penalty.",
        flags=("--frequency-penalty",),
        env=("MLXCEL_FREQUENCY_PENALTY",),
    )
    presence_penalty: float = setting(
        0.0,
        "Default presence penalty.",
        flags=("--presence-penalty",),
        env=("MLXCEL_PRESENCE_PENALTY",),
    )
    dry_multiplier: float = setting(
        0.0,
        "Default DRY multiplier; 0 is off.",
        flags=("--dry-multiplier",),
        env=("MLXCEL_DRY_MULTIPLIER",),
    )
    dry_base: float = setting(
        1.75, "Default DRY base.", flags=("--dry-base",), env=("MLXCEL_DRY_BASE",)
    )
    dry_allowed_length: int = setting(
        2,
        "Longest repetition DRY does not punish, plus one.",
        flags=("--dry-allowed-length",),
        env=("MLXCEL_DRY_ALLOWED_LENGTH",),
        unit="tokens",
    )
    dry_penalty_last_n: int = setting(
        64,
        "Default window of DRY; 0 turns it off.",
        flags=("--dry-penalty-last-n",),
        env=("MLXCEL_DRY_PENALTY_LAST_N",),
        unit="tokens",
    )
    loop_detection: str = setting(
        "",
        "End an answer whose tail repeats: off, on, or max,min,count; empty: what suits the "
        "model's family.",
        flags=("--loop-detection",),
        env=("MLXCEL_LOOP_DETECTION",),
    )
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
    )
    prompt_cache_ttl_s: int = setting(
        3600,
        "Time after its last use at which an entry goes.",
        flags=("--prompt-cache-ttl",),
        env=("MLXCEL_PROMPT_CACHE_TTL",),
        unit="s",
    )
    prompt_cache_min_prefix: int = setting(
        32,
        "Shortest common beginning that is reused.",
        flags=("--prompt-cache-min-prefix",),
        env=("MLXCEL_PROMPT_CACHE_MIN_PREFIX",),
        unit="tokens",
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
    )
    reasoning_format: str = setting(
        "auto",
        "Where thoughts go: none leaves them in the answer, deepseek and auto put them in "
        "reasoning_content, deepseek-legacy does both.",
        flags=("--reasoning-format",),
        env=("LLAMA_ARG_THINK",),
        choices=("none", "deepseek", "deepseek-legacy", "auto"),
    )
    reasoning_budget: int = setting(
        -1,
        "Tokens a model may think when a request sets no budget; -1: without limit.",
        flags=("--reasoning-budget",),
        env=("LLAMA_ARG_THINK_BUDGET", "LLAMA_ARG_REASONING_BUDGET"),
        unit="tokens",
    )
    reasoning_budget_message: str = setting(
        "",
        "Text put before the end of thoughts that a budget cuts off.",
        flags=("--reasoning-budget-message",),
        env=("LLAMA_ARG_THINK_BUDGET_MESSAGE",),
    )
    chat_template_file: str = setting(
        "",
        "Jinja file used instead of the model's own chat template.",
        flags=("--chat-template-file",),
        env=("LLAMA_ARG_CHAT_TEMPLATE_FILE",),
        is_path=True,
    )
    chat_template_kwargs: str = setting(
        "",
        "JSON object of template variables; a request's own win.",
        flags=("--chat-template-kwargs",),
        env=("LLAMA_ARG_CHAT_TEMPLATE_KWARGS",),
    )
    offline: bool = setting(
        False,
        "Never ask the Hugging Face hub; use what is on disk.",
        flags=("--offline",),
        env=("LLAMA_ARG_OFFLINE",),
    )
    revision: str = setting(
        "",
        "Branch, tag or commit of a hub model.",
        flags=("--revision",),
        env=("MLXCEL_REVISION",),
    )
    log_level: str = setting(
        "info",
        "How much to log.",
        flags=("--log-level",),
        env=("MLXCEL_LOG_LEVEL",),
        choices=("debug", "info", "warning", "error"),
    )


@dataclass(frozen=True)
class SupervisorSettings:
    """Supervisor: when a process counts as hung."""

    step_timeout_s: int = setting(
        120,
        "Longest time one engine step may take before the worker is killed and restarted.",
        flags=("--step-timeout",),
        env=("MLXCEL_STEP_TIMEOUT",),
        unit="s",
    )


# Which group a worker of each kind reads.
WORKER_SETTINGS: dict[str, type] = {"text": TextSettings}
