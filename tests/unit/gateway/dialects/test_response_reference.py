"""References to items of earlier responses, and their replacement."""

from __future__ import annotations

import json

import msgspec
import pytest

from gateway.dialects.openai.responses import answer, reference
from shared.errors import ServiceError


def raw(*items):
    return [msgspec.Raw(json.dumps(item).encode()) for item in items]


def refer(name="msg_1"):
    return {"type": "item_reference", "id": name}


USER = {"role": "user", "content": "x"}


def test_references_are_found_and_replaced():
    items = raw(USER, refer("a"), USER, refer("b"))
    found = reference.list_references(items)
    assert found == {1: "a", 3: "b"}
    stored = reference.name_items(raw({"id": "a"}, {"id": "b", "n": 1}, {"id": None}, {}))
    followed = [json.loads(bytes(item)) for item in reference.follow(items, found, stored)]
    assert followed == [USER, {"id": "a"}, USER, {"id": "b", "n": 1}]


@pytest.mark.parametrize(
    ("items", "param"),
    [
        ([USER, refer("gone")], "input[1].id"),
        ([{"type": "item_reference"}], "input[0].id"),
        ([refer(3)], "input[0].id"),
        ([3], "input[0]"),
        ([refer()] * 1025, "input"),
    ],
)
def test_an_unknown_reference_is_named(items, param):
    given = raw(*items)
    with pytest.raises(ServiceError) as caught:
        reference.follow(given, reference.list_references(given), {})
    assert (caught.value.code, caught.value.param) == ("invalid_request", param)


def test_an_item_id_contains_its_family():
    names = [answer.item_id("rs", "resp_1", index) for index in (0, 1, 5000)]
    assert len(set(names)) == 3
    assert {answer.read_family(name) for name in names} == {answer.item_family("resp_1")}
    assert len(names[0]) == len("rs_") + 16
    assert answer.item_family("resp_1") != answer.item_family("resp_2")
