"""evodevo: neural networks that design themselves.

The names below load what they need on first use, so that ``import evodevo`` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evodevo.estimators import GrowingClassifier, ZooClassifier
    from evodevo.runs.archive import Archive as open
    from evodevo.runs.archive import Individual, Run
    from evodevo.runs.evolve import evolve, resume
    from evodevo.runs.extend_running import run_system
    from evodevo.runs.extending import add_task, create_system
    from evodevo.runs.growing import grow
    from evodevo.runs.training import train
    from evodevo.study import Study
    from evodevo.system.core import System

__version__ = "0.1.0"

_HOMES = {
    "GrowingClassifier": "evodevo.estimators:GrowingClassifier",
    "Individual": "evodevo.runs:Individual",
    "Run": "evodevo.runs:Run",
    "Study": "evodevo.study:Study",
    "System": "evodevo.system.core:System",
    "ZooClassifier": "evodevo.estimators:ZooClassifier",
    "add_task": "evodevo.runs.extending:add_task",
    "create_system": "evodevo.runs.extending:create_system",
    "evolve": "evodevo.runs:evolve",
    "grow": "evodevo.runs:grow",
    "open": "evodevo.runs:Archive",
    "resume": "evodevo.runs:resume",
    "run_system": "evodevo.runs.extend_running:run_system",
    "train": "evodevo.runs:train",
}

__all__ = [
    "GrowingClassifier",
    "Individual",
    "Run",
    "Study",
    "System",
    "ZooClassifier",
    "__version__",
    "add_task",
    "create_system",
    "evolve",
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
