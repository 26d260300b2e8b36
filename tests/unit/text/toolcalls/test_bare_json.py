"""Llama 3 and templates of unknown format: calls without a delimiter."""

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
        ('{"name": "f", "parameters": {"a": "b', "", [("f", '{"a": "b"}')]),
        ('{"name": "f", "parameters": {"a": {', "", [("f", '{"a": {}}')]),
    ],
)
def test_an_answer_that_begins_with_a_call_is_parsed(form, text, said, found):
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
def test_any_other_answer_is_unchanged_content(form, text):
    assert parse_at_every_cut(form, text) == (text, [])


@pytest.mark.parametrize(
    ("text", "said", "found"),
    [
        ('<|python_tag|>{"name": "f", "parameters": {}}', "", [F]),
        ('<|python_tag|>{"name": "f"}', "", [F]),
        ('so <|python_tag|>{"name": "f"}; {"name": "g"}', "so ", [F, G]),
        ('{"a": "<|python_tag|>{"name": "f"}', '{"a": "', [F]),
        ("<|python_tag|>print(1)", "print(1)", []),
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
        ('{"name": "f", "arguments": {}} a </tool_call>', " a ", [F]),
        ('{"a": 1} <tool_call>{"name": "f"}', '{"a": 1} ', [F]),
    ],
)
def test_hermes_tags_announce_calls_for_templates_of_unknown_format(text, said, found):
    assert parse_at_every_cut(generic_json.FORMAT, text) == (said, found)


def test_a_call_streams_once_its_keys_identify_it():
    text = '{"name": "f", "parameters": {"a": 1}}'
    stages = watch(llama3.FORMAT, text, {})
    begin = text.index('{"a')
    assert stages[begin - 1] == []
    assert stages[begin] == [CallName("f"), CallArguments("{")]


def test_an_object_is_released_as_content_at_its_first_other_key():
    text = '{"name": "Ada", "age": 36}'
    stages = watch(llama3.FORMAT, text, {})
    end = text.index('age"') + len('age"')
    assert content(stages[end - 2]) == ""
    assert content(stages[end - 1]) == text[:end]
    assert content(stages[-2]) == text
