"""Which format is detected from a chat template, and what every format must declare."""

from __future__ import annotations

import pytest

from tests.unit.text.toolcalls.writer import WRITERS
from workers.text.toolcalls.detection import FORMATS, detect, find

# The distinctive text of each family's published template, with misleading text beside it.
TEMPLATES = {
    "harmony": "{{- '<|channel|>commentary to=' + tool_call.name + '<|message|>' }}{% if tools %}",
    "minimax_m3": "{{- ']<]minimax[>[<tool_call>\\n' }}{% for tool in tools %}",
    "glm47": "{% if tools %}{{ '<tool_call>' + tc.name }}<arg_key>{{ k }}</arg_key>",
    "longcat": "{% if tools %}{{ '<longcat_tool_call>' }}<longcat_arg_key>",
    "granite": "<|start_of_role|>{%- if tools %} '<|tool_call|>' followed by a JSON list",
    "gemma4": "{% if tools %}{{- '<|tool_call>call:' + name + '{' }}{{ '}<tool_call|>' }}",
    "function_gemma": "{% if tools %}{{ '<start_function_call>call:' }}<end_function_call>",
    "hermes": (
        '{%- if tools %}{{- "within <tool_call></tool_call> XML tags:\\n<tool_call>\\n'
        '{\\"name\\": <function-name>, \\"arguments\\": <args-json-object>}\\n</tool_call>" }}'
    ),
    "minimax_m2": "{% if tools %}{{ '<minimax:tool_call>' }}<invoke name=\"...\">",
    "kimi_k2": "{% if tools %}<|tool_calls_section_begin|><|tool_call_begin|>",
    "deepseek": "{% if tools %}{{'<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' + tool['type']}}",
    "mistral": "{% if tools %}{{- '[TOOL_CALLS]' + tool['function']['name'] + '[ARGS]' }}",
    "mistral_nemo": '{% if tools %}{{- "[TOOL_CALLS] [" }}',
    "functionary31": "{% if tools %}<function=example_function_name>{{ '<|python_tag|>' }}",
    "qwen3_coder": (
        "{%- if tools %}{{- '<tool_call>\\n<function=' + tool_call.name + '>\\n' }}"
        "{{- '<parameter=' + args_name + '>\\n' }}"
    ),
    "functionary32": "<|start_header_id|>{% if tools %}{{ '>>>all\\n' }}",
    "command_r": "<|CHATBOT_TOKEN|>{% if tools %}Write 'Action:' followed by a json list",
    "pythonic": "{% if tools %}<|tool_call_start|>[{{ call }}]<|tool_call_end|>",
    "llama3": '{%- if tools %}<|start_header_id|>Respond in the format {"name": …, "parameters"',
    "generic_json": "{% for tool in tools %}{{ tool | tojson }}{% endfor %}",
}
NO_TOOLS = "{% for message in messages %}{{ message.role }}: I use tools.{% endfor %}"


def test_formats_are_tried_in_the_order_of_the_reference():
    assert [form.name for form in FORMATS] == list(TEMPLATES)


@pytest.mark.parametrize(("name", "template"), TEMPLATES.items(), ids=TEMPLATES)
def test_a_familys_template_is_read_as_its_format(name, template):
    assert detect(template) is find(name)


def test_a_template_without_tools_has_no_format():
    assert detect(NO_TOOLS) is None
    assert detect("") is None


def test_an_unknown_format_is_not_found():
    assert find("nonsense") is None


def test_every_format_has_a_writer_for_the_property_tests():
    assert {writer.form.name for writer in WRITERS} == {form.name for form in FORMATS}


@pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: writer.label)
def test_every_format_has_markers(writer):
    """The texts around calls avoid the markers: a missing one would not be tested."""
    assert writer.form.markers


@pytest.mark.parametrize("form", [f for f in FORMATS if f.wrapper], ids=lambda form: form.name)
def test_a_forced_call_is_parsed_as_a_call(form):
    wrapper = form.wrapper
    call = f'{{"name": "f", "{wrapper.arguments_key}": {{"a": 1}}}}'
    parser = form.parser({})
    pieces = parser.feed(
        wrapper.opening + (f"[{call}]" if wrapper.is_list else call) + wrapper.closing
    )
    pieces += parser.finish(cut=False)
    assert [getattr(piece, "text", None) for piece in pieces] == [None, '{"a": 1}', None]
