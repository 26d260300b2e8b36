"""System text and messages of an Anthropic body, as canonical messages.

Owns the allowed content and its order for the chat template. Consecutive turns of one role are
merged, as Anthropic does, and tool results precede the text beside them. System text in the middle
of a conversation is added at its position, to the end of the preceding user turn or the start of
the following one, so that the same history gives the same prompt prefix later. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from gateway.dialects import json_body
from gateway.dialects.anthropic import wire
from gateway.dialects.base import MediaRef
from gateway.dialects.conversation import check_piece_count, require_input
from gateway.dialects.thought import recall
from shared.errors import ServiceError
from shared.pb import common_pb2 as common
from shared.pb import text_pb2 as pb

# Claude Code starts its system text with account lines that differ in every call, which would
# prevent reuse of the prompt cache.
_ACCOUNTS: Final = re.compile(r"\A(?:\s*x-anthropic-[\w-]+:[^\n]*(?:\n|\Z))+")

_ANY: Final = msgspec.json.Decoder(Any)
_KIND: Final = msgspec.json.Decoder(wire.Kind)
_DECODERS: Final[dict[type[wire.Block], msgspec.json.Decoder[Any]]] = {
    shape: msgspec.json.Decoder(shape)
    for shapes in (
        wire.SYSTEM_BLOCKS,
        wire.USER_BLOCKS,
        wire.ASSISTANT_BLOCKS,
        wire.RESULT_BLOCKS,
    )
    for shape in shapes.values()
}


@dataclass
class MessageTurn:
    """A message under construction. Texts are joined once, at the end."""

    role: str
    tool_call_id: str | None = None
    parts: list[list[str] | pb.Part] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[pb.ToolCall] = field(default_factory=list)
    # Separator before the next text.
    _gap: str = "\n"

    def add_text(self, text: str) -> None:
        """Add text, on a line of its own."""
        if not text:
            return
        if self.parts and isinstance(self.parts[-1], list):
            self.parts[-1] += (self._gap, text)
        else:
            self.parts.append([text])
        self._gap = "\n"

    def add_paragraph(self, text: str) -> None:
        """Add text, with an empty line before and after it."""
        self._gap = "\n\n"
        self.add_text(text)
        self._gap = "\n\n"

    def to_message(self) -> pb.Message:
        """Return the canonical form."""
        message = pb.Message(role=self.role, tool_call_id=self.tool_call_id, tool_calls=self.calls)
        for part in self.parts:
            message.parts.append(pb.Part(text="".join(part)) if isinstance(part, list) else part)
        if self.thoughts:
            message.reasoning = "\n".join(self.thoughts)
        return message


class Conversation:
    """Reads the turns of a body, in order.

    Attributes:
        media: images to be fetched, in order.
        used_tools: names of tools in calls and in results of tool searches.
    """

    def __init__(self, fields: wire.MessagesBody) -> None:
        self.media: list[MediaRef] = []
        self.used_tools: set[str] = set()
        self._head: list[str] = []
        self._turns: list[MessageTurn] = []
        # System texts after an assistant turn, to be added to the next user turn.
        self._waiting: list[str] = []
        check_piece_count(sum(map(_count_pieces, fields.messages)), "messages")
        self._add_system(fields.system, "system")
        last_user = max((i for i, m in enumerate(fields.messages) if m.role == "user"), default=-1)
        for index, message in enumerate(fields.messages):
            self._add(message, f"messages[{index}].content", is_past=index < last_user)
        self._flush()

    def to_messages(self) -> list[pb.Message]:
        """Return the canonical messages.

        Raises:
            ServiceError: they are all empty.
        """
        messages = [turn.to_message() for turn in self._turns]
        if self._head:
            head = pb.Message(role="system", parts=[pb.Part(text="\n\n".join(self._head))])
            messages.insert(0, head)
        require_input(messages, "messages")
        return messages

    def _add(self, message: wire.AnthropicMessage, path: str, *, is_past: bool) -> None:
        """Read one message.

        Args:
            is_past: a later user message exists.
        """
        if message.role == "assistant":
            self._flush()
            self._add_assistant(message.content, path)
        elif message.role == "user":
            self._add_user(message.content, path)
        elif not (is_past and message.clear_at == "next_user_message"):
            self._add_system(message.content, path)

    def _add_system(self, content: wire.Content, path: str) -> None:
        texts = [
            _ACCOUNTS.sub("", block.text)
            for block, _ in _read(content, path, wire.SYSTEM_BLOCKS)
            if isinstance(block, wire.TextBlock)
        ]
        text = "\n".join(filter(None, texts)).strip()
        if not text:
            return
        if not self._turns:
            self._head.append(text)
        elif self._turns[-1].role == "assistant":
            self._waiting.append(text)
        else:
            self._turn("user").add_paragraph(text)

    def _add_assistant(self, content: wire.Content, path: str) -> None:
        turn = self._turn("assistant")
        for block, where in _read(content, path, wire.ASSISTANT_BLOCKS):
            match block:
                case wire.ThinkingBlock():
                    turn.thoughts += filter(None, [recall(block.thinking, block.signature)])
                case wire.ToolUseBlock():
                    self.used_tools.add(block.name)
                    turn.calls.append(_parse_call(block, where))
                case wire.TextBlock(text=text) | wire.CompactionBlock(content=text):
                    turn.add_text(text or "")

    def _add_user(self, content: wire.Content, path: str) -> None:
        blocks = list(_read(content, path, wire.USER_BLOCKS))
        results = [(b, p) for b, p in blocks if isinstance(b, wire.ToolResultBlock)]
        others = [(b, p) for b, p in blocks if not isinstance(b, wire.ToolResultBlock)]
        # Results precede other blocks: templates expect them directly after their calls.
        for result, where in results:
            self._add_result(result, where)
        self._flush()
        for block, where in others:
            self._add_block(self._turn("user"), block, where)
        if not results:
            # An empty user message is still a turn.
            self._turn("user")

    def _add_result(self, block: wire.ToolResultBlock, path: str) -> None:
        turn = MessageTurn("tool", tool_call_id=block.tool_use_id)
        self._turns.append(turn)
        for inner, where in _read(block.content, f"{path}.content", wire.RESULT_BLOCKS):
            self._add_block(turn, inner, where)

    def _add_block(self, turn: MessageTurn, block: wire.Block, path: str) -> None:
        """Add a block of a user turn or of a tool result."""
        match block:
            case wire.ImageBlock(source=source):
                self._add_image(turn, source, f"{path}.source")
            case wire.DocumentBlock(source=wire.MediaSource(type="content", content=content)):
                for inner, where in _read(content, f"{path}.source.content", wire.SOURCE_BLOCKS):
                    self._add_block(turn, inner, where)
            case wire.DocumentBlock():
                turn.add_text(_document_text(block))
            case wire.SearchResultBlock():
                found = (block.title, block.source, *(part.text for part in block.content))
                turn.add_text("\n".join(filter(None, found)))
            case wire.ToolReferenceBlock(tool_name=name):
                self.used_tools.add(name)
                turn.add_text(f"Tool loaded: {name}")
            case wire.TextBlock(text=text) | wire.CompactionBlock(content=text):
                turn.add_text(text or "")

    def _add_image(self, turn: MessageTurn, source: wire.MediaSource, path: str) -> None:
        match source:
            case wire.MediaSource(type="base64", data=str(data)):
                url = f"data:{source.media_type or 'image/png'};base64,{data}"
            case wire.MediaSource(type="url", url=str(url)):
                pass
            case _:
                raise ServiceError(
                    "invalid_request", f"{path} must hold an image as base64 or a url", path
                )
        kind = common.Media.KIND_IMAGE
        reference = MediaRef(kind, url, path, pb.Part(media=common.Media(kind=kind)))
        self.media.append(reference)
        turn.parts.append(reference.part)

    def _turn(self, role: str) -> MessageTurn:
        """Return the last turn if it has this role, else a new one."""
        if not self._turns or self._turns[-1].role != role:
            self._turns.append(MessageTurn(role))
        return self._turns[-1]

    def _flush(self) -> None:
        """Say what was left for the system, in the user's place."""
        if self._waiting:
            self._turn("user").add_paragraph("\n\n".join(self._waiting))
            self._waiting.clear()


def _read(
    content: wire.Content, path: str, known: Mapping[str, type[wire.Block]]
) -> Iterator[tuple[wire.Block, str]]:
    """Yield the blocks of a content that are known, each with its place."""
    if isinstance(content, str):
        yield wire.TextBlock(content), path
        return
    for index, raw in enumerate(content or ()):
        where = f"{path}[{index}]"
        kind = json_body.decode(_KIND, raw, where).type
        if (shape := known.get(kind)) is not None:
            yield json_body.decode(_DECODERS[shape], raw, where), where


def _parse_call(block: wire.ToolUseBlock, path: str) -> pb.ToolCall:
    """Return an earlier call. Input that is no object is kept: a client may send back a cut one."""
    path = f"{path}.input"
    arguments = json_body.decode(_ANY, block.input, path)
    json_body.check_depth(arguments, path)
    if isinstance(arguments, str):
        text = arguments
    else:
        text = "{}" if arguments is None else bytes(block.input).decode()
    return pb.ToolCall(id=block.id, name=block.name, arguments=text)


def _document_text(block: wire.DocumentBlock) -> str:
    """Return the text of a plain-text document, else a note for the model that it is left out."""
    if block.source.type == "text":
        return block.source.data or ""
    name = f' "{block.title}"' if block.title else ""
    return f"[The document{name} is left out: only documents of plain text can be read here.]"


def continues(messages: Sequence[pb.Message]) -> bool:
    """Return whether the last message is the start of the answer (prefill)."""
    last = messages[-1]
    return (
        last.role == "assistant"
        and not last.tool_calls
        and any(part.text.strip() for part in last.parts)
    )


def _count_pieces(message: wire.AnthropicMessage) -> int:
    return 1 + (len(message.content) if isinstance(message.content, list) else 0)
