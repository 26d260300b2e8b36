"""Settings of the gateway. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from shared.declaration import Setting
from shared.settings.api import ApiSettings
from shared.settings.process import LogLevel
from shared.settings.value import Count, Host, Keys, Origins, Prefix, Size, Timeout


@dataclass(frozen=True)
class ServerSettings:
    """Addresses, keys, limits and stores."""

    host: Annotated[
        Host,
        Setting(
            "--host MLXCEL_HOST LLAMA_ARG_HOST",
            "Address to listen on. One that ends in .sock is the path of a Unix socket.",
        ),
    ] = "127.0.0.1"
    port: Annotated[
        int,
        Meta(ge=0, le=65535),
        Setting(
            "--port MLXCEL_PORT LLAMA_ARG_PORT",
            "Port to listen on. 0 with mlxcel-server: any free port.",
        ),
    ] = 8080
    api_key: Annotated[
        Keys,
        Setting(
            "--api-key LLAMA_API_KEY",
            "Key that requests must carry. Repeat it, or give a comma list; the keys of flags, "
            "environment, file and key file add up.",
            additive=True,
            secret=True,
        ),
    ] = ()
    api_key_file: Annotated[
        tuple[str, ...],
        Setting(
            "--api-key-file LLAMA_ARG_API_KEY_FILE",
            "File with one key per line; lines that start with # are comments.",
            additive=True,
            is_path=True,
        ),
    ] = ()
    api_prefix: Annotated[
        Prefix,
        Setting(
            "--api-prefix LLAMA_ARG_API_PREFIX",
            "Path in front of every route, e.g. /llm; other paths get a 404.",
        ),
    ] = ""
    allowed_origins: Annotated[
        Origins,
        Setting(
            "--allowed-origins MLXCEL_ALLOWED_ORIGINS",
            "Web origins whose pages may read answers, as scheme://host[:port]. Replaces "
            "--cors-origins.",
        ),
    ] = ()
    cors_origins: Annotated[
        str,
        Setting(
            "--cors-origins LLAMA_ARG_CORS_ORIGINS",
            "Value of Access-Control-Allow-Origin. *: any origin; localhost: those of this "
            "machine; anything else is sent unchanged.",
        ),
    ] = "*"
    cors_methods: Annotated[
        str,
        Setting(
            "--cors-methods LLAMA_ARG_CORS_METHODS",
            "Methods that a CORS preflight allows.",
        ),
    ] = "GET, POST, DELETE, OPTIONS"
    cors_headers: Annotated[
        str,
        Setting(
            "--cors-headers LLAMA_ARG_CORS_HEADERS",
            "Request headers that a CORS preflight allows.",
        ),
    ] = "*"
    cors_credentials: Annotated[
        bool,
        Setting("--cors-credentials LLAMA_ARG_CORS_CREDENTIALS", "Let pages send credentials."),
    ] = True
    metrics: Annotated[
        bool, Setting("--metrics LLAMA_ARG_ENDPOINT_METRICS", "Serve /metrics for Prometheus.")
    ] = False
    metrics_port: Annotated[
        int,
        Meta(ge=0, le=65535),
        Setting(
            "--metrics-port MLXCEL_METRICS_PORT",
            "Serve /metrics on this port too; 0: off.",
        ),
    ] = 0
    slots: Annotated[bool, Setting("--slots LLAMA_ARG_ENDPOINT_SLOTS", "Serve /slots.")] = True
    props: Annotated[
        bool,
        Setting("--props LLAMA_ARG_ENDPOINT_PROPS", "Accept POST /props, which changes nothing."),
    ] = False
    strict_model: Annotated[
        bool,
        Setting(
            "--strict-model MLXCEL_STRICT_MODEL",
            "Answer 404 to an unknown model name instead of using the default worker.",
        ),
    ] = False
    seed: Annotated[
        int,
        Meta(ge=-1, le=2**63 - 1),
        Setting(
            "-s --seed MLXCEL_SEED", "Seed of requests without one; -1: a random one for each."
        ),
    ] = -1
    prefill_assistant: Annotated[
        bool,
        Setting(
            "--prefill-assistant LLAMA_ARG_PREFILL_ASSISTANT",
            "Continue a final assistant message even when a request does not ask for it.",
        ),
    ] = False
    timeout_s: Annotated[
        Timeout,
        Setting("--timeout LLAMA_ARG_TIMEOUT", "Time limit of a request.", unit="s"),
    ] = 3600
    max_queue_depth: Annotated[
        Count,
        Setting(
            "--max-queue-depth MLXCEL_MAX_QUEUE_DEPTH",
            "Requests that may wait for a slot, per worker; further ones get a 503.",
            unit="requests",
        ),
    ] = 32
    max_body_bytes: Annotated[
        Size,
        Meta(ge=1),
        Setting("--max-body-bytes MLXCEL_MAX_BODY_BYTES", "Largest JSON body.", unit="bytes"),
    ] = 32 * 1024 * 1024
    sse_ping_interval_s: Annotated[
        int,
        Meta(ge=-1),
        Setting(
            "--sse-ping-interval LLAMA_ARG_SSE_PING_INTERVAL",
            "A stream without output for this long gets a comment line; -1: never.",
            unit="s",
        ),
    ] = 30
    keep_awake: Annotated[
        Literal["requests", "always", "never"],
        Setting(
            "--keep-awake MLXCEL_KEEP_AWAKE",
            "Keep a Mac from sleeping while requests run, as long as the server runs, or never. "
            "The display may sleep.",
        ),
    ] = "requests"
    resume_timeout_s: Annotated[
        Count,
        Setting(
            "--resume-timeout MLXCEL_RESUME_TIMEOUT",
            "How long a running request waits for a lost worker to start again; loading the model "
            "does not count.",
            unit="s",
        ),
    ] = 120
    store: Annotated[
        str,
        Setting(
            "--store MLXCEL_STORE",
            "Where responses and conversations are stored: memory, or the URL of a Redis server "
            "such as redis://127.0.0.1:6379/0, which several gateways may share.",
            secret=True,
        ),
    ] = "memory"
    responses_store_max_entries: Annotated[
        Count,
        Setting(
            "--responses-store-max-entries LLAMA_ARG_RESPONSES_STORE_MAX_ENTRIES",
            "Stored responses; the least recently used are dropped first. 0: store none.",
            unit="entries",
        ),
    ] = 1024
    responses_store_ttl_s: Annotated[
        Count,
        Setting(
            "--responses-store-ttl-secs LLAMA_ARG_RESPONSES_STORE_TTL_SECS",
            "Drop a stored response this long after its last use; 0: never.",
            unit="s",
        ),
    ] = 3600
    responses_store_max_bytes: Annotated[
        Size,
        Meta(ge=0),
        Setting(
            "--responses-store-max-bytes MLXCEL_RESPONSES_STORE_MAX_BYTES",
            "Total size of stored responses. 0: store none.",
            unit="bytes",
        ),
    ] = 256 * 1024**2
    conversation_store_max_entries: Annotated[
        Count,
        Setting(
            "--conversation-store-max-entries LLAMA_ARG_CONVERSATION_STORE_MAX_ENTRIES",
            "Stored conversations; the least recently used are dropped first. 0: store none.",
            unit="entries",
        ),
    ] = 256
    conversation_store_ttl_s: Annotated[
        Count,
        Setting(
            "--conversation-store-ttl-secs LLAMA_ARG_CONVERSATION_STORE_TTL_SECS",
            "Drop a stored conversation this long after its last use; 0: never.",
            unit="s",
        ),
    ] = 3600
    conversation_store_max_bytes: Annotated[
        Size,
        Meta(ge=0),
        Setting(
            "--conversation-store-max-bytes MLXCEL_CONVERSATION_STORE_MAX_BYTES",
            "Total size of stored conversations. 0: store none.",
            unit="bytes",
        ),
    ] = 64 * 1024**2


@dataclass(frozen=True)
class GatewaySettings(ApiSettings, ServerSettings):
    """Gateway."""

    log_level: LogLevel = "info"
