"""Both layouts of a Whisper checkpoint load as the same model.

The checkpoints are tiny and random, with the publishers' names: OpenAI's, as MLX's converters keep
them, and those of transformers.
"""

from __future__ import annotations

import json
from types import SimpleNamespace

import mlx.core as mx
import numpy as np
import pytest
from mlx_audio.stt.models.whisper.decoding import DecodingOptions
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from shared.lifecycle import PermanentError
from workers.audio.recognition import whisper

pytestmark = pytest.mark.slow

WIDTH, HEADS, MELS, FRAMES, CONTEXT = 64, 2, 80, 1500, 32
SPECIAL = [
    *("endoftext", "startoftranscript", "en", "translate", "transcribe"),
    *("startoflm", "startofprev", "nospeech", "notimestamps"),
]
VOCABULARY = 256 + len(SPECIAL) + 1501
# OpenAI's name of a part → that of transformers.
NAMES = {
    "blocks": "layers",
    "attn_ln": "self_attn_layer_norm",
    "cross_attn_ln": "encoder_attn_layer_norm",
    "mlp_ln": "final_layer_norm",
    "attn": "self_attn",
    "cross_attn": "encoder_attn",
    "query": "q_proj",
    "key": "k_proj",
    "value": "v_proj",
    "out": "out_proj",
    "mlp1": "fc1",
    "mlp2": "fc2",
    "ln": "layer_norm",
    "ln_post": "layer_norm",
    "token_embedding": "embed_tokens",
    "positional_embedding": "embed_positions.weight",
}
OPENAI = {
    "model_type": "whisper",
    "n_mels": MELS,
    "n_audio_ctx": FRAMES,
    "n_audio_state": WIDTH,
    "n_audio_head": HEADS,
    "n_audio_layer": 1,
    "n_vocab": VOCABULARY,
    "n_text_ctx": CONTEXT,
    "n_text_state": WIDTH,
    "n_text_head": HEADS,
    "n_text_layer": 2,
}
TRANSFORMERS = {
    "model_type": "whisper",
    "architectures": ["WhisperForConditionalGeneration"],
    "num_mel_bins": MELS,
    "max_source_positions": FRAMES,
    "d_model": WIDTH,
    "encoder_layers": 1,
    "encoder_attention_heads": HEADS,
    "vocab_size": VOCABULARY,
    "max_target_positions": CONTEXT,
    "decoder_layers": 2,
    "decoder_attention_heads": HEADS,
}


def draw():
    """Return the weights under OpenAI's names, convolutions as MLX has them."""
    shapes = {
        "encoder.conv1.weight": (WIDTH, 3, MELS),
        "encoder.conv1.bias": (WIDTH,),
        "encoder.conv2.weight": (WIDTH, 3, WIDTH),
        "encoder.conv2.bias": (WIDTH,),
        "decoder.token_embedding.weight": (VOCABULARY, WIDTH),
        "decoder.positional_embedding": (CONTEXT, WIDTH),
    }
    blocks = ["encoder.blocks.0", "decoder.blocks.0", "decoder.blocks.1"]
    for block in blocks:
        for attention in ("attn", "cross_attn") if block.startswith("d") else ("attn",):
            for part in ("query", "key", "value", "out"):
                shapes[f"{block}.{attention}.{part}.weight"] = (WIDTH, WIDTH)
                if part != "key":
                    shapes[f"{block}.{attention}.{part}.bias"] = (WIDTH,)
            shapes |= norm(f"{block}.{attention}_ln")
        shapes |= {f"{block}.mlp1.weight": (4 * WIDTH, WIDTH), f"{block}.mlp1.bias": (4 * WIDTH,)}
        shapes |= {f"{block}.mlp2.weight": (WIDTH, 4 * WIDTH), f"{block}.mlp2.bias": (WIDTH,)}
        shapes |= norm(f"{block}.mlp_ln")
    shapes |= norm("encoder.ln_post") | norm("decoder.ln")
    source = np.random.default_rng(0)
    return {
        name: source.normal(0, 0.5 if "positional" in name else 0.1, shape).astype(np.float32)
        for name, shape in shapes.items()
    }


def norm(name):
    return {f"{name}.weight": (WIDTH,), f"{name}.bias": (WIDTH,)}


def rename(weights):
    """Yield the weights as transformers stores them."""
    for name, array in weights.items():
        words = [NAMES.get(word, word) for word in name.split(".")]
        is_convolution = array.ndim == 3
        yield f"model.{'.'.join(words)}", array.transpose(0, 2, 1) if is_convolution else array
    yield "model.encoder.embed_positions.weight", np.zeros((FRAMES, WIDTH), np.float32)
    yield "proj_out.weight", weights["decoder.token_embedding.weight"]


def quantize(weights):
    """Yield the weights with every matrix of the blocks in eight bits."""
    for name, array in weights.items():
        if array.ndim == 2 and ".blocks." in name:
            stem = name.removesuffix(".weight")
            packed, scales, biases = mx.quantize(mx.array(array), group_size=32, bits=8)
            yield f"{stem}.weight", packed
            yield f"{stem}.scales", scales
            yield f"{stem}.biases", biases
        else:
            yield name, mx.array(array)


def write_tokenizer(folder):
    alphabet = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=alphabet, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(f"<|{word}|>", special=True) for word in SPECIAL])
    tokenizer.save(str(folder / "tokenizer.json"))


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """A folder for each layout of the same weights."""
    weights, folders = draw(), SimpleNamespace()
    arrays = {name: mx.array(array) for name, array in weights.items()}
    theirs = {name: mx.array(array) for name, array in rename(weights)}
    layouts = {
        "openai": (OPENAI, lambda f: mx.save_safetensors(str(f / "weights.safetensors"), arrays)),
        "npz": (OPENAI, lambda f: np.savez(f / "weights.npz", **weights)),
        "transformers": (
            TRANSFORMERS,
            lambda f: mx.save_safetensors(str(f / "model.safetensors"), theirs),
        ),
        "quantised": (
            OPENAI | {"quantization": {"group_size": 32, "bits": 8}},
            lambda f: mx.save_safetensors(str(f / "weights.safetensors"), dict(quantize(weights))),
        ),
    }
    for name, (config, save) in layouts.items():
        folder = tmp_path_factory.mktemp(name)
        (folder / "config.json").write_text(json.dumps(config))
        write_tokenizer(folder)
        save(folder)
        setattr(folders, name, folder)
    return folders


def transcribe(folder):
    """Return a model's tokens for noise, and the logits of the first."""
    network = whisper.load_network(folder, full_precision=True)
    mel = mx.random.normal((1, 2 * FRAMES, MELS), key=mx.random.key(1))
    sound = network.encoder(mel)
    (result,) = network.decode(sound, DecodingOptions(language="en", fp16=False))
    logits, _, _ = network.decoder(mx.array([[257]]), sound)
    return result.tokens, logits


@pytest.mark.parametrize("layout", ["npz", "transformers"])
def test_both_layouts_are_the_same_model(checkpoints, layout):
    tokens, logits = transcribe(checkpoints.openai)
    others, other_logits = transcribe(getattr(checkpoints, layout))
    assert len(tokens) == CONTEXT // 2
    assert others == tokens
    assert mx.array_equal(other_logits, logits)


def test_a_quantised_model_is_nearly_the_same(checkpoints):
    _, logits = transcribe(checkpoints.openai)
    _, nearly = transcribe(checkpoints.quantised)
    assert mx.abs(nearly - logits).max() < 0.1 * mx.abs(logits).max()


def test_an_incomplete_model_is_refused(checkpoints, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(OPENAI))
    with pytest.raises(PermanentError, match="missing"):
        whisper.load_network(tmp_path, full_precision=True)
    weights = mx.load(str(checkpoints.openai / "weights.safetensors"))
    del weights["decoder.ln.bias"]
    mx.save_safetensors(str(tmp_path / "weights.safetensors"), weights)
    with pytest.raises(PermanentError, match=r"(?s)not a complete Whisper.*.*decoder\.ln\.bias"):
        whisper.load_network(tmp_path, full_precision=True)
    path = tmp_path / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(PermanentError, match="not a complete Whisper model"):
        whisper.load_network(tmp_path, full_precision=True)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(PermanentError, match="not a complete Whisper model"):
        whisper.load_network(tmp_path, full_precision=True)
