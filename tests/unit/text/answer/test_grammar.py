"""Grammars: what is refused and how, and what a guide allows next."""

from __future__ import annotations

import json

import pytest

from shared.errors import ServiceError
from shared.pb import text_pb2 as pb
from tests.unit.text import tiny_tokenizer
from workers.text.answer.forcing import CallGrammars
from workers.text.answer.grammar import GrammarCompiler
from workers.text.answer.guide import UNLIMITED, Guide
from workers.text.answer.reasoning import NoSplitter, Tags, TagSplitter
from workers.text.toolcalls.formats.hermes import FORMAT as HERMES
from workers.text.toolcalls.formats.mistral_nemo import FORMAT as NEMO

EOS = 2
SECRET = "do-not-repeat-me"
POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer"}},
    "required": ["x"],
    "additionalProperties": False,
}


def schema(value):
    return pb.Grammar(json_schema=json.dumps(value), path="text.format.schema", field="text.format")


def accepts(compiler, tokenizer, grammar, text):
    """Return whether a text follows a grammar and completes it."""
    return completes(compiler.compile(grammar), tokenizer, text)


def completes(matcher, tokenizer, text):
    ids = tokenizer.encode(text, add_special_tokens=False)
    return matcher.try_consume_tokens(ids) == len(ids) and matcher.is_accepting()


@pytest.mark.parametrize(
    ("keyword", "value"),
    [
        ("pattern", {"type": "string", "pattern": f"^(?={SECRET})x$"}),
        ("uniqueItems", {"type": "array", "uniqueItems": True, "title": SECRET}),
        ("not", {"not": {"pattern": SECRET}}),
        ("if", {"if": {"pattern": SECRET}, "then": {"maxLength": 3}}),
        ("type", {"type": SECRET}),
        ("oneOf", {"oneOf": [{"type": "number"}, {"type": "integer", "title": SECRET}]}),
        ("contains", {"contains": {"const": SECRET}, "maxContains": 2}),
        ("propertyNames", {"type": "object", "propertyNames": {"const": SECRET}}),
        ("patternProperties", {"patternProperties": {f"^{SECRET}": {}, "x$": {}}}),
        ("maxProperties", {"properties": {SECRET: {}}, "required": ["b"], "maxProperties": 1}),
        ("minProperties", {"type": "object", "title": SECRET, "minProperties": 2}),
        ("multipleOf", {"type": "number", "multipleOf": 1e-20, "title": SECRET}),
        ("maxLength", {"type": "string", "maxLength": 1.5, "title": SECRET}),
        ("enum", {"enum": SECRET}),
    ],
)
def test_an_unsupported_keyword_is_refused_by_name_without_quoting_the_schema(
    compiler, keyword, value
):
    outer = {"type": "object", "properties": {"inner": value}}
    with pytest.raises(ServiceError) as caught:
        compiler.compile(schema(outer))
    error = caught.value
    assert error.code == "invalid_request"
    assert f"'{keyword}'" in error.message
    assert error.message.startswith("invalid JSON schema for text.format: ")
    assert error.param.startswith("text.format.schema.")
    assert error.param.endswith(f"properties.inner.{keyword}")
    assert SECRET not in error.message + error.param


@pytest.mark.parametrize(
    "fields",
    [
        {"minLength": 5, "maxLength": 2},
        {"format": "date", "maxLength": 3},
        {"enum": [SECRET], "maxLength": 1},
    ],
)
def test_an_unsatisfiable_schema_is_refused(compiler, fields):
    impossible = {"type": "string", "title": SECRET, **fields}
    outer = {"type": "object", "properties": {"a": impossible}, "required": ["a"]}
    with pytest.raises(ServiceError, match="can't be satisfied") as caught:
        compiler.compile(schema(outer))
    assert SECRET not in caught.value.message


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"type": "string", "pattern": "^(a?){300}a{300}$"}, "limit of 200000 expressions"),
        ({"type": "string", "pattern": "^(([a-z]{1,99}x?){1,99}c?){1,99}$"}, "limit of 200000"),
        (
            {
                "type": "object",
                "patternProperties": {"[A-Za-z]{1,255}": {"type": "string"}},
                "minProperties": 1,
            },
            "'patternProperties' can't be enforced",
        ),
    ],
)
def test_a_limit_that_shows_only_in_masks_is_found_before_the_answer(compiler, value, reason):
    with pytest.raises(ServiceError, match=reason) as caught:
        compiler.compile(schema(value))
    assert caught.value.code == "invalid_request"


def test_an_object_may_have_hundreds_of_optional_members(compiler, tokenizer):
    many = {"type": "object", "properties": {f"k{n}": {"type": "string"} for n in range(600)}}
    assert accepts(compiler, tokenizer, schema(many), '{"k3": "x", "k599": "y"}')


def test_a_schema_may_be_a_boolean(compiler, tokenizer):
    assert accepts(compiler, tokenizer, schema(True), '{"x": [1]}')
    with pytest.raises(ServiceError, match="can't be satisfied"):
        compiler.compile(schema(False))


def test_the_keyword_at_fault_is_found_among_good_ones(compiler):
    good, bad = {"type": "string", "pattern": "^a$"}, {"type": "string", "pattern": "^(?=a)$"}
    with pytest.raises(ServiceError) as caught:
        compiler.compile(schema({"type": "object", "properties": {"good": good, "bad": bad}}))
    assert caught.value.param.endswith("properties.bad.pattern")


def test_a_schema_cant_turn_refusals_off(compiler):
    with pytest.raises(ServiceError, match="'not'"):
        compiler.compile(schema({"x-guidance": {"lenient": True}, "not": {"pattern": "a"}}))


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"$ref": "#"}, "$ref"),
        ({"anyOf": [{"$ref": "#"}]}, "anyOf[0].$ref"),
        ({"type": "object", "allOf": [{"$ref": "#"}]}, "allOf[0].$ref"),
    ],
)
def test_a_reference_that_leads_back_to_itself_is_refused_by_name(compiler, value, path):
    with pytest.raises(ServiceError, match=r"'\$ref' can't be enforced") as caught:
        compiler.compile(schema(value))
    assert caught.value.param == f"text.format.schema.{path}"


@pytest.mark.parametrize("text", ['{"const":1e400}', '{"const":"\\ud800"}'])
def test_an_unreadable_schema_is_refused(compiler, text):
    with pytest.raises(ServiceError, match="the schema can't be compiled") as caught:
        compiler.compile(pb.Grammar(json_schema=text, path="schema", field="x"))
    assert caught.value.param == "schema"


@pytest.mark.parametrize("grammar", [pb.Grammar(regex="("), pb.Grammar(gbnf="root ::= (")])
def test_a_broken_grammar_is_refused(compiler, grammar):
    with pytest.raises(ServiceError) as caught:
        compiler.compile(grammar)
    assert (caught.value.code, caught.value.param) == ("invalid_request", "grammar")


def test_a_grammar_with_too_many_rules_is_refused(compiler):
    rules = "".join(f'r{i} ::= "a" r{i + 1} | "b"\n' for i in range(2000))
    with pytest.raises(ServiceError, match="too many rules") as caught:
        compiler.compile(pb.Grammar(gbnf=f'root ::= r0\n{rules}r2000 ::= "c"'))
    assert (caught.value.code, caught.value.param) == ("invalid_request", "grammar")


@pytest.mark.parametrize(
    ("text", "taken"),
    [('{"x": 1}', True), ('{"x":1}', True), (' {"x":1}', False), ('{"x":"1"}', False)],
)
def test_an_answer_begins_with_its_bracket_and_follows_the_schema(compiler, tokenizer, text, taken):
    assert accepts(compiler, tokenizer, schema(POINT), text) is taken


def test_gbnf_lark_and_regular_expressions_are_accepted(compiler, tokenizer):
    for grammar in (
        pb.Grammar(gbnf='root ::= "yes" | "no"'),
        pb.Grammar(lark='start: "yes" | "no"'),
        pb.Grammar(regex="yes|no"),
    ):
        assert accepts(compiler, tokenizer, grammar, "yes")
        assert not accepts(compiler, tokenizer, grammar, "maybe")


@pytest.mark.parametrize("other", [object(), tiny_tokenizer.metaspace(["a"], "always")])
def test_a_tokenizer_without_known_bytes_is_refused(other):
    with pytest.raises(ServiceError, match="tokenizer backend not supported") as caught:
        GrammarCompiler(other, 4, [EOS]).compile(schema(POINT))
    assert caught.value.code == "unsupported_tokenizer"


# ----------------------------------------------------------------------------- guides


def follow(guide, splitter, tokenizer, ids):
    for token in ids:
        splitter.feed(tokenizer.decode([token]))
        guide.follow(token)


def make_guide(tokenizer, matcher=None, budget=UNLIMITED, *, in_reasoning=True):
    splitter = TagSplitter(Tags("<think>", "</think>"), in_reasoning=in_reasoning)

    def close(held):
        return tokenizer.encode("</think>".removeprefix(held), add_special_tokens=False)

    return Guide(splitter, matcher, budget, close, None), splitter


def test_a_spent_budget_closes_the_reasoning_token_by_token(tokenizer):
    guide, splitter = make_guide(tokenizer, budget=3)
    reasoning = tokenizer.encode("I think so", add_special_tokens=False)
    assert len(reasoning) == 3
    follow(guide, splitter, tokenizer, reasoning)
    closing = []
    while guide.forced is not None:
        closing.append(guide.forced)
        follow(guide, splitter, tokenizer, [guide.forced])
    assert tokenizer.decode(closing) == "</think>"
    assert splitter.answer_begun
    assert guide.forced is None


def test_a_budget_of_zero_closes_at_once(tokenizer):
    guide, _ = make_guide(tokenizer, budget=0)
    assert guide.forced is not None


def test_reasoning_that_ended_by_itself_is_not_closed_again(tokenizer):
    guide, splitter = make_guide(tokenizer, budget=50)
    follow(guide, splitter, tokenizer, tokenizer.encode("x</think>", add_special_tokens=False))
    assert guide.forced is None
    assert splitter.answer_begun


def test_a_grammar_applies_after_the_reasoning(compiler, tokenizer):
    guide, splitter = make_guide(tokenizer, compiler.compile(schema(POINT)))
    assert guide.matcher is None
    follow(guide, splitter, tokenizer, tokenizer.encode("hm</think>", add_special_tokens=False))
    assert guide.matcher is not None
    follow(guide, splitter, tokenizer, tokenizer.encode('{"x": 5', add_special_tokens=False))
    assert not guide.complete
    follow(guide, splitter, tokenizer, tokenizer.encode("}", add_special_tokens=False))
    assert guide.complete
    assert not guide.broken


def test_reasoning_cant_end_a_sequence_with_a_grammar(compiler, tokenizer):
    splitter = TagSplitter(Tags("<think>", "</think>"), in_reasoning=True)
    matcher = compiler.compile(schema(POINT))
    guide = Guide(splitter, matcher, UNLIMITED, list, None, end_ids=[EOS, 0])
    assert guide.barred == [EOS, 0]
    follow(guide, splitter, tokenizer, tokenizer.encode("</think>", add_special_tokens=False))
    assert guide.barred == ()


def test_a_token_the_grammar_forbids_breaks_the_guide(compiler, tokenizer):
    guide = Guide(NoSplitter(), compiler.compile(schema(POINT)), UNLIMITED, list, None)
    guide.follow(tokenizer.encode("x", add_special_tokens=False)[0])
    assert guide.broken


# ----------------------------------------------------------------------- forced calls

# References, as pydantic writes them, begin at the function's own parameters.
REFERENCING = {"properties": {"at": {"$ref": "#/$defs/point"}}, "$defs": {"point": POINT}}
TOOLS = {"f": POINT, "g": {}, "p": REFERENCING, "q": REFERENCING}


@pytest.mark.parametrize(
    ("form", "named", "text", "taken"),
    [
        (HERMES, "f", '<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>', True),
        (HERMES, "f", '<tool_call>\n{"name": "f", "arguments": {"y": 1}}\n</tool_call>', False),
        (HERMES, "f", '<tool_call>\n{"name": "g", "arguments": {}}\n</tool_call>', False),
        (HERMES, None, '<tool_call>\n{"name": "g", "arguments": {"z": [1]}}\n</tool_call>', True),
        (HERMES, None, '<tool_call>\n{"name": "h", "arguments": {}}\n</tool_call>', False),
        (HERMES, None, "Sure!", False),
        (NEMO, None, '[TOOL_CALLS][{"name": "g", "arguments": {}}]', True),
        (NEMO, None, '[TOOL_CALLS][{"name": "g", "arguments": "{}"}]', False),
        (NEMO, None, '[TOOL_CALLS][{"name": "q", "arguments": {"at": {"x": 1}}}]', True),
        (NEMO, "p", '[TOOL_CALLS][{"name": "p", "arguments": {"at": {"x": 1}}}]', True),
        (NEMO, "p", '[TOOL_CALLS][{"name": "p", "arguments": {"at": {"x": "1"}}}]', False),
    ],
)
def test_a_forced_choice_allows_calls_of_declared_functions_only(
    compiler, tokenizer, form, named, text, taken
):
    matcher = CallGrammars(compiler, form, {}).force(TOOLS, named, lone=False)
    assert completes(matcher, tokenizer, text) is taken


def test_two_calls_may_follow_each_other_when_any_is_required(compiler, tokenizer):
    one = '<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>'
    grammars = CallGrammars(compiler, HERMES, {})

    def force(*, lone):
        return grammars.force(TOOLS, None, lone=lone)

    assert completes(force(lone=False), tokenizer, f"{one}\n{one}")
    assert completes(force(lone=True), tokenizer, one)
    assert not completes(force(lone=True), tokenizer, f"{one}\n{one}")


@pytest.mark.parametrize(
    "bad",
    [
        {"properties": {"x": {"type": "string", "pattern": "^(?=a)$"}}},
        {"properties": {"x": {"type": SECRET}}},
        {"properties": {"x": {"const": float("inf")}}},
        {"type": "string"},
    ],
)
@pytest.mark.parametrize("named", ["bad", None])
def test_a_function_that_cant_be_enforced_leaves_the_others_enforced(
    compiler, tokenizer, bad, named
):
    matcher = CallGrammars(compiler, HERMES, {}).force({"bad": bad, "f": POINT}, named, lone=True)

    def call(name, arguments):
        return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'

    def taken(name, arguments):
        return completes(matcher.deep_copy(), tokenizer, call(name, arguments))

    assert taken("bad", '{"x": 5, "y": []}')
    assert not taken("bad", "5")
    assert taken("f", '{"x": 1}') is (named is None)
    assert not taken("f", '{"x": "1"}')
    assert not taken("other", "{}")
