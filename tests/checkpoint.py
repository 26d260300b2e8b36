"""Tiny random checkpoints of real architectures, for tests that need no sensible answers.

Owns their configs, their weights and the folder they are cached in. Each folder is what
`mlx_lm.load` expects and is made from a seed, so that all machines generate the same text. The
weights are scaled so that greedy text does not repeat one token, and no special token is ever the
likeliest, so that a stream runs to its token limit. Runs on the caller's thread.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
import zlib
from pathlib import Path
from typing import Any, Final

import mlx.core as mx
import numpy as np
from mlx import nn
from mlx.utils import tree_flatten, tree_unflatten
from mlx_lm.utils import _get_classes
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

ROOT: Final = Path(__file__).resolve().parent.parent
# Part of every folder's name; raise it whenever the generated files change.
VERSION: Final = "2"
TOKENIZER_FILES: Final = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")

_PLAIN: Final[dict[str, Any]] = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
}

FOUR_BITS: Final = {"group_size": 32, "bits": 4}
# Of the type "4bit": scales of float16, in which the rest computes.

# The families. `llama`: a plain KV cache. `bytes`: the same with a vocabulary of bytes,
# whose tokens often split characters, and with infill tokens. `quantised`: 4-bit weights. `wide`:
# heads of 64, whose keys and values MLX can quantise. `sliding`: a window of 32 tokens beside full
# attention. `recurrent`: Mamba-2 state beside attention.
FAMILIES: Final[dict[str, dict[str, Any]]] = {
    "llama": _PLAIN,
    "bytes": _PLAIN,
    "quantised": {**_PLAIN, "quantization": FOUR_BITS},
    "wide": {**_PLAIN, "num_attention_heads": 1, "num_key_value_heads": 1},
    "sliding": {
        **_PLAIN,
        "model_type": "gemma3_text",
        "head_dim": 16,
        "query_pre_attn_scalar": 16,
        "sliding_window": 32,
        "sliding_window_pattern": 2,
    },
    "recurrent": {
        **_PLAIN,
        "model_type": "granitemoehybrid",
        "layer_types": ["mamba", "attention"],
        "attention_bias": False,
        "embedding_multiplier": 1.0,
        "attention_multiplier": 0.25,
        "logits_scaling": 1.0,
        "residual_multiplier": 1.0,
        "mamba_n_heads": 4,
        "mamba_d_head": 32,
        "mamba_d_state": 32,
        "mamba_d_conv": 4,
        "mamba_n_groups": 1,
        "mamba_conv_bias": True,
        "mamba_proj_bias": False,
    },
}


def starter_folder() -> Path:
    """Return the folder of the starter model, whose tokenizer the checkpoints share."""
    return Path(os.environ.get("MLXCEL_TEST_STARTER", ROOT / "models" / "SmolLM2-135M-Instruct"))


def build(
    family: str,
    dtype: str = "float32",
    *,
    starter: Path | None = None,
    cache: Path | None = None,
) -> Path:
    """Return the folder of a family's checkpoint, writing it first if it is missing.

    Args:
        family: a key of `FAMILIES`.
        dtype: float32, float16, bfloat16 or 4bit, of all that it computes. All but float32 have the
            vocabulary of `bytes`: the CPU multiplies them slowly.
        starter: folder of the tokenizer files; `bytes` needs none.
        cache: parent folder of the checkpoints.

    Raises:
        FileNotFoundError: `starter` has no tokenizer.
    """
    cache = cache or ROOT / ".cache" / "checkpoints"
    name = family if dtype == "float32" else f"{family}-{dtype}"
    folder = cache / f"{name}-v{VERSION}"
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=cache))
    try:
        _write(family, dtype, starter or starter_folder(), scratch)
        _move(scratch, folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return folder


def _move(scratch: Path, folder: Path) -> None:
    """Rename a finished folder; another process may have been faster."""
    try:
        scratch.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise


def _write(family: str, dtype: str, starter: Path, folder: Path) -> None:
    if family == "bytes" or dtype != "float32":
        _write_byte_tokenizer(folder)
    else:
        _copy_tokenizer(starter, folder)
    special, vocab_tokens, eos = _read_tokenizer(folder)
    config = {**FAMILIES[family], "vocab_size": vocab_tokens, "eos_token_id": eos}
    if dtype == "4bit":
        config["quantization"] = FOUR_BITS
    model_class, args_class = _get_classes(config)
    model = model_class(args_class.from_dict(config))
    seed = zlib.crc32(family.encode())
    model.update(tree_unflatten(_weights(model, special, np.random.default_rng(seed))))
    _cast(model, dtype)
    if "quantization" in config:
        nn.quantize(model, **config["quantization"])
    weights = dict(tree_flatten(model.parameters()))
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})
    (folder / "config.json").write_text(json.dumps(config, indent=1))


def _cast(model: nn.Module, dtype: str) -> None:
    """Convert the weights that mlx-lm's own conversion would."""
    if dtype == "float32":
        return
    number = getattr(mx, "float16" if dtype == "4bit" else dtype)
    casts = getattr(model, "cast_predicate", lambda _: True)
    weights = tree_flatten(model.parameters())
    model.update(tree_unflatten([(n, w.astype(number) if casts(n) else w) for n, w in weights]))


def _weights(
    model: nn.Module, special: list[int], rng: np.random.Generator
) -> list[tuple[str, mx.array]]:
    """Return a value for every matrix, and for vectors whose initial value is unsuitable."""
    drawn = []
    for name, old in sorted(tree_flatten(model.parameters())):
        if old.ndim > 1:
            weight = rng.standard_normal(old.shape, dtype=np.float32) * _std(name, old.shape)
            if name == "lm_head.weight":
                # The logit of a zero row is 0, far below the highest of the others.
                weight[special] = 0
            drawn.append((name, mx.array(weight)))
        elif name.endswith("dt_bias"):
            # A step of 0.05, as in trained models: the state covers some 20 tokens.
            drawn.append((name, mx.full(old.shape, -3.0)))
        elif model.model_type.startswith("gemma") and name.endswith("norm.weight"):
            # Gemma adds 1. Queries and keys stay at 2, so that attention is sharp.
            drawn.append((name, mx.full(old.shape, 1.0 if "self_attn" in name else 0.0)))
    return drawn


def _std(name: str, shape: tuple[int, ...]) -> float:
    """Return a matrix's standard deviation, found by trial.

    Attention is sharp enough for the text to depend on all previous tokens, and not so sharp that
    it magnifies rounding: a step in a batch and alone picks the same token except in some 3 of a
    million cases. Logits with a deviation of 4 leave a few candidates for sampling.
    """
    if name.endswith("embed_tokens.weight"):
        return 1.0
    layer = name.split(".")[-2]
    gain = {"lm_head": 4.0, "q_proj": 1.5, "k_proj": 1.5, "o_proj": 2.0}.get(layer, 1.0)
    return gain / math.sqrt(math.prod(shape[1:]))


def _copy_tokenizer(starter: Path, folder: Path) -> None:
    if not (starter / "tokenizer.json").is_file():
        raise FileNotFoundError(f"{starter} has no tokenizer.json; install the starter model")
    for name in TOKENIZER_FILES:
        if (starter / name).is_file():
            shutil.copyfile(starter / name, folder / name)


def _read_tokenizer(folder: Path) -> tuple[list[int], int, int]:
    """Return the ids of the special tokens, the size of the vocabulary and the EOS id."""
    table = json.loads((folder / "tokenizer.json").read_text())
    config = json.loads((folder / "tokenizer_config.json").read_text())
    added = {entry["content"]: entry["id"] for entry in table["added_tokens"]}
    vocab_tokens = max([*table["model"]["vocab"].values(), *added.values()]) + 1
    return sorted(added.values()), vocab_tokens, added[config["eos_token"]]


def _write_byte_tokenizer(folder: Path) -> None:
    """Write a tokenizer of 256 bytes, the two ChatML tokens and the three infill tokens."""
    marks = ["<|im_start|>", "<|im_end|>"]
    gaps = ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {token: index for index, token in enumerate([*marks, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(mark, special=True) for mark in [*marks, *gaps]])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "bos_token": marks[0],
        "eos_token": marks[1],
        "chat_template": (
            "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' "
            "+ message['content'] + '<|im_end|>\\n' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
        ),
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1))
