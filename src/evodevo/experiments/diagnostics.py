"""What is seen inside a trained network, as numbers for tables: routes, gradients, leaks of the future."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from evodevo.errors import DataError
from evodevo.experiments.flop_counter import look_at_step
from evodevo.experiments.measure import places
from evodevo.experiments.settings import NetworkEvaluationSettings
from evodevo.h_model.model import HModel
from evodevo.h_model.trace.file import record_trace, with_random_routers
from evodevo.h_model.trace.histograms import input_histograms
from evodevo.h_model.trace.measures import HARD, depth_used, hard_paths, route_entropy, self_loops
from evodevo.h_model.trace.probe import route_probe
from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.router.report import zoo_routing
from evodevo.networks.base import Batch, Network
from evodevo.tasks.base import SampleTask
from evodevo.training.precision import Precision

PROBED = 300
"""Samples whose routes are probed."""
ROUTED = 1000
"""Samples of which it is told whom the router of a zoo listened to."""
_LOOKED_AT = 32


def look_inside(
    network: Network, before: Network, task: SampleTask, settings: NetworkEvaluationSettings, precision: Precision
) -> dict[str, Any]:
    """Facts of a trained network.

    Args:
        network: trained.
        before: the same before its training.
        task, settings, precision: of the evaluation.

    Returns:
        ``inside``: name -> number; ``gradient_norms``: "before" and "after" -> part -> norm, on one validation batch;
        of a zoo ``routing``, see ``zoo_routing``.
    """
    chosen = places(task, "validation", _LOOKED_AT)
    batch = precision.place(task.fetch("validation", chosen))
    assert isinstance(batch, dict), "the batch is a mapping"
    found: dict[str, float] = {}
    more: dict[str, Any] = {}
    if any(spec.kind == "tokens" for spec in network.output_specs):
        found["leak"] = leak(network, batch)
    if isinstance(network, HModel) and isinstance(before, HModel):
        found |= _routes(network, before, task, settings, precision)
    if isinstance(network, ModuleZoo):
        routing = zoo_routing(network, task, "validation", places(task, "validation", ROUTED), precision)
        more["routing"] = routing
        found |= {
            "effective modules": routing["effective"],
            "modules heard": routing["support"],
            "modules run": routing["run"],
        }
    norms = {"before": _norms(before, batch), "after": _norms(network, batch)}
    return {"inside": {k: v for k, v in found.items() if math.isfinite(v)}, "gradient_norms": norms, **more}


def leak(network: Network, batch: Batch) -> float:
    """How far the answers before a position move when that position's token is changed: 0 is causal.

    Every output of kind tokens is asked at a third and at two thirds of its input's length.
    """
    was_training = network.training
    network.eval()
    worst = 0.0
    with torch.no_grad():
        answers = network(batch)
        for spec in network.output_specs:
            if spec.kind != "tokens":
                continue
            length = batch[spec.of].shape[1]
            vocabulary = next(one.vocabulary for one in network.input_specs if one.name == spec.of)
            for position in sorted({length // 3, 2 * length // 3} - {0}):
                tokens = batch[spec.of].clone()
                tokens[:, position] = (tokens[:, position] + 1) % vocabulary
                changed = network({**batch, spec.of: tokens})
                moved = changed[spec.name][:, :position] - answers[spec.name][:, :position]
                worst = max(worst, float(moved.abs().max()))
    network.train(was_training)
    return worst


def _norms(network: Network, batch: Batch) -> dict[str, float]:
    return {part: norm for part, norm in look_at_step(network, batch).gradient_norms.items() if math.isfinite(norm)}


def _routes(
    network: HModel, before: HModel, task: SampleTask, settings: NetworkEvaluationSettings, precision: Precision
) -> dict[str, float]:
    """How deep, how sparse, how many ways; and what can be told from them."""
    chosen = places(task, "validation", PROBED)
    trace = record_trace(network, task, "validation", chosen, precision)
    weights = trace.usable()
    found = {
        "depth used": _mean(depth_used(trace)),
        "c above 0.5": float((weights > HARD).mean()),
        "c undecided": float(((weights > 0.1) & (weights < 0.9)).mean()),
        "paths": float(hard_paths(trace).effective),
        "self-routing": _mean(self_loops(trace)),
        "route entropy": _mean(route_entropy(trace)),
    }
    fact = settings.routes
    if fact is None or fact not in trace.facts:
        return found
    control = with_random_routers(before, seed=0).to(precision.device)
    untrained = record_trace(control, task, "validation", chosen, precision)
    histograms = input_histograms(task.inputs, task.fetch("validation", chosen))
    try:
        told = route_probe(trace, fact, untrained=untrained, histograms=histograms)
    except DataError:
        return found  # too few samples of some value; said by the missing numbers
    found |= {f"{fact} told": told.trained.accuracy, f"{fact} told, shuffled": told.shuffled.accuracy}
    if told.untrained is not None and told.gain is not None:
        found |= {f"{fact} told, untrained": told.untrained.accuracy, f"{fact} gain": told.gain.value}
    if told.histogram is not None:
        found[f"{fact} told, histogram"] = told.histogram.accuracy
    return found


def _mean(values: NDArray[Any]) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else math.nan
