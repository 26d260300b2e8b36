"""Every history that a client of this API sends is rendered whole by every chat template.

The templates are those of tests/data, made ones, and those of installed packages and models. The
variable TEMPLATES names a folder with more.
"""

from __future__ import annotations

import json
import os
import sysconfig
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.pb import text_pb2 as pb
from tests.checkpoint import ROOT
from tests.unit.text import tiny_tokenizer
from tests.unit.text.prompt.history import (
    LETTERS,
    function_tool,
    list_histories,
    make_history,
    weather_tool,
)
from tests.unit.text.prompt.made_template import make_templates
from workers.text.prompt.prompter import Prompter

pytestmark = pytest.mark.slow

HISTORIES = list_histories()
WRITTEN = sorted((ROOT / "tests" / "data").rglob("*.jinja"))
TOKENIZER = tiny_tokenizer.byte_level()


def find_templates():
    """Return all templates by name."""
    found = {path.stem: path.read_text("utf-8") for path in WRITTEN}
    found |= dict(make_templates())
    for folder in (sysconfig.get_paths()["purelib"], os.environ.get("TEMPLATES")):
        paths = sorted(Path(folder).rglob("*.jinja")) if folder else []
        found |= {f"{path.parent.name}/{path.stem}": path.read_text("utf-8") for path in paths}
    for path in sorted((ROOT / "models").glob("*/tokenizer_config.json")):
        if template := json.loads(path.read_text("utf-8")).get("chat_template"):
            found[path.parent.name] = template
    return found


TEMPLATES = find_templates()


@cache
def prompter_of(name):
    return Prompter(TOKENIZER, TEMPLATES[name], {})


def render(name, messages, *tools):
    chat = pb.ChatPrompt(messages=messages, tools=tools, add_generation_prompt=True)
    return prompter_of(name).render(pb.GenerateRequest(chat=chat))


def find_missing(name, histories):
    """Return the histories of which a word is missing, half of them with a tool."""
    missing = {}
    for index, (code, history) in enumerate(histories):
        shown = render(name, history.messages, *[weather_tool()][: index % 2])
        if words := [word for word in history.words if word not in shown]:
            missing[code] = words
    return missing


def test_there_are_enough_templates_and_histories():
    assert len(TEMPLATES) > 100
    assert len(HISTORIES) > 100


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_template_shows_every_history_whole(name):
    part = HISTORIES if name in {path.stem for path in WRITTEN} else HISTORIES[hash_of(name) :: 3]
    assert find_missing(name, part) == {}


def hash_of(name):
    """Return which third of the histories a made template is tried with."""
    return sum(name.encode()) % 3


@given(st.text(LETTERS, min_size=1, max_size=9), st.sampled_from([p.stem for p in WRITTEN]))
def test_any_history_is_rendered_whole(code, name):
    history = make_history(code)
    if history.words:
        shown = render(name, history.messages)
        assert [word for word in history.words if word not in shown] == []


# --------------------------------------------------------------------- declarations

TEXT = {"type": "string"}
DECLARATIONS = {
    "nothing": {},
    "no description": {"parameters": {"type": "object", "properties": {"a": TEXT}}},
    "a null description": {"description": None, "parameters": {"type": "object"}},
    "no parameters": {"description": "d"},
    "null parameters": {"description": "d", "parameters": None},
    "empty parameters": {"parameters": {}},
    "null properties": {"parameters": {"type": "object", "properties": None}},
    "null required": {"parameters": {"type": "object", "properties": {}, "required": None}},
    "no object": {"parameters": {"oneOf": [{"type": "object"}, {"type": "object"}]}},
}
MEMBERS = {
    "a null description": TEXT | {"description": None},
    "no type": {},
    "any value": True,
    "two types": {"type": ["string", "null"]},
    "a union": {"anyOf": [TEXT, {"type": "null"}]},
    "a reference": {"$ref": "#/$defs/A"},
    "an enumeration": {"enum": ["x", 1, None]},
    "null keywords": {"type": "string", "default": None, "enum": None},
    "items of any type": {"type": "array"},
    "null items": {"type": "array", "items": None},
    "members": {"type": "object", "properties": {"b": {"type": ["integer", "null"]}, "c": {}}},
}
DECLARED = DECLARATIONS | {
    f"a member with {name}": {"parameters": {"type": "object", "properties": {"a": member}}}
    for name, member in MEMBERS.items()
}
# Shows tools as the templates of Seed-OSS, Command R7B and GPT-OSS do, and needs every field.
STRICT = (
    "{% macro kind(s) %}{{ '(' + s.type + ') ' + s.description }}"
    "{% if s.type == 'array' %}{{ kind(s['items']) }}{% endif %}"
    "{% for k, v in (s.properties or {}).items() %}{{ k + kind(v) }}{% endfor %}{% endmacro %}"
    "{% for t in tools or [] %}{% set f = t.function %}{{ f.name + f.description }}"
    "{{ kind(f.parameters) }}{{ f.parameters.properties | length }}"
    "{{ f.parameters.required | join(',') }}{% endfor %}"
    "{% for m in messages %}{{ m.content }}{% endfor %}"
)


@pytest.mark.parametrize("declared", DECLARED.values(), ids=DECLARED)
def test_a_tool_with_missing_fields_is_shown_by_templates_that_need_them(declared):
    tool = function_tool({"name": "get_time", **declared})
    messages = make_history("sucru").messages
    for path in WRITTEN:
        assert "get_time" in render(path.stem, messages, tool)
    prompter = Prompter(TOKENIZER, STRICT, {})
    chat = pb.ChatPrompt(messages=messages, tools=[tool], add_generation_prompt=True)
    assert "get_time" in prompter.render(pb.GenerateRequest(chat=chat))


def test_a_tool_is_shown_as_it_was_sent_where_the_template_accepts_it():
    sent = {"name": "get_time", "parameters": {"properties": {"a": {}}}}
    prompter = Prompter(TOKENIZER, "{{ tools | tojson }}{{ messages[0].content }}", {})
    chat = pb.ChatPrompt(messages=make_history("u").messages, tools=[function_tool(sent)])
    chat.add_generation_prompt = True
    shown = prompter.render(pb.GenerateRequest(chat=chat))
    assert shown.startswith(json.dumps([{"type": "function", "function": sent}]))
