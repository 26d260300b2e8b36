"""Generated answers: calls and the text around them, made to confuse a parser.

Each is a function of one drawn seed: an answer consists of about a hundred choices, and drawing
each of them with hypothesis took longer than the parsing under test.
"""

from __future__ import annotations

import json
import math
import random
import struct
from dataclasses import dataclass

from hypothesis import strategies as st

from workers.text.toolcalls.detection import FORMATS

# Markers of every format, and characters with a meaning in JSON, Python and XML.
FRAGMENTS = sorted(
    {marker for form in FORMATS for marker in form.markers}
    | {"<", "</", "[", "]", "{", "}", '"', "'", "\\", "\n", " ", ":", ",", "=", ">", "|"}
    | {'"}', "}}", '{"name": "', '", "arguments": {', '"arguments"', '\\"', "\\u12", "\\ud83d"}
    | {"null", "True", "1e5", "\r\n", "\t", "\0", "\u2028", "é", "서울", "👩‍👩‍👧", "\u0301"}
)

fragments = st.sampled_from(FRAGMENTS)
SEEDS = st.integers(0, 2**64 - 1)
LETTERS = "abcdefghijklmnopqrstuvwxyz"
NAME = LETTERS + LETTERS.upper() + "0123456789_-"
# The code points of one script or kind each; half surrogate pairs are no text.
BLOCKS = ((0, 0x7F), (0x80, 0x24F), (0x300, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x10FFFF))
SCALARS = (None, True, False, 0, -1, 7, 2**53 + 1, -(2**70), 0.5, -0.0, 1e-7, 1e22, 5e-324)

# How JSON may be spelt.
STYLES = (
    {},
    {"separators": (",", ":")},
    {"indent": 2},
    {"ensure_ascii": False},
    {"ensure_ascii": False, "separators": (" ,", " : ")},
)


@dataclass(frozen=True)
class WrittenCall:
    """A call, with its arguments as a value and as the text in which a model may write them."""

    name: str
    arguments: dict
    text: str


@dataclass(frozen=True)
class Answer:
    """Calls and the text around them.

    Attributes:
        gaps: the text after each call but the last.
    """

    before: str
    calls: tuple[WrittenCall, ...]
    gaps: tuple[str, ...]
    after: str

    @property
    def content(self):
        return self.before + "".join(self.gaps) + self.after

    @property
    def tools(self):
        """The schemas that the calls obey."""
        return {call.name: declare(call.arguments) for call in self.calls}

    def weave(self, writes):
        """Return the text with each call written by a function."""
        written = [writes(call) for call in self.calls]
        return self.before + "".join(
            call + gap for call, gap in zip(written, (*self.gaps, self.after), strict=True)
        )


def declare(arguments):
    """Return the schema of an object with just these members."""
    kinds = {
        str: "string",
        bool: "boolean",
        int: "integer",
        float: "number",
        list: "array",
        dict: "object",
        type(None): "null",
    }
    properties = {key: {"type": kinds[type(value)]} for key, value in arguments.items()}
    return {"type": "object", "properties": properties}


def answers(writer):
    """Return a strategy of answers that a writer's format can express."""
    return SEEDS.map(lambda seed: _Maker(random.Random(seed), writer).answer())


def soups(form):
    """Return a strategy of texts made of a format's markers and other fragments."""
    words = [*form.markers, *FRAGMENTS, "f", '{"name": "f", "arguments": {']

    def make(seed):
        rng = random.Random(seed)
        return "".join(
            rng.choice(words) if rng.randrange(4) else _letters(rng)
            for _ in range(rng.randint(0, 12))
        )

    return SEEDS.map(make)


@st.composite
def damages(draw, text):
    """Draw a text that differs from another at one or two offsets."""
    for _ in range(draw(st.integers(1, 2))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        text = text[:start] + draw(st.just("") | fragments) + text[end:]
    return text


class _Maker:
    """Makes one answer of a writer."""

    def __init__(self, rng, writer):
        self._rng = rng
        self._writer = writer

    def answer(self):
        writer, rng = self._writer, self._rng
        names = {self._name() for _ in range(1 if writer.single else rng.randint(1, 3))}
        calls = tuple(self._call(name) for name in sorted(names))
        texts = [_without(self._free(), writer.avoided) for _ in range(len(calls) + 1)]
        return Answer(
            before=texts[0] if "before" in writer.text_at else "",
            calls=calls,
            gaps=tuple(text if "between" in writer.text_at else "" for text in texts[1:-1]),
            after=texts[-1] if "after" in writer.text_at else "",
        )

    def _name(self):
        return self._rng.choice(LETTERS) + self._word(NAME, 8)

    def _word(self, letters, most):
        return "".join(self._rng.choices(letters, k=self._rng.randint(0, most)))

    def _free(self):
        """Return a text to stand around calls."""
        return self._rng.choice(("", "\n", self._string(), self._string()))

    def _call(self, name):
        arguments = {}
        for _ in range(self._rng.randint(0, 3)):
            value = self._value(3)
            while self._writer.accepts is not None and not self._writer.accepts(value):
                value = self._value(3)
            arguments[self._key()] = value
        return WrittenCall(name, arguments, json.dumps(arguments, **self._rng.choice(STYLES)))

    def _key(self):
        if self._writer.plain_keys:
            return self._rng.choice(LETTERS) + self._word(f"{LETTERS}0123456789_", 6)
        return self._text()

    def _value(self, depth):
        """Return a value of up to so many levels."""
        kind = self._rng.randrange(8 if depth else 6)
        if kind == 7:
            return [self._value(depth - 1) for _ in range(self._rng.randint(0, 2))]
        if kind == 6:
            items = range(self._rng.randint(0, 2))
            return {self._text(): self._value(depth - 1) for _ in items}
        return self._text() if kind > 2 else self._scalar()

    def _scalar(self):
        if self._rng.randrange(3):
            return self._rng.choice(SCALARS)
        (number,) = struct.unpack("<d", self._rng.randbytes(8))
        return number if math.isfinite(number) else self._rng.randint(-(10**6), 10**6)

    def _text(self):
        """Return a string that the format can express."""
        return _without(self._string(), self._writer.forbidden)

    def _string(self):
        return "".join(
            self._rng.choice(FRAGMENTS) if self._rng.randrange(3) else _letters(self._rng)
            for _ in range(self._rng.randint(0, 4))
        )


def _letters(rng):
    """Return up to three characters of any kind."""
    return "".join(chr(rng.randint(*rng.choice(BLOCKS))) for _ in range(rng.randint(0, 3)))


def _without(text, banned):
    while found := next((word for word in banned if word in text), None):
        text = text.replace(found, "")
    return text
