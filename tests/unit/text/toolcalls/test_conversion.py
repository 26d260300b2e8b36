"""Conversion of parameters in plain text by the tool's schema."""

from __future__ import annotations

import json

import pytest

from workers.text.toolcalls.conversion import convert, convert_all, is_text
from workers.text.toolcalls.reader.literal import read_literal

LOOP = {"anyOf": [{"$ref": "#/$defs/Loop"}, {"$ref": "#/$defs/Loop"}, {"type": "array"}]}
PARAMETERS = {
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "flag": {"type": "boolean"},
        "data": {"type": "object"},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "either": {"type": ["string", "integer"]},
        "size": {"type": ["string", "number"]},
        "choice": {"$ref": "#/$defs/Choice"},
        "fixed": {"const": "7"},
        "loop": {"$ref": "#/$defs/Loop"},
        "lost": {"$ref": "#/$defs/None/at/all"},
        "odd": 7,
        "old": {"type": "STR"},
    },
    "$defs": {"Choice": {"enum": ["a", "5"]}, "Loop": LOOP},
}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("text", ' {"a": 1}\n', '" {\\"a\\": 1}\\n"'),
        ("text", "null", '"null"'),
        ("old", "5", '"5"'),
        ("count", " 5 ", "5"),
        ("count", "99999999999999999999999", "99999999999999999999999"),
        ("count", "five", '"five"'),
        ("ratio", "1.50", "1.50"),
        ("ratio", ".5", "0.5"),
        ("flag", "True", "true"),
        ("flag", "FALSE", "false"),
        ("data", '{"b": 1,  "a": 2.0}', '{"b": 1,  "a": 2.0}'),
        ("data", "{'a': [True, None, 'x'], }", '{"a": [true, null, "x"]}'),
        ("data", "{'re': '\\d+'}", '{"re": "\\\\d+"}'),
        ("maybe", "None", "null"),
        ("maybe", "nobody", '"nobody"'),
        ("maybe", "5", '"5"'),
        ("either", "5", "5"),
        ("either", "5.5", '"5.5"'),
        ("either", '"5"', '"\\"5\\""'),
        ("size", "5", "5"),
        ("choice", "5", '"5"'),
        ("fixed", "7", '"7"'),
        ("loop", "[1]", "[1]"),
        ("lost", "[1]", "[1]"),
        ("odd", "1", "1"),
        # Undeclared parameters.
        ("any", "007", '"007"'),
        ("any", "+49 30", '"+49 30"'),
        ("any", "2026-11-30", '"2026-11-30"'),
        ("any", "0x1F", "31"),
        ("any", "1_000", "1000"),
        ("any", "1e999", "1e999"),
        ("any", "Infinity", '"Infinity"'),
        ("any", "Paris", '"Paris"'),
        ("any", "", '""'),
        ("any", '"a', '"\\"a"'),
        ("any", "[" * 5000, json.dumps("[" * 5000)),
        ("any", "0x" + "f" * 9000, json.dumps("0x" + "f" * 9000)),
    ],
)
def test_a_parameter_is_converted(name, text, value):
    assert convert(text, PARAMETERS, name) == value
    json.loads(value)


def test_only_a_parameter_of_type_string_alone_is_raw_text():
    texts = {name for name in PARAMETERS["properties"] if is_text(PARAMETERS, name)}
    assert texts == {"text", "choice", "fixed", "old"}


def test_additional_properties_have_the_type_declared_for_them():
    assert convert("5", {"additionalProperties": {"type": "string"}}, "x") == '"5"'
    assert convert("5", {"additionalProperties": True}, "x") == "5"


@pytest.mark.parametrize("parameters", [{}, {"properties": []}, {"properties": {"a": None}}])
def test_a_malformed_schema_is_ignored(parameters):
    assert convert("5", parameters, "a") == "5"


def test_the_last_of_equal_parameter_names_counts():
    pairs = [("a", "1"), ("b", "2"), ("a", "x\n")]
    assert convert_all(pairs, {}) == '{"a": "x\\n", "b": 2}'


def test_half_a_surrogate_pair_can_be_encoded():
    literal = read_literal("'\\ud83d\\ude00 \\ud83d'")
    assert json.loads(literal.text) == "😀 \ud83d"
    literal.text.encode()


def test_python_escapes_are_decoded():
    assert json.loads(read_literal(r"'a\x41\u00e9\U0001F600\'\q'").text) == "aAé😀'\\q"
    assert json.loads(read_literal('"""say "hi" """').text) == 'say "hi" '
