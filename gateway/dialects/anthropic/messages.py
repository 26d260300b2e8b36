"""Anthropic Messages: the four functions of the dialect.

Owns the top level of the request and the whole message. wire.py declares fields, conversation.py
reads turns, tool.py reads tools, event.py renders the stream. Pure.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import orjson

from gateway.dialects.anthropic import answer, errors, wire
from gateway.dialects.anthropic.conversation import Conversation, continues
from gateway.dialects.anthropic.event import MessageStream
from gateway.dialects.anthropic.tool import (
    allows_parallel,
    named_tool,
    parse_tool_choice,
    parse_tools,
)
from gateway.dialects.base import Renderer, Stamp
from gateway.dialects.grammar import parse_schema, settle_forced_choice
from gateway.dialects.json_body import decode
from gateway.dialects.sampling import (
    invalid,
    parse_budget,
    parse_max_tokens,
    parse_sampling,
    parse_stop,
)
from gateway.dialects.unserved import refuse_unserved
from gateway.generation.fold import Completion
from shared.errors import ServiceError
from shared.pb import text_pb2 as pb

ID_PREFIX: Final = "msg_"
KNOWN: Final = frozenset(wire.MessagesBody.__struct_fields__) | wire.MESSAGES_IGNORED.keys()

error = errors.error

_BODY: Final = msgspec.json.Decoder(wire.MessagesBody)
_INT32_MAX: Final = 2**31 - 1


def parse(body: bytes, stamp: Stamp) -> answer.ParsedMessage:
    """Return the request of a body.

    Raises:
        ServiceError: `invalid_request`, naming the field.
    """
    fields = decode(_BODY, body)
    refuse_unserved(fields, wire.MESSAGES_REFUSED)
    warms = fields.max_tokens == 0
    if warms:
        # The prefill needs a limit of at least one; the sampled token is not shown.
        fields.max_tokens = 1
    conversation = Conversation(fields)
    request = pb.GenerateRequest(
        request_id=stamp.request_id,
        chat=_parse_chat(fields, conversation, stamp),
        sampling=parse_sampling(fields, stamp),
        stop=_parse_stop(fields),
        max_tokens=parse_max_tokens(fields),
        grammar=_parse_grammar(fields),
        reasoning=_parse_reasoning(fields),
        cache=stamp.cache_policy(enabled=fields.cache_prompt, session=_user_id(fields.metadata)),
        arrival_ns=stamp.arrival_ns,
    )
    settle_forced_choice(request, stamp.policy)
    return answer.ParsedMessage(
        request=request,
        model=fields.model,
        stream=bool(fields.stream),
        include_usage=True,
        created_unix_s=stamp.unix_s,
        media=conversation.media,
        policy=stamp.policy,
        thoughts=_thoughts(fields.thinking),
        warms=warms,
    )


def renderer(parsed: answer.ParsedMessage, model: str) -> Renderer:
    return MessageStream(parsed, model)


def body(parsed: answer.ParsedMessage, model: str, completion: Completion) -> bytes:
    shown = [block for block in completion.blocks if parsed.shows(block.start.kind)]
    content = [answer.block(block.start, block.text, parsed.thoughts) for block in shown]
    if not content and not parsed.warms:
        content = [answer.block(pb.BlockStart(kind=pb.BlockStart.KIND_ANSWER))]
    finished = completion.finished
    called = any(block.start.kind == pb.BlockStart.KIND_TOOL_CALL for block in shown)
    reason = answer.stop_reason(parsed, finished, called=called)
    stop = answer.stop_fields(reason, finished)
    counts = answer.whole_usage(answer.counts(parsed, finished))
    return orjson.dumps(answer.message(parsed, model, content, stop, counts))


def _parse_chat(
    fields: wire.MessagesBody, conversation: Conversation, stamp: Stamp
) -> pb.ChatPrompt:
    messages = conversation.to_messages()
    used = conversation.used_tools | {named_tool(fields.tool_choice)}
    tools = parse_tools(fields.tools or [], used)
    return pb.ChatPrompt(
        messages=messages,
        tools=tools,
        tool_choice=parse_tool_choice(fields.tool_choice, tools),
        template_time_unix_s=stamp.unix_s,
        add_generation_prompt=not continues(messages),
        parallel_tool_calls=allows_parallel(fields.tool_choice),
    )


def _parse_stop(fields: wire.MessagesBody) -> pb.Stop:
    stop = parse_stop(fields)
    stop.strings.extend(filter(None, fields.stop_sequences or ()))
    return stop


def _parse_grammar(fields: wire.MessagesBody) -> pb.Grammar | None:
    config = fields.output_config
    if config is not None and config.format is not None:
        where = "output_config.format"
        return parse_schema(config.format.schema, f"{where}.schema", where)
    if fields.output_format is not None:
        return parse_schema(fields.output_format.schema, "output_format.schema", "output_format")
    return None


def _parse_reasoning(fields: wire.MessagesBody) -> pb.Reasoning:
    thinking, config = fields.thinking, fields.output_config
    reasoning = pb.Reasoning(
        budget_tokens=parse_budget(fields), effort=config.effort if config is not None else None
    )
    if thinking is not None:
        reasoning.enabled = thinking.type != "disabled"
        if thinking.type == "enabled" and thinking.budget_tokens is not None:
            reasoning.budget_tokens = _budget(thinking.budget_tokens, parse_max_tokens(fields))
    return reasoning


def _budget(tokens: int, max_tokens: int | None) -> int:
    name = "thinking.budget_tokens"
    if tokens < 0:
        raise invalid(name, "must be >= 0")
    if max_tokens is not None and tokens > max_tokens:
        raise ServiceError(
            "invalid_request", f"{name} ({tokens}) must be <= max_tokens ({max_tokens})", name
        )
    return min(tokens, _INT32_MAX)


def _thoughts(thinking: wire.Thinking | None) -> answer.Thoughts:
    if thinking is None or thinking.type == "disabled":
        return "hidden"
    return "carried" if thinking.display == "omitted" else "shown"


def _user_id(metadata: Any) -> str:
    """Return the user id, which may separate prompt caches; other metadata is ignored."""
    name = metadata.get("user_id") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""
