"""Rules that a person would write down, and the same rules as the prior of a policy.

Source: docs/spec/architect_thyself.md#strategists.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evodevo.growth.edit_spec import Action
from evodevo.growth.spec import Operation
from evodevo.growth.strategists.base import Decision, Strategist
from evodevo.growth.strategists.spec import HeuristicSettings
from evodevo.growth.strategists.state import Legal, ModuleState, State


class Heuristic(Strategist):
    """Takes the first rule that applies; equal cases go by the module's id.

    1. A module that the prune rule wants gone goes; of several the least fit.
    2. The pair that completes one another best has a child, if it does so by more than c_0.
    3. If validation has not risen for ``missing_plateau`` events, a family that no module has is spawned.
    4. If it has not for ``plateau`` events, the fittest module has a child.

    Nothing is born when little of the budget is left.
    """

    name = "heuristic"

    def _choose(self, state: State, legal: Legal, rng: np.random.Generator) -> Decision:
        action = rule(state, legal, self.settings.heuristic)
        return Decision(legal=legal, action=action, prior=action)


def rule(state: State, legal: Legal, settings: HeuristicSettings) -> Action:
    """What the heuristic does; no chance is in it."""
    modules = {one.id: one for one in state.modules}
    going = [one for one in legal.targets("prune") if modules[one.modules[0]].candidate]
    if going:
        return min(going, key=lambda one: (modules[one.modules[0]].fitness, one.modules))
    if state.budget <= settings.budget:
        return Action(operation="noop")
    pairs = [(state.complement(*one.modules), one) for one in legal.targets("hybridise")]
    pairs = [(value, one) for value, one in pairs if value > settings.complementarity]
    if pairs:
        return min(pairs, key=lambda pair: (-pair[0], *_frame_first(pair[1], modules)))[1]
    absent = missing(state, legal)
    if absent and state.plateaued(settings.missing_plateau, settings.tolerance):
        return Action(operation="spawn", archetype=absent[0])
    parents = legal.targets("grow")
    if parents and state.plateaued(settings.plateau, settings.tolerance):
        return min(parents, key=lambda one: (-modules[one.modules[0]].fitness, one.modules))
    return Action(operation="noop")


def _frame_first(action: Action, modules: dict[str, ModuleState]) -> tuple[float, tuple[str, ...]]:
    """The fitter of a pair keeps its frame."""
    return -modules[action.modules[0]].fitness, action.modules


def missing(state: State, legal: Legal) -> tuple[str, ...]:
    """Families that may be spawned and that no module has, in the order in which they are legal."""
    alive = {one.archetype for one in state.modules}
    return tuple(one.archetype for one in legal.targets("spawn") if one.archetype and one.archetype not in alive)


@dataclass(frozen=True)
class Prior:
    """Logits of the heuristic.

    Attributes:
        action: its own choice.
        operations: by legal operation, in their order: the choice is raised by ``strength``.
        targets: of each legal operation, in the order of ``Legal.targets``.
    """

    action: Action
    operations: dict[Operation, float]
    targets: dict[Operation, tuple[float, ...]]


def prior(state: State, legal: Legal, settings: HeuristicSettings) -> Prior:
    """The heuristic as a distribution: fit parents, unfit dead (73), complementary pairs, absent families."""
    action = rule(state, legal, settings)
    fitness = dict(zip((one.id for one in state.modules), standardised(_fitness(state)), strict=True))
    candidates = {one.id for one in state.modules if one.candidate}
    absent = set(missing(state, legal))
    operations = {one: settings.strength * (one == action.operation) for one in legal.operations}
    targets: dict[Operation, tuple[float, ...]] = {}
    for operation in operations:
        actions = legal.targets(operation)
        values: Sequence[float] = [0.0] * len(actions)
        if operation == "prune":
            values = [
                settings.strength * (one.modules[0] in candidates) - settings.selection * fitness[one.modules[0]]
                for one in actions
            ]
        elif operation == "grow":
            values = [settings.selection * fitness[one.modules[0]] for one in actions]
        elif operation == "hybridise":
            values = standardised([state.complement(*one.modules) for one in actions])
        elif operation == "spawn":
            values = [settings.strength * (one.archetype in absent) for one in actions]
        targets[operation] = tuple(values)
    return Prior(action, operations, targets)


def _fitness(state: State) -> list[float]:
    return [one.fitness for one in state.modules]


def standardised(values: Sequence[float]) -> list[float]:
    """Around 0 with spread 1; all 0 where they are equal."""
    if not values:
        return []
    mean, spread = statistics.fmean(values), statistics.pstdev(values)
    return [(one - mean) / spread if spread > 1e-12 else 0.0 for one in values]
