"""Logits, loss and score of a network on samples.

Legend: n samples, C classes or labels; of a quantity C is 1, and logits are standardised values.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from evodevo.errors import UsageError
from evodevo.estimators.automatic.networks.arms import ArmStructure
from evodevo.estimators.automatic.networks.plain import PlainNetwork
from evodevo.estimators.automatic.networks.reading import NetworkArrays, NetworkReading
from evodevo.estimators.targets import ANSWER
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.networks.build import build_network
from evodevo.objectives.answered import Answered
from evodevo.objectives.log_loss import LOG_LOSS
from evodevo.objectives.probabilities import sigmoid, softmax
from evodevo.tasks.base import OutputSpec
from evodevo.training.precision import Precision

Kind = Literal["class", "labels", "quantity"]
AT_ONCE = 256


def build_arm(structure: ArmStructure, reading: NetworkReading, output: OutputSpec, seed: int) -> nn.Module:
    """The untrained network; equal seeds give equal parameters, and the global random stream stays as it was.

    Raises:
        UsageError: Not exactly one structure, or one that does not fit the inputs.
    """
    if (structure.plain is None) == (structure.zoo is None):
        raise UsageError("a network of a race is either plain or a zoo.")
    if structure.zoo is not None:
        return build_network(ModuleZooNetwork(structure=structure.zoo), reading.inputs, (output,), seed)
    assert structure.plain is not None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return PlainNetwork(structure.plain, reading, output)


def output_of(kind: Kind, classes: int) -> OutputSpec:
    """Specification of the output; a quantity has one number, as a single label has, and another loss."""
    if kind == "quantity":
        kind = "labels"
    return OutputSpec(ANSWER, kind, classes, tuple(str(number) for number in range(classes)))


def logits_of(
    network: nn.Module, arrays: NetworkArrays, rows: NDArray[np.int64], precision: Precision
) -> NDArray[np.float64]:
    """Logits (n, C) of the samples at these rows; the network keeps its mode (training or not)."""
    was_training = network.training
    network.eval()
    try:
        with torch.no_grad():
            parts = [
                network(precision.place(arrays.batch(rows[begin : begin + AT_ONCE])))[ANSWER].double().cpu().numpy()
                for begin in range(0, len(rows), AT_ONCE)
            ]
    finally:
        network.train(was_training)
    joined: NDArray[np.float64] = np.concatenate(parts)
    return joined


def as_probabilities(kind: Kind, logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logits (n, C) as probabilities; standardised values as they are."""
    if kind == "quantity":
        return logits
    return softmax(logits) if kind == "class" else sigmoid(logits)


def score_and_loss(kind: Kind, logits: NDArray[np.float64], targets: NDArray[np.generic]) -> tuple[float, float]:
    """Share of the right answers (of labels: of all labels), and log-loss in nats.

    Of a quantity 1 minus the squared error as a fraction of the variance, and the squared error.
    """
    if kind == "quantity":
        values = targets.astype(np.float64)
        error = float(((logits - values) ** 2).mean())
        return 1 - error / max(float(values.var()), 1e-12), error
    known = targets.astype(np.int64) if kind == "class" else targets.astype(np.float64)
    answered = Answered(kind, logits, known)
    right = answered.right if kind == "class" else (logits > 0) == (answered.targets > 0)
    assert LOG_LOSS.score is not None
    return float(right.mean()), LOG_LOSS.score(answered).value
