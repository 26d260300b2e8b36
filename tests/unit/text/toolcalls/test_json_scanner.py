"""JSON in pieces: what is passed on when, and how invalid strings are repaired."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.text.toolcalls.reader.json_scanner import StringDecoder, read_string, read_value
from workers.text.toolcalls.reader.source import Source

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def scan(reader, text):
    """Return what a reader gives for each character of a text, whether it closed, and the rest."""
    source = Source()
    parts = []
    shown = []
    reading = reader(source, parts.append)
    for used in range(len(text) + 1):
        if used < len(text):
            source.add(text[used])
        else:
            source.end()
        try:
            next(reading)
        except StopIteration as end:
            return [*shown, "".join(parts)], end.value, text[used + 1 :]
        shown.append("".join(parts))
        parts.clear()
    raise AssertionError("it goes on after the end")


@settings(max_examples=100, deadline=None)
@given(values.filter(lambda value: isinstance(value, str | list | dict)), st.booleans())
def test_a_value_is_passed_on_unchanged_up_to_its_end(value, ascii_only):
    text = json.dumps(value, ensure_ascii=ascii_only)
    given_out, closed, rest = scan(read_value, text + " tail")
    assert "".join(given_out) == text
    assert closed
    assert rest == " tail"


@pytest.mark.parametrize("text", ["12.50E+3", "true", "-0", "null", "nonsense"])
def test_a_scalar_ends_at_the_next_delimiter(text):
    for mark in ",]} \n":
        given_out, closed, _ = scan(read_value, text + mark)
        assert "".join(given_out) == text
        assert closed


def test_every_character_is_passed_on_at_once():
    text = '{"a": [1, "x"]}'
    assert scan(read_value, text)[0] == list(text)


def test_an_escape_is_held_until_it_is_complete():
    assert scan(read_string, r"a\n\u00e9")[0] == ["a", "", r"\n", "", "", "", "", "", r"\u00e9", ""]


@pytest.mark.parametrize(
    ("raw", "mended"),
    [
        (r"\d+", r"\\d+"),
        (r"C:\Windows", r"C:\\Windows"),
        (r"\\d", r"\\d"),
        (r"\x41", r"\\x41"),
        (r"\u12", r"\\u12"),
        (r"\u12g4", r"\\u12g4"),
        (r"\u\u0041", r"\\u\u0041"),
        ("\\\n", "\\\\\\n"),
        ("a\nb\tc\r\0", r"a\nb\tc\r" + "\\u0000"),
        (r"\"", r"\""),
        ("\x7f\u2028é", "\x7f\u2028é"),
    ],
)
def test_an_invalid_string_is_repaired(raw, mended):
    given_out, closed, rest = scan(read_string, raw + '"!')
    assert "".join(given_out) == mended
    assert closed
    assert rest == "!"
    json.loads(f'"{mended}"')


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from('\\ud8Dc1"n/\n\0é{'), max_size=12))
def test_any_string_content_becomes_valid_json(raw):
    given_out, closed, _ = scan(read_string, raw + '""')
    assert closed is not None
    json.loads('"' + "".join(given_out) + '"')


@pytest.mark.parametrize(
    ("text", "given_out", "closed"),
    [
        ('{"a": 1', '{"a": 1', False),
        ('{"a": "b', '{"a": "b', False),
        ('{"a": 1</tool_call>', '{"a": 1', False),
        ('{"a": "</tool_call>"}', '{"a": "</tool_call>"}', True),
        ("{'a': True}", "{'a': True}", True),
        ("12", "12", False),
        ("", "", False),
        ("}", "", False),
        ("[[[[", "[[[[", False),
    ],
)
def test_an_incomplete_value_is_passed_on_up_to_its_fault(text, given_out, closed):
    found = scan(read_value, text)
    assert "".join(found[0]) == given_out
    assert found[1] is closed


def test_nesting_of_any_depth_is_read():
    text = "[" * 100_000 + "]" * 100_000
    source = Source()
    source.add(text)
    parts = []
    with pytest.raises(StopIteration) as end:
        next(read_value(source, parts.append))
    assert end.value.value is True
    assert "".join(parts) == text


@settings(max_examples=100, deadline=None)
@given(st.text())
def test_a_decoded_string_equals_the_encoded_one(text):
    raw = json.dumps(text)[1:]
    decoder = StringDecoder()
    source = Source()
    source.add(raw)
    found = []
    with pytest.raises(StopIteration):
        next(read_string(source, lambda unit: found.append(decoder.feed(unit))))
    assert "".join(found) + decoder.finish() == text


@pytest.mark.parametrize(
    ("units", "text"),
    [
        (["\\ud83d", "\\ude00"], "😀"),
        (["\\ud83d"], "\ufffd"),
        (["\\ude00"], "\ufffd"),
        (["\\ud83d", "x"], "\ufffdx"),
        (["\\ud83d", "\\ud83d", "\\ude00"], "\ufffd😀"),
        (["\\\\", "ud83d"], "\\ud83d"),
    ],
)
def test_half_a_surrogate_pair_becomes_a_replacement_character(units, text):
    decoder = StringDecoder()
    assert "".join(map(decoder.feed, units)) + decoder.finish() == text
