"""The fields of an Anthropic Messages body: those read, ignored and refused.

Owns the form of the JSON, not its meaning. Content blocks are decoded one by one: unknown types are
skipped, since every release of the clients adds some. The two tables at the end list the known
fields that are not served; the documentation is generated from them. Pure data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from gateway.dialects.sampling import SamplingFields
from gateway.dialects.unserved import Ignored, Refused


class Kind(msgspec.Struct):
    """The field that every block has."""

    type: str


class TextBlock(msgspec.Struct):
    """Plain text."""

    text: str


class MediaSource(msgspec.Struct):
    """The content of an image or a document, or its address."""

    type: str
    data: str | None = None
    media_type: str | None = None
    url: str | None = None
    content: str | list[msgspec.Raw] | None = None


class ImageBlock(msgspec.Struct):
    source: MediaSource


class DocumentBlock(msgspec.Struct):
    source: MediaSource
    title: str | None = None


class SearchResultBlock(msgspec.Struct):
    """A result of the client's own search."""

    content: list[TextBlock]
    title: str = ""
    source: str = ""


class ToolUseBlock(msgspec.Struct):
    """A tool call of an assistant turn."""

    name: str
    id: str = ""
    input: msgspec.Raw = msgspec.Raw(b"{}")


class ToolResultBlock(msgspec.Struct):
    """The result of a tool call."""

    tool_use_id: str
    content: str | list[msgspec.Raw] | None = None


class ToolReferenceBlock(msgspec.Struct):
    """A deferred tool that the client's own search has found."""

    tool_name: str


class ThinkingBlock(msgspec.Struct):
    """Thinking of an assistant turn; if empty, the signature may carry it."""

    thinking: str = ""
    signature: str = ""


class CompactionBlock(msgspec.Struct):
    """A summary that replaces the turns before it; null for none."""

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

# Types of block that are read in each kind of content.
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
# Inside a document that consists of blocks.
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
    role: Literal["user", "assistant", "system", "developer"]
    content: Content = None
    clear_at: str | None = None


class AnthropicTool(msgspec.Struct):
    """A tool. One without a schema runs on Anthropic's servers, not here."""

    name: str | None = None
    description: str | None = None
    input_schema: msgspec.Raw = msgspec.Raw(b"null")
    type: str | None = None
    defer_loading: bool | None = None


class Thinking(msgspec.Struct):
    """Whether and how much to think, and whether to show it."""

    type: Literal["enabled", "adaptive", "between_tools", "disabled"]
    budget_tokens: int | None = None
    display: str | None = None


class OutputFormat(msgspec.Struct):
    """The schema of the answer."""

    type: Literal["json_schema"]
    schema: msgspec.Raw


class OutputConfig(msgspec.Struct):
    effort: str | None = None
    format: OutputFormat | None = None


class MessagesBody(SamplingFields, kw_only=True):
    """The body of a message or of a token count."""

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
    # Read only to be refused: see MESSAGES_REFUSED.
    compaction: Any = None
    thread: Any = None


# Known fields without effect, and the reason.
MESSAGES_IGNORED: Final[Ignored] = {
    "betas": "they change nothing here",
    "billing_policy": "nothing is billed",
    "cache_control": "every prompt is cached",
    "container": "containers are not supported",
    "context_management": "the history is used as it is sent",
    "diagnostics": "the cache reports no diagnostics",
    "fallbacks": "there is no fallback model",
    "fallback_credit_token": "nothing is billed",
    "inference_geo": "inference is local",
    "mcp_servers": "this server connects to no other server",
    "service_tier": "there is one tier",
    "speed": "there is one speed",
    "user_profile_id": "not evaluated",
    "workspace_id": "not evaluated",
}

# Known fields that would change the answer and are not supported.
MESSAGES_REFUSED: Final[Refused] = {
    "compaction": ((), "is not supported: ask for a summary in a message"),
    "thread": ((), "is not supported: send the whole conversation, which is not stored"),
}
