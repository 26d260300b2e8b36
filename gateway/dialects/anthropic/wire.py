"""What an Anthropic Messages body may hold: the fields read, the fields ignored, those refused.

Owns the shape of the JSON and nothing of its meaning. Content blocks are looked at one by one:
those of a kind that is not named for their place are passed over, as new kinds come with every
release of the clients. The two tables at the end are the whole of the dialect's policy on fields
it does not serve; the documentation is printed from them. Pure data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from gateway.dialects.sampling import SamplingFields
from gateway.dialects.unserved import Ignored, Refused


class Kind(msgspec.Struct):
    """What every block has."""

    type: str


class TextBlock(msgspec.Struct):
    """Plain text."""

    text: str


class MediaSource(msgspec.Struct):
    """Where the content of an image or a document is."""

    type: str
    data: str | None = None
    media_type: str | None = None
    url: str | None = None
    content: str | list[msgspec.Raw] | None = None


class ImageBlock(msgspec.Struct):
    """An image."""

    source: MediaSource


class DocumentBlock(msgspec.Struct):
    """A document."""

    source: MediaSource
    title: str | None = None


class SearchResultBlock(msgspec.Struct):
    """What the client's own search has found."""

    content: list[TextBlock]
    title: str = ""
    source: str = ""


class ToolUseBlock(msgspec.Struct):
    """A call an assistant turn made."""

    name: str
    id: str = ""
    input: msgspec.Raw = msgspec.Raw(b"{}")


class ToolResultBlock(msgspec.Struct):
    """What a call has given."""

    tool_use_id: str
    content: str | list[msgspec.Raw] | None = None


class ToolReferenceBlock(msgspec.Struct):
    """A deferred tool that the client's own search has found."""

    tool_name: str


class ThinkingBlock(msgspec.Struct):
    """Thoughts of an assistant turn. Empty ones may be carried by their signature."""

    thinking: str = ""
    signature: str = ""


class CompactionBlock(msgspec.Struct):
    """A summary that stands for what came before; null when there is none."""

    content: str | None = None


Block = (
    TextBlock
    | ImageBlock
    | DocumentBlock
    | SearchResultBlock
    | ToolUseBlock
    | ToolResultBlock
    | ToolReferenceBlock
    | ThinkingBlock
    | CompactionBlock
)

# Place → the kinds of block that are read there.
SYSTEM_BLOCKS: Final[Mapping[str, type[Block]]] = {"text": TextBlock}
ASSISTANT_BLOCKS: Final[Mapping[str, type[Block]]] = {
    "text": TextBlock,
    "thinking": ThinkingBlock,
    "tool_use": ToolUseBlock,
    "compaction": CompactionBlock,
}
USER_BLOCKS: Final[Mapping[str, type[Block]]] = {
    "text": TextBlock,
    "image": ImageBlock,
    "document": DocumentBlock,
    "search_result": SearchResultBlock,
    "tool_result": ToolResultBlock,
    "compaction": CompactionBlock,
}
# Inside a document that is made of blocks.
SOURCE_BLOCKS: Final[Mapping[str, type[Block]]] = {"text": TextBlock, "image": ImageBlock}
RESULT_BLOCKS: Final[Mapping[str, type[Block]]] = {
    "text": TextBlock,
    "image": ImageBlock,
    "document": DocumentBlock,
    "search_result": SearchResultBlock,
    "tool_reference": ToolReferenceBlock,
}

Content = str | list[msgspec.Raw] | None


class AnthropicMessage(msgspec.Struct):
    """One turn."""

    role: Literal["user", "assistant", "system", "developer"]
    content: Content = None
    clear_at: str | None = None


class AnthropicTool(msgspec.Struct):
    """A tool. One without a schema runs on Anthropic's servers, and not here."""

    name: str | None = None
    description: str | None = None
    input_schema: msgspec.Raw = msgspec.Raw(b"null")
    type: str | None = None
    defer_loading: bool | None = None


class Thinking(msgspec.Struct):
    """Whether to think, how much, and whether to show it."""

    type: Literal["enabled", "adaptive", "between_tools", "disabled"]
    budget_tokens: int | None = None
    display: str | None = None


class OutputFormat(msgspec.Struct):
    """What the answer's text must be."""

    type: Literal["json_schema"]
    schema: msgspec.Raw


class OutputConfig(msgspec.Struct):
    """How to answer."""

    effort: str | None = None
    format: OutputFormat | None = None


class MessagesBody(SamplingFields, kw_only=True):
    """The body of a message, and of a count of its tokens."""

    messages: list[AnthropicMessage]
    model: str | None = None
    system: Content = None
    stream: bool | None = None
    stop_sequences: list[str] | None = None
    tools: list[msgspec.Raw] | None = None
    tool_choice: Any = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    output_format: OutputFormat | None = None
    metadata: Any = None
    cache_prompt: bool | None = None
    # Looked at only to be refused: see MESSAGES_REFUSED.
    compaction: Any = None
    thread: Any = None


# Known fields without effect here, and why that is right.
MESSAGES_IGNORED: Final[Ignored] = {
    "betas": "what is served does not depend on them",
    "billing_policy": "nothing is billed",
    "cache_control": "every prompt is cached",
    "container": "there are no containers",
    "context_management": "the client's own history is used as it is sent",
    "diagnostics": "the cache does not explain its misses",
    "fallbacks": "there is no other model to fall back to",
    "fallback_credit_token": "nothing is billed",
    "inference_geo": "inference happens here",
    "mcp_servers": "this server connects to no other",
    "service_tier": "there is one tier",
    "speed": "there is one speed",
    "user_profile_id": "not evaluated",
    "workspace_id": "not evaluated",
}

# Known fields that would change the answer and are not served.
MESSAGES_REFUSED: Final[Refused] = {
    "compaction": ((), "is not supported: ask for a summary in a message"),
    "thread": ((), "is not supported: send the whole conversation, nothing is kept of it here"),
}
