"""Answers of every format that end anywhere: no marker is content, and calls can be parsed."""

from __future__ import annotations

import json

import pytest

from tests.unit.text.toolcalls.reading import calls, content, read
from tests.unit.text.toolcalls.sample import Answer, WrittenCall
from tests.unit.text.toolcalls.writer import WRITERS
from workers.text.toolcalls.detection import FORMATS, find

ARGUMENTS = ({"city": 'Par"is, é', "list": [1, 2]}, {})
CALLS = tuple(
    WrittenCall(name, arguments, json.dumps(arguments))
    for name, arguments in zip(("get_weather", "stop"), ARGUMENTS, strict=True)
)
# Letters that also begin text: what follows them decides.
TEXTS = {
    "functionary31": ("<function=",),
    "functionary32": (">>>",),
    "qwen3_coder": ("<function=",),
}
# In these a message's header is markup as well, or a word begins a call.
FRAMED = ("harmony", "functionary32", "command_r")

every_writer = pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: writer.label)
every_form = pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
both_ends = pytest.mark.parametrize("limited", [True, False], ids=["cut", "ended"])


def make_answer(writer):
    before = "Let me look. " if "before" in writer.text_at else ""
    gap = "And:" if "between" in writer.text_at else ""
    return Answer(before=before, calls=CALLS, gaps=(gap,), after="")


def read_in_parts(form, text, tools, size, *, limited):
    """Return the pieces of a text, which do not depend on the size of its parts."""
    whole = read(form, [text], tools, cut=limited)
    # The first part differs in size, so that every character is the last of a part somewhere.
    first = len(text) % size
    parts = [text[:first], *(text[i : i + size] for i in range(first, len(text), size))]
    assert read(form, parts, tools, cut=limited) == whole
    return whole


def check_content(form, said, *, limited):
    """Assert that no marker is in a content, nor the beginning of one at its end."""
    markers = [m for m in form.markers if m not in TEXTS.get(form.name, ())]
    for marker in markers:
        assert marker not in said
        if limited:
            assert not any(said.endswith(marker[:size]) for size in range(3, len(marker)))


@pytest.mark.slow
@every_writer
@both_ends
def test_an_answer_may_end_anywhere(writer, limited):
    answer = make_answer(writer)
    text = writer.write(answer)
    whole = calls(read(writer.form, [text], answer.tools))
    assert [call.name for call in whole] == [call.name for call in CALLS]
    for end in range(len(text) + 1):
        pieces = read_in_parts(writer.form, text[:end], answer.tools, 5, limited=limited)
        said, found = content(pieces), calls(pieces)
        check_content(writer.form, said, limited=limited)
        if writer.form.name not in (*FRAMED, *TEXTS) and not writer.form.is_bare and limited:
            assert answer.content.startswith(said.rstrip("<[] \n"))
        for call, written in zip(found, whole, strict=False):
            if limited:
                assert call.name == written.name
                assert written.arguments.startswith(call.arguments) or call != found[-1]
            else:
                assert isinstance(json.loads(call.arguments), dict)
        for call in found[:-1]:
            assert isinstance(json.loads(call.arguments), dict)


@every_writer
@both_ends
def test_markers_behind_an_answer_are_not_content(writer, limited):
    answer = make_answer(writer)
    text = writer.write(answer)
    for marker in writer.form.markers:
        if marker in TEXTS.get(writer.form.name, ()):
            continue
        for tail in (marker, f"\n{marker}", marker * 2, f"{marker}{{"):
            pieces = read_in_parts(writer.form, text + tail, answer.tools, 3, limited=limited)
            assert [call.name for call in calls(pieces)][: len(CALLS)] == [
                call.name for call in CALLS
            ]
            check_content(writer.form, content(pieces), limited=limited)


@pytest.mark.slow
@every_form
@both_ends
def test_pairs_of_markers_without_a_call_are_not_content(form, limited):
    tools = {call.name: {} for call in CALLS}
    for first in form.markers:
        for second in form.markers:
            for between in ("", " x y ", "[1]"):
                text = f"Hm. {first}{between}{second}"
                pieces = read_in_parts(form, text, tools, 4, limited=limited)
                check_content(form, content(pieces), limited=limited)
                for call in calls(pieces):
                    assert call.name
                    if not limited:
                        assert isinstance(json.loads(call.arguments), dict)


# Format, answer, content, calls.
ENDINGS = [
    ("kimi_k2", "Hm. <|tool_calls_section_begin|><|tool_calls_section_end|>", "Hm. ", []),
    (
        "kimi_k2",
        (
            "<|tool_calls_section_begin|>I look.<|tool_call_begin|>functions.f:0"
            '<|tool_call_argument_begin|>{"a": 1}<|tool_call_end|><|tool_calls_section_end|>'
        ),
        "I look.",
        [("f", {"a": 1})],
    ),
    (
        "kimi_k2",
        (
            "<|tool_calls_section_begin|><|tool_call_begin|>$web_search:0"
            '<|tool_call_argument_begin|>{"q": 1}<|tool_call_end|><|tool_calls_section_end|>'
        ),
        "",
        [("$web_search", {"q": 1})],
    ),
    ("mistral", "Hi.[TOOL_CALLS]", "Hi.", []),
    ("mistral", "[TOOL_CALLS]f[ARGS]{}[TOOL_CALLS]", "", [("f", {})]),
    (
        "mistral",
        "[TOOL_CALLS]code_interpreter[ARGS]1+1",
        "",
        [("code_interpreter", {"input": "1+1"})],
    ),
    ("qwen3_coder", "Hi.<tool_call>", "Hi.", []),
    (
        "qwen3_coder",
        "<tool_call>\n<function=f>\n<parameter=c>\nx </parameter> y\n</parameter>\n</function>",
        "",
        [("f", {"c": "x </parameter> y"})],
    ),
    (
        "qwen3_coder",
        "<tool_call>\n<function=f>\n<parameter=c>\n1\n<parameter=d>\n2\n</parameter>\n</function>",
        "",
        [("f", {"c": "1", "d": "2"})],
    ),
    (
        "qwen3_coder",
        "<tool_call>\n<function=code_interpreter>\nprint(1)\n</function>\n</tool_call>",
        "",
        [("code_interpreter", {"input": "print(1)"})],
    ),
    (
        "glm47",
        "<tool_call>f\n<arg_key>c</arg_key>\n<arg_value>x\n</tool_call>",
        "",
        [("f", {"c": "x"})],
    ),
    (
        "glm47",
        "<tool_call>f<arg_key>c</arg_key><arg_value>x<arg_key>d</arg_key><arg_value>y</arg_value>",
        "",
        [("f", {"c": "x", "d": "y"})],
    ),
    (
        "minimax_m2",
        '<minimax:tool_call><invoke name="f"><parameter name="c">x</invoke></minimax:tool_call>',
        "",
        [("f", {"c": "x"})],
    ),
    (
        "harmony",
        "<|channel|>commentary to=python code<|message|>1+1",
        "",
        [("python", {"input": "1+1"})],
    ),
    (
        "harmony",
        '<|channel|>analysis to=browser.search code<|message|>{"query": "x"}<|call|>',
        "",
        [("browser.search", {"query": "x"})],
    ),
    ("harmony", "<|start|>functions.f to=assistant<|channel|>commentary<|message|>4", "4", []),
    (
        "gemma4",
        "<|tool_call>call:google_search{q:1}<tool_call|>",
        "",
        [("google_search", {"q": 1})],
    ),
    ("gemma4", "Hm.<|tool_call>I look.call:f{}<tool_call|>", "Hm.I look.", [("f", {})]),
    ("gemma4", "<|tool_call>call:f{d:[1,2<tool_call|>", "", [("f", {"input": "{d:[1,2"})]),
    ("gemma4", "<|tool_call>call:f{c:1,d:2<tool_call|>", "", [("f", {"c": "1", "d": 2})]),
    ("functionary32", ">>>python\nprint(1)", "", [("python", {"input": "print(1)"})]),
    (
        "hermes",
        '<tool_call>{"name": "f", "arguments": {"d": NaN,}}</tool_call>',
        "",
        [("f", {"d": None})],
    ),
    (
        "hermes",
        '<tool_call>{"name": "f", "arguments": [1]}</tool_call>',
        "",
        [("f", {"input": "[1]"})],
    ),
    (
        "hermes",
        '<tool_call>{"name": "f", "arguments": "x"}</tool_call>',
        "",
        [("f", {"input": "x"})],
    ),
    (
        "hermes",
        "<tool_call>{'name': 'f', 'arguments': {'c': 'it'}}</tool_call>",
        "",
        [("f", {"c": "it"})],
    ),
    (
        "hermes",
        '<tool_call>{"name": "f", "arguments": {"d": 1}}}\n</tool_call>',
        "",
        [("f", {"d": 1})],
    ),
    (
        "hermes",
        '<tool_call>{"name": "f", "arguments": {"d": 1\n</tool_call>',
        "",
        [("f", {"d": 1})],
    ),
    (
        "pythonic",
        "<|tool_call_start|>[f(c='it's')]<|tool_call_end|>",
        "",
        [("f", {"input": "(c='it's')]"})],
    ),
]


@pytest.mark.parametrize(("name", "text", "said", "wanted"), ENDINGS)
def test_an_unusual_ending_is_read(name, text, said, wanted):
    tools = {"f": {"properties": {"c": {"type": "string"}, "d": {"type": ["string", "integer"]}}}}
    if name == "qwen3_coder":
        tools["f"]["properties"]["d"] = {"type": "string"}
    pieces = read_in_parts(find(name), text, tools, 1, limited=False)
    assert content(pieces) == said
    assert [(call.name, json.loads(call.arguments)) for call in calls(pieces)] == wanted
