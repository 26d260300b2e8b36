"""Settings of the gateway. Pure data."""

from __future__ import annotations

from dataclasses import dataclass

from shared.config import setting
from shared.settings.value import parse_bytes, parse_keys


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
    reasoning_alias_field: str = setting(
        "reasoning",
        "Second name under which chat completions carry thoughts, beside reasoning_content.",
        flags=("--reasoning-alias-field",),
        env=("MLXCEL_REASONING_ALIAS_FIELD",),
        choices=("none", "reasoning"),
    )
    json_object: bool = setting(
        False,
        "Serve response_format json_object, which is answered 400 otherwise.",
        flags=("--json-object",),
        env=("MLXCEL_JSON_OBJECT",),
    )
    log_level: str = setting(
        "info",
        "How much to log.",
        flags=("--log-level",),
        env=("MLXCEL_LOG_LEVEL",),
        choices=("debug", "info", "warning", "error"),
    )
