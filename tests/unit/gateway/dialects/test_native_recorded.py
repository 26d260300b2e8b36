"""Native responses compared with recorded keys and timings of a real llama-server (tests/data).

What a client of llama-server may look for is there; what it does not know may stand beside it.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.dialects.base import Stamp
from gateway.dialects.llama import native, props, timing
from gateway.generation.fold import Completion
from shared.pb import common_pb2 as common
from shared.pb import text_pb2 as pb
from shared.pb import worker_pb2

ROOT = Path(__file__).parents[4]
RECORDED = json.loads((ROOT / "tests/data/llama_server.json").read_text("utf-8"))
CARD = worker_pb2.ModelCard(name="m", parameters=4, weight_bytes=8)


def parse(**fields):
    return native.parse(json.dumps({"prompt": "x", **fields}).encode(), Stamp("cmpl-x", 1, 1))


def events(**fields):
    """Return the events of a stream of one token."""
    renderer = native.renderer(parse(stream=True, **fields), "m")
    items = [
        pb.Accepted(),
        pb.Event(started=pb.Started()),
        pb.Event(block_start=pb.BlockStart()),
        pb.Event(delta=pb.Delta(text="a", ids=[1])),
        pb.Event(finished=pb.Finished()),
    ]
    data = b"".join(map(renderer.feed, items)).decode()
    return [json.loads(event.removeprefix("data: ")) for event in data.split("\n\n")[:-1]]


def test_a_whole_answer_has_the_same_keys_in_the_same_order():
    answer = json.loads(native.body(parse(), "m", Completion()))
    assert list(answer) == RECORDED["whole"]
    assert list(answer["timings"]) == RECORDED["timings"]
    assert answer["generation_settings"].keys() >= set(RECORDED["generation_settings"])


def test_the_events_of_a_stream_have_the_same_keys():
    first, last = events()
    assert first.keys() == set(RECORDED["event"])
    assert last.keys() == set(RECORDED["last_event"])


@pytest.mark.parametrize("timed", RECORDED["timed"])
def test_rates_are_computed_in_the_same_way(timed):
    recorded = timed["timings"]
    timings = pb.Timings(prompt_ms=recorded["prompt_ms"], predicted_ms=recorded["predicted_ms"])
    assert timing.describe(common.Usage(**timed["usage"]), timings) == pytest.approx(recorded)


def test_rates_without_tokens_are_zero():
    timings = timing.describe(common.Usage(), pb.Timings(predicted_ms=1.0))
    assert {timings[name] for name in timings if name != "predicted_ms"} == {0}


def test_properties_have_the_same_keys():
    report = props.describe(CARD, 4, {"slots": True, "props": False, "metrics": False})
    assert report.keys() == set(RECORDED["props"])
    settings = report["default_generation_settings"]
    assert settings["seed"] == settings["params"]["seed"] == 2**64 - 1
    seeded = props.describe(CARD, 4, {}, seed=7)["default_generation_settings"]
    assert seeded["seed"] == seeded["params"]["seed"] == 7
    assert settings["params"].keys() >= set(RECORDED["props_params"])
    assert report["chat_template_caps"].keys() == set(RECORDED["chat_template_caps"])
    assert report["modalities"].keys() == set(RECORDED["modalities"])
