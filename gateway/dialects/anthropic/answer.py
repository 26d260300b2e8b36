"""The message object, shared by streamed and whole responses.

Has all keys that Anthropic's specification requires, of the plain and the beta route; keys of
features that are not served are null. Pure.
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

# Whether thinking is left out, shown, or only carried in the signature.
Thoughts = Literal["hidden", "shown", "carried"]

_LIMITS: Final = (pb.Finished.REASON_MAX_TOKENS, pb.Finished.REASON_CONTEXT)
_ARGUMENTS: Final = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True)
class ParsedMessage(Parsed):
    """A request of this dialect.

    Attributes:
        warms: the request only fills the prompt cache (`max_tokens` 0); the message is empty.
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
    """Return a message, complete or at its start."""
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
    """Return the stop reason. A limit takes precedence over calls: the last may be cut."""
    if parsed.warms or finished.reason in _LIMITS:
        return "max_tokens"
    if called:
        return "tool_use"
    matched = finished.reason == pb.Finished.REASON_STOP and finished.stop_string
    return "stop_sequence" if matched else "end_turn"


def stop_fields(reason: str | None, finished: pb.Finished) -> dict[str, Any]:
    """Return the fields on why a message ended; `reason` is None while it has not."""
    return {
        "stop_reason": reason,
        "stop_sequence": finished.stop_string if reason == "stop_sequence" else None,
        "stop_details": None,
        "container": None,
    }


def usage(counts: common.Usage) -> dict[str, Any]:
    """Return the token counts. `input_tokens` excludes tokens read from the cache."""
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
    """Return a content block with its text, thinking or arguments."""
    if start.kind == pb.BlockStart.KIND_TOOL_CALL:
        return {
            "type": "tool_use",
            # Workers and OpenAI use call_…; clients of this dialect expect toolu_…
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
    # The specification allows null, but some clients need a list.
    return {"type": "text", "text": text, "citations": []}


def signature(text: str, thoughts: Thoughts) -> str:
    """Return the signature of a thinking block."""
    return carry(text) if thoughts == "carried" else sign(text)


def tool_input(text: str) -> orjson.Fragment:
    """Return arguments as the model wrote them, or `{}` if they are not a JSON object.

    They are not parsed and rendered again, which could change large numbers.
    """
    try:
        _ARGUMENTS.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return orjson.Fragment(b"{}")
    return orjson.Fragment(text.strip())


def counts(parsed: ParsedMessage, finished: pb.Finished) -> common.Usage:
    """Return the usage of a message; the one token that a warming request samples is left out."""
    given = finished.usage
    if not parsed.warms:
        return given
    return common.Usage(prompt_tokens=given.prompt_tokens, cached_tokens=given.cached_tokens)
