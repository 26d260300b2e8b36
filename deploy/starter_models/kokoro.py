"""Turns Kokoro's int8 ONNX file into the layout that mlx-audio loads.

The export renames, fuses and quantises weights; this module finds the original name of each by
the path of the node that uses it. Supports the export of Kokoro-82M v1.0 in the starter packages
alone. Pure except for the files that it writes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from deploy.setup.progress import Report, track
from deploy.starter_models.onnx_file import Node, read

Array = npt.NDArray[Any]
Named = Iterator[tuple[str, Array]]

_CONVOLUTIONS: Final = {"Conv", "ConvInteger", "ConvTranspose"}
# Convolutions without weight normalisation; all others have a direction and a length.
_PLAIN: Final = re.compile(r"noise_convs|F0_proj|N_proj")
_PREDICTED: Final = re.compile(r"(F0|N)\.\d|F0_proj|N_proj|shared|lstm\b|duration_proj")
_KEPT: Final = re.compile(r"(encoder|decoder)\..*\.(bias|gamma|beta|weight|alpha[12]\.\d)$")
_ALBERT: Final = "bert.encoder.albert_layer_groups.0.albert_layers.0"
# Names of the matrices that have none in the export, by shape.
_BY_SHAPE: Final = {
    (768, 2048): f"{_ALBERT}.ffn",
    (2048, 768): f"{_ALBERT}.ffn_output",
    (768, 512): "bert_encoder",
    (512, 50): "predictor.duration_proj.linear_layer",
    (128, 768): "bert.encoder.embedding_hidden_mapping_in",
}
_HARMONICS: Final = (9, 1)
_HIDDEN: Final = 768
# ONNX orders the gates of an LSTM i, o, f, c; PyTorch i, f, c, o.
_GATES: Final = (0, 2, 3, 1)
_VOICE_WIDTH: Final = 256

# Source: config.json of hexgrad/Kokoro-82M.
_CONFIG: Final[Mapping[str, Any]] = {
    "model_type": "kokoro",
    "istftnet": {
        "upsample_kernel_sizes": [20, 12],
        "upsample_rates": [10, 6],
        "gen_istft_hop_size": 5,
        "gen_istft_n_fft": 20,
        "resblock_dilation_sizes": [[1, 3, 5]] * 3,
        "resblock_kernel_sizes": [3, 7, 11],
        "upsample_initial_channel": 512,
    },
    "dim_in": 64,
    "dropout": 0.2,
    "hidden_dim": 512,
    "max_conv_dim": 512,
    "max_dur": 50,
    "multispeaker": True,
    "n_layer": 3,
    "n_mels": 80,
    "n_token": 178,
    "style_dim": 128,
    "text_encoder_kernel_size": 5,
    "sample_rate": 24000,
    "plbert": {
        "hidden_size": _HIDDEN,
        "num_attention_heads": 12,
        "intermediate_size": 2048,
        "max_position_embeddings": 512,
        "num_hidden_layers": 12,
        "dropout": 0.1,
    },
}


def convert(
    container: bytes,
    vocabulary: Mapping[str, int],
    voices: Mapping[str, bytes],
    folder: Path,
    report: Report,
) -> None:
    """Write config.json, the weights, and a file for each voice.

    Args:
        container: the ONNX file.
        vocabulary: phoneme → number.
        voices: name → little-endian float32 rows of a style.
    """
    nodes, weights = read(container)
    found = dict(_Export(nodes, weights).translate())
    tensors = {name: mx.array(array.astype(np.float32)) for name, array in found.items()}
    mx.save_safetensors(str(folder / "kokoro-v1_0.safetensors"), tensors)
    config = json.dumps({**_CONFIG, "vocab": vocabulary}, ensure_ascii=False, indent=1)
    (folder / "config.json").write_text(config + "\n", encoding="utf-8")
    (folder / "voices").mkdir()
    for name, data in track(voices.items(), report):
        rows = np.frombuffer(data, "<f4").reshape(-1, 1, _VOICE_WIDTH)
        mx.save_safetensors(
            str(folder / "voices" / f"{name}.safetensors"), {"voice": mx.array(rows)}
        )


class _Export:
    """The nodes and weights of the file; a later name overrides an earlier one in `translate`."""

    def __init__(self, nodes: Sequence[Node], weights: Mapping[str, Array]) -> None:
        self._nodes = nodes
        self._weights = weights

    def translate(self) -> Named:
        """Yield every weight under the name it has in the original."""
        for node in self._nodes:
            if node.kind in _CONVOLUTIONS and "/istft/" not in node.name:
                yield from self._convolution(node)
            elif node.kind == "MatMulInteger" and node.inputs[1] in self._weights:
                yield self._matrix(node)
            elif node.kind == "DynamicQuantizeLSTM":
                yield from self._lstm(node)
        for name, array in self._weights.items():
            if re.search(r"embeddings?\.weight_quantized$", name):
                yield _rename(name.replace("_quantized", "")), self._embedding(name)
            elif array.dtype == np.float32 and _KEPT.match(name):
                yield _rename(name), array
            elif array.shape == _HARMONICS and name.startswith("onnx::"):
                yield "decoder.generator.m_source.l_linear.weight", array.T
        # Unused, and so missing in the export.
        yield "bert.pooler.weight", np.zeros((_HIDDEN, _HIDDEN), np.float32)
        yield "bert.pooler.bias", np.zeros(_HIDDEN, np.float32)

    def _convolution(self, node: Node) -> Named:
        module = _rename(re.sub(r"/(Conv_quant|Conv|ConvTranspose)$", "", node.name))
        array = self._weights[node.inputs[1]]
        if node.kind == "ConvInteger":
            array = self._dense(node)
        if _PLAIN.search(module):
            yield f"{module}.weight", array
            return
        length = np.sqrt((array.astype(np.float64) ** 2).sum((1, 2), keepdims=True))
        yield f"{module}.weight_v", array
        yield f"{module}.weight_g", length

    def _matrix(self, node: Node) -> tuple[str, Array]:
        name = node.inputs[1]
        array = self._dense(node)
        if not name.startswith("onnx::"):
            module = _rename(name.replace(".weight_quantized", ""))
        elif array.shape in _BY_SHAPE:
            module = _BY_SHAPE[array.shape]
        else:
            # ALBERT's layers share their weights.
            module = re.sub(r"_\d+$", "", _rename(node.name.replace("/MatMul_quant", "")))
        return f"{module}.weight", array.T

    def _lstm(self, node: Node) -> Named:
        module = _rename(node.name.replace("/LSTM_quant", ""))
        wide, deep, bias = (self._weights[name] for name in node.inputs[1:4])
        scales = [self._weights[name] for name in node.inputs[8:12]]
        wide, deep = _scale(wide, *scales[:2]), _scale(deep, *scales[2:])
        size = deep.shape[1]
        for direction, suffix in enumerate(("", "_reverse")):
            yield f"{module}.weight_ih_l0{suffix}", _gates(wide[direction].T, size)
            yield f"{module}.weight_hh_l0{suffix}", _gates(deep[direction].T, size)
            yield f"{module}.bias_ih_l0{suffix}", _gates(bias[direction][: 4 * size], size)
            yield f"{module}.bias_hh_l0{suffix}", _gates(bias[direction][4 * size :], size)

    def _dense(self, node: Node) -> Array:
        """Return the dequantised weight of a node."""
        name = node.inputs[1]
        scale = self._weights[name.replace("_quantized", "_scale")]
        return _subtract(self._weights[name], self._weights[node.inputs[3]]) * scale

    def _embedding(self, name: str) -> Array:
        """Return a dequantised embedding; its scale is an input of the node after the look-up."""
        looked_up = next(n for n in self._nodes if n.kind == "Gather" and n.inputs[0] == name)
        node = next(
            n
            for n in self._nodes
            if n.kind == "DequantizeLinear" and n.inputs[0] == looked_up.outputs[0]
        )
        scale, zero = (self._weights[name] for name in node.inputs[1:3])
        return _subtract(self._weights[name], zero) * scale


def _subtract(array: Array, zero: Array) -> Array:
    difference: Array = array.astype(np.float32) - zero.astype(np.float32)
    return difference


def _scale(array: Array, scale: Array, zero: Array) -> Array:
    """Return the dequantised weight of both directions of an LSTM."""
    shape = (-1, 1, 1) if scale.ndim == 1 else (scale.shape[0], 1, -1)
    scaled: Array = _subtract(array, zero.reshape(shape)) * scale.reshape(shape)
    return scaled


def _gates(array: Array, size: int) -> Array:
    return np.concatenate([array[gate * size : (gate + 1) * size] for gate in _GATES])


def _rename(path: str) -> str:
    """Return the original name of a module or weight."""
    name = path.strip("/").replace("/", ".")
    name = re.sub(r"^decoder\.decoder\.", "decoder.", name)
    if name.startswith("encoder."):
        name = name.removeprefix("encoder.")
        if _PREDICTED.match(name):
            name = f"predictor.{name}"
    name = re.sub(r"\b(cnn\.\d)\.cnn\.", "cnn.", name)
    return name.replace("asr_res.asr_res.0", "asr_res.0")
