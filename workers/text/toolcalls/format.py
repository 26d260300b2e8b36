"""What a tool-call format is: how a family of models writes calls into its text.

A format turns answer text, which arrives in pieces, into content and calls. It is pure, and what
it gives depends on the whole text alone, never on where the text was cut. Nothing is lost: every
character is content, markup, or part of a call; what turns out to be no call is content again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Text:
    """Content."""

    text: str


@dataclass(frozen=True)
class Start:
    """A call begins. Its name is complete."""

    name: str


@dataclass(frozen=True)
class Arguments:
    """A piece of the open call's arguments: JSON text, the model's own where it writes JSON."""

    text: str


@dataclass(frozen=True)
class End:
    """The open call is complete."""


Piece = Text | Start | Arguments | End


@dataclass(frozen=True)
class ParsedCall:
    """A whole call; `arguments` is JSON text."""

    name: str
    arguments: str

    def pieces(self) -> list[Piece]:
        """Return the call as a format gives it that does not stream."""
        return [Start(self.name), Arguments(self.arguments), End()]


class Parser(Protocol):
    """Reads one answer."""

    def feed(self, text: str) -> list[Piece]:
        """Take the next piece of text and return what is certain by now."""

    def finish(self) -> list[Piece]:
        """Return the rest: no more text comes. An open call ends."""


# Parameter schemas of the declared functions, by name.
Tools = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Wrapper:
    """The fixed text around one JSON call object, for grammars that force a call.

    Attributes:
        opening, closing: what stands before and after the object, or the list of objects.
        arguments_key: "arguments" or "parameters".
        is_list: whether the object stands in a JSON list.
    """

    opening: str
    closing: str
    arguments_key: str
    is_list: bool = False


@dataclass(frozen=True)
class Format:
    """A tool-call format.

    Attributes:
        name: for the command line and the model card.
        markers: fixed delimiter texts; tokens spelled like one are text to the parser.
        detect: whether a chat template writes calls this way.
        parser: makes the reader of one answer.
        wrapper: how to force a call by a grammar; None where calls are no JSON objects.
    """

    name: str
    markers: Sequence[str]
    detect: Callable[[str], bool]
    parser: Callable[[Tools], Parser]
    wrapper: Wrapper | None = None


def to_json(value: Any) -> str:
    """Return a converted value as JSON text, which can be encoded whatever the value holds."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair, out of an escape
        return json.dumps(value)
    return text
