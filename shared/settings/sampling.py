"""Sampling and stop settings of requests that name none. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from shared.declaration import Setting
from shared.settings.value import Count, Fraction, Texts


@dataclass(frozen=True)
class SamplingSettings:
    """Sampling defaults."""

    temperature: Annotated[
        float,
        Meta(ge=0),
        Setting(
            "--temp --temperature MLXCEL_TEMPERATURE",
            "Default temperature; 0 is greedy.",
        ),
    ] = 0.8
    top_k: Annotated[
        int, Meta(ge=-1), Setting("--top-k LLAMA_ARG_TOP_K", "Default top-k; 0 is off.")
    ] = 40
    top_p: Annotated[Fraction, Setting("--top-p MLXCEL_TOP_P", "Default top-p; 1 is off.")] = 0.95
    min_p: Annotated[Fraction, Setting("--min-p MLXCEL_MIN_P", "Default min-p; 0 is off.")] = 0.05
    typical_p: Annotated[
        Fraction, Setting("--typical --typical-p MLXCEL_TYPICAL_P", "Default typical-p; 1 is off.")
    ] = 1.0
    top_n_sigma: Annotated[
        float, Setting("--top-nsigma MLXCEL_TOP_N_SIGMA", "Default top-n-sigma; 0 or less is off.")
    ] = -1.0
    xtc_probability: Annotated[
        Fraction,
        Setting(
            "--xtc-probability MLXCEL_XTC_PROBABILITY",
            "Default probability of XTC per token; 0 is off.",
        ),
    ] = 0.0
    xtc_threshold: Annotated[
        Fraction,
        Setting(
            "--xtc-threshold MLXCEL_XTC_THRESHOLD",
            "Default probability above which XTC removes tokens.",
        ),
    ] = 0.1
    repeat_penalty: Annotated[
        float,
        Meta(ge=0.01),
        Setting("--repeat-penalty MLXCEL_REPEAT_PENALTY", "Default repetition penalty; 1 is off."),
    ] = 1.0
    repeat_last_n: Annotated[
        Count,
        Setting(
            "--repeat-last-n MLXCEL_REPEAT_LAST_N",
            "Default window of the penalties; 0 is off.",
            unit="tokens",
        ),
    ] = 64
    frequency_penalty: Annotated[
        float, Setting("--frequency-penalty MLXCEL_FREQUENCY_PENALTY", "Default frequency penalty.")
    ] = 0.0
    presence_penalty: Annotated[
        float, Setting("--presence-penalty MLXCEL_PRESENCE_PENALTY", "Default presence penalty.")
    ] = 0.0
    dry_multiplier: Annotated[
        float,
        Meta(ge=0),
        Setting("--dry-multiplier MLXCEL_DRY_MULTIPLIER", "Default DRY multiplier; 0 is off."),
    ] = 0.0
    dry_base: Annotated[
        float, Meta(ge=0), Setting("--dry-base MLXCEL_DRY_BASE", "Default DRY base.")
    ] = 1.75
    dry_allowed_length: Annotated[
        Count,
        Setting(
            "--dry-allowed-length MLXCEL_DRY_ALLOWED_LENGTH",
            "Default length from which DRY penalises a repetition.",
            unit="tokens",
        ),
    ] = 2
    dry_penalty_last_n: Annotated[
        int,
        Meta(ge=-1),
        Setting(
            "--dry-penalty-last-n MLXCEL_DRY_PENALTY_LAST_N",
            "Default window of DRY; 0 is off, -1 the whole context.",
            unit="tokens",
        ),
    ] = 64
    dry_sequence_breakers: Annotated[
        Texts,
        Setting(
            "--dry-sequence-breaker --dry-sequence-breakers MLXCEL_DRY_SEQUENCE_BREAKER",
            "Text at which DRY stops looking back; may be repeated.",
        ),
    ] = ("\n", ":", '"', "*")
    ignore_eos: Annotated[
        bool,
        Setting(
            "--ignore-eos MLXCEL_IGNORE_EOS", "Continue past the end-of-text token in every answer."
        ),
    ] = False
    reverse_prompt: Annotated[
        Texts,
        Setting(
            "-r --reverse-prompt MLXCEL_REVERSE_PROMPT",
            "Stop text of requests that name none; may be repeated.",
        ),
    ] = ()
    loop_detection: Annotated[
        str,
        Setting(
            "--loop-detection MLXCEL_LOOP_DETECTION",
            "End an answer that repeats itself: off, on, or MIN,MAX,COUNT: a pattern of MIN to "
            "MAX tokens repeated COUNT times. Empty: the default of the model family.",
        ),
    ] = ""
