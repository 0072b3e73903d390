"""Numbers that describe an edit and the state before it, from which its gain is foreseen.

Source: docs/spec/architect_thyself.md#gains-of-edits.

All follow from a ``State`` and an ``Action``: what is drawn later (a mutation, a motif) is not known when an edit is
chosen, so that the size of a newborn is estimated as the rules do: by its parent, the larger of two, or the default of
its family.
"""

from __future__ import annotations

import math
import statistics
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import EvodevoError
from evodevo.growth.around.base import AROUND
from evodevo.growth.edit_spec import Action
from evodevo.growth.in_place.base import EDITS
from evodevo.growth.spec import OPERATIONS, REPLACE
from evodevo.growth.strategists.state import SPREAD, ModuleState, State
from evodevo.module_zoo.modules.cost import genotype_work
from evodevo.module_zoo.modules.vector import LENGTH, width_of
from evodevo.module_zoo.modules.zoo import PAPER, archetype

KINDS = (*(operation for operation in OPERATIONS if operation != "noop"), REPLACE)
"""Operations with a feature of their own; edits in place, and those around the modules, share one."""
IN_PLACE = "in place"
_MODULE = ("usage", "impact", "contribution", "fitness", "redundancy", "age", "share of FLOPs", "share of fitness")
_BY_KIND = ("budget", "value", "FLOPs of modules", "relative FLOPs")
"""What an operation is worth depends on these: each operation has a slope of its own."""
NAMES: tuple[str, ...] = (
    "constant",
    *KINDS,
    IN_PLACE,
    *(f"from {family}" for family in (*PAPER, "others")),
    *(f"to {family}" for family in PAPER),
    "absent family",
    "relative FLOPs",
    "cheaper",
    "complementarity",
    "scale",
    *_MODULE,
    "modules",
    "budget",
    "value",
    "slope",
    "diversity",
    "FLOPs of modules",
    "relative FLOPs, budget",
    *(f"{kind}, {name}" for kind in (*KINDS, IN_PLACE) for name in _BY_KIND),
)
"""Names of the features, in their order."""


def edit_features(state: State, action: Action) -> NDArray[np.float64]:
    """(``len(NAMES)``,) the numbers of one edit; 0 where one has no meaning.

    Args:
        state: State before the event.
        action: Any action but ``noop``.
    """
    modules = {module.id: module for module in state.modules}
    concerned = [modules[name] for name in action.modules]
    total = max(sum(module.flops for module in state.modules), 1.0)
    relative = math.log(max(total + added_flops(state, action), 1.0) / total)
    kind = IN_PLACE if action.operation in (*EDITS, *AROUND) else action.operation
    found: dict[str, float] = {"constant": 1.0, kind: 1.0}
    for module in concerned:
        family = module.archetype if module.archetype in PAPER else "others"
        found[f"from {family}"] = 1.0
    if action.archetype in PAPER:
        found[f"to {action.archetype}"] = 1.0
    if action.archetype is not None:
        found["absent family"] = float(all(module.archetype != action.archetype for module in state.modules))
    found |= {"relative FLOPs": relative, "cheaper": float(relative < 0)}
    found["relative FLOPs, budget"] = relative * state.budget
    if action.operation == "hybridise":
        found["complementarity"] = state.complement(*action.modules)
    if action.operation == "grow":
        found["scale"] = math.log(max(action.scale, 1e-9), SPREAD)
    if concerned:
        found |= _mean_of(concerned, state, total)
    slopes = state.slopes
    found |= {
        "modules": len(state.modules) / state.most,
        "budget": state.budget,
        "value": math.asinh(state.values[-1]) if state.values else 0.0,
        "slope": math.asinh(100 * slopes[-1]) if slopes else 0.0,
        "diversity": math.asinh(state.diversity),
        "FLOPs of modules": math.log(total) / 25,
    }
    found |= {f"{kind}, {name}": found[name] for name in _BY_KIND}
    # An operation of a package that has none of its own is described by the rest alone.
    return np.array([found.get(name, 0.0) for name in NAMES])


def _mean_of(concerned: list[ModuleState], state: State, total: float) -> dict[str, float]:
    fitness = sum(abs(module.fitness) for module in state.modules)
    rows = [
        (
            module.usage,
            math.asinh(module.impact),
            math.asinh(module.contribution),
            math.asinh(module.fitness),
            module.redundancy,
            math.log1p(module.age) / 3,
            module.flops / total,
            module.fitness / fitness if fitness else 0.0,
        )
        for module in concerned
    ]
    return dict(zip(_MODULE, np.mean(rows, axis=0).tolist(), strict=True))


def added_flops(state: State, action: Action) -> float:
    """Estimated change of the modules' FLOPs by an edit, at the length of the state; negative for one that saves."""
    of = {module.id: module.flops for module in state.modules}
    own = [of[name] for name in action.modules]
    if action.operation == "prune":
        return -own[0]
    if action.operation == "spawn":
        return _family_flops(state, action.archetype)
    if action.operation == REPLACE:
        return _family_flops(state, action.archetype) - own[0]
    if action.operation in ("noop", "rewarm") or not own:  # what is around the modules is not in a state
        return 0.0
    return max(own)  # a copy of the parent, of the larger of two, or one more of what is enlarged


def _family_flops(state: State, family: str | None) -> float:
    assert family is not None, "a family is named"
    width = statistics.median_low(width_of(module.vector, module.parameters) for module in state.modules)
    try:
        return _default_flops(family, width)
    except (EvodevoError, ValueError):  # a width that does not admit it, or none: a memory may hold any numbers
        return 0.0


@lru_cache(maxsize=256)
def _default_flops(family: str, width: int) -> float:
    return float(genotype_work(archetype(family, width), LENGTH).total)
