"""Qwen3-Coder: functions and parameters as tags, composed to JSON."""

from __future__ import annotations

import json

import pytest

from tests.unit.text.toolcalls.reading import calls, parse_at_every_cut, watch
from workers.text.toolcalls.format import CallArguments, CallName
from workers.text.toolcalls.formats.qwen3_coder import FORMAT

TOOLS = {
    "f": {
        "properties": {
            "s": {"type": "string"},
            "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "n": {"type": "integer"},
            "x": {"type": "number"},
            "b": {"type": "boolean"},
            "list": {"type": "array"},
            "map": {"type": "object"},
            "any": {},
        }
    }
}


def parse(text):
    return parse_at_every_cut(FORMAT, text, TOOLS)


def parameter(name, value):
    return f"<parameter={name}>\n{value}\n</parameter>\n"


def function(*parameters, name="f"):
    return f"<function={name}>\n{''.join(parameters)}</function>"


def block(*functions):
    return "<tool_call>\n" + "\n".join(functions) + "\n</tool_call>"


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("s", "Paris", "Paris"),
        ("s", "", ""),
        ("s", "\n", "\n"),
        ("s", " a\n\n b \n", " a\n\n b \n"),
        ("s", '"quoted" \\ \t\0 é 서울 👩‍👩‍👧', '"quoted" \\ \t\0 é 서울 👩‍👩‍👧'),
        ("s", "3", "3"),
        ("s", "null", "null"),
        ("s", "<parameter=x>\n</function>\n</tool_call><tool_call>", ...),
        ("s", "\n</paramete", ...),
        ("maybe", "null", None),
        ("maybe", "3", "3"),
        ("n", "3", 3),
        ("n", "three", "three"),
        ("x", "1.5e3", 1500.0),
        ("b", "true", True),
        ("b", "True", True),
        ("list", '[1, "a"]', [1, "a"]),
        ("list", "[1, 'a', None]", [1, "a", None]),
        ("map", '{\n  "a": {"b": 1}\n}', {"a": {"b": 1}}),
        ("map", "{'a': True}", {"a": True}),
        ("any", "3", 3),
        ("any", "hello there", "hello there"),
        ("any", '{"a": 1', '{"a": 1'),
        ("undeclared", "[1]", [1]),
    ],
)
def test_a_parameter_is_converted_by_the_schema(name, text, value):
    said, found = parse(block(function(parameter(name, text))))
    assert said == ""
    assert [call for call, _ in found] == ["f"]
    assert json.loads(found[0][1]) == {name: text if value is ... else value}


def test_numbers_and_objects_keep_their_spelling():
    _, found = parse(block(function(parameter("x", "1.50"), parameter("map", '{"b":1, "a":2}'))))
    assert found == [("f", '{"x": 1.50, "map": {"b":1, "a":2}}')]


def test_string_parameters_stream():
    text = block(function(parameter("s", "ab\nc"), parameter("n", "12")))
    stages = watch(FORMAT, text, TOOLS)

    def given(after):
        """Return what is out once a part of the text has come."""
        return stages[text.index(after) + len(after) - 1]

    assert given("<function=f") == []
    assert given("<function=f>") == [CallName("f")]
    assert given("<parameter=s>") == [CallName("f"), CallArguments('{"s": ')]
    assert given("<parameter=s>\nab")[-1] == CallArguments('{"s": "ab')
    assert given("ab\n")[-1] == CallArguments('{"s": "ab')
    assert given("ab\nc")[-1] == CallArguments('{"s": "ab\\nc')
    assert given("ab\nc\n</parameter>")[-1] == CallArguments('{"s": "ab\\nc"')
    assert given("<parameter=n>\n12")[-1] == CallArguments('{"s": "ab\\nc", "n": ')
    assert given("12\n</parameter>")[-1] == CallArguments('{"s": "ab\\nc", "n": 12')
    assert calls(given("</function>"))[0].arguments == '{"s": "ab\\nc", "n": 12}'


F, G = ("f", "{}"), ("g", "{}")


@pytest.mark.parametrize(
    ("text", "said", "found"),
    [
        (block(function()), "", [F]),
        (block("<function=f></function>"), "", [F]),
        (block("<function=f>\n<parameter=s>x</parameter></function>"), "", [("f", '{"s": "x"}')]),
        (block(function(), function(name="g")), "", [F, G]),
        (f"a\n\n{block(function())}\n{block(function(name='g'))}\nb", "a\n\n\n\nb", [F, G]),
        (f"a {function()} b", "a  b", [F]),
        (f"{function()}\n</tool_call>", "", [F]),
        ("a <function=g>", "a <function=g>", []),
        ("<tool_call>\n<function=f>\n</tool_call>", "", [F]),
        ("<tool_call>\n<function=f", "\nf", []),
        ("<tool_call>\n<function=>\n</function>", "\n>\n", []),
        ("<tool_call>\n<function=f\n>", "\nf\n>", []),
        ('<tool_call>\n{"name": "f"}\n</tool_call>!', "!", [F]),
        ('<tool_call>\n{"nam": "f"}\n', '\n{"nam": "f"}\n', []),
        ("<tool_call> <tool_call>", "", []),
        (block("<function=f>\noops</function>") + "!", "!", [("f", '{"input": "oops"}')]),
        ("<tool_call><function=f><parameter=s>\nab", "", [("f", '{"s": "ab"}')]),
        ("<tool_call><function=f><parameter=s>\nab\n</par", "", [("f", '{"s": "ab"}')]),
        ("<tool_call><function=f><parameter=n>\n12", "", [("f", '{"n": 12}')]),
        (block("<function=f><parameter=n>\n12\n</function>"), "", [("f", '{"n": 12}')]),
        (block("<function=f><parameter=s>\na\n</function>"), "", [("f", '{"s": "a"}')]),
        (
            block(function(parameter("s", "a\n</function>\n</tool_call>\nb"))),
            "",
            [("f", r'{"s": "a\n</function>\n</tool_call>\nb"}')],
        ),
        (
            block(function(parameter("s", "a\n</function>b")) + "x"),
            "x\n",
            [("f", r'{"s": "a\n</function>b"}')],
        ),
        (block("<function=f><parameter=a=<b>\n"), "", [("f", '{"input": "<b>"}')]),
        ("<tool_call><function=f></fun", "", [F]),
        ("<tool_call><function=f></function></tool", "", [F]),
        ("<tool_call><function=f><parameter=n>1</parameter>", "", [("f", '{"n": 1}')]),
        ("<tool_call><function=f><parameter=n", "", [("f", "{}")]),
    ],
)
def test_calls_and_the_text_around_them(text, said, found):
    assert parse(text) == (said, found)
