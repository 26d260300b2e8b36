"""Generated answers: calls, and the text around them, made to confuse a parser."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass

from hypothesis import strategies as st

from workers.text.toolcalls import FORMATS

# Marks of every format, and what JSON, Python and XML give a meaning.
FRAGMENTS = sorted(
    {marker for form in FORMATS for marker in form.markers}
    | {"<", "</", "[", "]", "{", "}", '"', "'", "\\", "\n", " ", ":", ",", "=", ">", "|"}
    | {'"}', "}}", '{"name": "', '", "arguments": {', '"arguments"', '\\"', "\\u12", "\\ud83d"}
    | {"null", "True", "1e5", "\r\n", "\t", "\0", "\u2028", "é", "서울", "👩‍👩‍👧", "\u0301"}
)

fragments = st.sampled_from(FRAGMENTS)
strings = st.lists(fragments | st.text(max_size=3), max_size=4).map("".join)
identifiers = st.from_regex(r"[a-z][a-z0-9_]{0,6}", fullmatch=True)
function_names = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,8}", fullmatch=True)

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


@st.composite
def answers(draw, writer):
    """Draw an answer that a writer's format can express."""
    size = draw(st.integers(1, 1 if writer.single else 3))
    calls = draw(_calls(writer, size))
    texts = draw(_texts(writer, size + 1))
    return Answer(
        before=texts[0] if "before" in writer.places else "",
        calls=tuple(calls),
        gaps=tuple(texts[1:-1]) if "between" in writer.places else ("",) * (size - 1),
        after=texts[-1] if "after" in writer.places else "",
    )


def soups(form):
    """Return a strategy of texts made of a format's marks and of what stands between them."""
    words = st.sampled_from([*form.markers, *FRAGMENTS, "f", '{"name": "f", "arguments": {'])
    return st.lists(words | st.text(max_size=2), max_size=12).map("".join)


@st.composite
def damages(draw, text):
    """Draw a text that differs from another in one place or two."""
    for _ in range(draw(st.integers(1, 2))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        text = text[:start] + draw(st.just("") | fragments) + text[end:]
    return text


# Strategies are made once: making them takes longer than drawing from them.
@functools.cache
def _calls(writer, size):
    call = st.builds(_write, function_names, _arguments(writer), st.sampled_from(STYLES))
    return st.lists(call, min_size=size, max_size=size, unique_by=lambda call: call.name)


def _write(name, arguments, style):
    return WrittenCall(name, arguments, json.dumps(arguments, **style))


def _arguments(writer):
    texts = strings.map(_without(writer.forbidden))
    numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    values = st.recursive(
        st.none() | st.booleans() | numbers | texts,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
        max_leaves=4,
    )
    if writer.accepts is not None:
        values = values.filter(writer.accepts)
    return st.dictionaries(identifiers if writer.plain_keys else texts, values, max_size=3)


@functools.cache
def _texts(writer, size):
    """Return a strategy of texts that hold no mark of the format."""
    free = (st.just("") | st.just("\n") | strings).map(_without(writer.avoided))
    return st.lists(free, min_size=size, max_size=size)


def _without(banned):
    def clean(text):
        while found := next((word for word in banned if word in text), None):
            text = text.replace(found, "")
        return text

    return clean
