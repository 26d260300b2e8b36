"""Turns a llama-architecture GGUF file into a folder that mlx-lm loads.

Owns the mapping of tensors and configuration; gguf_tokenizer.py maps the tokenizer. MLX's GGUF
reader returns quantised blocks in MLX's packed layout, so a quantised folder holds the numbers
of the file unchanged. Runs on the caller's thread, on the CPU.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import mlx.core as mx

from deploy.setup.progress import Report, track
from deploy.starter_models import gguf_tokenizer

Tensors = dict[str, Any]
Metadata = Mapping[str, Any]

# llama.cpp's names (gguf-py, constants.py, MODEL_TENSOR.*) to those of mlx_lm.models.llama.
_OUTER: Final = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
_INNER: Final = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
# Weights per scale in the block formats MLX reads packed: ggml's QK4_0, QK4_1 and QK8_0.
_BLOCK: Final = 32
_SCALES: Final = ("scales", "biases")


class ConversionError(Exception):
    """The file has something that this mapping does not know. The message names it."""


def convert(source: Path, folder: Path, *, quantised: bool, report: Report) -> None:
    """Write the mlx-lm folder of a GGUF file.

    Args:
        source: a llama-architecture file.
        folder: an existing, empty folder.
        quantised: keep the file's blocks, with fp16 scales; else everything becomes fp32.

    Raises:
        ConversionError: another architecture, or an unknown tensor.
    """
    with mx.stream(mx.cpu):
        loaded: Any = mx.load(str(source), return_metadata=True)
        tensors, metadata = rename(*loaded), loaded[1]
        config = describe(tensors, metadata)
        if quantised:
            config["quantization"] = describe_blocks(tensors)
            tensors = {name: _halve(array) for name, array in tensors.items()}
        else:
            tensors = widen(tensors)
        for array in track(tensors.values(), report):
            mx.eval(array)
        mx.save_safetensors(str(folder / "model.safetensors"), tensors, metadata={"format": "mlx"})
    config["torch_dtype"] = "float16" if quantised else "float32"
    _write(folder / "config.json", config)
    ends = {key: config[key] for key in ("bos_token_id", "eos_token_id")}
    _write(folder / "generation_config.json", ends)
    gguf_tokenizer.write(metadata, folder)


def rename(tensors: Tensors, metadata: Metadata) -> Tensors:
    """Return the tensors under mlx-lm's names, with the rotary halves in its order.

    Raises:
        ConversionError: a name has no counterpart.
    """
    heads = {
        "attn_q": read(metadata, "attention.head_count"),
        "attn_k": read(metadata, "attention.head_count_kv"),
    }
    renamed = {}
    for name, array in tensors.items():
        layer, part, kind = split(name)
        if layer is None:
            renamed[f"{_OUTER[part]}.{kind}"] = array
            continue
        if part in heads:
            array = unpermute(array, heads[part])  # noqa: PLW2901 - the same tensor, reordered
        renamed[f"model.layers.{layer}.{_INNER[part]}.{kind}"] = array
    return renamed


def split(name: str) -> tuple[int | None, str, str]:
    """Return layer, part and kind of a GGUF tensor name such as `blk.3.attn_q.weight`.

    Raises:
        ConversionError: a llama model has no such tensor.
    """
    pieces = name.split(".")
    if len(pieces) == 2 and pieces[0] in _OUTER:
        return None, pieces[0], pieces[1]
    if len(pieces) == 4 and pieces[0] == "blk" and pieces[2] in _INNER:
        return int(pieces[1]), pieces[2], pieces[3]
    raise ConversionError(f"a llama model has no tensor {name!r}")


def unpermute(array: Any, heads: int) -> Any:
    """Return rows in the order in which each head's rotary pairs are (i, i + half).

    Shape: (heads * head size, anything), packed or not: only rows move.
    Source: llama.cpp's convert_hf_to_gguf.py, LlamaModel.permute, whose inverse this is.
    """
    rows, *rest = array.shape
    pairs = array.reshape(heads, rows // heads // 2, 2, *rest)
    return pairs.swapaxes(1, 2).reshape(array.shape)


def describe(tensors: Iterable[str], metadata: Metadata) -> dict[str, Any]:
    """Return config.json for tensors that `rename` has named.

    Source: keys of `mlx_lm.models.llama.ModelArgs`; the GGUF side is gguf-py's Keys.LLM.

    Raises:
        ConversionError: the file is of another architecture.
    """
    if metadata.get("general.architecture") != "llama":
        raise ConversionError(f"{metadata.get('general.architecture')!r} is not a llama model")
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": read(metadata, "embedding_length"),
        "intermediate_size": read(metadata, "feed_forward_length"),
        "num_hidden_layers": read(metadata, "block_count"),
        "num_attention_heads": read(metadata, "attention.head_count"),
        "num_key_value_heads": read(metadata, "attention.head_count_kv"),
        # Stored as fp32: 1e-05 comes back as 9.999999747378752e-06.
        "rms_norm_eps": float(f"{read(metadata, 'attention.layer_norm_rms_epsilon'):.6g}"),
        "rope_theta": read(metadata, "rope.freq_base"),
        "max_position_embeddings": read(metadata, "context_length"),
        "vocab_size": len(metadata["tokenizer.ggml.tokens"]),
        "tie_word_embeddings": "lm_head.weight" not in set(tensors),
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": scalar(metadata["tokenizer.ggml.bos_token_id"]),
        "eos_token_id": scalar(metadata["tokenizer.ggml.eos_token_id"]),
    }


def describe_blocks(tensors: Tensors) -> dict[str, Any]:
    """Return mlx-lm's `quantization` entry: 4 bits, and each layer that has another width."""
    entry: dict[str, Any] = {"group_size": _BLOCK, "bits": 4}
    for name in packed(tensors):
        bits = count_bits(tensors, name)
        if bits != entry["bits"]:
            entry[name] = {"group_size": _BLOCK, "bits": bits}
    return entry


def widen(tensors: Tensors) -> Tensors:
    """Return every weight as fp32."""
    wide = {
        name: array.astype(mx.float32)
        for name, array in tensors.items()
        if array.dtype != mx.uint32 and not name.endswith(_SCALES)
    }
    for name in packed(tensors):
        scales, biases = (tensors[f"{name}.{kind}"].astype(mx.float32) for kind in _SCALES)
        wide[f"{name}.weight"] = mx.dequantize(
            tensors[f"{name}.weight"],
            scales,
            biases,
            group_size=_BLOCK,
            bits=count_bits(tensors, name),
        )
    return wide


def packed(tensors: Tensors) -> list[str]:
    """Return the names, without `.weight`, of the layers stored in blocks."""
    return [name.removesuffix(".weight") for name, array in tensors.items() if _is_packed(array)]


def count_bits(tensors: Tensors, name: str) -> int:
    """Return the bits per weight of a packed layer, from its shapes.

    Shape: weight (rows, columns * bits / 32) of uint32, scales (rows, columns / block).
    """
    words = tensors[f"{name}.weight"].shape[-1]
    columns = tensors[f"{name}.scales"].shape[-1] * _BLOCK
    return int(words * 32 // columns)


def read(metadata: Metadata, key: str) -> Any:
    """Return a llama hyperparameter."""
    return scalar(metadata[f"llama.{key}"])


def scalar(value: Any) -> Any:
    """Return the plain number that MLX's reader wraps in an array."""
    return value.item() if isinstance(value, mx.array) else value


def _is_packed(array: Any) -> bool:
    return bool(array.dtype == mx.uint32)


def _halve(array: Any) -> Any:
    return array if _is_packed(array) else array.astype(mx.float16)


def _write(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
