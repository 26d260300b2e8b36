"""Reads the arguments of a call as a JSON object, whatever the model wrote in their place.

An object keeps its text, repaired where it is not JSON. Any other text becomes the member `input`
of an object, so that a client sees it and can parse it: code for a built-in tool, or arguments that
are no object. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from workers.text.toolcalls.reader.json_scanner import read_value
from workers.text.toolcalls.reader.json_string import StringDecoder
from workers.text.toolcalls.reader.json_text import render_object, to_json
from workers.text.toolcalls.reader.source import Give, Reading, Source

_INPUT = "input"
_NOTHING = ("", "null", "None")


def wrap_text(text: str) -> str:
    """Return the arguments of a call whose text is no object."""
    text = text.strip()
    return "{}" if text in _NOTHING else render_object({_INPUT: to_json(text)})


def cut_object(text: str) -> str:
    """Return the beginning of an object whose further members were cut off; "" if it has none."""
    return text.removesuffix("}") if text != "{}" else ""


def read_arguments(source: Source, give: Give, ends: Sequence[str]) -> Reading[bool]:
    """Read arguments up to one of some delimiters; return whether they are complete.

    Args:
        give: receives the JSON text, or the beginning of it if the text was cut off.
    """
    if (yield from source.skip_space()) == "{":
        return (yield from read_value(source, give))
    parts: list[str] = []
    yield from source.find(ends, parts.append, past=False, least=1)
    text = wrap_text("".join(parts))
    if not source.cut_off:
        give(text)
        return True
    give(text.removesuffix('"}') if text != "{}" else "")
    return False


class QuotedArguments:
    """Arguments written as a JSON string; its text arrives in the parts of `read_string`.

    Args:
        give: receives the text of the object.
    """

    def __init__(self, give: Give) -> None:
        self._decoder = StringDecoder()
        self._source = Source()
        self._reading = read_arguments(self._source, give, ())

    def feed(self, unit: str) -> None:
        self._source.add(self._decoder.feed(unit))
        next(self._reading, None)

    def finish(self, *, cut: bool) -> None:
        self._source.add(self._decoder.finish())
        self._source.end(cut=cut)
        next(self._reading, None)
