"""Properties of every format: written calls parse as the same calls at any cut."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.text.toolcalls.reading import calls, content, cut, read, watch
from tests.unit.text.toolcalls.sample import answers, damages, soups
from tests.unit.text.toolcalls.writer import WRITERS
from workers.text.toolcalls.detection import FORMATS

# In these, text to the user is in separate messages, whose headers are markup.
FRAMED = ("functionary32", "harmony")
TOOLS = {"f": {"properties": {"city": {"type": "string"}}}}

every_writer = pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: writer.label)
every_form = pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)


def examples(count):
    slow = [HealthCheck.too_slow, HealthCheck.filter_too_much]
    return settings(max_examples=count, deadline=None, suppress_health_check=slow)


def offsets(text):
    """Return a strategy of offsets at which a text may be cut."""
    return st.lists(st.integers(0, len(text)), max_size=8)


def is_within(part, whole):
    """Return whether a text's characters stand in another in the same order."""
    rest = iter(whole)
    return all(char in rest for char in part)


@every_writer
@examples(12)
@given(st.data())
def test_written_calls_and_text_parse_as_the_same(writer, data):
    answer = data.draw(answers(writer))
    text = writer.write(answer)
    pieces = read(writer.form, [text], answer.tools)
    found = calls(pieces)
    assert [call.name for call in found] == [call.name for call in answer.calls]
    if writer.verbatim:
        assert [call.arguments for call in found] == [call.text for call in answer.calls]
    for call, written in zip(found, answer.calls, strict=True):
        assert json.loads(call.arguments) == written.arguments
    assert content(pieces) == answer.content
    assert read(writer.form, cut(text, data.draw(offsets(text))), answer.tools) == pieces


@pytest.mark.slow
@every_writer
@examples(2)
@given(st.data())
def test_every_cut_gives_the_same_pieces(writer, data):
    answer = data.draw(answers(writer))
    text = writer.write(answer)
    whole = read(writer.form, [text], answer.tools)
    assert read(writer.form, text, answer.tools) == whole
    for offset in range(1, len(text)):
        assert read(writer.form, cut(text, [offset]), answer.tools) == whole


@every_writer
@examples(10)
@given(st.data())
def test_a_damaged_answer_loses_no_text_at_any_cut(writer, data):
    answer = data.draw(answers(writer))
    text = data.draw(damages(writer.write(answer)))
    check(writer.form, text, answer.tools, data)


@every_writer
@examples(4)
@given(st.data())
def test_pieces_are_never_retracted_wherever_the_text_ends(writer, data):
    answer = data.draw(answers(writer))
    text = writer.write(answer)
    text = text[: data.draw(st.integers(0, len(text)))]
    stages = watch(writer.form, text, answer.tools)
    for earlier, later in pairwise(stages):
        assert is_beginning(earlier, later)
    check(writer.form, text, answer.tools, data)


@every_form
@examples(20)
@given(st.data())
def test_any_mixture_of_markers_is_parsed_without_loss(form, data):
    check(form, data.draw(soups(form)), TOOLS, data)


@every_form
@examples(10)
@given(st.text())
def test_any_text_without_markers_is_content(form, text):
    pieces = read(form, text, TOOLS)
    assert calls(pieces) or content(pieces) == text


def check(form, text, tools, data):
    """Assert what holds for any text."""
    pieces = read(form, [text], tools)
    found = calls(pieces)
    assert read(form, text, tools) == pieces
    assert read(form, cut(text, data.draw(offsets(text))), tools) == pieces
    assert is_within(content(pieces), text)
    if not found and form.name not in FRAMED and not any(m in text for m in form.markers):
        assert content(pieces) == text
    for call in found:
        assert call.name
        assert isinstance(json.loads(call.arguments), dict)
        (call.name + call.arguments).encode()


def is_beginning(earlier, later):
    """Return whether pieces begin with others, the last of which may have grown."""
    if not earlier:
        return True
    same = later[: len(earlier) - 1] == earlier[:-1]
    last, grown = earlier[-1], later[len(earlier) - 1]
    if type(last) is not type(grown) or not hasattr(last, "text"):
        return same and last == grown
    return same and grown.text.startswith(last.text)
