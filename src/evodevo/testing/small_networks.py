"""Small trainings on the pointer task, for tests of networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evodevo.experiments.problem import NetworkProblem
from evodevo.experiments.settings import NetworkEvaluationSettings
from evodevo.experiments.trials import Trial
from evodevo.h_model.network import HModelNetwork
from evodevo.h_model.opponents import parameter_matched
from evodevo.h_model.spec import HModelStructure
from evodevo.module_zoo.modules.zoo import start_zoo
from evodevo.module_zoo.spec import ZooRouterStructure, ZooStructure
from evodevo.networks.stacks.stack import StackNetwork
from evodevo.networks.towers.spec import ExtractorStructure
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.settings import merge, validate

WIDTH = 16
STRUCTURE = HModelStructure(
    stream="paper",
    width=WIDTH,
    hidden=(TransformerLayer(heads=2),) * 2,
    iterations=2,
    input_blocks=0,
    output_blocks=0,
)
SETTINGS: dict[str, Any] = {
    "task": "pointer",
    "task_settings": {"nodes": 4, "hops_max": 2, "samples": {"train": 400, "validation": 60, "test": 50}},
    "training": {
        "budget": {"steps": 8},
        "batch_size": 8,
        "device": "cpu",
        "report_every": 1,
        "optimizer": {"learning_rate": 1e-2},
    },
    "validation_samples": 40,
    "test_samples": 40,
    "curve_points": 4,
    "curve_samples": 20,
    "trace_samples": 6,
}


def settings(changes: dict[str, Any] | None = None) -> NetworkEvaluationSettings:
    return validate(NetworkEvaluationSettings, merge(SETTINGS, changes or {}), what="settings")


def small_zoo(modules: int) -> ZooStructure:
    """A zoo of the first so many families, quick to train on the pointer task."""
    return ZooStructure(
        width=WIDTH,
        modules=start_zoo(WIDTH)[:modules],
        extractor=ExtractorStructure(blocks=0),
        router=ZooRouterStructure(heads=2),
    )


def h_model(**more: Any) -> Trial:
    return Trial(**{"name": "H-Model", "network": HModelNetwork(structure=STRUCTURE), "learning_rate": 1e-2, **more})


def transformer(**more: Any) -> Trial:
    network = StackNetwork(structure=parameter_matched(STRUCTURE))
    return Trial(**{"name": "Tr(I+H+O)", "network": network, "learning_rate": 1e-2, **more})


def problem(changes: dict[str, Any] | None = None, blobs: Path | None = None, **more: Any) -> NetworkProblem:
    return NetworkProblem(lambda arm: arm, settings(changes), blobs, **more)
