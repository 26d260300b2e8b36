"""Turns a Whisper checkpoint of CTranslate2 into MLX's layout.

Parses the container itself, so that CTranslate2 is not needed. Supports dense and row-wise
quantised weights. Pure except for the files that it writes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from deploy.setup.progress import Report, track

Array = npt.NDArray[Any]

# Source: CTranslate2, include/ctranslate2/types.h and src/models/model.cc.
_TYPES: Final = {0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16}
_OLDEST_VERSION: Final = 4
# Head size of OpenAI's checkpoints; the container does not always state the number of heads.
_HEAD_SIZE: Final = 64
_PARTS: Final = ("query", "key", "value")
_NORM: Final = {"gamma": "weight", "beta": "bias"}


class WhisperError(Exception):
    """The container has a version that this module does not support."""


class _Reader:
    """Reads little-endian numbers, strings and bytes from a buffer."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self._offset = 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(f"<{form}", self._data, self._offset)
        self._offset += struct.calcsize(form)
        return int(value)

    def take(self, size: int) -> memoryview:
        self._offset += size
        return self._data[self._offset - size : self._offset]

    def text(self) -> str:
        return bytes(self.take(self.number("H"))).rstrip(b"\0").decode()


def read(data: bytes) -> dict[str, Array]:
    """Return the arrays of a model.bin by name; an array with aliases appears under each.

    Raises:
        WhisperError: the version is too old.
    """
    reader = _Reader(data)
    if (version := reader.number("I")) < _OLDEST_VERSION:
        raise WhisperError(f"CTranslate2 container version {version} is too old")
    reader.text()
    reader.number("I")
    arrays: dict[str, Array] = {}
    for _ in range(reader.number("I")):
        name = reader.text()
        shape = [reader.number("I") for _ in range(reader.number("B"))]
        kind = _TYPES[reader.number("B")]
        arrays[name] = np.frombuffer(reader.take(reader.number("I")), kind).reshape(shape)
    for _ in range(reader.number("I")):
        alias, name = reader.text(), reader.text()
        arrays.setdefault(alias, arrays[name])
    return arrays


def convert(container: bytes, source: Mapping[str, Any], folder: Path, report: Report) -> None:
    """Write config.json, generation_config.json and weights.safetensors.

    Args:
        source: the config.json that came with the container.
    """
    arrays = read(container)
    weights = {name: np.ascontiguousarray(array) for name, array in _translate(arrays)}
    tensors = {
        name: mx.array(array.astype(np.float32)) for name, array in track(weights.items(), report)
    }
    mx.save_safetensors(str(folder / "weights.safetensors"), tensors)
    _write(folder / "config.json", _describe(weights))
    _write(folder / "generation_config.json", {"alignment_heads": source["alignment_heads"]})


def _write(path: Path, table: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


def _describe(weights: Mapping[str, Array]) -> dict[str, Any]:
    """Return the configuration, read from the shapes of the weights."""
    vocabulary, width = weights["decoder.token_embedding.weight"].shape
    heads = width // _HEAD_SIZE
    layers = {
        side: 1 + max(int(n.split(".")[2]) for n in weights if n.startswith(f"{side}.blocks."))
        for side in ("encoder", "decoder")
    }
    return {
        "model_type": "whisper",
        "n_mels": weights["encoder.conv1.weight"].shape[2],
        "n_audio_ctx": 1500,
        "n_audio_state": width,
        "n_audio_head": heads,
        "n_audio_layer": layers["encoder"],
        "n_vocab": vocabulary,
        "n_text_ctx": weights["decoder.positional_embedding"].shape[0],
        "n_text_state": width,
        "n_text_head": heads,
        "n_text_layer": layers["decoder"],
    }


def _translate(arrays: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
    """Yield every weight under its name in MLX."""
    for conv in ("conv1", "conv2"):
        # (out, in, kernel) → (out, kernel, in).
        yield f"encoder.{conv}.weight", _dense(arrays, f"encoder/{conv}/weight").transpose(0, 2, 1)
        yield f"encoder.{conv}.bias", arrays[f"encoder/{conv}/bias"]
    yield from _norm(arrays, "encoder/layer_norm", "encoder.ln_post")
    yield from _norm(arrays, "decoder/layer_norm", "decoder.ln")
    yield "decoder.token_embedding.weight", _dense(arrays, "decoder/embeddings/weight")
    yield "decoder.positional_embedding", arrays["decoder/position_encodings/encodings"]
    for side in ("encoder", "decoder"):
        number = 0
        while f"{side}/layer_{number}/self_attention/layer_norm/gamma" in arrays:
            yield from _block(arrays, f"{side}/layer_{number}", f"{side}.blocks.{number}")
            number += 1


def _block(arrays: Mapping[str, Array], source: str, target: str) -> Iterator[tuple[str, Array]]:
    own = f"{source}/self_attention"
    yield from _norm(arrays, f"{own}/layer_norm", f"{target}.attn_ln")
    yield from _split(arrays, f"{own}/linear_0", f"{target}.attn", _PARTS)
    yield from _linear(arrays, f"{own}/linear_1", f"{target}.attn.out")
    cross = f"{source}/attention"
    if f"{cross}/layer_norm/gamma" in arrays:
        yield from _norm(arrays, f"{cross}/layer_norm", f"{target}.cross_attn_ln")
        yield from _linear(arrays, f"{cross}/linear_0", f"{target}.cross_attn.query")
        yield from _split(arrays, f"{cross}/linear_1", f"{target}.cross_attn", _PARTS[1:])
        yield from _linear(arrays, f"{cross}/linear_2", f"{target}.cross_attn.out")
    yield from _norm(arrays, f"{source}/ffn/layer_norm", f"{target}.mlp_ln")
    yield from _linear(arrays, f"{source}/ffn/linear_0", f"{target}.mlp1")
    yield from _linear(arrays, f"{source}/ffn/linear_1", f"{target}.mlp2")


def _norm(arrays: Mapping[str, Array], source: str, target: str) -> Iterator[tuple[str, Array]]:
    for old, new in _NORM.items():
        yield f"{target}.{new}", arrays[f"{source}/{old}"]


def _linear(arrays: Mapping[str, Array], source: str, target: str) -> Iterator[tuple[str, Array]]:
    yield f"{target}.weight", _dense(arrays, f"{source}/weight")
    yield f"{target}.bias", arrays[f"{source}/bias"]


def _split(
    arrays: Mapping[str, Array], source: str, target: str, names: tuple[str, ...]
) -> Iterator[tuple[str, Array]]:
    """Yield the projections stacked in one matrix; Whisper's key projection has no bias."""
    weights = np.split(_dense(arrays, f"{source}/weight"), len(names))
    biases = np.split(arrays[f"{source}/bias"], len(names))
    for name, weight, bias in zip(names, weights, biases, strict=True):
        yield f"{target}.{name}.weight", weight
        if name != "key":
            yield f"{target}.{name}.bias", bias


def _dense(arrays: Mapping[str, Array], name: str) -> Array:
    """Return a dense weight: a quantised one has a divisor per row."""
    array = arrays[name]
    if array.dtype in (np.int8, np.int16):
        return array.astype(np.float32) / arrays[f"{name}_scale"].astype(np.float32)[:, None]
    return array
