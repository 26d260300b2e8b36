"""No schema that compiles lets a value through that it forbids: random schemas, random answers.

The answers are random walks through the grammar, byte by byte; jsonschema judges them.
"""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from llguidance import LLMatcher, LLTokenizer

from workers.text.answer.grammar import compiles
from workers.text.answer.schema.exactness import JSON_STYLE, make_exact

pytestmark = pytest.mark.slow

SCHEMAS = 60  # of each seed
WALKS, MOST_BYTES = 2, 120
VALUES = (
    *(None, True, False, 0, 1, -1, 2, 1.5, "a", "b", "ab", "", [], [1], ["a", "b"], {}),
    *({"a": 1}, {"b": "x"}),
)
NAMES = ("a", "b", "cc")
KINDS = ("object", "array", "string", "integer", "number", "boolean", "null", ["string", "null"])
OPTIONS = {
    "object": {
        "properties": lambda m: {name: m.schema() for name in m.some(NAMES)},
        "required": lambda m: m.some(NAMES),
        "additionalProperties": lambda m: m.pick([False, m.schema()]),
        "minProperties": lambda m: m.size(),
        "maxProperties": lambda m: m.size(),
        "propertyNames": lambda m: m.pick(
            [{"enum": ["a", "b"]}, {"pattern": "^[ab]"}, {"maxLength": 1}, {"minLength": 2}]
        ),
        "dependentRequired": lambda m: {m.pick(NAMES): m.some(NAMES)},
        "dependentSchemas": lambda m: {m.pick(NAMES): m.schema()},
        "patternProperties": lambda m: {m.pick(["^a", "c$"]): m.schema()},
        "unevaluatedProperties": lambda _: False,
    },
    "array": {
        "items": lambda m: m.pick([m.schema(), {"enum": m.some(NAMES)}]),
        "prefixItems": lambda m: [m.schema()],
        "uniqueItems": lambda _: True,
        "minItems": lambda m: m.size(),
        "maxItems": lambda m: m.size(),
        "contains": lambda m: m.schema(),
        "minContains": lambda m: m.size(),
    },
    "string": {
        "minLength": lambda m: m.size(),
        "maxLength": lambda m: m.size(),
        "pattern": lambda m: m.pick(["^a", "b$", "^[a-c]+$"]),
        "format": lambda m: m.pick(["int32", "password", "path"]),
    },
    "number": {
        "minimum": lambda m: m.size() - 2,
        "exclusiveMaximum": lambda m: m.size(),
    },
    "any": {
        "oneOf": lambda m: m.schemas(),
        "anyOf": lambda m: m.schemas(),
        "allOf": lambda m: m.schemas(),
        "not": lambda m: m.schema(),
        "if": lambda m: m.schema(),
        "then": lambda m: m.schema(),
        "else": lambda m: m.schema(),
    },
}


class Maker:
    """Makes random schemas, which use few keywords at a time so that many of them compile."""

    def __init__(self, seed):
        self._rng = random.Random(seed)
        self._depth = 0

    def pick(self, options):
        return self._rng.choice(options)

    def some(self, options):
        return self._rng.sample(options, self._rng.randint(1, 2))

    def size(self):
        return self._rng.randint(0, 3)

    def schemas(self):
        return [self.schema() for _ in range(self._rng.randint(1, 3))]

    def schema(self):
        roll = self._rng.random()
        if self._depth > 2 or roll < 0.2:
            return {"enum": self._rng.sample(VALUES, self._rng.randint(1, 3))}
        if roll < 0.25:
            return {"const": self.pick(VALUES)}
        self._depth += 1
        kind = self.pick(KINDS)
        group = "number" if kind == "integer" else kind if isinstance(kind, str) else "string"
        fields = {"type": kind} if roll < 0.8 else {}
        for options, chance in ((OPTIONS.get(group, {}), 0.25), (OPTIONS["any"], 0.06)):
            fields |= {
                key: make(self) for key, make in options.items() if self._rng.random() < chance
            }
        self._depth -= 1
        return fields


def answers(schema, seed):
    """Yield values that the grammar of a schema allows; none if it is refused."""
    try:
        exact = json.dumps(make_exact(schema, "schema", compiles))
        options = JSON_STYLE | {"lenient": False}
        grammar = LLMatcher.grammar_from_json_schema(exact, overrides=options)
    except ValueError:
        return
    matcher = LLMatcher(LLTokenizer("byte"), grammar, log_level=0)
    for walk in range(WALKS):
        text = _walk(matcher, random.Random(seed + walk))
        if matcher.is_error():
            return
        matcher.reset()
        if text is not None:
            yield json.loads(text)


def _walk(matcher, rng):
    written = bytearray()
    while len(written) < MOST_BYTES:
        bits = np.frombuffer(matcher.compute_bitmask(), np.uint8)
        allowed = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
        allowed = allowed[allowed < 128]
        done = matcher.is_accepting()
        if done and (not len(allowed) or rng.random() < 0.7):
            return bytes(written)
        # Mostly what ends strings and values, else a few letters.
        ends = [byte for byte in allowed if byte in b'"}],']
        if matcher.is_error() or not len(allowed):
            return None
        byte = int(rng.choice(ends if ends and rng.random() < 0.6 else list(allowed)))
        written.append(byte)
        assert matcher.consume_token(byte)
    return None


@pytest.mark.parametrize("seed", range(4))
def test_an_answer_that_the_grammar_allows_is_valid(seed):
    judged = 0
    for number in range(SCHEMAS):
        schema = Maker(1000 * seed + number).schema()
        validator = Draft202012Validator(schema)
        for value in answers(schema, number):
            assert validator.is_valid(value), (schema, value)
            judged += 1
    assert judged > SCHEMAS / 2
