"""Reads the nodes and the weights of an ONNX file, with protobuf and nothing else.

Declares only the fields of ONNX's schema that a conversion needs; others are skipped. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

Array = npt.NDArray[Any]

_FIELD: Final = descriptor_pb2.FieldDescriptorProto
_ONE, _MANY = _FIELD.LABEL_OPTIONAL, _FIELD.LABEL_REPEATED
# Source: onnx.proto of ONNX 1.17; name → (number, label, type or message).
_SCHEMA: Final[Mapping[str, Mapping[str, tuple[int, Any, Any]]]] = {
    "Tensor": {
        "dims": (1, _MANY, _FIELD.TYPE_INT64),
        "data_type": (2, _ONE, _FIELD.TYPE_INT32),
        "float_data": (4, _MANY, _FIELD.TYPE_FLOAT),
        "int32_data": (5, _MANY, _FIELD.TYPE_INT32),
        "int64_data": (7, _MANY, _FIELD.TYPE_INT64),
        "name": (8, _ONE, _FIELD.TYPE_STRING),
        "raw_data": (9, _ONE, _FIELD.TYPE_BYTES),
    },
    "Node": {
        "input": (1, _MANY, _FIELD.TYPE_STRING),
        "output": (2, _MANY, _FIELD.TYPE_STRING),
        "name": (3, _ONE, _FIELD.TYPE_STRING),
        "op_type": (4, _ONE, _FIELD.TYPE_STRING),
    },
    "Graph": {"node": (1, _MANY, "Node"), "initializer": (5, _MANY, "Tensor")},
    "Model": {"graph": (7, _ONE, "Graph")},
}
# Source: TensorProto.DataType.
_TYPES: Final = {
    1: np.float32,
    2: np.uint8,
    3: np.int8,
    6: np.int32,
    7: np.int64,
    9: np.bool_,
    10: np.float16,
    11: np.float64,
}


@dataclass(frozen=True)
class Node:
    name: str
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def read(container: bytes) -> tuple[list[Node], dict[str, Array]]:
    """Return the nodes of a model, in order, and its weights by name."""
    graph = _make_model().FromString(container).graph
    nodes = [Node(n.name, n.op_type, tuple(n.input), tuple(n.output)) for n in graph.node]
    return nodes, {tensor.name: _read_tensor(tensor) for tensor in graph.initializer}


def _read_tensor(tensor: Any) -> Array:
    kind = _TYPES[tensor.data_type]
    if tensor.raw_data:
        flat: Array = np.frombuffer(tensor.raw_data, kind)
    else:
        given: Iterable[Any] = tensor.float_data or tensor.int32_data or tensor.int64_data
        flat = np.array(list(given), kind)
    return flat.reshape(tuple(tensor.dims))


def _make_model() -> Any:
    """Return the message class of a file."""
    file = descriptor_pb2.FileDescriptorProto(name="onnx_part.proto", package="onnx_part")
    for name, fields in _SCHEMA.items():
        message = file.message_type.add(name=name)
        for field, (number, label, kind) in fields.items():
            made = message.field.add(name=field, number=number, label=label)
            if isinstance(kind, str):
                made.type, made.type_name = _FIELD.TYPE_MESSAGE, f".onnx_part.{kind}"
            else:
                made.type = kind
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("onnx_part.Model"))
