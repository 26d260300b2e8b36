"""Which of the parsed calls are kept, their ids, and the white space around them."""

from __future__ import annotations

import re

import pytest

from tests.unit.text.toolcalls.reading import cut
from workers.text.toolcalls.call_stream import CallPolicy, CallStart, CallStream, call_id
from workers.text.toolcalls.format import CallArguments, CallEnd, ContentText
from workers.text.toolcalls.formats.hermes import FORMAT

TOOLS = {"f": {}, "g": {}}


def write(name):
    return f'<tool_call>\n{{"name": "{name}", "arguments": {{}}}}\n</tool_call>'


def show(text, *, tools=TOOLS, request_id="r", **options):
    """Return the kept pieces of an answer, texts joined, after trying every cut."""
    shown = _show([text], tools, request_id, options)
    for offset in range(1, len(text)):
        assert _show(cut(text, [offset]), tools, request_id, options) == shown
    assert _show(text, tools, request_id, options) == shown
    return shown


def _show(parts, tools, request_id, options):
    stream = CallStream(FORMAT, tools, request_id, CallPolicy(**options))
    shown = []
    for piece in [*(p for part in parts for p in stream.feed(part)), *stream.finish()]:
        joins = (
            shown
            and isinstance(piece, ContentText | CallArguments)
            and type(shown[-1]) is type(piece)
        )
        if joins:
            shown[-1] = type(piece)(shown[-1].text + piece.text)
        else:
            shown.append(piece)
    assert stream.call_count == sum(isinstance(piece, CallStart) for piece in shown)
    return shown


def call(index, name):
    return [CallStart(call_id("r", index), name), CallArguments("{}"), CallEnd()]


def test_each_call_has_a_unique_id_that_a_replay_repeats():
    shown = show(write("f") + write("f"))
    assert shown == [*call(0, "f"), *call(1, "f")]
    assert show(write("f") + write("f")) == shown
    ids = [piece.id for piece in shown if isinstance(piece, CallStart)]
    ids += [piece.id for piece in show(write("f"), request_id="s") if isinstance(piece, CallStart)]
    assert len(set(ids)) == 3
    for text in ids:
        assert re.fullmatch("call_[0-9a-f]{24}", text)


def test_calls_of_undeclared_functions_are_kept_or_dropped_by_a_setting():
    answer = f"a {write('h')} b{write('f')}"
    parts = [ContentText("a "), *call(0, "h"), ContentText(" b"), *call(1, "f")]
    assert show(answer) == parts
    assert show(write("h")) == call(0, "h")
    assert show(answer, keeps_undeclared=False) == [ContentText("a  b"), *call(0, "f")]
    assert show(write("h"), keeps_undeclared=False) == []
    assert show(f"\n{write('h')}\n", keeps_undeclared=False) == []


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("get_weather", "get_weather"),
        ("get_Weather", "get_weather"),
        ("functions.get_weather", "get_weather"),
        ("Functions.Get_Weather", "get_weather"),
        ("default_api.get_weather", "get_weather"),
        ("tools.get_weather", "get_weather"),
        ("tools.own", "tools.own"),
        ("functions.tools.own", "tools.own"),
        ("Same", "Same"),
        ("SAME", "SAME"),
        ("functions.", "functions."),
        ("mcp.get_weather", "mcp.get_weather"),
    ],
)
def test_a_name_is_mapped_to_the_declared_one_that_it_means(name, meant):
    tools = {"get_weather": {}, "tools.own": {}, "same": {}, "Same": {}}
    assert show(write(name), tools=tools) == call(0, meant)


def test_a_forced_call_has_no_content():
    assert show('<tool_call>\n{"name', forced=True) == []
    assert show(f"{write('f')} x", forced=True) == call(0, "f")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('{"name": "f", "arguments": {}}', "f"),
        ('\n {"name": "functions.F", "parameters": {}}\n', "f"),
        ('[{"name": "f", "arguments": {}}]', "f"),
        ('{"arguments": {}, "name": "f"}', "f"),
        ('{"name": "h", "arguments": {}}', None),
        ('{"name": "f", "arguments": {}, "age": 3}', None),
        ('{"name": "f"}', None),
        ('{"name": "f", "arguments": {}} and more', None),
        ('So: {"name": "f", "arguments": {}}', None),
        ('{"a": 1}', None),
        ("[1, 2]", None),
    ],
)
def test_plain_json_is_a_call_if_it_is_the_whole_answer_and_declared(text, name):
    assert show(text) == (call(0, name) if name else [ContentText(text)])
    assert show(text, tools={}) == [ContentText(text)]


def test_plain_json_is_held_back_only_while_it_may_be_a_call():
    stream = CallStream(FORMAT, TOOLS, "r")
    assert stream.feed(' {"nam') == []
    assert stream.feed('e": "f", "x"') == [ContentText(' {"name": "f", "x"')]
    assert stream.feed(": 1") == [ContentText(": 1")]
    stream = CallStream(FORMAT, TOOLS, "r")
    assert stream.feed("Hi") == [ContentText("Hi")]


def test_calls_of_other_than_the_named_function_are_dropped():
    assert show(f"{write('f')}\n{write('g')}\n{write('f')}", named="g") == call(0, "g")
    assert show(write("h"), named="g") == []


def test_calls_beyond_the_limit_are_dropped():
    answer = f"{write('h')}{write('f')} a {write('g')}"
    assert show(answer, most=1, keeps_undeclared=False) == [*call(0, "f"), ContentText(" a ")]
    assert show(answer, most=2, keeps_undeclared=False) == [
        *call(0, "f"),
        ContentText(" a "),
        *call(1, "g"),
    ]


def test_without_a_declaration_every_call_is_kept():
    assert show(write("h"), tools=None) == call(0, "h")


@pytest.mark.parametrize(
    ("before", "between", "after", "said"),
    [
        ("", "", "", ["", "", ""]),
        ("\n\n", "\n", " \n", ["", "", ""]),
        ("a\n", "\n", "\n", ["a\n", "", ""]),
        (" a", " b ", " c ", [" a", " b ", " c "]),
        ("\n", " \t", "\nc", ["", "", "\nc"]),
    ],
)
def test_space_between_calls_and_ends_is_dropped(before, between, after, said):
    texts = [[ContentText(text)] if text else [] for text in said]
    shown = show(before + write("f") + between + write("g") + after)
    assert shown == [*texts[0], *call(0, "f"), *texts[1], *call(1, "g"), *texts[2]]


@pytest.mark.parametrize("text", ["", " \n ", " a ", "<b>"])
def test_an_answer_without_calls_is_unchanged(text):
    assert show(text) == ([ContentText(text)] if text else [])


def test_arguments_stream():
    stream = CallStream(FORMAT, TOOLS, "r")
    assert stream.feed('<tool_call>{"name": "f') == []
    assert stream.feed('", "arguments": {"a') == [
        CallStart(call_id("r", 0), "f"),
        CallArguments('{"a'),
    ]
    assert stream.feed('": "b') == [CallArguments('": "b')]
    assert stream.finish(cut=True) == [CallEnd()]
