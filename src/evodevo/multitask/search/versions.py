"""Rules of the published agents, as settings (docs/spec/munet.md#differences-between-versions).

"paper" is our default: the paper's rules where it states any; rates are stored when they move, an added layer changes
no answer at first, each child has data values of its own, and the root is the base of costs. "v4b" is the published
code of µ4Net. The rules of earlier agents (µNet, µ2Net, µ3Net) are gone: see ``multitask/stored.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evodevo.multitask.hyperparameters import Version
from evodevo.multitask.search.agent import CycleSettings
from evodevo.multitask.search.child import ChildSettings
from evodevo.multitask.search.components import ComponentSettings
from evodevo.multitask.search.parents import ParentSettings
from evodevo.multitask.search.population import PopulationSettings
from evodevo.multitask.search.score import ScoreSettings

FIRST_LOOK = {"first_look": True}
"""Ours: nothing is published below what it begins with, whatever its structure."""
LEAST = {"least_steps": 500}
"""Ours: four passes over 2,000 samples are 130 steps, too few for any child."""
_SAMPLES_OF_A_STEP = {"l": 16, "b": 256}


@dataclass(frozen=True)
class Rules:
    """The rules of the agents of a version.

    Attributes:
        cycle: settings of its cycles.
        training: settings of its children's training, where they differ from our defaults
            (``multitask.training.values.PathTrainingSettings``).
        options: options of its class, likewise.
    """

    cycle: CycleSettings = field(default_factory=CycleSettings)
    training: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


def singlepath_rules(version: Version = "paper", size: str = "ti3") -> Rules:
    """The rules of a singlepath agent.

    Args:
        version: version of the rules.
        size: size of its paths.
    """
    if version == "paper":
        return Rules(CycleSettings(parents=ParentSettings(fallback="probed")), FIRST_LOOK | LEAST)
    child = ChildSettings(components=ComponentSettings(grids="parent", blocks="new"), data="generation")
    return Rules(
        CycleSettings(
            child=child,
            population=PopulationSettings(cap=4, prune="stochastic"),
            score=ScoreSettings(scale=0.99, base_parameters=2.2e9, base_flops=3.8e12),
            retained=4,
        ),
        {"momentum_format": "bfloat16", "batch": _SAMPLES_OF_A_STEP.get(size.lower(), 512)},
    )


def multipath_rules(version: Version = "paper") -> Rules:
    """The rules of a multipath agent: no forced action; cost and parents are those of its class.

    Args:
        version: version of the rules.
    """
    single = singlepath_rules(version, "l")
    mutation = single.cycle.child.mutation.model_copy(update={"forced": ()})
    options = {} if version == "paper" else {"child": {"mutation": mutation.model_dump(mode="json")}}
    return Rules(single.cycle, single.training, options)
