"""Puts a checkpoint's weights into an encoder and its head.

Owns the table of families, the names that differ between a bare encoder and one with a head, and
quantised layers. Runs on the thread that owns the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten

from workers.embed.network import bert, modernbert

Weights = dict[str, mx.array]


@dataclass(frozen=True)
class Family:
    """One encoder architecture.

    Attributes:
        prefix: of the encoder's parameters where a checkpoint holds a head as well.
        label: the head's last layer, whose rows are its labels.
        positions: tokens of the longest row, of a config; None without a table of positions.
        complete: fills in what a config leaves out.
    """

    network: Callable[[Mapping[str, Any]], nn.Module]
    head: Callable[[Mapping[str, Any]], nn.Module]
    prefix: str
    label: str
    positions: Callable[[Mapping[str, Any]], int | None]
    complete: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict


def _table_positions(config: Mapping[str, Any]) -> int:
    return int(config["max_position_embeddings"]) - bert.first_position(config)


_ROBERTA = Family(
    bert.Bert, bert.RobertaHead, "roberta.", "classifier.out_proj.weight", _table_positions
)
FAMILIES: Mapping[str, Family] = {
    "bert": Family(bert.Bert, bert.BertHead, "bert.", "classifier.weight", _table_positions),
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "modernbert": Family(
        modernbert.ModernBert,
        modernbert.ModernBertHead,
        "model.",
        "classifier.weight",
        lambda _: None,
        modernbert.complete,
    ),
}


def read(path: Path) -> Weights:
    """Return the arrays of a checkpoint.

    Raises:
        ValueError: it has none that can be read.
    """
    weights: Weights = {}
    for file in sorted(path.glob("model*.safetensors")):
        weights.update(mx.load(str(file)))
    if not weights:
        raise ValueError("there is no model*.safetensors")
    return weights


def build(
    family: Family, config: Mapping[str, Any], weights: Weights, *, with_head: bool
) -> tuple[nn.Module, nn.Module | None]:
    """Return an encoder, and its head if it is wanted, with their weights.

    Raises:
        ValueError: parameters are missing, or the head has more than one label.
    """
    whole = family.complete(config)
    inner = {name.removeprefix(family.prefix): array for name, array in weights.items()}
    network = family.network(whole)
    _fill(network, inner, config)
    if not with_head:
        return network, None
    labels = inner[family.label].shape[0] if family.label in inner else 0
    if labels != 1:
        raise ValueError(f"a reranker has one label, and this checkpoint {labels}")
    head = family.head(whole)
    _fill(head, inner, config)
    return network, head


def _fill(module: nn.Module, weights: Weights, config: Mapping[str, Any]) -> None:
    """Load the parameters a module has from weights that hold others, too."""
    if quantization := config.get("quantization"):
        nn.quantize(
            module,
            group_size=quantization["group_size"],
            bits=quantization["bits"],
            class_predicate=lambda name, _: f"{name}.scales" in weights,
        )
    names = [name for name, _ in tree_flatten(module.parameters())]
    if missing := [name for name in names if name not in weights]:
        raise ValueError(f"{len(missing)} parameters are missing, the first is {missing[0]}")
    module.load_weights([(name, weights[name]) for name in names])
