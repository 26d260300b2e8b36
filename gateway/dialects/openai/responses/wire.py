"""The fields of a Responses body: those read, ignored and refused.

Owns the form of the JSON, not its meaning. The tables list the known fields that are not served;
the documentation is generated from them. Pure data.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from gateway.dialects.openai import wire
from gateway.dialects.unserved import Ignored, Refused


class InputText(msgspec.Struct, tag_field="type", tag="input_text"):
    """Text of an input message."""

    text: str


class OutputText(msgspec.Struct, tag_field="type", tag="output_text"):
    """Text of an earlier answer."""

    text: str


class InputImage(msgspec.Struct, tag_field="type", tag="input_image"):
    """An image by its address; uploaded files are not supported."""

    image_url: str | wire.ImageUrl | None = None
    file_id: str | None = None
    detail: Literal["low", "high", "auto"] | None = None


class InputFile(msgspec.Struct, tag_field="type", tag="input_file"):
    """A document; always refused."""


Part = (
    InputText
    | OutputText
    | InputImage
    | InputFile
    | wire.TextPart
    | wire.RefusalPart
    | wire.ImagePart
    | wire.VideoPart
    | wire.AudioPart
)


class ItemHead(msgspec.Struct):
    """The fields that identify the kind of an item; without a type, a role means a message."""

    type: str | None = None
    role: Any = None


class MessageItem(msgspec.Struct):
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[Part] | None = None


class CallItem(msgspec.Struct):
    """A function call of the model; its arguments are a JSON string or an object."""

    call_id: str
    name: str
    namespace: str | None = None
    arguments: msgspec.Raw = msgspec.Raw(b'""')


class CallOutputItem(msgspec.Struct):
    """The result of a function call."""

    call_id: str
    output: str | list[msgspec.Raw]


class ThoughtPart(msgspec.Struct):
    """A piece of reasoning."""

    text: str
    type: Literal["reasoning_text"] | None = None


class ReasoningItem(msgspec.Struct):
    """Reasoning before an answer or a call; without text the encrypted content carries it."""

    content: list[ThoughtPart] | None = None
    encrypted_content: str | None = None


class CompactionItem(msgspec.Struct):
    """Replaces all items before it."""

    encrypted_content: str


class ReferenceItem(msgspec.Struct):
    """An item of an earlier response, by id."""

    id: str


class FunctionTool(msgspec.Struct):
    name: str
    description: str | None = None
    # Kept unchanged, since the model reads the keys in this order.
    parameters: msgspec.Raw = msgspec.Raw(b"null")
    strict: bool | None = None


class NamespaceTool(msgspec.Struct):
    """Functions in a namespace, such as those of one MCP server."""

    name: str
    tools: list[msgspec.Raw]
    description: str | None = None


class Reasoning(msgspec.Struct):
    effort: str | bool | int | None = None
    summary: str | None = None


class TextConfig(msgspec.Struct):
    format: dict[str, msgspec.Raw] | None = None
    verbosity: str | None = None


class ConversationRef(msgspec.Struct):
    id: str


class ContextEdit(msgspec.Struct):
    """When to compact the history."""

    type: Literal["compaction"]
    compact_threshold: int | None = None


class ResponseBody(wire.TurnFields, kw_only=True):
    """The body of a response or of a token count."""

    input: str | list[msgspec.Raw] | None = None
    instructions: str | None = None
    previous_response_id: str | None = None
    conversation: str | ConversationRef | None = None
    store: bool | None = None
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    metadata: dict[str, str] | None = None
    reasoning: Reasoning | None = None
    text: TextConfig | None = None
    include: list[str] | None = None
    context_management: list[ContextEdit] | None = None
    safety_identifier: str | None = None
    # Read only to be refused: see RESPONSE_REFUSED.
    background: Any = None
    truncation: Any = None
    prompt: Any = None


class CompactBody(wire.TurnFields, kw_only=True):
    input: str | list[msgspec.Raw]
    instructions: str | None = None
    keep_tokens: int | None = None
    max_output_tokens: int | None = None
    # Read only to be refused: see COMPACT_REFUSED.
    previous_response_id: Any = None
    conversation: Any = None


# Known fields without effect, and the reason.
RESPONSE_IGNORED: Final[Ignored] = {
    **{
        name: why
        for name, why in wire.IGNORED_EVERYWHERE.items()
        if name not in ("store", "metadata")
    },
    "prompt_cache_options": "the cache's own limits apply",
    "reasoning_format": "set for the whole server",
    "reasoning_in_content": "set for the whole server",
}

# Known fields that would change the answer and are not supported: the values without effect, and
# the message for all others.
RESPONSE_REFUSED: Final[Refused] = {
    **wire.REFUSED_EVERYWHERE,
    "background": ((False,), "is not supported: leave it out"),
    "truncation": (("disabled", ""), 'must be "disabled": items are not dropped'),
    "prompt": ((), "is not supported: prompt templates are not stored"),
}
COMPACT_REFUSED: Final[Refused] = {
    **wire.REFUSED_EVERYWHERE,
    "stream": ((False,), "is not supported: a compaction is not streamed"),
    "previous_response_id": ((), "is not supported: send the whole history as input"),
    "conversation": ((), "is not supported: send the whole history as input"),
}
