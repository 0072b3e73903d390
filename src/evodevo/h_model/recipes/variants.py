"""The opponents that every experiment has: what an H-Model must be compared with.

Source: docs/spec/h_model.md#fair-comparison.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evodevo.experiments.settings import NetworkEvaluationSettings
from evodevo.experiments.trials import Cell, Variant
from evodevo.h_model.network import HModelNetwork
from evodevo.h_model.opponents import compute_matched, parameter_matched, universal
from evodevo.h_model.spec import CarriedStructure, HModelStructure, RouterStructure
from evodevo.networks.stacks.spec import StackStructure
from evodevo.networks.stacks.stack import StackNetwork
from evodevo.runs.recipe import Size
from evodevo.training.settings import Budget, OptimizerSettings, TrainingSettings

LEARNING_RATES = (3e-4, 1e-3, 3e-3)
H_MODEL = "H-Model"
AT_THE_END = RouterStructure(pool="last")
"""Routers read the last token: there the pointer task gives the number of hops."""


def h_model(structure: HModelStructure, name: str = H_MODEL, **more: Any) -> Variant:
    """An H-Model."""
    return Variant(name=name, role="h_model", network=HModelNetwork(structure=structure), **more)


def stack(structure: StackStructure, name: str, **more: Any) -> Variant:
    """Layers one after the other."""
    return Variant(name=name, role=more.pop("role", "transformer"), network=StackNetwork(structure=structure), **more)


def with_router(structure: HModelStructure, **changes: Any) -> HModelStructure:
    """The same H-Model with another router; of the paper's stream, since a carried one has a router of its own."""
    router = RouterStructure.model_validate({**structure.router.model_dump(), **changes})
    return in_the_papers_stream(structure).model_copy(update={"router": router})


def in_the_papers_stream(structure: HModelStructure) -> HModelStructure:
    """The same layers with the paper's stream."""
    if structure.stream == "paper":
        return structure
    update = {"stream": "paper", "carried": CarriedStructure()}
    return structure.without_usual_balance().model_copy(update=update)


def constant(structure: HModelStructure, **more: Any) -> Variant:
    """The same layers without routing: every connection is 0.5."""
    routed = with_router(structure, head="constant")
    return Variant(name="constant c = 0.5", role="control", network=HModelNetwork(structure=routed), **more)


def independent(structure: HModelStructure, **more: Any) -> Variant:
    """The same layers with connections that are learned but do not see the input."""
    routed = with_router(structure, head="independent")
    return Variant(name="input-independent", role="control", network=HModelNetwork(structure=routed), **more)


def opponents(structure: HModelStructure, size: Size, *, cell: Cell | None = None) -> tuple[Variant, ...]:
    """The baselines of an H-Model: parameter-matched and constant; in full also compute-matched, tied, independent.

    Args:
        structure: structure of the H-Model.
        size: quick or full.
        cell: cell of the sweep to which they belong.
    """
    more: Mapping[str, Any] = {"cell": cell or {}}
    arms = [stack(parameter_matched(structure), "Tr(I+H+O)", **more), constant(structure, **more)]
    if size == "full":
        arms += [
            stack(compute_matched(structure), "Tr(I+HT+O)", **more),
            stack(universal(structure), "Universal Transformer", role="universal", **more),
            independent(structure, **more),
        ]
    return tuple(arms)


def learning_rates(size: Size, quick: float = 1e-3) -> tuple[float, ...]:
    """Three in full; one that is known to serve in quick."""
    return LEARNING_RATES if size == "full" else (quick,)


def evaluation(size: Size, task: str, *, steps: int, batch_size: int = 64, **more: Any) -> NetworkEvaluationSettings:
    """Settings of the training and evaluation of all arms of an experiment.

    Args:
        size: quick or full.
        task: name of the task.
        steps: number of steps of each training.
        batch_size: number of samples of a step.
        more: further fields of the evaluation's settings.
    """
    full = size == "full"
    values: dict[str, Any] = {
        "objectives": ("error", "executed_flops"),
        "task": task,
        "training": TrainingSettings(
            budget=Budget(steps=steps),
            optimizer=OptimizerSettings(learning_rate=1e-3),
            batch_size=batch_size,
            report_every=5,
            checkpoint_every=max(1, steps // 10),
        ),
        "validation_samples": 2000 if full else 500,
        "test_samples": 2000 if full else 1000,
        "curve_points": 20 if full else 10,
        "curve_samples": 512 if full else 128,
        "seconds": 24 * 3600.0 if full else 1200.0,
        "memory_bytes": 8 * 2**30,
    }
    return NetworkEvaluationSettings.model_validate({**values, **more})
