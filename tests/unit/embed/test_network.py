"""Each family's vectors and scores equal a plain float64 forward pass with the same weights."""

from __future__ import annotations

import json

import mlx.core as mx
import numpy as np
import pytest

from shared.lifecycle import PermanentError
from tests.encoder_checkpoint import CONFIGS
from tests.encoder_reference import Reference
from workers.embed import pooling
from workers.embed.network import attention

# Around the windows of 8 and 16, the widths that rows are padded to, and the longest row.
LENGTHS = (1, 2, 8, 9, 10, 16, 17, 18, 33, 127, 128, 129, 160)
POOLINGS = {"bert": "mean", "xlm-roberta": "cls", "modernbert": "mean", "qwen3": "last"}
# Components that share a scale in a quantised checkpoint.
GROUP = 32
CLASSIFIERS = ("bert", "xlm-roberta", "modernbert")


def draw_rows(model, seed=0):
    rng = np.random.default_rng(seed)
    rows = [rng.integers(4, model.card.vocab_tokens, length).tolist() for length in LENGTHS]
    return [model.tokenizer.make_row(row) for row in rows]


@pytest.fixture(scope="session", params=CONFIGS)
def pair(request, make_checkpoint, load_model):
    """A model of a family, its reference, and how it pools."""
    mode = POOLINGS.get(request.param, "max")
    folder = make_checkpoint(request.param, pooling=mode)
    return load_model(folder), Reference(folder), mode


def vectors(model, rows):
    return pooling.finish(model.forward(rows), 2, None)


def test_vectors_alone_and_in_a_batch_equal_the_reference(pair):
    model, reference, mode = pair
    rows = draw_rows(model)
    together = vectors(model, rows)
    assert np.isfinite(together).all()
    for row, in_batch in zip(rows, together, strict=True):
        expected = reference.pooled(row.ids, mode)
        alone = vectors(model, [row])[0]
        assert in_batch @ expected >= 0.9999, len(row)
        assert np.abs(in_batch - expected).max() < 1e-4, len(row)
        assert np.abs(in_batch - alone).max() < 1e-4, len(row)


def test_a_dense_layer_follows_the_pooling(make_checkpoint, load_model):
    folder = make_checkpoint("gemma3_text", dense=True)
    model = load_model(folder)
    assert model.card.encoder.dimensions == 24
    (row,) = draw_rows(model)[6:7]
    weight = mx.load(str(folder / "2_Dense" / "model.safetensors"))["linear.weight"]
    hidden = Reference(folder).hidden(row.ids).mean(0)
    expected = np.array(weight, np.float64) @ hidden
    assert vectors(model, [row])[0] @ (expected / np.linalg.norm(expected)) >= 0.9999


def test_dense_layers_among_the_networks_weights_equal_those_of_folders(
    make_checkpoint, load_model
):
    # As mlx-embeddings converts EmbeddingGemma: no list of modules, one layer quantised.
    folder, converted = make_checkpoint("gemma3_text"), make_checkpoint("gemma3_text")
    (converted / "modules.json").unlink()
    wide, narrow = (mx.random.normal(shape) * 0.2 for shape in ((64, 32), (32, 64)))
    packed = mx.quantize(wide, group_size=GROUP, bits=8)
    wide = mx.dequantize(*packed, group_size=GROUP, bits=8)
    names = ("dense.0.weight", "dense.0.scales", "dense.0.biases")
    weights = mx.load(str(converted / "model.safetensors"))
    weights |= dict(zip(names, packed, strict=True)) | {"dense.1.weight": narrow}
    mx.save_safetensors(str(converted / "model.safetensors"), weights)
    config = json.loads((converted / "config.json").read_text())
    config["quantization"] = {"group_size": GROUP, "bits": 8}
    (converted / "config.json").write_text(json.dumps(config))

    model = load_model(converted)
    (row,) = draw_rows(model)[6:7]
    hidden = Reference(folder).hidden(row.ids).mean(0)
    expected = np.array(narrow, np.float64) @ (np.array(wide, np.float64) @ hidden)
    assert vectors(model, [row])[0] @ (expected / np.linalg.norm(expected)) >= 0.9999


@pytest.mark.parametrize("family", CLASSIFIERS)
def test_a_cross_encoders_scores_equal_the_reference(family, make_checkpoint, load_model):
    folder = make_checkpoint(family, reranks=True)
    model, reference = load_model(folder, "rerank"), Reference(folder)
    documents = ["river", "the water flows", "money " * 40, "of the deep bank " * 60]
    rows = model.scorer.make_rows("the bank of a river", documents, "")
    assert (rows[0].types is not None) == (family == "bert")
    assert max(map(len, rows)) <= model.tokenizer.longest
    scores = model.forward(rows)[:, 0]
    types = [None if row.types is None else row.types for row in rows]
    expected = [reference.score(r.ids, t) for r, t in zip(rows, types, strict=True)]
    assert scores == pytest.approx(expected, abs=1e-5)
    assert len(set(np.round(expected, 3))) == len(expected)


def test_a_generative_rerankers_scores_equal_the_reference(make_checkpoint, load_model):
    folder = make_checkpoint("qwen3", reranks=True)
    model, reference = load_model(folder, "rerank"), Reference(folder)
    yes, no = (model.tokenizer.encode_plain(word)[0] for word in ("yes", "no"))
    rows = model.scorer.make_rows("deep water", ["the river", "a bank " * 30], "find rivers")
    scores = model.forward(rows)[:, 0]
    expected = [reference.odds(row.ids, yes, no) for row in rows]
    assert scores == pytest.approx(expected, abs=1e-5)


def test_only_the_question_of_a_generative_reranker_is_truncated(make_checkpoint, load_model):
    folder = make_checkpoint("qwen3", reranks=True)
    model = load_model(folder, "rerank", max_length=700)
    short, long = model.scorer.make_rows("deep water", ["the river", "a bank " * 2000], "")
    assert len(long) == 700
    assert long.ids[:50].tolist() == short.ids[:50].tolist()
    assert long.ids[-40:].tolist() == short.ids[-40:].tolist()


def test_attention_in_blocks_equals_attention_in_one_piece():
    rng = np.random.default_rng(0)
    queries, keys, values = (mx.array(rng.standard_normal((1, 1, 1300, 4))) for _ in range(3))
    mask = attention.window_mask(mx.array([1250]), 1300, 700)
    scores = (queries @ keys.transpose(0, 1, 3, 2)) * 0.5
    expected = mx.softmax(mx.where(mask, scores, -mx.inf), axis=-1) @ values
    found = attention.attend(queries, keys, values, mask)
    assert np.abs(np.array(found) - np.array(expected[:, 0])).max() < 1e-5


def test_a_head_with_several_labels_is_refused(make_checkpoint, load_model):
    folder = make_checkpoint("bert", reranks=True, labels=3)
    with pytest.raises(PermanentError, match="one label; this checkpoint has 3"):
        load_model(folder, "rerank")


def test_a_checkpoint_of_the_other_kind_is_refused_with_the_right_flag(make_checkpoint, load_model):
    with pytest.raises(PermanentError, match="--reranker-model"):
        load_model(make_checkpoint("bert", reranks=True))
    with pytest.raises(PermanentError, match="--embedding-model"):
        load_model(make_checkpoint("bert"), "rerank")


def test_a_missing_weight_is_named(make_checkpoint, load_model):
    folder = make_checkpoint("bert")
    (folder / "config.json").write_text(
        (folder / "config.json")
        .read_text()
        .replace('"num_hidden_layers": 4', '"num_hidden_layers": 5')
    )
    with pytest.raises(PermanentError, match=r"16 parameters are missing.*encoder\.layer\.4"):
        load_model(folder)


@pytest.mark.parametrize("family", ["bert", "qwen3"])
def test_quantised_weights_equal_their_dequantised_ones(family, make_checkpoint, load_model):
    folder, plain = (make_checkpoint(family, pooling="mean") for _ in range(2))
    weights = mx.load(str(folder / "model.safetensors"))
    meant = dict(weights)
    for name, array in list(weights.items()):
        if array.ndim == 2 and array.shape[1] % GROUP == 0:
            parts = mx.quantize(array, group_size=GROUP, bits=8)
            names = [name, *(name.removesuffix("weight") + end for end in ("scales", "biases"))]
            weights.update(zip(names, parts, strict=True))
            meant[name] = mx.dequantize(*parts, group_size=GROUP, bits=8)
    mx.save_safetensors(str(folder / "model.safetensors"), weights)
    mx.save_safetensors(str(plain / "model.safetensors"), meant)
    config = json.loads((folder / "config.json").read_text())
    config["quantization"] = {"group_size": GROUP, "bits": 8}
    (folder / "config.json").write_text(json.dumps(config))

    model, reference = load_model(folder), Reference(plain)
    assert model.card.quantization_bits == 8
    rows = draw_rows(model)
    for row, vector in zip(rows, vectors(model, rows), strict=True):
        assert vector @ reference.pooled(row.ids, "mean") >= 0.9999, len(row)
