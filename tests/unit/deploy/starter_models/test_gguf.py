"""GGUF files become mlx-lm folders: on a tiny file of the real format."""

from __future__ import annotations

import json

import mlx.core as mx
import mlx_lm
import numpy as np
import pytest

from deploy.starter_models import gguf, gguf_tokenizer

HEADS, KV_HEADS, WIDTH, HIDDEN, LAYERS = 4, 2, 32, 64, 2
TOKENS = ["<|unk|>", "<|bos|>", "<|eos|>", "a", "b", "1", "2", "Ġ", "ab", "Ġab"]
TYPES = [3, 3, 3, 1, 1, 1, 1, 1, 1, 1]


def number(value):
    return mx.array(value, dtype=mx.uint32)


def make_metadata():
    return {
        "general.architecture": "llama",
        "llama.embedding_length": number(WIDTH),
        "llama.feed_forward_length": number(HIDDEN),
        "llama.block_count": number(LAYERS),
        "llama.attention.head_count": number(HEADS),
        "llama.attention.head_count_kv": number(KV_HEADS),
        "llama.attention.layer_norm_rms_epsilon": mx.array(1e-5, dtype=mx.float32),
        "llama.rope.freq_base": mx.array(100000.0, dtype=mx.float32),
        "llama.context_length": number(256),
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": TOKENS,
        "tokenizer.ggml.token_type": mx.array(TYPES, dtype=mx.int32),
        "tokenizer.ggml.merges": ["a b", "Ġ ab"],
        "tokenizer.ggml.unknown_token_id": number(0),
        "tokenizer.ggml.bos_token_id": number(1),
        "tokenizer.ggml.eos_token_id": number(2),
        "tokenizer.chat_template": "{{ messages[0].content }}",
    }


def make_tensors():
    """Return random tensors under mlx-lm's names."""
    random = np.random.default_rng(0)
    kv_width = WIDTH // HEADS * KV_HEADS
    shapes = {
        "model.embed_tokens": (len(TOKENS), WIDTH),
        "model.norm": (WIDTH,),
    }
    for layer in range(LAYERS):
        shapes |= {
            f"model.layers.{layer}.{part}": shape
            for part, shape in {
                "input_layernorm": (WIDTH,),
                "post_attention_layernorm": (WIDTH,),
                "self_attn.q_proj": (WIDTH, WIDTH),
                "self_attn.k_proj": (kv_width, WIDTH),
                "self_attn.v_proj": (kv_width, WIDTH),
                "self_attn.o_proj": (WIDTH, WIDTH),
                "mlp.gate_proj": (HIDDEN, WIDTH),
                "mlp.up_proj": (HIDDEN, WIDTH),
                "mlp.down_proj": (WIDTH, HIDDEN),
            }.items()
        }
    return {
        f"{name}.weight": mx.array(random.normal(0, 0.2, shape).astype(np.float32))
        for name, shape in shapes.items()
    }


def permute(array, heads):
    """As convert_hf_to_gguf.py does it on the way into a file."""
    rows, *rest = array.shape
    return array.reshape(heads, 2, rows // heads // 2, *rest).swapaxes(1, 2).reshape(array.shape)


def to_gguf_names(tensors):
    outer = {"model.embed_tokens.weight": "token_embd", "model.norm.weight": "output_norm"}
    inner = {
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
    }
    heads = {"attn_q": HEADS, "attn_k": KV_HEADS}
    named = {}
    for name, array in tensors.items():
        if name in outer:
            named[f"{outer[name]}.weight"] = array
            continue
        layer, part = name.removeprefix("model.layers.").removesuffix(".weight").split(".", 1)
        part = inner[part]
        stored = permute(array, heads[part]) if part in heads else array
        named[f"blk.{layer}.{part}.weight"] = stored
    return named


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "tiny.gguf"
    mx.save_gguf(str(path), to_gguf_names(make_tensors()), make_metadata())
    return path


@pytest.fixture
def folder(source, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    gguf.convert(source, folder, quantised=False, report=lambda *_: None)
    return folder


def test_every_weight_arrives_under_its_name_unchanged(folder):
    found = mx.load(str(folder / "model.safetensors"))
    expected = make_tensors()
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert mx.array_equal(found[name], array), name


def test_mlx_lm_loads_the_folder_and_computes(folder):
    model, tokenizer = mlx_lm.load(str(folder))
    logits = model(mx.array([tokenizer.encode("ab 1")]))
    assert logits.shape[-1] == len(TOKENS)
    assert bool(mx.isfinite(logits).all())


def test_config_says_what_the_file_said(folder):
    config = json.loads((folder / "config.json").read_text())
    assert config["num_key_value_heads"] == KV_HEADS
    assert config["rms_norm_eps"] == 1e-5
    assert config["rope_theta"] == 100000.0
    assert config["tie_word_embeddings"] is True
    assert (config["bos_token_id"], config["eos_token_id"]) == (1, 2)


def test_tokenizer_merges_splits_digits_and_knows_control_tokens(folder):
    _, tokenizer = mlx_lm.load(str(folder))
    assert tokenizer.encode("ab ab") == [8, 9]
    assert tokenizer.encode("12") == [5, 6]
    assert tokenizer.encode("a<|eos|>b") == [3, 2, 4]
    assert tokenizer.decode([8, 9, 5]) == "ab ab1"
    assert tokenizer.eos_token_ids == {2}


@pytest.mark.parametrize("bits", [4, 8])
def test_blocks_keep_their_width_or_widen_to_their_values(bits):
    plain = make_tensors()["model.layers.0.self_attn.v_proj.weight"]
    weight, scales, biases = mx.quantize(plain, group_size=32, bits=bits)
    tensors = {"layer.weight": weight, "layer.scales": scales, "layer.biases": biases}
    entry = gguf.describe_blocks(tensors)
    expected = {"group_size": 32, "bits": 4}
    assert entry == (expected if bits == 4 else expected | {"layer": {"group_size": 32, "bits": 8}})
    wide = gguf.widen(tensors)
    assert list(wide) == ["layer.weight"]
    words = np.array(weight)[..., None] >> np.arange(0, 32, bits, dtype=np.uint32)
    levels = (words & (2**bits - 1)).reshape(weight.shape[0], -1, 32)
    expected = levels * np.array(scales)[..., None] + np.array(biases)[..., None]
    assert np.array(wide["layer.weight"]) == pytest.approx(expected.reshape(plain.shape), abs=1e-6)


def test_rows_of_packed_weights_move_like_plain_ones():
    plain = make_tensors()["model.layers.0.self_attn.q_proj.weight"]
    packed = [gguf.unpermute(part, HEADS) for part in mx.quantize(plain, group_size=32, bits=4)]
    moved = mx.quantize(gguf.unpermute(plain, HEADS), group_size=32, bits=4)
    for one, other in zip(packed, moved, strict=True):
        assert mx.array_equal(one, other)


@pytest.mark.parametrize("name", ["blk.0.attn_sinks.weight", "mystery.weight", "blk.0.attn_q"])
def test_a_tensor_without_a_place_is_refused(name):
    with pytest.raises(gguf.ConversionError, match=name):
        gguf.split(name)


def test_another_architecture_is_refused():
    with pytest.raises(gguf.ConversionError, match="'qwen2'"):
        gguf.describe([], {"general.architecture": "qwen2"})


def test_another_kind_of_tokenizer_is_refused(tmp_path):
    metadata = make_metadata() | {"tokenizer.ggml.pre": "llama-bpe"}
    with pytest.raises(gguf_tokenizer.TokenizerError, match="llama-bpe"):
        gguf_tokenizer.write(metadata, tmp_path)
