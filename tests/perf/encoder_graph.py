"""A BERT encoder with mean pooling as an ONNX graph, made from its published weights.

For onnxruntime, whose optimizer fuses the attention, GELU and layer norms that it recognises.
Independent of this server.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper
from safetensors.numpy import load_file


class Builder:
    """Collects the nodes of one graph."""

    def __init__(self, folder: Path) -> None:
        self.config = json.loads((folder / "config.json").read_text())
        self._weights = load_file(str(folder / "model.safetensors"))
        self._nodes: list[Any] = []
        self._constants: dict[str, np.ndarray[Any, Any]] = {}

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node and return the name of its output."""
        name = f"n{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        """Return the name of a constant."""
        array = np.asarray(value, dtype)
        name = f"c{len(self._constants)}"
        self._constants[name] = array
        return name

    def weight(self, name: str, *, transposed: bool = False) -> str:
        """Return the name of a weight."""
        array = self._weights[name]
        return self.constant(np.ascontiguousarray(array.T) if transposed else array)

    def dense(self, x: str, name: str) -> str:
        """Add a linear layer."""
        product = self.add("MatMul", x, self.weight(f"{name}.weight", transposed=True))
        return self.add("Add", product, self.weight(f"{name}.bias"))

    def norm(self, x: str, name: str) -> str:
        """Add a layer norm."""
        parts = (self.weight(f"{name}.weight"), self.weight(f"{name}.bias"))
        epsilon = self.config["layer_norm_eps"]
        return self.add("LayerNormalization", x, *parts, axis=-1, epsilon=epsilon)

    def split(self, x: str) -> str:
        """Split into heads: [rows, heads, width, size]."""
        heads = self.config["num_attention_heads"]
        shape = self.constant([0, 0, heads, self.config["hidden_size"] // heads], np.int64)
        return self.add("Transpose", self.add("Reshape", x, shape), perm=[0, 2, 1, 3])

    def layer(self, x: str, hidden: str, index: int) -> str:
        """Add one block; `hidden` is the mask added to the scores."""
        name = f"encoder.layer.{index}"
        parts = [f"{name}.attention.self.{part}" for part in ("query", "key", "value")]
        q, k, v = (self.split(self.dense(x, part)) for part in parts)
        size = self.config["hidden_size"] // self.config["num_attention_heads"]
        scores = self.add("MatMul", q, self.add("Transpose", k, perm=[0, 1, 3, 2]))
        scores = self.add("Add", self.add("Div", scores, self.constant(math.sqrt(size))), hidden)
        mixed = self.add("MatMul", self.add("Softmax", scores, axis=-1), v)
        shape = self.constant([0, 0, self.config["hidden_size"]], np.int64)
        mixed = self.add("Reshape", self.add("Transpose", mixed, perm=[0, 2, 1, 3]), shape)
        mixed = self.add("Add", self.dense(mixed, f"{name}.attention.output.dense"), x)
        x = self.norm(mixed, f"{name}.attention.output.LayerNorm")
        wide = self.add("Gelu", self.dense(x, f"{name}.intermediate.dense"))
        wide = self.add("Add", self.dense(wide, f"{name}.output.dense"), x)
        return self.norm(wide, f"{name}.output.LayerNorm")

    def finish(self, output: str) -> ModelProto:
        """Return the model."""
        sides = [
            helper.make_tensor_value_info(name, kind, shape)
            for name, kind, shape in (
                ("ids", TensorProto.INT64, ["rows", "width"]),
                ("mask", TensorProto.FLOAT, ["rows", "width"]),
                (output, TensorProto.FLOAT, ["rows", self.config["hidden_size"]]),
            )
        ]
        weights = [numpy_helper.from_array(array, name) for name, array in self._constants.items()]
        graph = helper.make_graph(self._nodes, "bert", sides[:2], sides[2:], weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def build(folder: Path) -> ModelProto:
    """Return the graph: `ids` and `mask` (1 for real tokens) to mean-pooled vectors."""
    graph = Builder(folder)
    graph._constants["first"] = np.zeros((1, 1), np.int64)
    x = graph.add("Gather", graph.weight("embeddings.word_embeddings.weight"), "ids")
    width = graph.add("Gather", graph.add("Shape", "ids"), graph.constant(1, np.int64))
    one = graph.constant(1, np.int64)
    indices = graph.add("Range", graph.constant(0, np.int64), width, one)
    positions = graph.add("Gather", graph.weight("embeddings.position_embeddings.weight"), indices)
    types = graph.add("Gather", graph.weight("embeddings.token_type_embeddings.weight"), "first")
    x = graph.add("Add", graph.add("Add", x, positions), types)
    x = graph.norm(x, "embeddings.LayerNorm")
    hidden = graph.add("Sub", "mask", graph.constant(1.0))
    hidden = graph.add("Mul", hidden, graph.constant(1e9))
    hidden = graph.add("Unsqueeze", hidden, graph.constant([1, 2], np.int64))
    for index in range(graph.config["num_hidden_layers"]):
        x = graph.layer(x, hidden, index)
    real = graph.add("Unsqueeze", "mask", graph.constant([2], np.int64))
    axis = graph.constant([1], np.int64)
    total = graph.add("ReduceSum", graph.add("Mul", x, real), axis, keepdims=0)
    count = graph.add("ReduceSum", "mask", axis, keepdims=1)
    return graph.finish(graph.add("Div", total, count))
