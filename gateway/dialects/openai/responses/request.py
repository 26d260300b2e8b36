"""A Responses body and the history it continues, as a canonical request.

Parsing has two steps: `read` checks what does not depend on the history, `make` combines both. In
between the route fetches the history and references. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import orjson

from gateway.dialects import json_body
from gateway.dialects.base import MediaRef, Parsed, Policy, Stamp
from gateway.dialects.conversation import check_piece_count, require_input
from gateway.dialects.grammar import parse_json_object, parse_schema, settle_forced_choice
from gateway.dialects.openai.cache import parse_cache
from gateway.dialects.openai.conversation import (
    parse_template_kwargs,
    parse_tool_choice,
)
from gateway.dialects.openai.grammar import TYPE_RULE, parse_grammar
from gateway.dialects.openai.responses import wire
from gateway.dialects.openai.responses.capsule import expand
from gateway.dialects.openai.responses.item import parse_items
from gateway.dialects.openai.responses.tool import ResponseTool, nest_choice, parse_tool, read_tools
from gateway.dialects.sampling import (
    invalid,
    parse_budget,
    parse_max_tokens,
    parse_sampling,
    parse_stop,
)
from gateway.dialects.unserved import refuse_unserved
from shared.errors import ServiceError
from shared.pb import text_pb2 as pb

_MAX_METADATA: Final = 16
_MAX_NAME_CHARACTERS: Final = 512
# The largest integer that every JSON reader preserves.
_LARGEST: Final = 2**53
_MAX_THRESHOLD: Final = 100_000_000
_WANTS_LOGPROBS: Final = "message.output_text.logprobs"
_WANTS_CARRIED: Final = "reasoning.encrypted_content"
_NO_THOUGHTS: Final = frozenset(("none", "off", "disabled", "false", "0"))

_BODY: Final = msgspec.json.Decoder(wire.ResponseBody)
_ANY: Final = msgspec.json.Decoder(Any)
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


@dataclass(frozen=True, kw_only=True)
class ParsedResponse(Parsed):
    """A request, and the fields that its response repeats or later requests need.

    Attributes:
        items: history and input as JSON.
    """

    fields: wire.ResponseBody
    tools: list[ResponseTool]
    items: list[msgspec.Raw]

    @property
    def carries_thoughts(self) -> bool:
        """Whether the response carries reasoning as encrypted content, which clients send back."""
        return _WANTS_CARRIED in (self.fields.include or ())


def read(data: bytes) -> wire.ResponseBody:
    """Return the fields of a body.

    Raises:
        ServiceError: `invalid_request`, naming the field.
    """
    fields = json_body.decode(_BODY, data)
    refuse_unserved(fields, wire.RESPONSE_REFUSED)
    check_piece_count(len(input_items(fields.input)), "input")
    _check_reference(fields)
    if len(fields.metadata or ()) > _MAX_METADATA:
        raise invalid("metadata", f"must not have more than {_MAX_METADATA} entries")
    check_count("max_output_tokens", fields.max_output_tokens, 1, _LARGEST)
    check_count("max_tool_calls", fields.max_tool_calls, 1, _LARGEST)
    check_count("top_logprobs", fields.top_logprobs, 0, 20)
    edits = fields.context_management or []
    if len(edits) > 1:
        raise invalid("context_management", "must not have more than one entry")
    for edit in edits:
        name = "context_management[0].compact_threshold"
        check_count(name, edit.compact_threshold, 1, _MAX_THRESHOLD)
    if parse_max_tokens(fields) is None:
        fields.max_tokens = fields.max_output_tokens
    return fields


def _check_reference(fields: wire.ResponseBody) -> None:
    """Check the history that the body continues, of which there may be one, and the input."""
    name = conversation_name(fields)
    if name is not None and fields.previous_response_id is not None:
        raise invalid("previous_response_id", "can't be combined with conversation")
    if name is not None and not 0 < len(name) <= _MAX_NAME_CHARACTERS:
        raise invalid("conversation", f"must have 1 to {_MAX_NAME_CHARACTERS} characters")
    if fields.input is None and name is None and fields.previous_response_id is None:
        raise ServiceError("invalid_request", "input: is required", "input")


def conversation_name(fields: wire.ResponseBody) -> str | None:
    """Return the name of a body's conversation, given as a string or an object."""
    named = fields.conversation
    return named.id if isinstance(named, wire.ConversationRef) else named


def check_count(field: str, value: int | None, least: int, most: int) -> None:
    """Refuse an integer that is out of range."""
    if value is not None and not least <= value <= most:
        raise invalid(field, f"must be between {least} and {most}")


def input_items(given: str | list[msgspec.Raw] | None) -> list[msgspec.Raw]:
    """Return an input as items; a string is a user message."""
    if isinstance(given, list):
        return given
    if not given:
        return []
    message = {"type": "message", "role": "user", "content": given}
    return [msgspec.Raw(orjson.dumps(message))]


def make(fields: wire.ResponseBody, items: list[msgspec.Raw], stamp: Stamp) -> ParsedResponse:
    """Return the request of a body.

    Args:
        items: of the history and of the input.

    Raises:
        ServiceError: `invalid_request`, naming the field.
    """
    media: list[MediaRef] = []
    tools = read_tools(fields.tools or [], stamp.policy)
    chat = make_prompt(fields, items, stamp, media)
    _add_tools(fields, tools, chat)
    request = pb.GenerateRequest(
        request_id=stamp.request_id,
        chat=chat,
        sampling=parse_sampling(fields, stamp),
        stop=parse_stop(fields),
        max_tokens=parse_max_tokens(fields),
        grammar=_parse_grammar(fields, stamp.policy),
        logprobs=_parse_logprobs(fields),
        reasoning=_parse_reasoning(fields),
        cache=parse_cache(fields, stamp),
        arrival_ns=stamp.arrival_ns,
    )
    settle_forced_choice(request, stamp.policy)
    return ParsedResponse(
        request=request,
        model=fields.model,
        stream=bool(fields.stream),
        include_usage=True,
        created_unix_s=stamp.unix_s,
        media=media,
        policy=stamp.policy,
        fields=fields,
        tools=tools,
        items=items,
    )


def _add_tools(
    fields: wire.ResponseBody, tools: Sequence[ResponseTool], chat: pb.ChatPrompt
) -> None:
    """Add the tools and the tool choice to a prompt."""
    chat.tools.extend(map(parse_tool, tools))
    chat.tool_choice.CopyFrom(parse_tool_choice(nest_choice(fields.tool_choice), list(chat.tools)))
    if fields.parallel_tool_calls is not None:
        chat.parallel_tool_calls = fields.parallel_tool_calls


def make_prompt(
    fields: wire.ResponseBody | wire.CompactBody,
    items: Sequence[msgspec.Raw],
    stamp: Stamp,
    media: list[MediaRef],
) -> pb.ChatPrompt:
    """Return the prompt of instructions and items, without tools.

    Raises:
        ServiceError: `invalid_request`, naming the field.
    """
    # Items of the history were checked when they were stored.
    offset = len(items) - len(input_items(fields.input))

    def name_path(index: int) -> str:
        input_index = index - offset
        return f"input[{input_index}]" if input_index >= 0 else f"history[{index}]"

    replayed, name_replayed = expand(items, name_path)
    turns = parse_items(replayed, media, name_replayed)
    if fields.instructions:
        turns.insert(0, pb.Message(role="system", parts=[pb.Part(text=fields.instructions)]))
    require_input(turns, "input")
    return pb.ChatPrompt(
        messages=_merge_system(turns),
        tool_choice=pb.ToolChoice(mode=pb.ToolChoice.MODE_NONE),
        template_kwargs_json=parse_template_kwargs(fields),
        template_time_unix_s=stamp.unix_s,
        add_generation_prompt=True,
    )


def _merge_system(turns: list[pb.Message]) -> list[pb.Message]:
    """Join the system turns at the start: many templates accept only one."""
    count = next((i for i, turn in enumerate(turns) if turn.role != "system"), len(turns))
    if count < 2:
        return turns
    texts = ["".join(part.text for part in turn.parts) for turn in turns[:count]]
    text = "\n\n".join(filter(None, texts))
    return [pb.Message(role="system", parts=[pb.Part(text=text)]), *turns[count:]]


def _parse_grammar(fields: wire.ResponseBody, policy: Policy) -> pb.Grammar | None:
    """Return the constraint of `text.format` or of the equivalent chat fields."""
    other = parse_grammar(fields, policy)
    found = _parse_format(fields.text.format, policy) if fields.text else None
    if found is not None and other is not None:
        raise invalid("text.format", "can't be combined with another structured output")
    return found or other


def _parse_format(form: dict[str, msgspec.Raw] | None, policy: Policy) -> pb.Grammar | None:
    kind = (
        json_body.decode(_ANY, form["type"], "text.format.type")
        if form and "type" in form
        else None
    )
    if form is None or kind in (None, "text"):
        return None
    if kind == "json_object" and policy.json_object:
        return parse_json_object(form, "text.format", "text.format")
    if kind != "json_schema":
        sentence = f"invalid text.format: {TYPE_RULE}"
        raise ServiceError("invalid_request", sentence, "text.format.type")
    inner = schema_fields(form)
    if "schema" not in inner:
        raise invalid("text.format.schema", "is required")
    return parse_schema(inner["schema"], "text.format.schema", "text.format")


def schema_fields(form: dict[str, msgspec.Raw]) -> dict[str, msgspec.Raw]:
    """Return the fields of a json_schema format, which may be nested as in chat."""
    if "json_schema" not in form:
        return form
    return json_body.decode(_OBJECT, form["json_schema"], "text.format.json_schema")


def _parse_logprobs(fields: wire.ResponseBody) -> pb.Logprobs | None:
    top = fields.top_logprobs or 0
    wanted = top > 0 or _WANTS_LOGPROBS in (fields.include or ())
    return pb.Logprobs(top=top) if wanted else None


def _parse_reasoning(fields: wire.ResponseBody) -> pb.Reasoning:
    reasoning = pb.Reasoning(budget_tokens=parse_budget(fields))
    effort = fields.reasoning.effort if fields.reasoning else None
    if effort is not None:
        reasoning.enabled = str(effort).lower() not in _NO_THOUGHTS
        if reasoning.enabled:
            reasoning.effort = str(effort)
    return reasoning
