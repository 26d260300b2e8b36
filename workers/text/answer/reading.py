"""Parses the raw text of an answer without a model, and assembles the chat message from it.

Owns the path from text to pieces for the command `parse` and for tests; a running sequence is
decoded by output.py. Pure; imports no model library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeAlias

from workers.text.answer.channel import ChannelSplitter
from workers.text.answer.reasoning import (
    KNOWN_TAGS,
    NoSplitter,
    ReasoningPart,
    Splitter,
    TagSplitter,
    find_tags,
)
from workers.text.toolcalls.call_stream import CallStart, CallStream, StreamPiece
from workers.text.toolcalls.format import CallArguments, ContentText, Format
from workers.text.toolcalls.formats import harmony

AnswerPiece: TypeAlias = StreamPiece | ReasoningPart


def choose_splitter(
    call_format: Format, template: str, text: str, *, in_reasoning: bool
) -> Callable[[], Splitter]:
    """Return a factory of splitters for the tags of a template, or else for those in a text.

    Args:
        in_reasoning: whether the prompt has opened a reasoning block.
    """
    if call_format is harmony.FORMAT:
        return ChannelSplitter
    mark = "closing" if in_reasoning else "opening"
    seen = (tags for tags in KNOWN_TAGS if getattr(tags, mark) in text)
    tags = find_tags(None, template) or next(seen, None)
    return partial(TagSplitter, tags, in_reasoning=in_reasoning) if tags else NoSplitter


def read_answer(
    parts: Iterable[str], splitter: Splitter, stream: CallStream, *, cut: bool = False
) -> Iterator[AnswerPiece]:
    """Yield the pieces of an answer whose text arrives in parts.

    Args:
        cut: a limit has ended the text.
    """
    for pieces in (*map(splitter.feed, parts), splitter.finish(cut=cut)):
        for piece in pieces:
            if isinstance(piece, ReasoningPart):
                yield piece
            else:
                yield from stream.feed(piece.text)
    yield from stream.finish(cut=cut)


def assemble_message(pieces: Iterable[AnswerPiece]) -> dict[str, Any]:
    """Return the assistant message that pieces add up to, in the form of a chat completion."""
    content: list[str] = []
    reasoning: list[str] = []
    calls: list[dict[str, Any]] = []
    for piece in pieces:
        if isinstance(piece, ContentText):
            content.append(piece.text)
        elif isinstance(piece, ReasoningPart):
            reasoning.append(piece.text)
        elif isinstance(piece, CallStart):
            function = {"name": piece.name, "arguments": ""}
            calls.append({"id": piece.id, "type": "function", "function": function})
        elif isinstance(piece, CallArguments):
            calls[-1]["function"]["arguments"] += piece.text
    message: dict[str, Any] = {"role": "assistant", "content": "".join(content)}
    if reasoning:
        message["reasoning_content"] = "".join(reasoning)
    if calls:
        message["content"] = message["content"] or None
        message["tool_calls"] = calls
    return message
