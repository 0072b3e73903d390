"""Predictions of a trained network: probabilities, logits and router weights.

Legend: n samples.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from evodevo.module_zoo.model import ModuleZoo
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import Batch
from evodevo.training.precision import Precision, decide
from evodevo.training.probabilities import sigmoid, softmax

AT_ONCE = 256


def kind_of(output: OutputSpec) -> Literal["class", "labels"]:
    """Kind of the output: one class, or several labels."""
    return "class" if output.kind == "class" else "labels"


def probabilities(network: ModuleZoo, batch: Batch, output: OutputSpec, device: str) -> NDArray[np.float64]:
    """Probabilities (n, classes) or (n, labels); independent of a sample's position in the batch."""
    order = _own_order(batch)
    with _there(network, device) as precision:
        sorted_logits = logits(network, {name: array[order] for name, array in batch.items()}, output, precision)
    ordered = np.empty_like(sorted_logits)
    ordered[order] = sorted_logits
    return softmax(ordered) if output.kind == "class" else sigmoid(ordered)


def weights(network: ModuleZoo, batch: Batch, device: str) -> dict[str, NDArray[np.float64]]:
    """Router weight of each module for each sample, (n,), by id."""
    with _there(network, device) as precision, _judging(network):
        routes = [network.route(_placed(precision, part)) for part in _parts(batch)]
    table = np.concatenate([route["weights"].double().numpy() for route in routes])
    return {name: table[:, place] for place, name in enumerate(routes[0]["ids"])}


def logits(network: ModuleZoo, batch: Batch, output: OutputSpec, precision: Precision) -> NDArray[np.float64]:
    """Logits (n, size); the network keeps its mode (training or not)."""
    with torch.no_grad(), _judging(network):
        parts = [network(_placed(precision, part))[output.name].double().cpu().numpy() for part in _parts(batch)]
    joined: NDArray[np.float64] = np.concatenate(parts)
    return joined


def _own_order(batch: Batch) -> NDArray[np.int64]:
    """An order of the samples (n,) by their contents: last digits depend on the position in a batch."""
    arrays = [np.ascontiguousarray(batch[name]) for name in sorted(batch)]
    names = [
        hashlib.blake2b(b"".join(array[row].tobytes() for array in arrays)).digest() for row in range(len(arrays[0]))
    ]
    return np.asarray(sorted(range(len(names)), key=names.__getitem__), np.int64)


@contextmanager
def _there(network: ModuleZoo, device: str) -> Iterator[Precision]:
    """Context with the network on a device; it returns to the CPU, where it can be copied and saved."""
    precision = decide(device)
    network.to(precision.device)
    try:
        yield precision
    finally:
        network.to("cpu")


@contextmanager
def _judging(network: ModuleZoo) -> Iterator[None]:
    was_training = network.training
    network.eval()
    try:
        yield
    finally:
        network.train(was_training)


def _parts(batch: Batch) -> Iterator[Batch]:
    count = len(next(iter(batch.values())))
    for begin in range(0, count, AT_ONCE):
        yield {name: array[begin : begin + AT_ONCE] for name, array in batch.items() if "/target" not in name}


def _placed(precision: Precision, batch: Batch) -> Any:
    return precision.place(batch)
