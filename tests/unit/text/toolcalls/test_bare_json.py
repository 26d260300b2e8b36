"""Llama 3 and templates of no known family: calls that no delimiter announces."""

from __future__ import annotations

import pytest

from tests.unit.text.toolcalls.reading import content, parse_at_every_cut, watch
from workers.text.toolcalls.format import CallArguments, CallName
from workers.text.toolcalls.formats import generic_json, llama3

F, G = ("f", "{}"), ("g", "{}")

both = pytest.mark.parametrize(
    "form", [llama3.FORMAT, generic_json.FORMAT], ids=lambda form: form.name
)


@both
@pytest.mark.parametrize(
    ("text", "said", "found"),
    [
        ('{"name": "f", "parameters": {"a": 1}}', "", [("f", '{"a": 1}')]),
        ('{"name": "f", "arguments": {"a": 1}}', "", [("f", '{"a": 1}')]),
        ('\n {"name": "f", "arguments": {}}', "", [F]),
        ('{"type": "function", "name": "f", "parameters": {}}', "", [F]),
        ('{"arguments": {"a": 1}, "id": "x", "name": "f"}', "", [("f", '{"a": 1}')]),
        ('{"name": "f", "arguments": "{}"}', "", [F]),
        ('{"name": "f", "parameters": {}}; {"name": "g", "parameters": {}}', "", [F, G]),
        ('{"name": "f", "parameters": {}}\n{"name": "g", "parameters": {}}', "", [F, G]),
        ('[{"name": "f", "parameters": {}}, {"name": "g", "parameters": {}}]', "", [F, G]),
        ('{"name": "f", "parameters": {}}; so', "; so", [F]),
        ('{"name": "f", "parameters": {}}\n{"a": 1}', '\n{"a": 1}', [F]),
        ('{"name": "f", "parameters": {"a": "b', "", [("f", '{"a": "b')]),
        ('{"name": "f", "parameters": {"a": {', "", [("f", '{"a": {')]),
    ],
)
def test_an_answer_that_begins_as_a_call_is_read(form, text, said, found):
    assert parse_at_every_cut(form, text) == (said, found)


@both
@pytest.mark.parametrize(
    "text",
    [
        '{"city": "Paris"}',
        '{"name": "Ada", "age": 36}',
        '{"name": "Ada"}',
        '{"name": "Ada", "parameters": 5}',
        '{"name": "Ada", "parameters": null}',
        '{"name": "f", "parameters"',
        '{"parameters": {"a": 1}}',
        '{"parameters": {"a": 1',
        "[1, 2]",
        '[ {"a": 1}, 2]',
        " [",
        "{",
        "",
        " \n",
        'Call {"name": "f", "parameters": {}}',
        "{'name': 'f', 'parameters': {}}",
        '```json\n{"name": "f", "parameters": {}}\n```',
    ],
)
def test_any_other_answer_is_content_as_it_is(form, text):
    assert parse_at_every_cut(form, text) == (text, [])


@pytest.mark.parametrize(
    ("text", "said", "found"),
    [
        ('<|python_tag|>{"name": "f", "parameters": {}}', "", [F]),
        ('<|python_tag|>{"name": "f"}', "", [F]),
        ('so <|python_tag|>{"name": "f"}; {"name": "g"}', "so ", [F, G]),
        ('{"a": "<|python_tag|>{"name": "f"}', '{"a": "', [F]),
        ("<|python_tag|>print(1)", "<|python_tag|>print(1)", []),
        ('{"name": "f", "parameters": {}}<|python_tag|>{"name": "g"}', "", [F, G]),
    ],
)
def test_llamas_tag_announces_calls_anywhere(text, said, found):
    assert parse_at_every_cut(llama3.FORMAT, text) == (said, found)


@pytest.mark.parametrize(
    ("text", "said", "found"),
    [
        ('so <tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>', "so ", [F]),
        ('{"name": "f", "arguments": {}}\n</tool_call>!', "!", [F]),
        ('{"name": "f", "arguments": {}} a </tool_call>', " a </tool_call>", [F]),
        ('{"a": 1} <tool_call>{"name": "f"}', '{"a": 1} ', [F]),
    ],
)
def test_hermes_tags_announce_calls_for_templates_of_no_family(text, said, found):
    assert parse_at_every_cut(generic_json.FORMAT, text) == (said, found)


def test_a_call_is_given_as_soon_as_its_keys_tell_it():
    text = '{"name": "f", "parameters": {"a": 1}}'
    stages = watch(llama3.FORMAT, text, {})
    begin = text.index('{"a')
    assert stages[begin - 1] == []
    assert stages[begin] == [CallName("f"), CallArguments("{")]


def test_an_object_of_other_keys_is_let_go_at_the_first_of_them():
    text = '{"name": "Ada", "age": 36}'
    stages = watch(llama3.FORMAT, text, {})
    told = text.index('age"') + len('age"')
    assert content(stages[told - 2]) == ""
    assert content(stages[told - 1]) == text[:told]
    assert content(stages[-2]) == text
