"""Models in the form of Anthropic's API.

Owns the entry of a model and the page of a list. The routes choose this form for clients that send
an Anthropic version. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from shared.pb import common_pb2 as common
from shared.pb import worker_pb2

_EFFORTS: Final = ("low", "medium", "high", "xhigh", "max")
_EDITS: Final = ("clear_thinking_20251015", "clear_tool_uses_20250919", "compact_20260112")


def page(cards: Sequence[worker_pb2.ModelCard]) -> dict[str, Any]:
    """Return all models as one page."""
    return {
        "data": [entry(card) for card in cards],
        "first_id": cards[0].name if cards else None,
        "last_id": cards[-1].name if cards else None,
        "has_more": False,
    }


def entry(card: worker_pb2.ModelCard) -> dict[str, Any]:
    """Return one model. Prompt and answer share its context, so both limits are the same."""
    created = datetime.fromtimestamp(card.created_unix_s, UTC)
    return {
        "type": "model",
        "id": card.name,
        "display_name": card.name,
        "created_at": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "lifecycle": "active",
        "line": None,
        "deprecated_at": None,
        "retires_at": None,
        "max_input_tokens": card.context_tokens or None,
        "max_tokens": card.context_tokens or None,
        "capabilities": _capabilities(card),
    }


def _capabilities(card: worker_pb2.ModelCard) -> dict[str, Any]:
    # An effort is passed to the chat template, which may or may not read it.
    edits = dict.fromkeys(_EDITS, _support(False))
    thinks = _support(card.reasoning)
    modes = dict.fromkeys(("adaptive", "enabled", "disabled", "between_tools"), thinks)
    server_tools = {"code_execution": _support(False), "web_search": _support(False)}
    return {
        "batch": _support(False),
        "citations": _support(False),
        "code_execution": _support(False),
        "context_management": _support(False) | edits,
        "effort": _support(False) | dict.fromkeys(_EFFORTS, _support(False)),
        "image_input": _support(common.Media.KIND_IMAGE in card.modalities),
        "pdf_input": _support(False),
        "server_tools": _support(False) | server_tools,
        "structured_outputs": _support(True),
        "thinking": thinks | {"types": modes},
    }


def _support(value: bool) -> dict[str, Any]:  # noqa: FBT001
    return {"supported": value}
