"""Settings of the gateway for what clients differ in: forms of requests and answers. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from shared.declaration import Setting


@dataclass(frozen=True)
class ApiSettings:
    """Requests and answers."""

    reasoning_alias_field: Annotated[
        Literal["none", "reasoning"],
        Setting(
            "--reasoning-alias-field MLXCEL_REASONING_ALIAS_FIELD",
            "Second field that carries reasoning in chat completions, beside reasoning_content.",
        ),
    ] = "reasoning"
    json_object: Annotated[
        bool,
        Setting(
            "--json-object MLXCEL_JSON_OBJECT",
            "Accept response_format json_object, with a schema or none; otherwise it gets a 400.",
        ),
    ] = False
    forced_choice_with_schema: Annotated[
        Literal["refuse", "call"],
        Setting(
            "--forced-choice-with-schema MLXCEL_FORCED_CHOICE_WITH_SCHEMA",
            "A forced tool choice together with a structured output: a 400, or the call is forced "
            "and the structure ignored.",
        ),
    ] = "refuse"
    builtin_tools: Annotated[
        Literal["refuse", "drop"],
        Setting(
            "--builtin-tools MLXCEL_BUILTIN_TOOLS",
            "Tools of the Responses API that OpenAI's servers run, such as web_search: a 400, or "
            "the request is served without them.",
        ),
    ] = "refuse"
    completions_delta: Annotated[
        bool,
        Setting(
            "--completions-delta MLXCEL_COMPLETIONS_DELTA",
            "Repeat the text of a chunk of /v1/completions in delta.text.",
        ),
    ] = True
    speech_format: Annotated[
        Literal["wav", "mp3", "flac", "opus", "aac", "pcm"],
        Setting(
            "--speech-format MLXCEL_SPEECH_FORMAT",
            "Format of a speech whose request names none; all but wav and pcm take ffmpeg.",
        ),
    ] = "wav"
    prompt_cache_scope: Annotated[
        Literal["key", "session"],
        Setting(
            "--prompt-cache-scope MLXCEL_PROMPT_CACHE_SCOPE",
            "Who shares cached prompts: all requests with one API key, or only those that also "
            "agree in prompt_cache_key, user or metadata.user_id.",
        ),
    ] = "key"
