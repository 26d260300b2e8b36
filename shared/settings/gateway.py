"""Settings of the gateway. Pure data."""

from __future__ import annotations

from dataclasses import dataclass

from shared.declaration import setting
from shared.settings import process
from shared.settings.value import (
    parse_bytes,
    parse_bytes_or_none,
    parse_host,
    parse_keys,
    parse_origins,
    parse_prefix,
)


@dataclass(frozen=True)
class GatewaySettings:
    """Gateway: the HTTP address and what is admitted through it."""

    host: str = setting(
        "127.0.0.1",
        "Address to listen on; one that ends in .sock is the path of a Unix socket.",
        flags=("--host",),
        env=("MLXCEL_HOST", "LLAMA_ARG_HOST"),
        parse=parse_host,
    )
    port: int = setting(
        8080,
        "Port to listen on; also names the run directory of this server's processes. 0, for "
        "mlxcel-server alone: any that is free.",
        flags=("--port",),
        env=("MLXCEL_PORT", "LLAMA_ARG_PORT"),
        least=0,
        most=65535,
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
    api_prefix: str = setting(
        "",
        "Path put before every route, e.g. /llm; nothing answers outside it.",
        flags=("--api-prefix",),
        env=("LLAMA_ARG_API_PREFIX",),
        parse=parse_prefix,
    )
    allowed_origins: tuple[str, ...] = setting(
        (),
        "Web origins whose pages may read answers, as scheme://host[:port]; instead of "
        "--cors-origins.",
        flags=("--allowed-origins",),
        env=("MLXCEL_ALLOWED_ORIGINS",),
        parse=parse_origins,
    )
    cors_origins: str = setting(
        "*",
        "What Access-Control-Allow-Origin says: * is any origin, localhost those of this machine, "
        "anything else is sent as it is.",
        flags=("--cors-origins",),
        env=("LLAMA_ARG_CORS_ORIGINS",),
    )
    cors_methods: str = setting(
        "GET, POST, DELETE, OPTIONS",
        "What a preflight allows as methods.",
        flags=("--cors-methods",),
        env=("LLAMA_ARG_CORS_METHODS",),
    )
    cors_headers: str = setting(
        "*",
        "What a preflight allows as request headers.",
        flags=("--cors-headers",),
        env=("LLAMA_ARG_CORS_HEADERS",),
    )
    cors_credentials: bool = setting(
        True,
        "Whether pages may send credentials.",
        flags=("--cors-credentials",),
        env=("LLAMA_ARG_CORS_CREDENTIALS",),
    )
    metrics: bool = setting(
        False,
        "Serve /metrics for Prometheus.",
        flags=("--metrics",),
        env=("LLAMA_ARG_ENDPOINT_METRICS",),
    )
    metrics_port: int = setting(
        0,
        "Serve /metrics on a port of its own too; 0: none.",
        flags=("--metrics-port",),
        env=("MLXCEL_METRICS_PORT",),
        least=0,
        most=65535,
    )
    slots: bool = setting(
        True,
        "Serve /slots.",
        flags=("--slots",),
        env=("LLAMA_ARG_ENDPOINT_SLOTS",),
    )
    props: bool = setting(
        False,
        "Serve POST /props, which changes nothing.",
        flags=("--props",),
        env=("LLAMA_ARG_ENDPOINT_PROPS",),
    )
    strict_model: bool = setting(
        False,
        "Answer 404 for a model name that no worker serves, instead of using the default worker.",
        flags=("--strict-model",),
        env=("MLXCEL_STRICT_MODEL",),
    )
    seed: int = setting(
        -1,
        "Seed of requests that name none; -1: drawn anew for each.",
        flags=("-s", "--seed"),
        env=("MLXCEL_SEED",),
        least=-1,
        most=2**64 - 1,
    )
    prefill_assistant: bool = setting(
        False,
        "Go on with a last message of the assistant also when a request does not ask for it.",
        flags=("--prefill-assistant",),
        env=("LLAMA_ARG_PREFILL_ASSISTANT",),
    )
    timeout_s: int = setting(
        3600,
        "Longest time one request may take.",
        flags=("--timeout",),
        env=("LLAMA_ARG_TIMEOUT",),
        unit="s",
        least=1,
    )
    max_queue_depth: int = setting(
        32,
        "Requests that may wait for a slot, per worker; one more is answered 503.",
        flags=("--max-queue-depth",),
        env=("MLXCEL_MAX_QUEUE_DEPTH",),
        unit="requests",
        least=0,
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
        least=-1,
    )
    resume_timeout_s: int = setting(
        120,
        "How long a running request waits for its worker to come back.",
        flags=("--resume-timeout",),
        env=("MLXCEL_RESUME_TIMEOUT",),
        unit="s",
        least=0,
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
    store: str = setting(
        "memory",
        "Where stored responses and conversations are kept: memory, or the address of a Redis "
        "server such as redis://127.0.0.1:6379/0, which several gateways may share.",
        flags=("--store",),
        env=("MLXCEL_STORE",),
        secret=True,
    )
    responses_store_max_entries: int = setting(
        1024,
        "Stored responses; the longest unused ones go first. 0 turns storing off.",
        flags=("--responses-store-max-entries",),
        env=("LLAMA_ARG_RESPONSES_STORE_MAX_ENTRIES",),
        unit="entries",
        least=0,
    )
    responses_store_ttl_s: int = setting(
        3600,
        "Time after its last use at which a stored response goes; 0: never for its age.",
        flags=("--responses-store-ttl-secs",),
        env=("LLAMA_ARG_RESPONSES_STORE_TTL_SECS",),
        unit="s",
        least=0,
    )
    responses_store_max_bytes: int = setting(
        256 * 1024**2,
        "Size of all stored responses together. 0 turns storing off.",
        flags=("--responses-store-max-bytes",),
        env=("MLXCEL_RESPONSES_STORE_MAX_BYTES",),
        unit="bytes",
        parse=parse_bytes_or_none,
    )
    conversation_store_max_entries: int = setting(
        256,
        "Stored conversations; the longest unused ones go first. 0 turns them off.",
        flags=("--conversation-store-max-entries",),
        env=("LLAMA_ARG_CONVERSATION_STORE_MAX_ENTRIES",),
        unit="entries",
        least=0,
    )
    conversation_store_ttl_s: int = setting(
        3600,
        "Time after its last use at which a conversation goes; 0: never for its age.",
        flags=("--conversation-store-ttl-secs",),
        env=("LLAMA_ARG_CONVERSATION_STORE_TTL_SECS",),
        unit="s",
        least=0,
    )
    conversation_store_max_bytes: int = setting(
        64 * 1024**2,
        "Size of all stored conversations together. 0 turns them off.",
        flags=("--conversation-store-max-bytes",),
        env=("MLXCEL_CONVERSATION_STORE_MAX_BYTES",),
        unit="bytes",
        parse=parse_bytes_or_none,
    )
    log_level: str = process.log_level()
