"""Recorded and hand-made answers of the formats whose calls do not stream."""

from __future__ import annotations

import importlib
import json

import pytest

from tests.unit.text.toolcalls.reading import calls, content, cut, read, watch
from workers.text.toolcalls.detection import detect, find
from workers.text.toolcalls.format import ParsedCall

WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "units": {"anyOf": [{"$ref": "#/$defs/Units"}, {"type": "null"}]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "place": {
            "type": "object",
            "properties": {"zip": {"type": "string"}, "floor": {"type": "integer"}},
        },
    },
    "$defs": {"Units": {"enum": ["celsius", "kelvin"]}},
}
TOOLS = {"get_weather": WEATHER, "stop": {"type": "object", "properties": {}}}
PARIS = ParsedCall("get_weather", '{"city": "Paris"}')
PARIS_DAYS = ParsedCall("get_weather", '{"city": "Paris", "days": 2}')
STOP = ParsedCall("stop", "{}")
M3 = "]<]minimax[>["

# Format, answer, calls, content.
GOOD = [
    (
        "kimi_k2",
        (
            "On it.<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
            '<|tool_call_argument_begin|>{"city": "Paris"}<|tool_call_end|><|tool_call_begin|>'
            "functions.stop:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>"
        ),
        [PARIS, STOP],
        "On it.",
    ),
    (  # the singular spelling, no `functions.`, a dot in a name, white space everywhere
        "kimi_k2",
        (
            "<|tool_call_section_begin|>\n<|tool_call_begin|> mcp.get:12 "
            '<|tool_call_argument_begin|> {"b":1.50 , "a":[]} <|tool_call_end|>\n'
            "<|tool_call_section_end|>Done"
        ),
        [ParsedCall("mcp.get", '{"b":1.50 , "a":[]}')],
        "Done",
    ),
    (  # cut behind a complete call
        "kimi_k2",
        (
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.stop:0"
            "<|tool_call_argument_begin|>{}"
        ),
        [STOP],
        "",
    ),
    (
        "deepseek",
        (
            "On it.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>"
            '{"city": "Paris"}<｜tool▁call▁end｜>'
            "<｜tool▁call▁begin｜>stop<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
            "<｜tool▁calls▁end｜>"
        ),
        [PARIS, STOP],
        "On it.",
    ),
    (
        "deepseek",
        (
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n"
            '{"city": "Paris"}\n```<｜tool▁call▁end｜>\n'
            "<｜tool▁call▁begin｜>function<｜tool▁sep｜>stop\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
        ),
        [PARIS, STOP],
        "",
    ),
    (  # delimiters in a string
        "functionary31",
        (
            '<function=stop>{"why": "</function><function=x>{}"}</function>'
            "<function=stop>{}</function>"
        ),
        [ParsedCall("stop", '{"why": "</function><function=x>{}"}'), STOP],
        "",
    ),
    (
        "functionary31",
        'Use <function=name>, not this: <function=get_weather>\n{"city": "Paris"}\n</function>!',
        [PARIS],
        "Use <function=name>, not this: !",
    ),
    (
        "functionary32",
        'all\nLet me look.\n>>>get_weather\n{"city": "Paris"}>>>stop\n{}>>>all\nDone.',
        [PARIS, STOP],
        "Let me look.\nDone.",
    ),
    ("functionary32", 'get_weather\n{"city": "Paris"}', [PARIS], ""),
    (
        "functionary32",
        "all\n>>> print(1)\n>>>x = 2\n>>>>stop\n{}",
        [STOP],
        ">>> print(1)\n>>>x = 2\n>",
    ),
    ("functionary32", "Hello\nworld", [], "Hello\nworld"),
    (
        "granite",
        (
            '<response><tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}'
            '</tool_call>\n<tool_call>{"name": "stop"}</tool_call></response>'
        ),
        [PARIS, STOP],
        "",
    ),
    (
        "granite",
        'Wait.<|tool_call|>[{"name": "get_weather", "arguments": "{\\"city\\": \\"Paris\\"}"}]',
        [PARIS],
        "Wait.",
    ),
    (
        "granite",
        (
            '<tool_call>[{"arguments": {"city": "Paris"}, "name": "get_weather"}, {"name":"stop",'
            '"arguments":null}]'
        ),
        [PARIS, STOP],
        "",
    ),
    ("granite", "<response>Just text.</response>", [], "Just text."),
    (
        "command_r",
        (
            '<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "get_weather", '
            '"parameters": {"city": "Paris"}},\n    {"tool_call_id": "1", "tool_name": "stop", '
            '"parameters": {}}\n]<|END_ACTION|>'
        ),
        [PARIS, STOP],
        "",
    ),
    (
        "command_r",
        (
            'I will look.\nAction: get_weather\nAction Input: {"city": "Paris"}\nAction: stop\n'
            "Action Input: {}\nSo be it."
        ),
        [PARIS, STOP],
        "I will look.\nSo be it.",
    ),
    (
        "command_r",
        (
            'Action:\n```json\n[\n    {\n        "tool_name": "get_weather",\n'
            '        "parameters": {"city": "Paris"}\n    }\n]```'
        ),
        [PARIS],
        "",
    ),
    (
        "command_r",
        "Plan of Action: wait.\nAction: wait for it\nAction: none",
        [],
        "Plan of Action: wait.\nAction: wait for it\nAction: none",
    ),
    (
        "harmony",
        (
            "<|channel|>commentary<|message|>Let me look.<|end|><|start|>assistant<|channel|>"
            'commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Paris"}'
            "<|call|>"
        ),
        [PARIS],
        "Let me look.",
    ),
    (
        "harmony",
        (
            ' to=functions.get_weather<|channel|>commentary json<|message|>{"city": "Paris"}'
            "<|call|><|start|>assistant to=functions.stop<|channel|>commentary<|message|><|call|>"
            "<|start|>assistant<|channel|>final<|message|>Done.<|return|>"
        ),
        [PARIS, STOP],
        "Done.",
    ),
    (
        "harmony",
        (
            "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>analysis"
            " to=functions.stop code<|message|>{}"
        ),
        [STOP],
        "Hm.",
    ),
    (  # what is no JSON object is no call of ours
        "harmony",
        "<|channel|>analysis to=python code<|message|>1 + 1<|call|>",
        [ParsedCall(name="python", arguments='{"input": "1 + 1"}')],
        "",
    ),
    (
        "minimax_m2",
        (
            '\n<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="city">Paris'
            '</parameter>\n<parameter name="days">2</parameter>\n</invoke>\n<invoke name="stop">\n'
            "</invoke>\n</minimax:tool_call>"
        ),
        [PARIS_DAYS, STOP],
        "\n",
    ),
    (  # other delimiters in a value, which is kept to the letter
        "minimax_m2",
        (
            "<invoke name='get_weather'><parameter name='city'>\n a </invoke> 'b' </parameter>"
            "</invoke>."
        ),
        [ParsedCall("get_weather", '{"city": "\\n a </invoke> \'b\' "}')],
        ".",
    ),
    (
        "minimax_m3",
        (
            f'{M3}<tool_call>\n{M3}<invoke name="get_weather">{M3}<city>Paris{M3}</city>\n'
            f"{M3}<days>2{M3}</days>{M3}</invoke>\n"
            f'{M3}<invoke name="stop">{M3}</invoke>\n{M3}</tool_call>'
        ),
        [PARIS_DAYS, STOP],
        "",
    ),
    (
        "minimax_m3",
        (
            f'{M3}<tool_call>{M3}<invoke name="get_weather">'
            f"{M3}<tags>{M3}<item>1{M3}</item>{M3}<item>a <b>{M3}</item>{M3}</tags>"
            f"{M3}<place>\n{M3}<zip>018956{M3}</zip>\n{M3}<floor>3{M3}</floor>\n{M3}</place>"
            f"{M3}<units>null{M3}</units>{M3}</invoke>{M3}</tool_call>"
        ),
        [
            ParsedCall(
                "get_weather",
                '{"tags": ["1", "a <b>"], "place": {"zip": "018956", "floor": 3}, "units": null}',
            )
        ],
        "",
    ),
    (
        "glm47",
        (
            "Let me look.\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris"
            "</arg_value>\n<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>\n"
            "<tool_call>stop</tool_call>"
        ),
        [PARIS_DAYS, STOP],
        "Let me look.\n\n",
    ),
    (  # Hermes' way, which these models fall into
        "glm47",
        '<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>',
        [PARIS],
        "",
    ),
    (
        "longcat",
        (
            "<longcat_tool_call>get_weather\n<longcat_arg_key>city</longcat_arg_key>\n"
            "<longcat_arg_value></longcat_tool_call> 007</longcat_arg_value>\n</longcat_tool_call>"
        ),
        [ParsedCall("get_weather", '{"city": "</longcat_tool_call> 007"}')],
        "",
    ),
    (
        "gemma4",
        (
            'Sure.<|tool_call>call:get_weather{city:<|"|>Paris<|"|>,days:2}<tool_call|>'
            "<|tool_call>call:stop{}<tool_call|>"
        ),
        [PARIS_DAYS, STOP],
        "Sure.",
    ),
    (
        "gemma4",
        (
            '<|tool_call>call:get_weather{place:{zip:00123,<|"|>floor<|"|>:<|"|>3<|"|>},'
            'tags:[<|"|>}<tool_call|>"<|"|>,7],units:null,extra:[1,{a:true}]}<tool_call|>'
        ),
        [
            ParsedCall(
                "get_weather",
                '{"place": {"zip": "00123", "floor": 3}, "tags": ["}<tool_call|>\\"", "7"], '
                '"units": null, "extra": [1, {"a": true}]}',
            )
        ],
        "",
    ),
    (
        "function_gemma",
        (
            "<start_function_call>call:get_weather{city:<escape>Paris, {1}<escape>,days:<escape>2"
            "<escape>}<end_function_call><start_function_call>call:stop{}<end_function_call>"
        ),
        [ParsedCall("get_weather", '{"city": "Paris, {1}", "days": 2}'), STOP],
        "",
    ),
    (
        "pythonic",
        '<|tool_call_start|>[get_weather(city="Paris", days=2), stop()]<|tool_call_end|>Checking.',
        [PARIS_DAYS, STOP],
        "Checking.",
    ),
    (
        "pythonic",
        (
            "<|tool_call_start|>[a.b(x=-1.5e3, y=[True, None, {'k': \"\\d\\u00e9\\n\"}], z=false, "
            "get=(), )]<|tool_call_end|>"
        ),
        [
            ParsedCall(
                "a.b",
                r"""{"input": "(x=-1.5e3, y=[True, None, {'k': \"\\d\\u00e9\\n\"}], """
                'z=false, get=(), )]"}',
            )
        ],
        (""),
    ),
    (
        "pythonic",
        (
            "<|tool_call_start|>[a.b(x=-1.5e3, y=[True, None, {'k': \"\\d\\u00e9\\n\"},], "
            "z=false, )]<|tool_call_end|>"
        ),
        [ParsedCall("a.b", '{"x": -1.5e3, "y": [true, null, {"k": "\\\\dé\\n"}], "z": false}')],
        "",
    ),
    (
        "pythonic",
        "<|tool_call_start|>get_weather(city=75001, days=2)<|tool_call_end|>",
        [ParsedCall("get_weather", '{"city": "75001", "days": 2}')],
        "",
    ),
    (  # LFM2's template escapes no quote: the string looks as if it did not end
        "pythonic",
        (
            "<|tool_call_start|>[stop(a='it's')]<|tool_call_end|> and <|tool_call_start|>[stop()]"
            "<|tool_call_end|>!"
        ),
        [
            ParsedCall(name="stop", arguments='{"input": "(a=\'it\'s\')]"}'),
            ParsedCall(name="stop", arguments="{}"),
        ],
        " and !",
    ),
]

# Format, text that is not well-formed, calls, content.
BAD = [
    ("kimi_k2", "<|tool_calls_section_begin|><|tool_calls_section_end|>", [], ""),
    ("kimi_k2", "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0", [("f", "{}")], ""),
    (
        "kimi_k2",
        (
            "<|tool_calls_section_begin|><|tool_call_begin|>f:0<|tool_call_argument_begin|>[1]"
            "<|tool_call_end|><|tool_calls_section_end|>"
        ),
        [("f", '{"input": "[1]"}')],
        "",
    ),
    (
        "deepseek",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        [("f", "{}")],
        "",
    ),
    (
        "deepseek",
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a": 1',
        [("f", '{"a": 1}')],
        "",
    ),
    (
        "deepseek",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>[1]<｜tool▁call▁end｜>",
        [("f", '{"input": "[1]"}')],
        "",
    ),
    ("functionary31", '<function=f>{"a": 1</function>', [("f", '{"a": 1}')], ""),
    ("functionary31", "<function=>{}</function>", [], "<function=>{}"),
    ("functionary31", '<function=f>{"a": 1', [("f", '{"a": 1}')], ""),
    ("functionary32", ">>>stop\nno", [("stop", '{"input": "no"}')], ""),
    ("functionary32", '>>>stop\n{"a": >>>stop', [("stop", '{"a": ">>>stop"}')], ""),
    ("granite", "<|tool_call|>[]", [], ""),
    ("granite", '<|tool_call|>[{"name": "f", "arguments": 1}]', [("f", '{"input": "1"}')], ""),
    (
        "granite",
        '<|tool_call|>[{"name": "stop"}, {"arguments": {}}]',
        [("stop", "{}")],
        ', {"arguments": {}}]',
    ),
    ("granite", '<response><tool_call>{"nam": "f"}</tool_call></response>', [], '{"nam": "f"}'),
    (
        "command_r",
        '<|START_ACTION|>[{"tool_name": "f", "parameters": {}<|END_ACTION|>',
        [("f", "{}")],
        "",
    ),
    ("command_r", "Action: f\nAction Input: none", [("f", '{"input": "none"}')], ""),
    ("command_r", "Action:\n```json\n[]\n```", [], ""),
    (
        "harmony",
        "<|channel|>commentary to=functions.f<|message|>{} and more<|call|>",
        [("f", "{}")],
        "and more",
    ),
    ("harmony", "<|channel|>commentary to=functions.f", [], ""),
    (
        "minimax_m2",
        '<minimax:tool_call><invoke name="f"><parameter name="a">1</invoke>',
        [("f", '{"a": 1}')],
        "",
    ),
    ("minimax_m2", "<minimax:tool_call>f</minimax:tool_call>", [], "f"),
    ("minimax_m2", '<invoke name="f"', [], '"f"'),
    (
        "minimax_m3",
        f'{M3}<tool_call>{M3}<invoke name="f">{M3}<a>1{M3}</b>{M3}</invoke>',
        [("f", '{"input": "<a>1</b>"}')],
        "",
    ),
    (
        "minimax_m3",
        f'{M3}<tool_call>{M3}<invoke name="f">{M3}<a>1{M3}</invoke>{M3}</tool_call>',
        [("f", '{"a": 1}')],
        "",
    ),
    (
        "minimax_m3",
        f'{M3}<tool_call>{M3}<invoke name="f">1{M3}</invoke>{M3}</tool_call>',
        [("f", '{"input": "1"}')],
        "",
    ),
    ("minimax_m3", f'{M3}<tool_call>{M3}<invoke name="f">' + f"{M3}<a>" * 200, ..., ""),
    ("glm47", "<tool_call>get_weather", [("get_weather", "{}")], ""),
    (
        "glm47",
        "<tool_call>get_weather<arg_key>city</arg_key></tool_call>",
        [("get_weather", "{}")],
        "",
    ),
    ("glm47", "<tool_call>not a name</tool_call>", [], "not a name"),
    ("longcat", "<longcat_tool_call></longcat_tool_call>", [], ""),
    ("gemma4", "<|tool_call>call:f{a:1<tool_call|>", [("f", '{"a": 1}')], ""),
    ("gemma4", "<|tool_call>call:f{a}<tool_call|>", [("f", '{"input": "{a}"}')], ""),
    ("gemma4", '<|tool_call>call:f{a:<|"|>x}<tool_call|>', [("f", '{"input": "{a:x}"}')], ""),
    ("gemma4", "<|tool_call>call:f{a:" + "[" * 5000 + "<tool_call|>", ..., ""),
    ("function_gemma", "<start_function_call>f{}<end_function_call>", [], "f{}"),
    ("pythonic", "<|tool_call_start|>[f(1)]<|tool_call_end|>", [("f", '{"input": "(1)]"}')], ""),
    (
        "pythonic",
        "<|tool_call_start|>[f(a=g())]<|tool_call_end|>",
        [("f", '{"input": "(a=g())]"}')],
        "",
    ),
    (
        "pythonic",
        "<|tool_call_start|>[f(a=1+1)]<|tool_call_end|>",
        [("f", '{"input": "(a=1+1)]"}')],
        "",
    ),
    (
        "pythonic",
        "<|tool_call_start|>[f(a=__import__('os'))]<|tool_call_end|>",
        [("f", '{"input": "(a=__import__(\'os\'))]"}')],
        "",
    ),
    ("pythonic", "<|tool_call_start|>[]<|tool_call_end|>", [], ""),
    ("pythonic", "<|tool_call_start|>[f(a=" + "[" * 5000 + ")]<|tool_call_end|>", ..., ""),
]


@pytest.mark.parametrize(("name", "text", "wanted", "said"), GOOD)
def test_calls_and_content_do_not_depend_on_the_cuts(name, text, wanted, said):
    form = find(name)
    pieces = read(form, [text], TOOLS)
    assert (calls(pieces), content(pieces)) == (wanted, said)
    assert read(form, text, TOOLS) == pieces
    for offset in range(1, len(text)):
        assert read(form, cut(text, [offset]), TOOLS) == pieces


@pytest.mark.parametrize(("name", "text", "wanted", "said"), BAD)
def test_a_malformed_call_is_marked_or_is_content_without_markers(name, text, wanted, said):
    for parts in ([text], text):
        pieces = read(find(name), parts, TOOLS)
        found = [(call.name, call.arguments) for call in calls(pieces)]
        assert wanted in (found, ...)
        assert content(pieces) == said
        for _, arguments in found:
            assert isinstance(json.loads(arguments), dict)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("glm47", "<tool> and <tool_cal"),
        ("kimi_k2", "<|tool_calls_"),
        ("functionary32", "b >> c"),
        ("command_r", "\nActionable"),
        ("pythonic", "<|tool_call_star"),
    ],
)
def test_text_is_released_once_it_cant_be_a_delimiter(name, text):
    form = find(name)
    for count, pieces in enumerate(watch(form, text, TOOLS)[:-1], 1):
        held = text[len(content(pieces)) : count]
        assert any(marker.startswith(held.lstrip("\n")) for marker in (*form.markers, "Action:"))


@pytest.mark.parametrize(
    ("name", "body"),
    [
        (
            "minimax_m2",
            (
                '<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="city">Paris'
                '</parameter>\n<parameter name="days">2</parameter>\n</invoke>\n'
                "</minimax:tool_call>"
            ),
        ),
        (
            "glm47",
            (
                "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value>"
                "<arg_key>days</arg_key><arg_value>2</arg_value></tool_call>"
            ),
        ),
        (
            "longcat",
            (
                "<longcat_tool_call>get_weather\n<longcat_arg_key>city</longcat_arg_key>\n"
                "<longcat_arg_value>Paris</longcat_arg_value>\n<longcat_arg_key>days"
                "</longcat_arg_key>\n<longcat_arg_value>2</longcat_arg_value>\n</longcat_tool_call>"
            ),
        ),
        (
            "kimi_k2",
            (
                "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
                '<|tool_call_argument_begin|>{"city": "Paris", "days": 2}<|tool_call_end|>'
                "<|tool_calls_section_end|>"
            ),
        ),
        ("gemma4", '<|tool_call>call:get_weather{city:<|"|>Paris<|"|>,days:2}<tool_call|>'),
        (
            "function_gemma",
            (
                "<start_function_call>call:get_weather{city:<escape>Paris<escape>,days:2}"
                "<end_function_call>"
            ),
        ),
        ("pythonic", '<|tool_call_start|>[get_weather(city="Paris", days=2)]<|tool_call_end|>'),
    ],
)
def test_mlx_lm_parses_the_same(name, body):
    theirs = importlib.import_module(f"mlx_lm.tool_parsers.{name}")
    inner = body.removeprefix(theirs.tool_call_start).removesuffix(theirs.tool_call_end)
    tools = [{"function": {"name": "get_weather", "parameters": WEATHER}}]
    expected = theirs.parse_tool_call(inner, tools)
    expected = expected[0] if isinstance(expected, list) else expected
    (call,) = calls(read(find(name), [body], TOOLS))
    assert (call.name, json.loads(call.arguments)) == (expected["name"], expected["arguments"])


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("{% if tools %}<|im_system|>tool_declare<|im_middle|>{{ tools | tojson }}", "kimi_k2"),
        ("{% if tools %}<minimax:tool_call><invoke name=><response>{{ r }}", "minimax_m2"),
        ("<|start_of_role|>{% if tools %}within <tool_call></tool_call> XML tags", "hermes"),
        ("{% if tools %}<response><tool_call>{{ c }}</tool_call></response>", "granite"),
        ("{% if tools %}<|START_ACTION|>[{{ c }}]<|END_ACTION|>", "command_r"),
        ("{% if tools %}<|tool|>{{ tools }}<|/tool|><|tool_call|>", "generic_json"),
        ("{{ tools }}{{ '<tool_call>' + tc.name }}{{ '<arg_key>' }}<|observation|>", "glm47"),
    ],
)
def test_similar_templates_are_distinguished(template, name):
    assert detect(template) is find(name)
