"""Both forms of Mistral: one JSON list, and each name before its arguments."""

from __future__ import annotations

import pytest

from tests.unit.text.toolcalls.reading import parse_at_every_cut, watch
from workers.text.toolcalls.format import CallArguments, CallEnd, CallName
from workers.text.toolcalls.formats import mistral, mistral_nemo

F, G = ("f", "{}"), ("g", "{}")
BOTH = [mistral.FORMAT, mistral_nemo.FORMAT]

both = pytest.mark.parametrize("form", BOTH, ids=lambda form: form.name)


@both
@pytest.mark.parametrize(
    ("text", "said", "found"),
    [
        (
            '[TOOL_CALLS] [{"name": "f", "arguments": {"a": [1]}, "id": "a1b2c3d4e"}]',
            "",
            [("f", '{"a": [1]}')],
        ),
        ('ok[TOOL_CALLS][{"name":"f","arguments":{}},{"name":"g"}] so', "ok so", [F, G]),
        ('[TOOL_CALLS]{"name": "f", "arguments": {}}', "", [F]),
        ('[TOOL_CALLS]{"name": "f"}\n{"name": "g"}', "", [F, G]),
        ('[TOOL_CALLS]{"name": "f"}, so', ", so", [F]),
        ('[TOOL_CALLS][{"name": "f"}][TOOL_CALLS][{"name": "g"}]', "", [F, G]),
        ('[TOOL_CALLS][{"name": "f"}', "", [F]),
        ('[TOOL_CALLS][{"name": "f"}, ', "", [F]),
        ('[TOOL_CALLS][{"name": "f", "arguments": {"a": "]', "", [("f", '{"a": "]"}')]),
        ("[TOOL_CALLS][]", "", []),
        ("[TOOL_CALLS]['f']", "['f']", []),
        ("[TOOL_CALLS", "[TOOL_CALLS", []),
        ("[TOOL_CALLS]", "", []),
        ("[1] [TOOL] [x", "[1] [TOOL] [x", []),
    ],
)
def test_a_list_is_parsed(form, text, said, found):
    assert parse_at_every_cut(form, text) == (said, found)


@pytest.mark.parametrize(
    ("text", "said", "found"),
    [
        ('[TOOL_CALLS]f[ARGS]{"a": 1}', "", [("f", '{"a": 1}')]),
        ('[TOOL_CALLS] f [ARGS] {"a": 1}', "", [("f", '{"a": 1}')]),
        ('[TOOL_CALLS]f[CALL_ID]a1B2c3D4e[ARGS]{"a": 1}', "", [("f", '{"a": 1}')]),
        ('[TOOL_CALLS]f{"a": 1}', "", [("f", '{"a": 1}')]),
        ('[TOOL_CALLS]f[ARGS]{"a": "[TOOL_CALLS]"}', "", [("f", '{"a": "[TOOL_CALLS]"}')]),
        ("[TOOL_CALLS]f[ARGS]{}[TOOL_CALLS]g[ARGS]{}", "", [F, G]),
        ("[TOOL_CALLS]f[ARGS]{}g[ARGS]{}", "", [F, G]),
        ("[TOOL_CALLS]f[ARGS]{}\ng[ARGS]{} end", " end", [F, G]),
        ("so[TOOL_CALLS]f[ARGS]{}, then [TOOL_CALLS]g[ARGS]{}", "so, then ", [F, G]),
        ('[TOOL_CALLS]f[ARGS]{"a": ', "", [("f", '{"a": null}')]),
        ("[TOOL_CALLS]f[ARGS]", "", [("f", "{}")]),
        ("[TOOL_CALLS]f[ARGS]none", "", [("f", '{"input": "none"}')]),
        ("[TOOL_CALLS]f[ARG", "f[ARG", []),
        ("[TOOL_CALLS]f", "f", []),
        ("[TOOL_CALLS][ARGS]{}", "{}", []),
        ("[TOOL_CALLS]f[CALL_ID]x{}", "", [F]),
        ("[TOOL_CALLS]f[CALL_ID]x so", "fx so", []),
        ("[TOOL_CALLS]f[ARGS]{} f of x", " f of x", [F]),
        ("f[ARGS]{}", "f{}", []),
    ],
)
def test_a_name_before_its_arguments_is_parsed(text, said, found):
    assert parse_at_every_cut(mistral.FORMAT, text) == (said, found)


def test_name_and_arguments_stream():
    text = '[TOOL_CALLS]f[ARGS]{"a": 1}'
    stages = watch(mistral.FORMAT, text, {})
    begin = text.index("{")
    assert stages[begin - 2] == []
    assert stages[begin - 1] == [CallName("f")]
    # A number is given out once it is complete.
    for size in range(1, 8):
        assert stages[begin + size - 1] == [
            CallName("f"),
            CallArguments('{"a": 1}'[: 6 if size == 7 else size]),
        ]
    assert stages[-1] == [CallName("f"), CallArguments('{"a": 1}'), CallEnd()]
