"""The response object and its output items, for whole and streamed responses.

Owns their keys: those of the REST reference, and those that OpenAI's specification also requires,
null or with their default. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec
import orjson

from gateway.dialects.json_body import compact
from gateway.dialects.openai import chunk
from gateway.dialects.openai.responses import wire
from gateway.dialects.openai.responses.request import (
    ParsedResponse,
    conversation_name,
    schema_fields,
)
from gateway.dialects.openai.responses.tool import name_call, show_choice, show_tools
from gateway.dialects.thought import carry
from gateway.generation.fold import Block, Completion
from shared.pb import common_pb2 as common
from shared.pb import text_pb2 as pb

Status = Literal["in_progress", "completed", "incomplete", "failed", "cancelled"]
ItemStatus = Literal["in_progress", "completed", "incomplete"]
Item = dict[str, Any]

ANSWER: Final = pb.BlockStart.KIND_ANSWER
REASONING: Final = pb.BlockStart.KIND_REASONING
TOOL_CALL: Final = pb.BlockStart.KIND_TOOL_CALL

_FAMILY_DIGITS: Final = 13
_PREFIXES: Final = {ANSWER: "msg", REASONING: "rs", TOOL_CALL: "fc"}
_LIMITS: Final = (pb.Finished.REASON_MAX_TOKENS, pb.Finished.REASON_CONTEXT)


def item_id(prefix: str, request_id: str, index: int) -> str:
    """Return the id of an output item, derived from its index so that a resume repeats it."""
    return f"{prefix}_{item_family(request_id)}{index:03x}"


def item_family(request_id: str) -> str:
    """Return the common part of the ids of all items of a response."""
    return hashlib.sha256(request_id.encode()).hexdigest()[:_FAMILY_DIGITS]


def read_family(name: str) -> str:
    return name.rpartition("_")[2][:_FAMILY_DIGITS]


def make_item(parsed: ParsedResponse, index: int, block: Block, status: ItemStatus) -> Item:
    """Return the output item of a block.

    Args:
        index: of the item in the output.
    """
    kind = block.start.kind
    identity = item_id(_PREFIXES[kind], parsed.request.request_id, index)
    if kind == TOOL_CALL:
        return {
            "id": identity,
            "type": "function_call",
            "call_id": block.start.tool_call_id,
            **name_call(block.start.tool_name, parsed.tools),
            "arguments": block.text,
            "status": status,
        }
    if kind == REASONING:
        content = [{"type": "reasoning_text", "text": block.text}] if block.text else []
        carries = block.text and parsed.carries_thoughts
        carried = {"encrypted_content": carry(block.text)} if carries else {}
        return {
            "id": identity,
            "type": "reasoning",
            "summary": [],
            "content": content,
            **carried,
            "status": status,
        }
    return {
        "id": identity,
        "type": "message",
        "role": "assistant",
        "content": [text_part(block.text, block.infos)] if status != "in_progress" else [],
        "status": status,
    }


def text_part(text: str, infos: Sequence[pb.TokenInfo] = ()) -> dict[str, Any]:
    logprobs = chunk.logprobs(infos)["content"]
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}


def shown_blocks(parsed: ParsedResponse, blocks: Sequence[Block]) -> list[Block]:
    """Return the blocks that become items: non-empty ones, and calls up to `max_tool_calls`."""
    most = parsed.fields.max_tool_calls
    shown: list[Block] = []
    calls = 0
    for block in blocks:
        if block.start.kind == TOOL_CALL:
            calls += 1
            if most is None or calls <= most:
                shown.append(block)
        elif block.text:
            shown.append(block)
    return shown


def empty_answer() -> Block:
    """Return the block of an empty answer."""
    return Block(pb.BlockStart(kind=ANSWER))


def output(parsed: ParsedResponse, completion: Completion, prefix: Sequence[Item]) -> list[Item]:
    """Return the output items of a completion.

    Args:
        prefix: items before those of the model.
    """
    items = list(prefix)
    blocks = shown_blocks(parsed, completion.blocks)
    # Only the last block can be cut, shown or not.
    last = completion.blocks[-1:]
    if not blocks:
        blocks = last = [empty_answer()]
    for block in blocks:
        is_cut = block is last[0] and is_incomplete(completion.finished)
        status: ItemStatus = "incomplete" if is_cut else "completed"
        items.append(make_item(parsed, len(items), block, status))
    return items


def is_incomplete(finished: pb.Finished) -> bool:
    """Return whether a limit ended the generation."""
    return finished.reason in _LIMITS


def finish(
    parsed: ParsedResponse, model: str, items: Sequence[Item], finished: pb.Finished
) -> dict[str, Any]:
    """Return the response object of a generation that finished."""
    cut = is_incomplete(finished)
    timings = finished.timings
    took_ms = timings.queue_ms + timings.prompt_ms + timings.predicted_ms
    return describe(parsed, model, "incomplete" if cut else "completed", items) | {
        "completed_at": None if cut else round(_created(parsed) + took_ms / 1000, 3),
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "usage": usage(finished.usage),
    }


def usage(counts: common.Usage) -> dict[str, Any]:
    return {
        "input_tokens": counts.prompt_tokens,
        "input_tokens_details": {"cached_tokens": counts.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": counts.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": counts.reasoning_tokens},
        "total_tokens": counts.prompt_tokens + counts.completion_tokens,
    }


def describe(
    parsed: ParsedResponse, model: str, status: Status, items: Sequence[Item]
) -> dict[str, Any]:
    """Return a response object without the fields of its end."""
    parts = [part for item in items if item["type"] == "message" for part in item["content"]]
    return {
        "id": parsed.request.request_id,
        "object": "response",
        "created_at": _created(parsed),
        "completed_at": None,
        "status": status,
        "model": model,
        "output": list(items),
        "output_text": "".join(part["text"] for part in parts),
        "usage": None,
        "error": None,
        "incomplete_details": None,
        **_repeat(parsed),
    }


def _repeat(parsed: ParsedResponse) -> dict[str, Any]:
    """Return the fields that a response repeats from its request."""
    fields = parsed.fields
    conversation = conversation_name(fields)
    shown: dict[str, Any] = {
        "background": False,
        "conversation": None if conversation is None else {"id": conversation},
        "instructions": fields.instructions,
        "max_output_tokens": fields.max_output_tokens,
        "max_tool_calls": fields.max_tool_calls,
        "metadata": fields.metadata or {},
        "parallel_tool_calls": fields.parallel_tool_calls is not False,
        "previous_response_id": fields.previous_response_id,
        "reasoning": _show_reasoning(parsed),
        "store": fields.store is not False,
        "temperature": fields.temperature,
        "text": _show_text(parsed),
        "tool_choice": show_choice(parsed.request.chat.tool_choice),
        "tools": show_tools(parsed.tools),
        "top_logprobs": fields.top_logprobs or 0,
        "top_p": fields.top_p,
        "truncation": "disabled",
    }
    for name in ("prompt_cache_key", "safety_identifier", "user"):
        if (value := getattr(fields, name)) is not None:
            shown[name] = value
    return shown


def _created(parsed: ParsedResponse) -> float:
    return round(parsed.request.arrival_ns / 1e9, 3)


def _show_reasoning(parsed: ParsedResponse) -> dict[str, Any]:
    asked = parsed.request.reasoning
    off = asked.HasField("enabled") and not asked.enabled
    summary = parsed.fields.reasoning.summary if parsed.fields.reasoning else None
    return {"effort": "none" if off else asked.effort or None, "summary": summary}


def _show_text(parsed: ParsedResponse) -> dict[str, Any]:
    given = parsed.fields.text or wire.TextConfig()
    shown: dict[str, Any] = {"format": _show_format(given.format or {})}
    if given.verbosity is not None:
        shown["verbosity"] = given.verbosity
    return shown


def _show_format(form: dict[str, msgspec.Raw]) -> dict[str, Any]:
    """Return a format in the flat form."""
    kind = msgspec.json.decode(form.get("type", b"null")) or "text"
    if kind != "json_schema":
        return {"type": kind}
    inner = {name: raw for name, raw in schema_fields(form).items() if name != "type"}
    given = {name: orjson.Fragment(compact(raw)) for name, raw in inner.items()}
    return {"type": kind, "name": "response", "strict": None, **given}
