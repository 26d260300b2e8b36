"""Defaults of sampling and stopping: what a request gets that says nothing. Pure data."""

from __future__ import annotations

from dataclasses import dataclass

from shared.declaration import setting
from shared.settings.value import parse_whole


@dataclass(frozen=True)
class SamplingSettings:
    """Defaults of sampling and stopping."""

    temperature: float = setting(
        0.8,
        "Sampling temperature when a request names none; 0 is greedy.",
        flags=("--temp", "--temperature"),
        env=("MLXCEL_TEMPERATURE",),
        least=0,
    )
    top_k: int = setting(
        40,
        "Default top-k; 0 is off.",
        flags=("--top-k",),
        env=("LLAMA_ARG_TOP_K",),
        least=-1,
    )
    top_p: float = setting(
        0.95,
        "Default top-p; 1 is off.",
        flags=("--top-p",),
        env=("MLXCEL_TOP_P",),
        least=0,
        most=1,
    )
    min_p: float = setting(
        0.05,
        "Default min-p; 0 is off.",
        flags=("--min-p",),
        env=("MLXCEL_MIN_P",),
        least=0,
        most=1,
    )
    typical_p: float = setting(
        1.0,
        "Default typical-p; 1 is off.",
        flags=("--typical", "--typical-p"),
        env=("MLXCEL_TYPICAL_P",),
        least=0,
        most=1,
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
        least=0,
        most=1,
    )
    xtc_threshold: float = setting(
        0.1,
        "Default probability above which XTC removes tokens.",
        flags=("--xtc-threshold",),
        env=("MLXCEL_XTC_THRESHOLD",),
        least=0,
        most=1,
    )
    repeat_penalty: float = setting(
        1.0,
        "Default repetition penalty; 1 is off.",
        flags=("--repeat-penalty",),
        env=("MLXCEL_REPEAT_PENALTY",),
        least=0.01,
    )
    repeat_last_n: int = setting(
        64,
        "Default window of the penalties; 0 turns them off.",
        flags=("--repeat-last-n",),
        env=("MLXCEL_REPEAT_LAST_N",),
        unit="tokens",
        least=0,
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
        least=0,
    )
    dry_base: float = setting(
        1.75,
        "Default DRY base.",
        flags=("--dry-base",),
        env=("MLXCEL_DRY_BASE",),
        least=0,
    )
    dry_allowed_length: int = setting(
        2,
        "Longest repetition DRY does not punish, plus one.",
        flags=("--dry-allowed-length",),
        env=("MLXCEL_DRY_ALLOWED_LENGTH",),
        unit="tokens",
        least=0,
    )
    dry_penalty_last_n: int = setting(
        64,
        "Default window of DRY; 0 turns it off.",
        flags=("--dry-penalty-last-n",),
        env=("MLXCEL_DRY_PENALTY_LAST_N",),
        unit="tokens",
        least=-1,
    )
    dry_sequence_breakers: tuple[str, ...] = setting(
        ("\n", ":", '"', "*"),
        "Text at which DRY stops looking back; may be given again.",
        flags=("--dry-sequence-breaker", "--dry-sequence-breakers"),
        env=("MLXCEL_DRY_SEQUENCE_BREAKER",),
        parse=parse_whole,
    )
    ignore_eos: bool = setting(
        False,
        "Go on past the model's own end, in every answer.",
        flags=("--ignore-eos",),
        env=("MLXCEL_IGNORE_EOS",),
    )
    reverse_prompt: tuple[str, ...] = setting(
        (),
        "Text at which an answer ends when a request names no stop of its own; may be given again.",
        flags=("-r", "--reverse-prompt"),
        env=("MLXCEL_REVERSE_PROMPT",),
        parse=parse_whole,
    )
    loop_detection: str = setting(
        "",
        "End an answer whose tail is one pattern over and over: off, on, or min,max,count, the "
        "pattern's size in tokens and its repetitions; empty: what suits the model's family.",
        flags=("--loop-detection",),
        env=("MLXCEL_LOOP_DETECTION",),
    )
