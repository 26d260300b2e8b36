"""The table of encoder families, and the loading of an encoder and its head.

Owns the parameter names that differ between a bare encoder and one with a head, and quantised
layers. Runs on the thread that owns the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlx import nn

from workers.arrays import Arrays, read_arrays, read_parameters
from workers.embed.network import bert, modernbert
from workers.embed.network.module import EncoderModule, HeadModule


@dataclass(frozen=True)
class Family:
    """One encoder architecture.

    Attributes:
        prefix: of the encoder's parameters in a checkpoint with a head.
        label: the weight of the head's last layer, with a row per label.
        positions: returns a config's longest row; None without a table of positions.
        complete: adds a config's missing defaults.
    """

    network: Callable[[Mapping[str, Any]], EncoderModule]
    head: Callable[[Mapping[str, Any]], HeadModule]
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


def read_weights(path: Path) -> Arrays:
    """Return the arrays of a checkpoint.

    Raises:
        ValueError: it has none.
    """
    weights = read_arrays(sorted(path.glob("model*.safetensors")))
    if not weights:
        raise ValueError("there is no model*.safetensors")
    return weights


def build_encoder(
    family: Family, config: Mapping[str, Any], weights: Arrays, *, with_head: bool
) -> tuple[EncoderModule, HeadModule | None]:
    """Return an encoder, and its head if requested, with their weights.

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
        raise ValueError(f"a reranker has one label; this checkpoint has {labels}")
    head = family.head(whole)
    _fill(head, inner, config)
    return network, head


def _fill(module: nn.Module, weights: Arrays, config: Mapping[str, Any]) -> None:
    """Load a module's parameters from weights that also hold others."""
    if quantization := config.get("quantization"):
        nn.quantize(
            module,
            group_size=quantization["group_size"],
            bits=quantization["bits"],
            class_predicate=lambda name, _: f"{name}.scales" in weights,
        )
    names = list(read_parameters(module))
    if missing := [name for name in names if name not in weights]:
        raise ValueError(f"{len(missing)} parameters are missing, the first is {missing[0]}")
    module.load_weights([(name, weights[name]) for name in names])
