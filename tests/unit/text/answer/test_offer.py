"""Tools and a schema in one request: the answer is a call, or a text that follows the schema."""

from __future__ import annotations

import json

import pytest

from shared.pb import text_pb2 as pb
from tests.unit.text.toolcalls.sample import Answer, WrittenCall
from tests.unit.text.toolcalls.writer import WRITERS
from workers.text.answer.forcing import CallGrammars
from workers.text.toolcalls.call_stream import CallPolicy, CallStream
from workers.text.toolcalls.detection import FORMATS, find
from workers.text.toolcalls.format import CallArguments, CallEnd, ContentText

PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOLS = {"weather": PARAMETERS}
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "arguments": {"$ref": "#/$defs/inner"}},
    "required": ["name"],
    "additionalProperties": False,
    "$defs": {"inner": {"type": "object"}},
}
CALL = WrittenCall("weather", {"city": "Paris"}, '{"city": "Paris"}')
# The prompts of these formats end inside a message, or every message has a header.
UNTOLD = {"functionary32", "harmony"}
TOLD = [form for form in FORMATS if form.wrapper or form.openings]
# The variants that begin as the format's template writes them.
NATIVE = [
    writer
    for writer in WRITERS
    if writer.form in TOLD
    and writer.label not in ("command_r/lines", "command_r/fence", "deepseek/hermes")
]


@pytest.fixture(scope="module")
def accepts(compiler, tokenizer):
    """Return a function that says whether a text is a whole answer."""
    source = pb.Grammar(json_schema=json.dumps(SCHEMA))

    def ask(form, text):
        matcher = CallGrammars(compiler, form, {}).offer(source, TOOLS, lone=False)
        ids = tokenizer.encode(text, add_special_tokens=False)
        return matcher.try_consume_tokens(ids) == len(ids) and matcher.is_accepting()

    return ask


def read(form, text, size=3):
    """Return content and calls of an answer that arrives in small pieces."""
    stream = CallStream(form, TOOLS, "r", CallPolicy(has_schema=True))
    parts = [text[i : i + size] for i in range(0, len(text), size)]
    pieces = [piece for part in parts for piece in stream.feed(part)] + stream.finish()
    content = "".join(piece.text for piece in pieces if isinstance(piece, ContentText))
    arguments = "".join(piece.text for piece in pieces if isinstance(piece, CallArguments))
    return content, arguments, sum(isinstance(piece, CallEnd) for piece in pieces)


def test_only_formats_without_a_beginning_of_their_own_are_left_out():
    assert {form.name for form in FORMATS} - {form.name for form in TOLD} == UNTOLD


@pytest.mark.parametrize("writer", NATIVE, ids=lambda writer: writer.label)
def test_a_call_as_the_template_writes_it_is_allowed_and_read(accepts, writer):
    form = writer.form
    text = writer.write(Answer("", [CALL], [], ""))
    # Grammars fix the white space, the order of keys and the number of calls.
    if form.wrapper is None:
        assert accepts(form, text)
    content, arguments, calls = read(form, text)
    assert (content.strip(), json.loads(arguments), calls) == ("", CALL.arguments, 1)


@pytest.mark.parametrize("form", TOLD, ids=lambda form: form.name)
def test_an_answer_is_a_call_or_follows_the_schema(accepts, form):
    wrapper = form.wrapper
    if wrapper is not None:
        call = f'{{"name": "weather", "{wrapper.arguments_key}": {CALL.text}}}'
        listed = f"[{call}]" if wrapper.is_list else call
        whole = f"{wrapper.opening}{listed}{wrapper.closing}"
        assert accepts(form, whole)
        assert read(form, whole) == ("", CALL.text, 1)
        if wrapper.opening:
            assert not accepts(form, whole.replace("Paris", '", "x": "'))
        if form.is_bare:
            assert accepts(form, call)
            assert read(form, call) == ("", CALL.text, 1)
    for text in ('{"name": "Rex"}', '{"name": "Rex", "arguments": {"a": 1}}'):
        assert accepts(form, text)
        assert read(form, text) == (text, "", 0)
    assert not accepts(form, '{"city": "Paris"}')
    assert not accepts(form, "Sure!")


@pytest.mark.parametrize("writer", NATIVE, ids=lambda writer: writer.label)
def test_a_text_that_follows_the_schema_is_content_even_if_it_quotes_a_call(writer):
    quoted = writer.write(Answer("", [CALL], [], ""))
    text = json.dumps({"name": quoted, "arguments": {"x": quoted}}, ensure_ascii=False)
    assert read(writer.form, text) == (text, "", 0)
    for size in (1, 7, len(text)):
        assert read(writer.form, text, size) == (text, "", 0)


def test_a_cut_answer_shows_what_it_has(accepts):
    stream = CallStream(find("llama3"), TOOLS, "r", CallPolicy(has_schema=True))
    pieces = stream.feed('{"name": "Re') + stream.finish(cut=True)
    assert pieces == [ContentText('{"name": "Re')]
