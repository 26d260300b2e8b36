"""The types of tool-call formats: how a family of models writes calls into its text.

A format parses answer text, which arrives in pieces, into content and calls. It is pure, and its
result depends only on the whole text, never on where the text was cut. No text is lost: every
character is content, markup or part of a call, and what turns out not to be a call is content.
Markers are never content. What a limit has cut off before it is certain is not content either; of a
call whose name is certain, the arguments are given as far as they go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class ContentText:
    text: str


@dataclass(frozen=True)
class CallName:
    """A call begins; its name is complete."""

    name: str


@dataclass(frozen=True)
class CallArguments:
    """A part of the open call's arguments: JSON text, as the model wrote it if it writes JSON."""

    text: str


@dataclass(frozen=True)
class CallEnd:
    """The open call is complete."""


Piece = ContentText | CallName | CallArguments | CallEnd


@dataclass(frozen=True)
class ParsedCall:
    """A whole call; `arguments` is JSON text."""

    name: str
    arguments: str

    def pieces(self) -> list[Piece]:
        """Return the call as the pieces of a format that does not stream."""
        return [CallName(self.name), CallArguments(self.arguments), CallEnd()]


class Parser(Protocol):
    """Parses one answer."""

    def feed(self, text: str) -> list[Piece]:
        """Parse the next part of the text and return the pieces that are certain."""

    def finish(self, *, cut: bool) -> list[Piece]:
        """End the text: return the remaining pieces. An open call ends.

        Args:
            cut: a limit has ended the text. Otherwise open arguments are completed.
        """


# Parameter schemas of the declared functions, by name.
Tools = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Wrapper:
    """The fixed text around one JSON call object, for grammars that force a call.

    Attributes:
        opening, closing: the text before and after the object, or the list of objects.
        arguments_key: "arguments" or "parameters".
        is_list: whether the object is in a JSON list.
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
        markers: fixed delimiter texts, which are never content; control tokens spelled like one
            are passed on as text.
        detect: whether a chat template writes calls in this format.
        parser: makes the parser of one answer.
        is_bare: whether an answer may begin with a call that no delimiter announces.
        begins: texts that begin calls and no other answer; None: the first marker.
        wrapper: how to force a call by a grammar; None where calls are not JSON objects.
    """

    name: str
    markers: Sequence[str]
    detect: Callable[[str], bool]
    parser: Callable[[Tools], Parser]
    wrapper: Wrapper | None = None
    is_bare: bool = False
    begins: Sequence[str] | None = None

    @property
    def openings(self) -> Sequence[str]:
        """The texts that begin calls and no other answer."""
        return self.markers[:1] if self.begins is None else self.begins
