"""Summary of a zoo's routing: mean weights of the modules, over all samples, by class and by group.

Legend: B samples, N modules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from evodevo.module_zoo.statistics import ZooStatistics
from evodevo.tasks.base import SampleTask, Split
from evodevo.tasks.inputs import Batch as Arrays
from evodevo.training.precision import Precision

MOST_VALUES = 40
"""Largest number of values of a fact that makes a table."""
_DIGITS = 6
_AT_ONCE = 256


class RoutedZoo(Protocol):
    """The part of a ``ModuleZoo`` that the report reads."""

    training: bool
    statistics: ZooStatistics

    def train(self, mode: bool = True) -> Any:
        """Set the mode."""
        ...

    def eval(self) -> Any:
        """Set the mode of evaluation."""
        ...

    def route(self, batch: Mapping[str, Tensor]) -> dict[str, Any]:
        """See ``ModuleZoo.route``."""
        ...


def zoo_routing(
    network: RoutedZoo, task: SampleTask, split: Split, places: NDArray[np.int64], precision: Precision
) -> dict[str, Any]:
    """Routing of these samples as plain data; the network keeps its mode.

    Returns:
        ``inputs`` and ``outputs`` by name; ``ids`` of the modules; per module ``weights`` (mean router weight),
        ``executed`` (share of samples that it was run on) and ``contribution`` (None where unknown); ``effective``
        (mean of 1 / sum of squared weights), ``support`` (mean number of modules with a weight), ``run`` (mean number
        of modules that were run); ``by``: fact -> ``values``, ``counts``, and per module and value ``weights`` and
        ``executed``, None where no sample has the value. Facts are groups of the task and its target answers.
    """
    parts = [task.fetch(split, chosen) for chosen in np.array_split(places, -(-len(places) // _AT_ONCE))]
    was_training = network.training
    network.eval()
    routes = []
    for part in parts:
        placed = precision.place(part)
        assert isinstance(placed, dict), "the batch is a mapping"
        with precision.autocast():
            routes.append(network.route(placed))
    network.train(was_training)
    ids = tuple(routes[0]["ids"])
    weights = np.concatenate([np.asarray(route["weights"], np.float64) for route in routes])
    executed = np.concatenate([np.asarray(route["executed"], np.bool_) for route in routes])
    facts = {name: _one_hot(task.groups(split, places)[name], len(task.group_names[name])) for name in task.group_names}
    names = {name: tuple(values) for name, values in task.group_names.items()}
    for spec in task.outputs:
        if spec.kind != "tokens" and spec.name not in facts:
            facts[spec.name] = np.concatenate([_members(part, spec.name, spec.kind, spec.size) for part in parts])
            names[spec.name] = spec.names or tuple(str(number) for number in range(spec.size))
    contribution = network.statistics.contribution(ids).tolist()
    return {
        "inputs": [spec.name for spec in task.inputs],
        "outputs": [spec.name for spec in task.outputs],
        "contribution": [None if value != value else round(value, _DIGITS) for value in contribution],
        **routing_table(ids, weights, executed, facts, names),
    }


def routing_table(
    ids: Sequence[str],
    weights: NDArray[np.float64],
    executed: NDArray[np.bool_],
    facts: Mapping[str, NDArray[np.bool_]],
    names: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    """See ``zoo_routing``.

    Args:
        ids: Ids of the N modules.
        weights, executed: Router weights, and whether a module ran, (B, N).
        facts: Whether a sample has a value, (B, values), by fact; a sample may have several, or none.
        names: Names of the values, by fact.
    """
    squares = np.square(weights).sum(1)
    routed = squares > 0
    return {
        "ids": list(ids),
        "weights": _rounded(weights.mean(0)),
        "executed": _rounded(executed.mean(0)),
        "effective": round(float((1 / squares[routed]).mean()) if routed.any() else 0.0, _DIGITS),
        "support": round(float((weights > 0).sum(1).mean()), _DIGITS),
        "run": round(float(executed.sum(1).mean()), _DIGITS),
        "by": {
            name: {
                "values": list(names[name]),
                "counts": members.sum(0).tolist(),
                "weights": _means(weights, members),
                "executed": _means(executed.astype(np.float64), members),
            }
            for name, members in facts.items()
            if members.shape[1] <= MOST_VALUES and members.any(0).sum() > 1
        },
    }


def _one_hot(values: NDArray[np.int64], count: int) -> NDArray[np.bool_]:
    """(B, count), one-hot; all false where the number is below 0."""
    return np.equal.outer(np.asarray(values), np.arange(count))


def _members(batch: Arrays, name: str, kind: str, size: int) -> NDArray[np.bool_]:
    """(B, size): the class or labels of each sample; all false where it has no target."""
    target = np.asarray(batch[f"{name}/target"])
    return _one_hot(target, size) if kind == "class" else np.equal(target, 1)


def _means(numbers: NDArray[np.float64], members: NDArray[np.bool_]) -> list[list[float | None]]:
    """Mean by module and value over the samples that have it."""
    counts = members.sum(0)
    sums = numbers.T @ members
    return [
        [round(float(total / count), _DIGITS) if count else None for total, count in zip(row, counts, strict=True)]
        for row in sums
    ]


def _rounded(values: NDArray[np.float64]) -> list[float]:
    return [round(float(value), _DIGITS) for value in values]
