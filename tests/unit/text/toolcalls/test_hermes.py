"""Hermes and Qwen: JSON objects between tags. Also tests what is common to all JSON formats."""

from __future__ import annotations

import pytest

from tests.unit.text.toolcalls.reading import content, parse_at_every_cut, read, watch
from workers.text.toolcalls.format import CallArguments, CallEnd, CallName, ContentText, ParsedCall
from workers.text.toolcalls.formats.hermes import FORMAT

OPEN, CLOSE = "<tool_call>", "</tool_call>"


def parse(text, *, limited=False):
    return parse_at_every_cut(FORMAT, text, limited=limited)


def block(body):
    return f"{OPEN}\n{body}\n{CLOSE}"


def test_name_and_arguments_stream():
    text = '{"name": "f", "arguments": {"a": 1}}'
    stages = watch(FORMAT, OPEN + text, {})
    known = len(OPEN) + text.index(", ")
    assert stages[known - 2] == []
    assert stages[known - 1] == [CallName("f")]
    begin = len(OPEN) + text.index('{"a')
    for size in range(1, 9):
        assert stages[begin + size - 1] == [
            CallName("f"),
            CallArguments('{"a": 1}'[: 6 if size == 7 else size]),
        ]
    assert stages[-2] == [CallName("f"), CallArguments('{"a": 1}'), CallEnd()]


def test_content_is_held_only_while_it_may_be_a_delimiter():
    text = "a <b> <tool_x <tool_call"
    shown = [content(pieces) for pieces in watch(FORMAT, text, {})]
    assert shown[: len("a ")] == ["a", "a "]
    assert shown[2] == "a "
    assert shown[3] == "a <b"
    assert shown[text.index("x") - 1] == "a <b> "
    assert shown[text.index("x")] == "a <b> <tool_x"
    assert shown[-2] == "a <b> <tool_x "
    assert shown[-1] == text


@pytest.mark.parametrize(
    ("body", "arguments"),
    [
        ('{"name": "f", "arguments": {"b": 1, "a": 2}}', '{"b": 1, "a": 2}'),
        ('{"name":"f","arguments":{ "n" :1.50e+03 ,"m":-0}}', '{ "n" :1.50e+03 ,"m":-0}'),
        ('{"name": "f", "arguments": {\n  "a": [1,\n 2]\n}}', '{\n  "a": [1,\n 2]\n}'),
        ('{"name": "f", "arguments": {"é": "\\u00e9 é"}}', '{"é": "\\u00e9 é"}'),
        ('{"name": "f", "arguments": {"a": "}}</tool_call>"}}', '{"a": "}}</tool_call>"}'),
        ('{"name": "f", "arguments": {"a": "<tool_call>"}}', '{"a": "<tool_call>"}'),
        (
            '{"name": "f", "arguments": {"name": "g", "arguments": {"name": 1}}}',
            '{"name": "g", "arguments": {"name": 1}}',
        ),
        ('{"arguments": {"a": 1}, "name": "f"}', '{"a": 1}'),
        ('{"name": "f", "parameters": {"a": 1}}', '{"a": 1}'),
        ('{"id": "x", "name": "f", "type": {"a": [1]}, "arguments": {}}', "{}"),
        ('{"name": "f"}', "{}"),
        ('{"name": "f", "arguments": null}', "{}"),
        ('{"name": "f", "arguments": ""}', "{}"),
        ('{"name": "f", "arguments": [1]}', '{"input": "[1]"}'),
        ('{"name": "f", "arguments": 5}', '{"input": "5"}'),
        ('{"name": "f", "arguments": "{\\"a\\": \\"\\\\n\\"}"}', '{"a": "\\n"}'),
        ('{"name": "f", "arguments": "\\ud83d\\ude00"}', '{"input": "😀"}'),
        ('{"arguments": "{\\"a\\": 1}", "name": "f"}', '{"a": 1}'),
        ('{"name": "f", "arguments": {"re": "\\d+"}}', '{"re": "\\\\d+"}'),
        ('{"name": "f", "arguments": {"s": "a\nb"}}', '{"s": "a\\nb"}'),
        ('{"n\\u0061me": "\\u0066", "arguments": {}}', "{}"),
        ('{"name": "f", "arguments": {"a": 1},}', '{"a": 1}'),
        ('{"name": "f", "arguments": {"a": 1}, "arguments": {"a": 2}}', '{"a": 1}'),
        ('{"name": "f", "name": "g", "arguments": {"a": 1}}', '{"a": 1}'),
    ],
)
def test_a_call_keeps_the_models_own_text(body, arguments):
    assert parse(block(body)) == ("", [("f", arguments)])


@pytest.mark.parametrize(
    ("text", "said", "found"),
    [
        ("<tool_call>{'name':'f','arguments':{}}</tool_call>", "", [("f", "{}")]),
        (block('{"nam": "f", "arguments": {}}'), '\n{"nam": "f", "arguments": {}}\n', []),
        (block('{"name": 5, "arguments": {}}'), '\n{"name": 5, "arguments": {}}\n', []),
        (block('{"name": "", "arguments": {}}'), '\n{"name": "", "arguments": {}}\n', []),
        (block('{"name": null}'), '\n{"name": null}\n', []),
        (block('{"arguments": {"a": 1}}'), '\n{"arguments": {"a": 1}}\n', []),
        (block("{}"), "\n{}\n", []),
        (block("[]"), "", []),
        (block("[1, 2]"), "\n[1, 2]\n", []),
        (block("not JSON"), "not JSON\n", []),
        (block('"name"'), '"name"\n', []),
        (block(""), "", []),
        (block("{name: f}"), "\n{name: f}\n", []),
        (block('{"name" "f"}'), '\n{"name" "f"}\n', []),
        ('<tool_call>\n{"name": "f', '\n{"name": "f', []),
        ('<tool_call>{"arguments": {"a": 1}', '{"arguments": {"a": 1}', []),
        ("<tool_call>", "", []),
        ("<tool_call> ", "", []),
        ("</tool_call>", "", []),
        ("<tool_call", "<tool_call", []),
        ("a <tool_call>b</tool_call> c", "a b c", []),
        (
            "The tag `<tool_call>` begins a call and `</tool_call>` ends it.\n",
            "The tag `` begins a call and `` ends it.\n",
            [],
        ),
    ],
)
def test_text_that_is_not_well_formed_is_repaired_or_is_content_without_tags(text, said, found):
    assert parse(text) == (said, found)


@pytest.mark.parametrize(
    ("text", "said", "found"),
    [
        ('<tool_call>{"name": "f", "arguments": {"a": 1}}', "", [("f", '{"a": 1}')]),
        (
            '<tool_call>{"name": "f", "arguments": {"a": 1}}\n</tool',
            "",
            [("f", '{"a": 1}')],
        ),
        ('<tool_call>{"name": "f", "arguments": {"a": 1}', "", [("f", '{"a": 1}')]),
        ('<tool_call>{"name": "f", "arguments": {"a": "b', "", [("f", '{"a": "b')]),
        ('<tool_call>{"name": "f", "arguments": ', "", [("f", "")]),
        ('<tool_call>{"name": "f"', "", [("f", "")]),
        ('<tool_call>{"name": "f", "argum', "", [("f", "")]),
    ],
)
def test_a_text_cut_off_inside_a_call_keeps_the_partial_call(text, said, found):
    assert parse(text, limited=True) == (said, found)


CALL_F = '{"name": "f", "arguments": {}}'
CALL_G = '{"name": "g", "arguments": {}}'
F, G = ("f", "{}"), ("g", "{}")


@pytest.mark.parametrize(
    ("text", "said", "found"),
    [
        (f"{block(CALL_F)}\n{block(CALL_G)}", "\n", [F, G]),
        (f"a\n{block(CALL_F)} b {block(CALL_G)}\nc", "a\n b \nc", [F, G]),
        (block(f"[{CALL_F},\n{CALL_G}]"), "", [F, G]),
        (block(f"[{CALL_F} {CALL_G}]"), "", [F, G]),
        (block(f"{CALL_F}\n{CALL_G}"), "", [F, G]),
        (block(f"{CALL_F},\n{CALL_G};"), "", [F, G]),
        (f"{OPEN}{CALL_F}\n{OPEN}{CALL_G}{CLOSE}", "\n", [F, G]),
        (f"{OPEN}{block(CALL_F)}", "", [F]),
        (f"{block('x')}{block(CALL_F)}", "x\n", [F]),
        (f"{block(CALL_F)}{CLOSE}", "", [F]),
        (block(CALL_F + "}"), "", [F]),
        (block(CALL_F + " so\n") + "\nb", " so\n\n\nb", [F]),
        (block(f"[{CALL_F}, 5]"), "5]\n", [F]),
        (block(f'[{CALL_F}, {{"x": 1}}]'), ', {"x": 1}', [F]),
        (block('{"name": "f", "arguments": {"a": 1}'), "", [("f", '{"a": 1}')]),
        (block('{"name": "f", "arguments": {"a": [1}'), "", [("f", '{"a": [1]}')]),
        (block('{"name": "f", "arguments": {}, oops}'), "oops}\n", [F]),
        (block('{"name": "f", "arguments": {}, "k" oops}'), ', "k" oops}\n', [F]),
        (block('{"name": "f", "arguments": {}'), "", [F]),
    ],
)
def test_several_calls_and_the_text_around_them(text, said, found):
    assert parse(text) == (said, found)


def test_the_pieces_of_an_answer_are_in_its_order():
    pieces = read(FORMAT, [f"a{block(CALL_F)}b{block(CALL_G)}c"], {})
    assert pieces == [
        ContentText("a"),
        *ParsedCall("f", "{}").pieces(),
        ContentText("b"),
        *ParsedCall("g", "{}").pieces(),
        ContentText("c"),
    ]
