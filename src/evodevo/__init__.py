"""evodevo: neural networks that design themselves.

The names below load what they need on first use, so that ``import evodevo`` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evodevo.estimators import GrowingClassifier, ZooClassifier
    from evodevo.estimators.automatic.fit import fit
    from evodevo.estimators.automatic.model import FittedModel
    from evodevo.experiments.downstream.individuals import evaluate
    from evodevo.growth.run import grow
    from evodevo.multitask.run.create import add_root, add_task, create_system
    from evodevo.multitask.run.run import run_system
    from evodevo.multitask.system import System
    from evodevo.runs.archive import Archive as open
    from evodevo.runs.archive import Individual, Run
    from evodevo.runs.evolve import evolve, resume
    from evodevo.runs.train import train
    from evodevo.search.study import Study

__version__ = "0.1.0"

_HOMES = {
    "FittedModel": "evodevo.estimators.automatic.model:FittedModel",
    "GrowingClassifier": "evodevo.estimators:GrowingClassifier",
    "Individual": "evodevo.runs.archive:Individual",
    "Run": "evodevo.runs.archive:Run",
    "Study": "evodevo.search.study:Study",
    "System": "evodevo.multitask.system:System",
    "ZooClassifier": "evodevo.estimators:ZooClassifier",
    "add_root": "evodevo.multitask.run.create:add_root",
    "add_task": "evodevo.multitask.run.create:add_task",
    "create_system": "evodevo.multitask.run.create:create_system",
    "evaluate": "evodevo.experiments.downstream.individuals:evaluate",
    "evolve": "evodevo.runs.evolve:evolve",
    "fit": "evodevo.estimators.automatic.fit:fit",
    "grow": "evodevo.growth.run:grow",
    "open": "evodevo.runs.archive:Archive",
    "resume": "evodevo.runs.evolve:resume",
    "run_system": "evodevo.multitask.run.run:run_system",
    "train": "evodevo.runs.train:train",
}

__all__ = [
    "FittedModel",
    "GrowingClassifier",
    "Individual",
    "Run",
    "Study",
    "System",
    "ZooClassifier",
    "__version__",
    "add_root",
    "add_task",
    "create_system",
    "evaluate",
    "evolve",
    "fit",
    "grow",
    "open",
    "resume",
    "run_system",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has: {', '.join(__all__)}")
    module, _, attribute = _HOMES[name].partition(":")
    value = getattr(importlib.import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
