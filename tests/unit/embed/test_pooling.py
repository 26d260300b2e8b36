"""Pooling, norms and dimensions, and how a checkpoint states them."""

from __future__ import annotations

import json
import math

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.lifecycle import PermanentError
from workers.embed.checkpoint import (
    EUCLIDEAN,
    LENGTH_CAP_TOKENS,
    longest_text,
    read_checkpoint,
    read_norm,
    read_pooling,
)
from workers.embed.pooling import POOLS, finish, normalize

_FLOATS = st.floats(-(2.0**99), 2.0**99, width=32)
VECTORS = np.array([[3.0, -4.0], [0.0, 0.0], [1e-20, 0.0]], np.float32)


@pytest.mark.parametrize(
    ("norm", "first"),
    [
        (-1, [3.0, -4.0]),
        (0, [24570.0, -32760.0]),
        (1, [3 / 7, -4 / 7]),
        (2, [0.6, -0.8]),
        (3, [3 / 91 ** (1 / 3), -4 / 91 ** (1 / 3)]),
        (2**31 - 1, [0.75, -1.0]),
    ],
)
def test_vectors_get_the_requested_norm_and_zero_stays_zero(norm, first):
    done = normalize(VECTORS, norm)
    assert done[0] == pytest.approx(first, rel=1e-5)
    assert done[1].tolist() == [0, 0]
    assert np.isfinite(done).all()
    assert done.dtype == np.float32


def test_kept_components_are_normalised_again():
    vectors = np.array([[1.0, 2.0, 2.0]], np.float32)
    assert finish(vectors, 2, 2)[0] == pytest.approx([1 / math.sqrt(5), 2 / math.sqrt(5)])
    assert finish(vectors, -1, 2)[0].tolist() == [1, 2]
    assert finish(vectors, 2, None)[0] == pytest.approx([1 / 3, 2 / 3, 2 / 3])


@given(st.lists(_FLOATS, min_size=1, max_size=6), st.integers(0, 50))
def test_any_vector_gets_a_finite_norm(values, norm):
    assert np.isfinite(normalize(np.array([values], np.float32), norm)).all()


@pytest.mark.parametrize("mode", POOLS)
def test_padding_does_not_change_a_vector(mode):
    hidden = mx.array([[[1.0, -5.0], [3.0, -7.0], [math.nan, math.nan]]])
    expected = {"mean": [2, -6], "cls": [1, -5], "last": [3, -7], "max": [3, -5]}[mode]
    assert POOLS[mode](hidden, mx.array([2])).tolist() == [expected]


def write(folder, **files):
    for name, table in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(exist_ok=True)
        path.with_suffix(".json").write_text(json.dumps(table))
    return read_checkpoint(folder)


@pytest.mark.parametrize(
    ("table", "mode"),
    [
        ({"pooling_mode_mean_tokens": True}, "mean"),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode_lasttoken": True, "include_prompt": True}, "last"),
        ({"pooling_mode": "lasttoken"}, "last"),
        ({"pooling_mode": "max"}, "max"),
        ({"pooling_mode_mean_tokens": False}, "mean"),
        ({}, None),
    ],
)
def test_pooling_is_read_from_the_checkpoint(tmp_path, table, mode):
    assert read_pooling(write(tmp_path, **{"1_Pooling__config": table})) == mode


@pytest.mark.parametrize(
    "table",
    [
        {"pooling_mode": "weightedmean"},
        {"pooling_mode_mean_sqrt_len_tokens": True},
        {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True},
        {"pooling_mode_mean_tokens": True, "include_prompt": False},
    ],
)
def test_unsupported_pooling_is_refused(tmp_path, table):
    with pytest.raises(PermanentError):
        read_pooling(write(tmp_path, **{"1_Pooling__config": table}))


def test_a_broken_file_is_named(tmp_path):
    (tmp_path / "modules.json").write_text("{")
    with pytest.raises(PermanentError, match=r"modules\.json"):
        read_checkpoint(tmp_path)


def test_the_longest_text_is_the_least_of_all_limits(tmp_path):
    files = {
        "sentence_bert_config": {"max_seq_length": 256},
        "tokenizer_config": {"model_max_length": 512},
    }
    found = write(tmp_path, **files)
    assert longest_text(found, 300, 0) == 256
    assert longest_text(found, 200, 0) == 200
    assert longest_text(found, 200, 100) == 100


def test_a_checkpoint_without_limits_gets_the_cap(tmp_path):
    found = write(tmp_path, tokenizer_config={"model_max_length": 1e30})
    assert longest_text(found, None, 0) == LENGTH_CAP_TOKENS
    assert read_norm(found) == EUCLIDEAN


@pytest.mark.parametrize(("kinds", "norm"), [(("Pooling",), -1), (("Pooling", "Normalize"), 2)])
def test_the_norm_is_read_from_the_modules(tmp_path, kinds, norm):
    modules = [{"type": f"sentence_transformers.models.{kind}", "path": kind} for kind in kinds]
    assert read_norm(write(tmp_path, modules=modules)) == norm
