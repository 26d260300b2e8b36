"""The response of GET /props: the keys of the reference and of newer llama-servers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from gateway.dialects.llama import setting
from shared.pb import common_pb2 as common
from shared.pb import worker_pb2

# The reference's keys, in its order.
_FLAT: Final = (
    "n_predict",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repeat_penalty",
    "repeat_last_n",
    "seed",
    "frequency_penalty",
    "presence_penalty",
    "dry_multiplier",
    "dry_base",
    "dry_allowed_length",
    "dry_penalty_last_n",
)
_MODALITIES: Final = {
    "vision": common.Media.KIND_IMAGE,
    "video": common.Media.KIND_VIDEO,
    "audio": common.Media.KIND_AUDIO,
}


def describe(
    card: worker_pb2.ModelCard, slots: int, endpoints: Mapping[str, bool], seed: int = -1
) -> dict[str, Any]:
    """Return the report on a model.

    Args:
        slots: of all its replicas.
        endpoints: whether /slots, POST /props and /metrics are served, by name.
        seed: of requests that name none; -1 for one of their own each.
    """
    params = _params(card) | ({} if seed < 0 else {"seed": seed})
    return {
        "default_generation_settings": {
            **{name: params[name] for name in _FLAT},
            "params": params,
            "n_ctx": card.context_tokens,
        },
        "total_slots": slots,
        "model_alias": card.name,
        "model_ftype": _type(card),
        "model_path": card.path,
        "modalities": {name: kind in card.modalities for name, kind in _MODALITIES.items()},
        "media_marker": None,
        **{f"endpoint_{name}": served for name, served in endpoints.items()},
        "ui": False,
        "ui_settings": {},
        "chat_template": card.chat_template,
        "chat_template_caps": _abilities(card),
        "bos_token": card.bos_token,
        "eos_token": card.eos_token,
        "build_info": "mlxcel",
        "is_sleeping": False,
        "cors_proxy_enabled": False,
    }


def _params(card: worker_pb2.ModelCard) -> dict[str, Any]:
    """Return the generation settings of a request without fields."""
    defaults = orjson.loads(card.default_sampling_json or "{}")
    limit = defaults.get("max_tokens", -1)
    return {
        "seed": setting.RANDOM_SEED,
        **{name: defaults.get(canonical) for name, canonical in setting.NAMES.items()},
        "dry_sequence_breakers": defaults.get("dry_breakers", []),
        **setting.CONSTANT,
        "max_tokens": limit,
        "n_predict": limit,
        "n_keep": 0,
        "n_discard": 0,
        "ignore_eos": False,
        "stream": False,
        "n_probs": 0,
        "timings_per_token": False,
        "post_sampling_probs": False,
    }


def _type(card: worker_pb2.ModelCard) -> str:
    """Return the format of the weights, e.g. "MLX Q4" or "MLX F16"."""
    if card.quantization_bits:
        return f"MLX Q{card.quantization_bits}"
    bits = round(8 * card.weight_bytes / card.parameters) if card.parameters else 16
    return f"MLX F{bits}"


def _abilities(card: worker_pb2.ModelCard) -> dict[str, bool]:
    """Return the capabilities of the chat template."""
    calls = bool(card.tool_call_format)
    return {
        "supports_object_arguments": calls,
        "supports_parallel_tool_calls": calls,
        "supports_preserve_reasoning": "preserve_thinking" in card.chat_template,
        "supports_reasoning_effort": "reasoning_effort" in card.chat_template,
        "supports_string_content": True,
        "supports_system_role": True,
        "supports_tool_calls": calls,
        "supports_tools": calls,
        "supports_typed_content": False,
    }
