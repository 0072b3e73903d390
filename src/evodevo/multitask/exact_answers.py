"""Answers of a path to every sample of a split, kept small, so that paths can be compared in pairs later.

Shapes: B samples of a batch, P paths of a multipath model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from evodevo.experiments.correct_bits import pack
from evodevo.multitask.paths.frozen import route
from evodevo.training.precision import Precision


@torch.no_grad()
def exact_answers(model: nn.Module, batches: Iterable[tuple[Any, Tensor]], precision: Precision) -> dict[str, Any]:
    """Accuracy over all samples, and which of them are right.

    Args:
        model: inputs -> logits (B, classes).
        batches: inputs and classes (B,); they may differ in size.
        precision: device and number format.

    Returns:
        ``accuracy``, ``samples``, ``right`` (see ``experiments.correct_bits.pack``), ``answers`` (SHA-256 of the chosen
        classes: equal where two paths answer alike), and of a multipath model ``weights``: (P,) the router's, mean over
        samples.
    """
    model.eval()
    chosen: list[Tensor] = []
    wanted: list[Tensor] = []
    weights: list[Tensor] = []
    for inputs, classes in batches:
        with precision.autocast():
            routed = route(model, inputs)
        if routed.weights is not None:
            weights.append(routed.weights.double().sum(0).cpu())
        chosen.append(routed.logits.argmax(1).cpu())
        wanted.append(classes.cpu())
    answers, targets = torch.cat(chosen).numpy(), torch.cat(wanted).numpy()
    right = answers == targets
    facts: dict[str, Any] = {
        "accuracy": float(right.mean()),
        "samples": len(right),
        "right": pack(right.astype(np.float64)),
        "answers": hashlib.sha256(answers.astype("<i8").tobytes()).hexdigest(),
    }
    if weights:
        facts["weights"] = (torch.stack(weights).sum(0) / len(right)).tolist()
    return facts
