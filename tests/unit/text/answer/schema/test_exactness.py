"""Schemas that the grammar engine alone would not enforce exactly."""

from __future__ import annotations

import functools
import json

import pytest
from llguidance import LLMatcher, LLTokenizer

from workers.text.answer.grammar import compiles
from workers.text.answer.schema.exactness import JSON_STYLE, InexactError, make_exact

OPEN = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
CAT, DOG = (
    {
        "type": "object",
        "properties": {"kind": {"const": kind}, "next": {"$ref": "#/$defs/pet"}},
        "required": ["kind"],
        "additionalProperties": False,
    }
    for kind in ("cat", "dog")
)
PETS = {
    "$ref": "#/$defs/pet",
    "$defs": {
        "cat": CAT,
        "dog": DOG,
        "pet": {"oneOf": [{"$ref": "#/$defs/cat"}, {"$ref": "#/$defs/dog"}, {"type": "null"}]},
    },
}
DATE = {"type": "string", "format": "date"}
LOOSE = {"type": "object", "properties": {"kind": {"type": "string"}}}
OBJECT = {"type": "object", "properties": {"a": {"type": "integer"}}}
TIME = {"type": "string", "format": "time"}
MOMENT = {"type": "string", "format": "date-time"}
CIRCLE = {
    "type": "object",
    "properties": {"kind": {"type": "string"}, "r": {"type": "integer"}},
    "if": {"properties": {"kind": {"const": "circle"}}, "required": ["kind"]},
    "then": {"required": ["r"]},
}


@functools.cache
def byte_tokenizer():
    return LLTokenizer("byte")


def accepts(schema, text):
    exact = json.dumps(make_exact(schema, "schema", compiles))
    grammar = LLMatcher.grammar_from_json_schema(exact, overrides=JSON_STYLE)
    matcher = LLMatcher(byte_tokenizer(), grammar, log_level=0)
    assert not matcher.is_error()
    ids = list(text.encode())
    return matcher.try_consume_tokens(ids) == len(ids) and matcher.is_accepting()


def string(pattern):
    return {"type": "string", "pattern": pattern}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (OPEN, '{"a":1, "b\\n":2}', '{"a":1, "\\u0061":"x"}'),
        ({"type": "string"}, '"é"', '"\\ud800"'),
        (string('^[^"]+$'), '"a\\\\b\\n"', '"a\\"b"'),
        (string(r"^[^\\]+$"), '"a\\"b\\n"', '"a\\\\b"'),
        (string(r"^[^-\"a]$"), '"b"', '"-"'),
        (string(r"^[\x00-\x1f]$"), '"\\n"', '"\\""'),
        (string("^[\0-!]$"), '"!"', '"\\\\"'),
        (string(r"^\[[^\]]$"), '"[x"', '"[]"'),
        (
            {"type": "object", "patternProperties": {'^[^"]$': {}}, "additionalProperties": False},
            '{"b":1}',
            '{"\\"":1}',
        ),
        ({"type": "number", "exclusiveMinimum": 0, "maximum": 0.5}, "0.1", "0"),
        ({"type": "number", "minimum": -1.5, "exclusiveMaximum": -1}, "-1.2", "-1"),
        ({"allOf": [{"exclusiveMinimum": 2}, {"type": "number", "maximum": 2.5}]}, "2.01", "2"),
        ({"type": "integer", "exclusiveMinimum": 0, "maximum": 1.5}, "1", "0"),
        (DATE, '"2024-02-29"', '"2023-02-29"'),
        (DATE, '"2000-02-29"', '"1900-02-29"'),
        (DATE, '"0400-02-29"', '"0000-02-29"'),
        (DATE, '"0001-02-28"', '"0000-01-01"'),
        ({**DATE, "format": "date-time"}, '"2023-03-29T10:00:00Z"', '"2023-02-29T10:00:00Z"'),
        (PETS, '{"kind":"cat","next":{"kind":"dog","next":null}}', '{"kind":"cow"}'),
        ({"type": "object", "minProperties": 1}, '{"b":1}', "{}"),
    ],
)
def test_a_value_that_the_schema_forbids_is_not_accepted(schema, good, bad):
    assert accepts(schema, good)
    assert not accepts(schema, bad)


@pytest.mark.parametrize(
    ("keyword", "schema"),
    [
        ("minProperties", {"type": "object", "minProperties": 2}),
        ("minProperties", {**OPEN, "minProperties": 3}),
        ("minimum", {"minimum": 2**53 + 1}),
        ("pattern", string("^[[a]b]$")),
        ("pattern", string("^[a&&b]$")),
        ("pattern", string("^[]a]$")),
        ("patternProperties", {"patternProperties": {"[+--]": {}}}),
    ],
)
def test_a_schema_that_cant_be_made_exact_is_refused_with_its_keyword(keyword, schema):
    with pytest.raises(InexactError) as caught:
        make_exact({"properties": {"x": schema}}, "schema", compiles)
    assert caught.value.path == f"schema.properties.x.{keyword}"


@pytest.mark.parametrize(
    "schema",
    [
        {"const": {"pattern": "[[", "minProperties": 9}, "title": "[]"},
        {"properties": {"pattern": {"type": "string"}, "minProperties": {"type": "integer"}}},
        {"type": "object", "required": ["a", "b"], "minProperties": 3},
        {"oneOf": [{"$ref": "#/$defs/nowhere"}, {"type": "null"}]},
        {"format": "date", "allOf": 5, "required": 5, "properties": 5, "oneOf": 5},
        {"exclusiveMinimum": True, "allOf": 5, "oneOf": [True, {}]},
        {"type": "string", "pattern": r"^\[\^[a-z]\\$"},
        True,
    ],
)
def test_a_schema_that_the_engine_enforces_or_refuses_itself_is_unchanged(schema):
    assert make_exact(schema, "schema", compiles) == schema


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (
            {"oneOf": [{"$ref": "#/$defs/cat"}, LOOSE], "$defs": PETS["$defs"]},
            '{"kind":"cow"}',
            '{"kind":"cat"}',
        ),
        ({"not": {"enum": ["a", 5]}}, '"b"', "5"),
        ({"not": {"type": ["string", "null"]}}, "1", "null"),
        (
            {"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": True},
            '["b","a"]',
            '["a","a"]',
        ),
        ({**OBJECT, "dependentRequired": {"a": ["b"]}}, '{"b":1}', '{"a":1}'),
        ({**OBJECT, "minProperties": 1}, '{"a":1}', "{}"),
        ({"type": "object", "propertyNames": {"enum": ["a", "b"]}}, '{"a":1}', '{"c":1}'),
        ({"type": "object", "propertyNames": {"pattern": "^x"}}, '{"xa":1}', '{"a":1}'),
        (CIRCLE, '{"kind":"circle","r":1}', '{"kind":"circle"}'),
        (CIRCLE, '{"kind":"square"}', '{"kind":"square","r":"x"}'),
        ({"type": "array", "contains": {"const": 1}}, "[1,2]", "[]"),
        ({"type": "integer", "exclusiveMinimum": True, "minimum": 0}, "1", "0"),
        ({"type": "string", "format": "password"}, '"x"', "5"),
        ({"type": "integer", "format": "int32"}, "5", '"5"'),
        (TIME, '"23:59:60Z"', '"20:46:60Z"'),
        (TIME, '"01:59:60+02:00"', '"23:59:60+02:00"'),
        (MOMENT, '"2016-12-31T23:59:60Z"', '"2016-12-31T22:59:60Z"'),
    ],
)
def test_a_keyword_that_the_engine_lacks_is_enforced_by_others(schema, good, bad):
    assert accepts(schema, good)
    assert not accepts(schema, bad)
