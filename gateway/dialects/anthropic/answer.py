"""What a message says of itself, in both of its forms: streamed and whole.

Owns the objects that the two share. Keys that Anthropic's specification requires, of the plain
and of the beta route, are all there; those of what is not served here are null. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec
import orjson

from gateway.dialects.base import Parsed
from gateway.dialects.thought import carry, sign
from shared.pb import common_pb2 as common
from shared.pb import text_pb2 as pb

# Whether thoughts are left out, shown, or only carried by their signature.
Thoughts = Literal["hidden", "shown", "carried"]

_LIMITS: Final = (pb.Finished.REASON_MAX_TOKENS, pb.Finished.REASON_CONTEXT)
_ARGUMENTS: Final = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True)
class ParsedMessage(Parsed):
    """A request of this dialect.

    Attributes:
        warms: the prompt is to be read into the cache and nothing to be answered.
    """

    thoughts: Thoughts = "hidden"
    warms: bool = False

    def shows(self, kind: pb.BlockStart.Kind.ValueType) -> bool:
        """Return whether blocks of a kind are part of the message."""
        hides = self.thoughts == "hidden" and kind == pb.BlockStart.KIND_REASONING
        return not (self.warms or hides)


def message(
    parsed: Parsed,
    model: str,
    content: Sequence[Mapping[str, Any]],
    stop: Mapping[str, Any],
    counts: Mapping[str, Any],
) -> dict[str, Any]:
    """Return a message, whole or at its beginning."""
    return {
        "id": parsed.request.request_id,
        "type": "message",
        "role": "assistant",
        "content": content,
        "model": model,
        **stop,
        "usage": counts,
        "context_management": None,
        "diagnostics": None,
    }


def stop_reason(parsed: ParsedMessage, finished: pb.Finished, *, called: bool) -> str:
    """Return Anthropic's word. A limit outweighs calls: the last one may be cut short."""
    if parsed.warms or finished.reason in _LIMITS:
        return "max_tokens"
    if called:
        return "tool_use"
    matched = finished.reason == pb.Finished.REASON_STOP and finished.stop_string
    return "stop_sequence" if matched else "end_turn"


def stop_fields(reason: str | None, finished: pb.Finished) -> dict[str, Any]:
    """Return why a message ended; None for one that goes on."""
    return {
        "stop_reason": reason,
        "stop_sequence": finished.stop_string if reason == "stop_sequence" else None,
        "stop_details": None,
        "container": None,
    }


def usage(counts: common.Usage) -> dict[str, Any]:
    """Return the token counts. What was read from the cache is not part of `input_tokens`."""
    return {
        "input_tokens": counts.prompt_tokens - counts.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": counts.cached_tokens,
        "output_tokens": counts.completion_tokens,
        "output_tokens_details": {"thinking_tokens": counts.reasoning_tokens},
        "server_tool_use": None,
        "iterations": None,
    }


def whole_usage(counts: common.Usage) -> dict[str, Any]:
    """Return the token counts of a message object."""
    tiers = dict.fromkeys(("cache_creation", "inference_geo", "service_tier", "speed"))
    return usage(counts) | tiers


def block(start: pb.BlockStart, text: str = "", thoughts: Thoughts = "shown") -> dict[str, Any]:
    """Return a content block with its text, thoughts or arguments."""
    if start.kind == pb.BlockStart.KIND_TOOL_CALL:
        return {
            "type": "tool_use",
            # Worker and OpenAI say call_…; the clients of this dialect know tool ids by this.
            "id": "toolu_" + start.tool_call_id.removeprefix("call_"),
            "name": start.tool_name,
            "input": tool_input(text),
            "caller": {"type": "direct"},
        }
    if start.kind == pb.BlockStart.KIND_REASONING:
        return {
            "type": "thinking",
            "thinking": text if thoughts == "shown" else "",
            "signature": signature(text, thoughts) if text else "",
        }
    # A list, though it may be null: there are clients that read nothing else.
    return {"type": "text", "text": text, "citations": []}


def signature(text: str, thoughts: Thoughts) -> str:
    """Return the signature of a block of thoughts."""
    return carry(text) if thoughts == "carried" else sign(text)


def tool_input(text: str) -> orjson.Fragment:
    """Return arguments as the model has written them; what is no JSON object becomes an empty one.

    Two readings of the same text could differ in large numbers, so it is passed on as text.
    """
    try:
        _ARGUMENTS.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return orjson.Fragment(b"{}")
    return orjson.Fragment(text.strip())


def counts(parsed: ParsedMessage, finished: pb.Finished) -> common.Usage:
    """Return what a message counts: the token of a warmed prompt is nobody's."""
    given = finished.usage
    if not parsed.warms:
        return given
    return common.Usage(prompt_tokens=given.prompt_tokens, cached_tokens=given.cached_tokens)
