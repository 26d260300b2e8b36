"""Markers that letters spell are text where the vocabulary has them as tokens."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.pb import text_pb2 as pb
from tests.unit.text import tiny_tokenizer
from tests.unit.text.tiny_tokenizer import to_ids
from workers.text.answer.channel import ChannelSplitter
from workers.text.answer.output import Output, Style
from workers.text.answer.reasoning import Tags, TagSplitter
from workers.text.answer.spelling import SpellingGuard, remove_guards
from workers.text.toolcalls.call_stream import CallStream
from workers.text.toolcalls.detection import FORMATS, find
from workers.text.toolcalls.reader.json_text import GUARD
from workers.text.vocabulary import Vocabulary

TAGS = Tags("<think>", "</think>")
MARKERS = tuple(
    sorted({TAGS.opening, TAGS.closing, *(marker for form in FORMATS for marker in form.markers)})
)
TOKENIZER = tiny_tokenizer.byte_level([b"l>", b"</", b"call"], MARKERS)
VOCABULARY = Vocabulary(TOKENIZER, len(TOKENIZER))
IDS = {marker: TOKENIZER.convert_tokens_to_ids(marker) for marker in MARKERS}
TOOLS = {"f": {"properties": {"a": {"type": "string"}}}}
ANSWER, REASONING = pb.BlockStart.KIND_ANSWER, pb.BlockStart.KIND_REASONING


def decode(parts, name, splitter=None, stop=(), *, tools=TOOLS):
    """Return reasoning, content and calls of an answer: markers are given as (marker,)."""
    form = find(name)
    markers = (TAGS.opening, TAGS.closing, *form.markers)
    visible = frozenset(IDS[marker] for marker in markers)
    style = Style(visible=visible, guarded=tuple(sorted(markers)))
    calls = CallStream(form, tools, "r") if tools else None
    output = Output(VOCABULARY, stop, style, splitter, calls)
    events = []
    for part in parts:
        for token in to_ids(part.encode()) if isinstance(part, str) else [IDS[part[0]]]:
            events += output.feed(token)
    events += output.finish()
    texts, found, kind = {ANSWER: "", REASONING: ""}, [], None
    for event in events:
        if event.HasField("block_start"):
            kind = event.block_start.kind
            if kind == pb.BlockStart.KIND_TOOL_CALL:
                found.append([event.block_start.tool_name, ""])
        elif event.HasField("delta") and kind in texts:
            texts[kind] += event.delta.text
        elif event.HasField("delta"):
            found[-1][1] += event.delta.text
    return texts[REASONING], texts[ANSWER], [tuple(call) for call in found]


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
def test_spelled_markers_are_content(form):
    if form.name == "harmony":
        said = "".join(form.markers)
        parts = [("<|channel|>",), "final", ("<|message|>",), f"Hm. {said} So."]
        assert decode(parts, form.name) == ("", f"Hm. {said} So.", [])
        return
    text = f"Hm. {' '.join(form.markers)} So."
    assert decode([text], form.name) == ("", text, [])
    assert decode([text], form.name, stop=["So"]) == ("", text.removesuffix("So."), [])


def test_spelled_markers_in_thoughts_are_thoughts():
    thoughts = "I write <|call|> or <|end|> or <|channel|>final<|message|>."
    parts = [("<|channel|>",), "analysis", ("<|message|>",), thoughts, ("<|end|>",)]
    parts += [("<|start|>",), "assistant", ("<|channel|>",), "final", ("<|message|>",), "Yes."]
    assert decode(parts, "harmony", ChannelSplitter()) == (thoughts, "Yes.", [])
    splitter = TagSplitter(TAGS, in_reasoning=True)
    parts = ["The tag </think> ends it.", ("</think>",), "Yes."]
    assert decode(parts, "hermes", splitter) == ("The tag </think> ends it.", "Yes.", [])


@pytest.mark.parametrize(
    ("name", "parts", "value"),
    [
        (
            "qwen3_coder",
            [
                *(("<tool_call>",), "\n", ("<function=",), "f>\n", ("<parameter=",), "a>\n", ...),
                *("\n", ("</parameter>",), "\n", ("</function>",)),
            ],
            "x\n</tool_call> y",
        ),
        (
            "glm47",
            [
                *(("<tool_call>",), "f", ("<arg_key>",), "a", ("</arg_key>",), ("<arg_value>",)),
                *(..., ("</arg_value>",), ("</tool_call>",)),
            ],
            "x</arg_value></tool_call>y",
        ),
        (
            "gemma4",
            [("<|tool_call>",), "call:f{a:", ('<|"|>',), ..., ('<|"|>',), "}", ("<tool_call|>",)],
            'x<|"|>}<tool_call|>y',
        ),
        (
            "hermes",
            [("<tool_call>",), '{"name": "f", "arguments": {"a": "', ..., '"}}', ("</tool_call>",)],
            "</tool_call><tool_call>",
        ),
    ],
)
def test_spelled_markers_in_arguments_are_kept(name, parts, value):
    letters = [value if part is ... else part for part in parts]
    reasoning, said, found = decode(letters, name)
    assert (reasoning, said) == ("", "")
    assert [(call, json.loads(text)) for call, text in found] == [("f", {"a": value})]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from(["<a>", "<", "a", ">", "<a", "a>", "><", "|"]), max_size=12), st.data()
)
def test_a_guard_stands_before_the_last_character_of_each_spelled_marker(parts, data):
    guard = SpellingGuard(("<a>",))
    text = "".join(parts)
    for part in parts:
        guard.note(part)
    given_out, rest = "", text
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        given_out += guard.guard(rest[:size])
        rest = rest[size:]
    assert given_out == text.replace("<a>", f"<a{GUARD}>")
    assert remove_guards(given_out) == text
