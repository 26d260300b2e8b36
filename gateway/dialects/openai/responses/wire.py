"""What a Responses body may hold: the fields read, the fields ignored, the fields refused.

Owns the shape of the JSON and nothing of its meaning. The two tables are the whole of the
dialect's policy on fields it does not serve; the documentation is printed from them. Pure data.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from gateway.dialects.openai import wire
from gateway.dialects.unserved import Ignored, Refused


class InputText(msgspec.Struct, tag_field="type", tag="input_text"):
    """Plain text from outside."""

    text: str


class OutputText(msgspec.Struct, tag_field="type", tag="output_text"):
    """Plain text of an earlier answer."""

    text: str


class InputImage(msgspec.Struct, tag_field="type", tag="input_image"):
    """An image by its address; uploaded files there are none."""

    image_url: str | wire.ImageUrl | None = None
    file_id: str | None = None
    detail: Literal["low", "high", "auto"] | None = None


class InputFile(msgspec.Struct, tag_field="type", tag="input_file"):
    """A document; known only to be refused."""


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
    """What tells one kind of item from another: without a type, a role means a message."""

    type: str | None = None
    role: Any = None


class MessageItem(msgspec.Struct):
    """What somebody says."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[Part] | None = None


class CallItem(msgspec.Struct):
    """A function the model called; the arguments as a string of JSON, or as the object itself."""

    call_id: str
    name: str
    namespace: str | None = None
    arguments: msgspec.Raw = msgspec.Raw(b'""')


class CallOutputItem(msgspec.Struct):
    """What a function gave back."""

    call_id: str
    output: str | list[msgspec.Raw]


class ThoughtPart(msgspec.Struct):
    """A piece of thoughts."""

    text: str
    type: Literal["reasoning_text"] | None = None


class ReasoningItem(msgspec.Struct):
    """Thoughts before an answer or a call. Where they have no text, the content carries them."""

    content: list[ThoughtPart] | None = None
    encrypted_content: str | None = None


class CompactionItem(msgspec.Struct):
    """What stands for everything before it."""

    encrypted_content: str


class ReferenceItem(msgspec.Struct):
    """An item of an earlier answer, by its id."""

    id: str


class FunctionTool(msgspec.Struct):
    """A function the model may call."""

    name: str
    description: str | None = None
    # Kept as it was written: the order of keys is what the model reads.
    parameters: msgspec.Raw = msgspec.Raw(b"null")
    strict: bool | None = None


class NamespaceTool(msgspec.Struct):
    """Functions under a name of their own, as those of one MCP server."""

    name: str
    tools: list[msgspec.Raw]
    description: str | None = None


class Reasoning(msgspec.Struct):
    """Whether and how much to think."""

    effort: str | bool | int | None = None
    summary: str | None = None


class TextConfig(msgspec.Struct):
    """The form of the answer's text."""

    format: dict[str, msgspec.Raw] | None = None
    verbosity: str | None = None


class ConversationRef(msgspec.Struct):
    """A conversation by its name."""

    id: str


class ContextEdit(msgspec.Struct):
    """When to compact the history."""

    type: Literal["compaction"]
    compact_threshold: int | None = None


class ResponseBody(wire.TurnFields, kw_only=True):
    """The body of a response, also of one that is only counted."""

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
    # Looked at only to be refused: see RESPONSE_REFUSED.
    background: Any = None
    truncation: Any = None
    prompt: Any = None


class CompactBody(wire.TurnFields, kw_only=True):
    """The body of a compaction."""

    input: str | list[msgspec.Raw]
    instructions: str | None = None
    keep_tokens: int | None = None
    max_output_tokens: int | None = None
    # Looked at only to be refused: see COMPACT_REFUSED.
    previous_response_id: Any = None
    conversation: Any = None


# Known fields without effect here, and why that is right.
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

# Known fields that would change the answer and are not served: the values that ask for nothing,
# and what to say to the others.
RESPONSE_REFUSED: Final[Refused] = {
    **wire.REFUSED_EVERYWHERE,
    "background": ((False,), "is not supported: a response is made while its client waits"),
    "truncation": (("disabled", ""), 'must be "disabled": nothing is dropped silently'),
    "prompt": ((), "is not supported: no prompt templates are stored here"),
}
COMPACT_REFUSED: Final[Refused] = {
    **wire.REFUSED_EVERYWHERE,
    "stream": ((False,), "is not supported: a compaction comes as a whole"),
    "previous_response_id": ((), "is not supported: send the whole history as input"),
    "conversation": ((), "is not supported: send the whole history as input"),
}
