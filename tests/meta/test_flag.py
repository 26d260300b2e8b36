"""Every flag and environment name of the reference is either served or refused with a sentence."""

from __future__ import annotations

import argparse

import pytest

from deploy import launch, resolution
from shared.config import ConfigError, entries, refuse_environment
from shared.settings import refused

FLAGS = [
    "-m",
    "--model",
    "--hf-repo",
    "--hf-token",
    "--offline",
    "--revision",
    "--model-store-root",
    "--models-dir",
    "--models-max",
    "--models-autoload",
    "--no-models-autoload",
    "--models-preset",
    "--tags",
    "-a",
    "--alias",
    "--lora",
    "--adapter",
    "--lora-scaled",
    "--lora-init-without-apply",
    "--lora-fuse",
    "--host",
    "--port",
    "-c",
    "--ctx-size",
    "-n",
    "--predict",
    "--n-predict",
    "--parallel",
    "--n-parallel",
    "--max-batch-size",
    "--no-batch",
    "--max-queue-depth",
    "--max-batch-prefill",
    "--max-batch-prefill-tokens",
    "--prefill-chunk-size",
    "-b",
    "--batch-size",
    "--prefill-grant-interval",
    "--enable-preemption",
    "--preemption-policy",
    "--api-key",
    "--api-key-file",
    "--timeout",
    "--decode-timeout",
    "--api-prefix",
    "--sse-ping-interval",
    "--threads-http",
    "--reuse-port",
    "--ssl-cert-file",
    "--ssl-key-file",
    "--cors-origins",
    "--cors-methods",
    "--cors-headers",
    "--cors-credentials",
    "--no-cors-credentials",
    "--allowed-origins",
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
    "--audio-queue-depth",
    "--audio-request-timeout-secs",
    "--embedding-model",
    "--embedding-batch-size",
    "--embedding-max-length",
    "--embedding-queue-depth",
    "--embedding-request-timeout-secs",
    "--pooling",
    "--embd-normalize",
    "--reranker-model",
    "--rerank-batch-size",
    "--responses-store-max-entries",
    "--responses-store-ttl-secs",
    "--responses-store-max-bytes",
    "--conversation-store-max-entries",
    "--conversation-store-ttl-secs",
    "--conversation-store-max-bytes",
    "--chat-template-file",
    "--chat-template-kwargs",
    "--reasoning-format",
    "--reasoning-budget",
    "--reasoning-budget-message",
    "--reasoning-alias-field",
    "--metrics",
    "--metrics-port",
    "--settings",
    "--slot-save-path",
    "--warmup",
    "--no-warmup",
    "--temp",
    "--temperature",
    "--top-k",
    "--top-p",
    "--min-p",
    "--typical",
    "--typical-p",
    "--top-nsigma",
    "--xtc-probability",
    "--xtc-threshold",
    "--samplers",
    "--sampler-seq",
    "--repeat-last-n",
    "--repeat-penalty",
    "--presence-penalty",
    "--frequency-penalty",
    "--dry-multiplier",
    "--dry-base",
    "--dry-allowed-length",
    "--dry-penalty-last-n",
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
    "--prompt-cache-enabled",
    "--no-prompt-cache",
    "--cache-prompt",
    "--no-cache-prompt",
    "--cache-ram",
    "--cache-reuse",
    "--prompt-cache-capacity-bytes",
    "--prompt-cache-max-entries",
    "--prompt-cache-ttl",
    "--prompt-cache-min-prefix",
    "--prompt-cache-snapshot-capacity-bytes",
    "--prompt-cache-snapshot-max-entries",
    "--prompt-cache-snapshot-ttl",
    "--apc-enabled",
    "--apc-block-size",
    "--apc-num-blocks",
    "--apc-hash",
    "--enable-vlm-prefix-cache",
    "--max-kv-size",
    "--kv-cache-budget",
    "--cache-type-k",
    "--cache-type-v",
    "--kv-cache-mode",
    "--kv-bits",
    "--kv-group-size",
    "--kv-quant-scheme",
    "--kv-skip-last-layer",
    "--context-shift",
    "--keep",
    "--sleep-idle-seconds",
    "--grammar",
    "--grammar-file",
    "--json-schema",
    "--json-schema-file",
    "--lang-bias",
    "-v",
    "--verbose",
    "--verbosity",
    "--log-file",
    "--log-disable",
    "--log-colors",
    "--log-prefix",
    "--log-timestamps",
    "--image-model",
]

ENVIRONMENT = [
    "LLAMA_ARG_MODEL",
    "LLAMA_ARG_HF_REPO",
    "LLAMA_ARG_OFFLINE",
    "MLXCEL_DEFAULT_ORG",
    "MLXCEL_MODELS_DIR",
    "MLXCEL_CACHE_DIR",
    "LLAMA_ARG_MODELS_DIR",
    "LLAMA_ARG_MODELS_MAX",
    "LLAMA_ARG_MODELS_AUTOLOAD",
    "LLAMA_ARG_MODELS_PRESET",
    "LLAMA_ARG_TAGS",
    "LLAMA_ARG_ALIAS",
    "LLAMA_ARG_HOST",
    "LLAMA_ARG_PORT",
    "LLAMA_ARG_CTX_SIZE",
    "LLAMA_ARG_N_PREDICT",
    "LLAMA_ARG_N_PARALLEL",
    "LLAMA_ARG_BATCH",
    "MLXCEL_MAX_BATCH_PREFILL_TOKENS",
    "MLXCEL_PREFILL_GRANT_INTERVAL",
    "LLAMA_API_KEY",
    "LLAMA_ARG_API_KEY_FILE",
    "LLAMA_ARG_TIMEOUT",
    "MLXCEL_DECODE_TIMEOUT",
    "LLAMA_ARG_API_PREFIX",
    "LLAMA_ARG_SSE_PING_INTERVAL",
    "LLAMA_ARG_THREADS_HTTP",
    "LLAMA_ARG_REUSE_PORT",
    "LLAMA_ARG_SSL_CERT_FILE",
    "LLAMA_ARG_SSL_KEY_FILE",
    "LLAMA_ARG_CORS_ORIGINS",
    "LLAMA_ARG_CORS_METHODS",
    "LLAMA_ARG_CORS_HEADERS",
    "LLAMA_ARG_CORS_CREDENTIALS",
    "MLXCEL_ALLOWED_ORIGINS",
    "LLAMA_ARG_SPEC_DRAFT_MODEL",
    "LLAMA_ARG_SPEC_DRAFT_N_MAX",
    "LLAMA_ARG_DRAFT_MAX",
    "MLXCEL_AUDIO_QUEUE_DEPTH",
    "MLXCEL_AUDIO_REQUEST_TIMEOUT_SECS",
    "LLAMA_ARG_EMBEDDING_MODEL",
    "MLXCEL_EMBEDDING_MODEL",
    "MLXCEL_EMBEDDING_BATCH_SIZE",
    "MLXCEL_EMBEDDING_MAX_LENGTH",
    "MLXCEL_EMBEDDING_QUEUE_DEPTH",
    "MLXCEL_EMBEDDING_REQUEST_TIMEOUT_SECS",
    "MLXCEL_EMBEDDING_POOLING",
    "LLAMA_ARG_POOLING",
    "LLAMA_ARG_RERANKER_MODEL",
    "MLXCEL_RERANKER_MODEL",
    "MLXCEL_RERANK_BATCH_SIZE",
    "LLAMA_ARG_RESPONSES_STORE_MAX_ENTRIES",
    "LLAMA_ARG_RESPONSES_STORE_TTL_SECS",
    "MLXCEL_RESPONSES_STORE_MAX_BYTES",
    "LLAMA_ARG_CONVERSATION_STORE_MAX_ENTRIES",
    "LLAMA_ARG_CONVERSATION_STORE_TTL_SECS",
    "MLXCEL_CONVERSATION_STORE_MAX_BYTES",
    "LLAMA_ARG_CHAT_TEMPLATE_FILE",
    "LLAMA_ARG_CHAT_TEMPLATE_KWARGS",
    "LLAMA_ARG_THINK",
    "LLAMA_ARG_THINK_BUDGET",
    "LLAMA_ARG_REASONING_BUDGET",
    "LLAMA_ARG_THINK_BUDGET_MESSAGE",
    "MLXCEL_REASONING_ALIAS_FIELD",
    "LLAMA_ARG_ENDPOINT_METRICS",
    "LLAMA_ARG_TOP_K",
    "LLAMA_ARG_MAX_IMAGE_PAYLOAD_SIZE",
    "LLAMA_ARG_MAX_IMAGES",
    "LLAMA_ARG_MAX_IMAGE_WIDTH",
    "LLAMA_ARG_MAX_IMAGE_HEIGHT",
    "LLAMA_ARG_MAX_IMAGE_DECODE_ALLOC_BYTES",
    "LLAMA_ARG_MMPROJ_AUTO",
    "LLAMA_ARG_IMAGE_MIN_TOKENS",
    "LLAMA_ARG_IMAGE_MAX_TOKENS",
    "MLXCEL_PROMPT_CACHE_ENABLED",
    "LLAMA_ARG_CACHE_PROMPT",
    "LLAMA_ARG_CACHE_RAM",
    "LLAMA_ARG_CACHE_REUSE",
    "MLXCEL_PROMPT_CACHE_CAPACITY_BYTES",
    "MLXCEL_PROMPT_CACHE_MAX_ENTRIES",
    "MLXCEL_PROMPT_CACHE_TTL",
    "MLXCEL_PROMPT_CACHE_MIN_PREFIX",
    "MLXCEL_PROMPT_CACHE_SNAPSHOT_CAPACITY_BYTES",
    "MLXCEL_PROMPT_CACHE_SNAPSHOT_MAX_ENTRIES",
    "MLXCEL_PROMPT_CACHE_SNAPSHOT_TTL",
    "APC_ENABLED",
    "APC_BLOCK_SIZE",
    "APC_NUM_BLOCKS",
    "APC_HASH",
    "MLXCEL_ENABLE_VLM_PREFIX_CACHE",
    "LLAMA_ARG_MAX_KV_SIZE",
    "MLXCEL_KV_CACHE_BUDGET",
    "LLAMA_ARG_CACHE_TYPE_K",
    "LLAMA_ARG_CACHE_TYPE_V",
    "LLAMA_ARG_LANG_BIAS",
    "LLAMA_ARG_LOG_FILE",
    "LLAMA_LOG_FILE",
    "LLAMA_ARG_LOG_COLORS",
    "LLAMA_ARG_LOG_PREFIX",
    "LLAMA_ARG_LOG_TIMESTAMPS",
    "MLXCEL_IMAGE_MODEL",
    "MLXCEL_LOOP_DETECTION",
    "MLXCEL_ALLOW_PRIVATE_MEDIA_URLS",
    "MLXCEL_VIDEO_DIR_ALLOWLIST",
    "MLXCEL_REQUEST_MEMORY_BUDGET",
    "LLAMA_SERVER_SLOTS_DEBUG",
    "AIP_MODE",
    "MLXCEL_ENABLE_MTP_B1",
    "MLXCEL_MTP_ADAPTIVE",
    "MLXCEL_SURGERY",
]

SETTINGS = [entry for group in resolution.GROUPS for entry in entries(group)]
# The hub's own library reads it.
OTHERS = {"HF_TOKEN"}


def served_flags() -> set[str]:
    parser = launch.build_parser()
    hidden = {
        flag
        for action in parser._actions
        if action.help == argparse.SUPPRESS
        for flag in action.option_strings
    }
    return set(parser._option_string_actions) - hidden


def served_names() -> set[str]:
    return {name for entry in SETTINGS for name in entry.declaration.env} | OTHERS


@pytest.mark.parametrize("flag", FLAGS)
def test_a_flag_is_served_or_refused(flag):
    assert (flag in served_flags()) != (flag in refused.FLAGS)


@pytest.mark.parametrize("name", ENVIRONMENT)
def test_an_environment_name_is_served_or_refused(name):
    assert (name in served_names()) != (name in refused.ENVIRONMENT)


def test_nothing_else_is_refused():
    assert set(refused.FLAGS) <= set(FLAGS)
    assert set(refused.ENVIRONMENT) <= set(ENVIRONMENT)


@pytest.mark.parametrize(
    "words", [["--lora", "x.gguf"], ["--no-batch"], ["-v"], ["-md", "x", "-m", "y"], ["--lora=x"]]
)
def test_a_refused_flag_stops_the_start_with_its_sentence(words, capsys):
    with pytest.raises(SystemExit):
        launch.main(words)
    flag = words[0].partition("=")[0]
    assert capsys.readouterr().err == f"error: {flag}: {refused.FLAGS[flag]}\n"


def test_a_refused_environment_name_does_so_too_unless_it_is_empty():
    refuse_environment({"LLAMA_ARG_TAGS": "", "PATH": "/bin"}, refused.ENVIRONMENT)
    with pytest.raises(ConfigError, match=r"^LLAMA_ARG_TAGS: one server serves"):
        refuse_environment({"LLAMA_ARG_TAGS": "x"}, refused.ENVIRONMENT)


@pytest.mark.parametrize("refusal", refused.REFUSED, ids=lambda r: (*r.flags, *r.env)[0])
def test_a_sentence_says_something(refusal):
    assert len(refusal.sentence.split()) >= 4
    assert not refusal.sentence.endswith(".")
