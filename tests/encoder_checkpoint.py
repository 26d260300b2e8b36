"""Tiny random encoders and rerankers of real architectures, in the layout of their publishers.

Owns their configs, the names and shapes of their weights, and a word tokenizer. Independent of the
code under test: names are those of transformers. Weights are random with a fixed seed.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

WORDS: Final = ("river", "bank", "money", "water", "the", "of", "a", "flows", "yes", "no", "deep")
# Positions of `bert` and `xlm-roberta`; the other models have more.
POSITIONS: Final = 160
_SIZE, _WIDE, _LAYERS, _HEADS, _KV_HEADS, _HEAD = 32, 64, 4, 4, 2, 8

_BASE: Final[Mapping[str, Any]] = {
    "hidden_size": _SIZE,
    "intermediate_size": _WIDE,
    "num_hidden_layers": _LAYERS,
    "num_attention_heads": _HEADS,
    "pad_token_id": 0,
}
_BERT: Final[Mapping[str, Any]] = {
    **_BASE,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": POSITIONS,
    "type_vocab_size": 2,
}
_DECODER: Final[Mapping[str, Any]] = {
    **_BASE,
    "num_key_value_heads": _KV_HEADS,
    "head_dim": _HEAD,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 4096,
}
CONFIGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "bert": {**_BERT, "model_type": "bert"},
    "xlm-roberta": {
        **_BERT,
        "model_type": "xlm-roberta",
        "type_vocab_size": 1,
        "layer_norm_eps": 1e-5,
        "pad_token_id": 1,
        "max_position_embeddings": POSITIONS + 2,
    },
    "modernbert": {
        **_BASE,
        "model_type": "modernbert",
        "hidden_activation": "gelu",
        "max_position_embeddings": 4096,
        # A window of 8 on each side, on two layers of three.
        "local_attention": 16,
        "global_attn_every_n_layers": 3,
        "global_rope_theta": 160000.0,
        "local_rope_theta": 10000.0,
        "norm_eps": 1e-5,
        "norm_bias": False,
        "attention_bias": False,
        "mlp_bias": False,
        "classifier_pooling": "mean",
        "classifier_activation": "gelu",
        "classifier_bias": False,
    },
    "qwen3": {
        **_DECODER,
        "model_type": "qwen3",
        "rope_theta": 1000000.0,
        "tie_word_embeddings": True,
    },
    "gemma3_text": {
        **_DECODER,
        "model_type": "gemma3_text",
        "query_pre_attn_scalar": _HEAD,
        "rope_theta": 1000000.0,
        "rope_local_base_freq": 10000.0,
        "sliding_window": 16,
        "sliding_window_pattern": 2,
        "use_bidirectional_attention": True,
    },
}


def build(
    folder: Path,
    family: str,
    *,
    reranks: bool = False,
    pooling: str = "mean",
    dense: bool = False,
    labels: int = 1,
) -> Path:
    """Write a checkpoint and return its folder.

    Args:
        reranks: with a classifier head; for qwen3, a generative reranker.
        pooling: in the format of sentence-transformers; empty for none.
        dense: with a dense layer after the pooling.
        labels: of the head.
    """
    folder.mkdir(parents=True, exist_ok=True)
    vocab_tokens = write_tokenizer(folder, family)
    config = {**CONFIGS[family], "vocab_size": vocab_tokens}
    if reranks and family != "qwen3":
        config["architectures"] = ["SomeForSequenceClassification"]
    (folder / "config.json").write_text(json.dumps(config))
    rng = np.random.default_rng(zlib.crc32(family.encode()))
    shapes = dict(_with_head(family, config, labels) if reranks else _SHAPES[family](config))
    weights = {name: _draw(name, shape, rng) for name, shape in shapes.items()}
    save_file(weights, str(folder / "model.safetensors"), metadata={"format": "pt"})
    if not reranks and pooling:
        _write_modules(folder, pooling, rng, dense=dense)
    return folder


def write_tokenizer(folder: Path, family: str) -> int:
    """Write a tokenizer of a few words, letters and special tokens; return their number."""
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    if family == "xlm-roberta":
        specials = ["[CLS]", "[PAD]", "[UNK]", "[SEP]"]
    letters = [chr(code) for code in range(33, 127)]
    vocab = {token: index for index, token in enumerate([*specials, *WORDS, *letters])}
    for letter in letters:
        vocab.setdefault(f"##{letter}", len(vocab))
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    if family in ("qwen3", "gemma3_text"):
        last = ("[SEP]", vocab["[SEP]"])
        tokenizer.post_processor = processors.TemplateProcessing(
            single="$A [SEP]", special_tokens=[last]
        )
    else:
        first, last = ("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])
        second = 1 if family == "bert" else 0
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair=f"[CLS] $A [SEP] $B:{second} [SEP]:{second}",
            special_tokens=[first, last],
        )
    # Some published tokenizers have these set; the worker must reset them.
    tokenizer.enable_padding(length=16)
    tokenizer.enable_truncation(7)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"pad_token": "[PAD]", "model_max_length": int(1e30)}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return len(vocab)


def _write_modules(folder: Path, pooling: str, rng: np.random.Generator, *, dense: bool) -> None:
    kinds = ["Transformer", "Pooling", *(["Dense"] if dense else []), "Normalize"]
    modules = [
        {"idx": index, "path": f"{index}_{kind}" if index else "", "type": f"st.models.{kind}"}
        for index, kind in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    flag = {"mean": "mean_tokens", "cls": "cls_token", "max": "max_tokens", "last": "lasttoken"}
    (folder / "1_Pooling").mkdir(exist_ok=True)
    table = {"word_embedding_dimension": _SIZE, f"pooling_mode_{flag[pooling]}": True}
    (folder / "1_Pooling/config.json").write_text(json.dumps(table))
    if dense:
        (folder / "2_Dense").mkdir(exist_ok=True)
        table = {"activation_function": "torch.nn.modules.linear.Identity", "bias": False}
        (folder / "2_Dense/config.json").write_text(json.dumps(table))
        weight = rng.standard_normal((24, _SIZE)).astype(np.float32)
        save_file({"linear.weight": weight}, str(folder / "2_Dense/model.safetensors"))


def _draw(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Return values for which every part of the forward pass matters."""
    is_norm = "norm" in name.lower() and name.endswith("weight")
    if len(shape) == 1:
        return (rng.standard_normal(shape) * 0.1 + is_norm).astype(np.float32)
    scale = 1.0 if "embed" in name else 1.5 / np.sqrt(shape[1])
    return (rng.standard_normal(shape) * scale).astype(np.float32)


Shapes = Iterator[tuple[str, tuple[int, ...]]]


def _linear(name: str, out: int, into: int, *, bias: bool = True) -> Shapes:
    yield f"{name}.weight", (out, into)
    if bias:
        yield f"{name}.bias", (out,)


def _norm(name: str, size: int = _SIZE, *, bias: bool = True) -> Shapes:
    yield f"{name}.weight", (size,)
    if bias:
        yield f"{name}.bias", (size,)


def _bert_shapes(config: Mapping[str, Any]) -> Shapes:
    yield "embeddings.word_embeddings.weight", (config["vocab_size"], _SIZE)
    yield "embeddings.position_embeddings.weight", (config["max_position_embeddings"], _SIZE)
    yield "embeddings.token_type_embeddings.weight", (config["type_vocab_size"], _SIZE)
    yield from _norm("embeddings.LayerNorm")
    for index in range(_LAYERS):
        layer = f"encoder.layer.{index}"
        for part in ("query", "key", "value"):
            yield from _linear(f"{layer}.attention.self.{part}", _SIZE, _SIZE)
        yield from _linear(f"{layer}.attention.output.dense", _SIZE, _SIZE)
        yield from _norm(f"{layer}.attention.output.LayerNorm")
        yield from _linear(f"{layer}.intermediate.dense", _WIDE, _SIZE)
        yield from _linear(f"{layer}.output.dense", _SIZE, _WIDE)
        yield from _norm(f"{layer}.output.LayerNorm")


def _modernbert_shapes(config: Mapping[str, Any]) -> Shapes:
    yield "embeddings.tok_embeddings.weight", (config["vocab_size"], _SIZE)
    yield from _norm("embeddings.norm", bias=False)
    for index in range(_LAYERS):
        layer = f"layers.{index}"
        if index:
            yield from _norm(f"{layer}.attn_norm", bias=False)
        yield from _linear(f"{layer}.attn.Wqkv", 3 * _SIZE, _SIZE, bias=False)
        yield from _linear(f"{layer}.attn.Wo", _SIZE, _SIZE, bias=False)
        yield from _norm(f"{layer}.mlp_norm", bias=False)
        yield from _linear(f"{layer}.mlp.Wi", 2 * _WIDE, _SIZE, bias=False)
        yield from _linear(f"{layer}.mlp.Wo", _SIZE, _WIDE, bias=False)
    yield from _norm("final_norm", bias=False)


def _decoder_shapes(config: Mapping[str, Any]) -> Shapes:
    norms = ["input_layernorm", "post_attention_layernorm"]
    if config["model_type"] == "gemma3_text":
        norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
    yield "embed_tokens.weight", (config["vocab_size"], _SIZE)
    for index in range(_LAYERS):
        layer = f"layers.{index}"
        for part, heads in (("q", _HEADS), ("k", _KV_HEADS), ("v", _KV_HEADS)):
            yield f"{layer}.self_attn.{part}_proj.weight", (heads * _HEAD, _SIZE)
        yield f"{layer}.self_attn.o_proj.weight", (_SIZE, _HEADS * _HEAD)
        yield f"{layer}.self_attn.q_norm.weight", (_HEAD,)
        yield f"{layer}.self_attn.k_norm.weight", (_HEAD,)
        yield f"{layer}.mlp.gate_proj.weight", (_WIDE, _SIZE)
        yield f"{layer}.mlp.up_proj.weight", (_WIDE, _SIZE)
        yield f"{layer}.mlp.down_proj.weight", (_SIZE, _WIDE)
        for norm in norms:
            yield f"{layer}.{norm}.weight", (_SIZE,)
    yield "norm.weight", (_SIZE,)


_SHAPES: Final = {
    "bert": _bert_shapes,
    "xlm-roberta": _bert_shapes,
    "modernbert": _modernbert_shapes,
    "qwen3": _decoder_shapes,
    "gemma3_text": _decoder_shapes,
}
_PREFIXES: Final = {
    "bert": "bert.",
    "xlm-roberta": "roberta.",
    "modernbert": "model.",
    "qwen3": "model.",
}


def _with_head(family: str, config: Mapping[str, Any], labels: int) -> Shapes:
    for name, shape in _SHAPES[family](config):
        yield _PREFIXES[family] + name, shape
    if family == "bert":
        yield from _linear("bert.pooler.dense", _SIZE, _SIZE)
        yield from _linear("classifier", labels, _SIZE)
    elif family == "xlm-roberta":
        yield from _linear("classifier.dense", _SIZE, _SIZE)
        yield from _linear("classifier.out_proj", labels, _SIZE)
    elif family == "modernbert":
        yield from _linear("head.dense", _SIZE, _SIZE, bias=False)
        yield from _norm("head.norm", bias=False)
        yield from _linear("classifier", labels, _SIZE)
