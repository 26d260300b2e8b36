"""JSON text as clients write it: halves of surrogate pairs, integers with a fraction of zero."""

from __future__ import annotations

import json
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.json_body import decode
from shared.errors import ServiceError

ANY = msgspec.json.Decoder()


class Body(msgspec.Struct):
    text: str = ""
    count: int = 0
    share: float = 0.0
    counts: list[int] = []


BODY = msgspec.json.Decoder(Body)


@given(st.text(st.characters(), max_size=20).map(lambda text: text + "\\ud83d" * (len(text) % 2)))
def test_a_text_keeps_all_but_halves_of_surrogate_pairs(text):
    data = json.dumps({"text": text}).encode()
    wanted = re.sub("[\ud800-\udfff]", "\ufffd", text)
    assert decode(BODY, data).text == wanted


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (r"hi \ud83d", "hi \ufffd"),
        (r"\uDE00\ud83d", "\ufffd\ufffd"),
        (r"\ud83d\ude00", "\U0001f600"),
        (r"\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        (r"\\ud83d", r"\ud83d"),
        (r"\\\ud83d", "\\\ufffd"),
    ],
)
def test_half_a_pair_is_a_replacement_character(written, text):
    assert decode(ANY, b'{"a":"' + written.encode() + b'"}') == {"a": text}


@pytest.mark.parametrize("number", ["4.0", "4.000", "-3.0", "0.0"])
def test_an_integral_number_is_an_integer(number):
    data = f'{{"text":"4.0 {number}","count":{number},"share":1.0,"counts":[1.0,{number}]}}'
    body = decode(BODY, data.encode())
    wanted = int(float(number))
    assert (body.text, body.count, body.share) == (f"4.0 {number}", wanted, 1.0)
    assert body.counts == [1, wanted]
    assert all(type(count) is int for count in (body.count, *body.counts))


@pytest.mark.parametrize("number", ["4.5", "4.0e-1", "1e400", "4.0.0", "99999999999999999999999.0"])
def test_any_other_number_is_refused(number):
    with pytest.raises(ServiceError, match=r"count|not valid JSON"):
        decode(BODY, f'{{"count":{number}}}'.encode())


def test_a_hostile_number_takes_no_longer_than_its_length():
    data = b'{"count":1.5,"counts":[' + b"1" * 3_000_000 + b"]}"
    with pytest.raises(ServiceError):
        decode(BODY, data)
