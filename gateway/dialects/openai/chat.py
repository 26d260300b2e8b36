"""OpenAI chat completions: the four functions of the dialect.

Owns the top level of the request and the whole response. wire.py declares fields, conversation.py
reads messages, chunk.py renders the stream. Pure.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import orjson

from gateway.dialects.base import MediaRef, Parsed, Renderer, Stamp
from gateway.dialects.grammar import settle_forced_choice
from gateway.dialects.json_body import decode
from gateway.dialects.openai import chunk, errors, wire
from gateway.dialects.openai.cache import parse_cache
from gateway.dialects.openai.conversation import parse_conversation
from gateway.dialects.openai.grammar import parse_grammar
from gateway.dialects.sampling import (
    invalid,
    parse_budget,
    parse_max_tokens,
    parse_sampling,
    parse_stop,
)
from gateway.dialects.unserved import refuse_unserved
from gateway.generation.fold import Block, Completion
from shared.errors import ServiceError
from shared.pb import text_pb2 as pb

ID_PREFIX: Final = "chatcmpl-"
KNOWN: Final = frozenset(wire.ChatBody.__struct_fields__) | wire.CHAT_IGNORED.keys()

error = errors.error

_BODY: Final = msgspec.json.Decoder(wire.ChatBody)


def parse(body: bytes, stamp: Stamp) -> Parsed:
    """Return the request of a body.

    Raises:
        ServiceError: `invalid_request`, naming the field.
    """
    fields = decode(_BODY, body)
    refuse_unserved(fields, wire.CHAT_REFUSED)
    media: list[MediaRef] = []
    request = pb.GenerateRequest(
        request_id=stamp.request_id,
        chat=parse_conversation(fields, stamp, media),
        sampling=parse_sampling(fields, stamp),
        stop=parse_stop(fields),
        max_tokens=parse_max_tokens(fields),
        grammar=parse_grammar(fields, stamp.policy),
        logprobs=_parse_logprobs(fields),
        reasoning=_parse_reasoning(fields),
        cache=parse_cache(fields, stamp),
        arrival_ns=stamp.arrival_ns,
    )
    settle_forced_choice(request, stamp.policy)
    return Parsed(
        request=request,
        model=fields.model,
        stream=bool(fields.stream),
        include_usage=fields.includes_usage,
        created_unix_s=stamp.unix_s,
        media=media,
        policy=stamp.policy,
    )


def renderer(parsed: Parsed, model: str) -> Renderer:
    return chunk.ChatStream(parsed, model)


def body(parsed: Parsed, model: str, completion: Completion) -> bytes:
    reason = chunk.finish_reason(completion.finished.reason, called=bool(completion.tool_calls()))
    logprobs = chunk.logprobs(completion.infos) if parsed.logprobs else None
    choice = {
        "index": 0,
        "message": _message(parsed, completion),
        "finish_reason": reason,
        "logprobs": logprobs,
    }
    answer = {
        "id": parsed.request.request_id,
        "object": "chat.completion",
        "created": parsed.created_unix_s,
        "model": model,
        "system_fingerprint": None,
        "choices": [choice],
        "usage": chunk.usage(completion.finished.usage, completion.accepted),
    }
    return orjson.dumps(answer)


def _message(parsed: Parsed, completion: Completion) -> dict[str, Any]:
    content = completion.text(pb.BlockStart.KIND_ANSWER)
    reasoning = completion.text(pb.BlockStart.KIND_REASONING)
    calls = completion.tool_calls()
    # A message with tool calls and no text has content null, never "".
    message: dict[str, Any] = {
        "role": "assistant",
        "content": content or (None if calls else ""),
        "refusal": None,
    }
    if reasoning:
        message |= dict.fromkeys(chunk.reasoning_names(parsed.policy), reasoning)
    if calls:
        message["tool_calls"] = [_call(block) for block in calls]
    elif reasoning and not content:
        message["reasoning_only"] = True
    return message


def _call(block: Block) -> dict[str, Any]:
    function = {"name": block.start.tool_name, "arguments": block.text}
    return {"id": block.start.tool_call_id, "type": "function", "function": function}


def _parse_logprobs(fields: wire.ChatBody) -> pb.Logprobs | None:
    top = fields.top_logprobs
    if top is not None and not 0 <= top <= 20:
        raise invalid("top_logprobs", "must be between 0 and 20")
    if not fields.logprobs:
        if top:
            raise ServiceError(
                "invalid_request",
                "top_logprobs requires logprobs to be set to true",
                "top_logprobs",
            )
        return None
    return pb.Logprobs(top=top or 0)


def _parse_reasoning(fields: wire.ChatBody) -> pb.Reasoning:
    extra = fields.extra_body or {}
    effort, enabled = fields.reasoning_effort, fields.enable_thinking
    # Values of other types are ignored here.
    if effort is None and "reasoning_effort" in extra:
        nested = msgspec.json.decode(extra["reasoning_effort"])
        effort = nested if isinstance(nested, str) else None
    if enabled is None and "enable_thinking" in extra:
        enabled = {b"true": True, b"false": False}.get(bytes(extra["enable_thinking"]))
    return pb.Reasoning(budget_tokens=parse_budget(fields), effort=effort, enabled=enabled)
