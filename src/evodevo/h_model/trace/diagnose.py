"""Facts that the routes of a trained H-Model predict, as numbers for tables."""

from __future__ import annotations

import copy
import math
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from evodevo.errors import DataError
from evodevo.experiments.measure import places
from evodevo.h_model.parts import HModelParts
from evodevo.h_model.trace.histograms import input_histograms
from evodevo.h_model.trace.measures import HARD, depth_used, hard_paths, route_entropy, self_loops
from evodevo.h_model.trace.probe import route_probe
from evodevo.h_model.trace.record import record_trace
from evodevo.tasks.base import SampleTask
from evodevo.training.precision import Precision

Model = TypeVar("Model", bound=HModelParts)
PROBED = 300
"""Samples whose routes are probed."""


def routing_numbers(
    model: HModelParts, before: HModelParts, task: SampleTask, precision: Precision, fact: str | None
) -> dict[str, float]:
    """Depth, sparsity and number of distinct routes, and the facts that routes predict. See ``Network.diagnose``."""
    chosen = places(task, "validation", PROBED)
    trace = record_trace(model, task, "validation", chosen, precision)
    weights = trace.usable()
    numbers = {
        "depth used": _mean(depth_used(trace)),
        "c above 0.5": float((weights > HARD).mean()),
        "c undecided": float(((weights > 0.1) & (weights < 0.9)).mean()),
        "paths": float(hard_paths(trace).effective),
        "self-routing": _mean(self_loops(trace)),
        "route entropy": _mean(route_entropy(trace)),
    }
    if fact is None or fact not in trace.facts:
        return numbers
    control = with_random_routers(before, seed=0).to(precision.device)
    untrained = record_trace(control, task, "validation", chosen, precision)
    histograms = input_histograms(task.inputs, task.fetch("validation", chosen))
    try:
        trained_probe = route_probe(trace, fact, untrained=untrained, histograms=histograms)
    except DataError:
        return numbers  # too few samples of some value; the numbers are missing then
    numbers |= {
        f"{fact} told": trained_probe.trained.accuracy,
        f"{fact} told, shuffled": trained_probe.shuffled.accuracy,
    }
    if trained_probe.untrained is not None and trained_probe.gain is not None:
        numbers |= {
            f"{fact} told, untrained": trained_probe.untrained.accuracy,
            f"{fact} gain": trained_probe.gain.value,
        }
    if trained_probe.histogram is not None:
        numbers[f"{fact} told, histogram"] = trained_probe.histogram.accuracy
    return numbers


@torch.no_grad()
def with_random_routers(model: Model, seed: int) -> Model:
    """A copy whose routing heads are drawn as any linear map is, with the biases that they have.

    The untrained control of a probe: new heads start with weights of zero, so that their routes do not depend on the
    input, and a gain over them would be too large.
    """
    copied = copy.deepcopy(model)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for head in copied.core.heads():
            head.weight.copy_(torch.nn.Linear(head.in_features, head.out_features).weight)
    return copied


def _mean(values: NDArray[Any]) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else math.nan
