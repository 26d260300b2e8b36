"""JSON in pieces: what is passed on when, and how invalid strings are repaired."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.text.toolcalls.reader.json_scanner import read_value
from workers.text.toolcalls.reader.json_string import StringDecoder, read_string
from workers.text.toolcalls.reader.source import Source

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def scan(reader, text, *, cut=False):
    """Return what a reader gives for each character of a text, whether it closed, and the rest."""
    source = Source()
    parts = []
    shown = []
    reading = reader(source, parts.append)
    for used in range(len(text) + 1):
        if used < len(text):
            source.add(text[used])
        else:
            source.end(cut=cut)
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


@pytest.mark.parametrize("text", ["12.50E+3", "true", "-0", "null"])
def test_a_scalar_ends_at_the_next_delimiter(text):
    for mark in ",]} \n":
        given_out, closed, _ = scan(read_value, text + mark)
        assert "".join(given_out) == text
        assert closed


def test_every_character_is_passed_on_at_once_but_scalars_and_commas_that_may_be_repaired():
    assert scan(read_value, '{"a": [1, "x"]}')[0] == [
        *'{"a": [',
        *("", "1", "", ', "'),
        *'x"]}',
    ]


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
    ("text", "cut_off", "complete"),
    [
        ('{"a": 1', '{"a": 1', '{"a": 1}'),
        ('{"a": "b', '{"a": "b', '{"a": "b"}'),
        ('{"a": "b\\', '{"a": "b', '{"a": "b\\\\"}'),
        ('{"a": "b\\u12', '{"a": "b', '{"a": "b\\\\u12"}'),
        ('{"a"', '{"a"', '{"a": null}'),
        ('{"a": ', '{"a": ', '{"a": null}'),
        ('{"a": 1, ', '{"a": 1', '{"a": 1 }'),
        ('{"a": tru', '{"a": tru', '{"a": "tru"}'),
        ('{"a": Na', '{"a": ', '{"a": "Na"}'),
        ("[[[[", "[[[[", "[[[[]]]]"),
        ("", "", ""),
    ],
)
def test_a_value_is_completed_unless_it_was_cut_off(text, cut_off, complete):
    given_out, closed, _ = scan(read_value, text, cut=True)
    assert ("".join(given_out), closed) == (cut_off, False)
    assert "".join(scan(read_value, text)[0]) == complete


@pytest.mark.parametrize(
    ("text", "repaired"),
    [
        ('{"a": 1</tool_call>', '{"a": 1}'),
        ('{"a": "</tool_call>"}', '{"a": "</tool_call>"}'),
        ("{'a': True, 'b': None}", '{"a": true, "b": null}'),
        ("{'a': 'say \"hi\"'}", '{"a": "say \\"hi\\""}'),
        ('{"a": 1,}', '{"a": 1}'),
        ('{"a": [1, 2, ], }', '{"a": [1, 2 ] }'),
        ('{"a": NaN, "b": -Infinity}', '{"a": null, "b": null}'),
        ("{a: 1, b: x y}", '{"a": 1, "b": "x y"}'),
        ('{"a": 1 "b": 2}', '{"a": 1 ,"b": 2}'),
        ('{"a" 1}', '{"a" :1}'),
        ('{"a": [1}', '{"a": [1]}'),
        ('{"a": 1]}', '{"a": 1}'),
        ('{"a": 01, "b": .5, "c": 0x10}', '{"a": "01", "b": 0.5, "c": 16}'),
        ('{"a":, "b"}', '{"a":null, "b": null}'),
        ('{,"a": 1}', '{"a": 1}'),
    ],
)
def test_what_is_not_json_is_repaired(text, repaired):
    given_out, closed, _ = scan(read_value, text)
    assert ("".join(given_out), closed) == (repaired, True)
    json.loads(repaired)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from([*"{}[]:,\"'\\ \na1-<", "NaN", "true", '"k":', "\\u12"]), max_size=14)
)
def test_any_text_becomes_an_object(parts):
    text = "{" + "".join(parts)
    source = Source()
    source.add(text)
    source.end()
    given_out = []
    list(read_value(source, given_out.append))
    assert isinstance(json.loads("".join(given_out)), dict)
    assert "".join(scan(read_value, text)[0]) == "".join(given_out)


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
