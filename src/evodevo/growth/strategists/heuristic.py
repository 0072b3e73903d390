"""The heuristic strategist: fixed rules, also used as the prior of a policy.

Source: docs/spec/architect_thyself.md#strategists.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evodevo.growth.edit_spec import Action
from evodevo.growth.spec import REPLACE, Operation
from evodevo.growth.strategists.base import Strategist
from evodevo.growth.strategists.spec import HeuristicSettings
from evodevo.growth.strategists.state import Legal, State
from evodevo.growth.strategists.transition import Decision


class Heuristic(Strategist):
    """Takes the first rule that applies; ties go by the module's id.

    1. Prune a module that the prune rule proposes; of several the least fit.
    2. Edit the network around its modules, where such edits are open: the first of them.
    3. Cross the pair with the highest complementarity, if it is above c_0.
    4. If validation has not risen for ``missing_plateau`` events, a family that no module has is spawned.
    5. If it has not for ``plateau`` events, the fittest module that admits an edit in place is enlarged, where such
       edits are open; else a child grows from the fittest module.

    No birth when little of the budget is left.
    """

    name = "heuristic"

    def _choose(self, state: State, legal: Legal, rng: np.random.Generator) -> Decision:
        action = rule(state, legal, self.settings.heuristic)
        return Decision(legal=legal, action=action, prior=action)


def rule(state: State, legal: Legal, settings: HeuristicSettings) -> Action:
    """The heuristic's action; deterministic."""
    modules = {module.id: module for module in state.modules}
    going = [action for action in legal.targets("prune") if modules[action.modules[0]].candidate]
    if going:
        return min(going, key=lambda action: (modules[action.modules[0]].fitness, action.modules))
    if state.budget <= settings.budget:
        return Action(operation="noop")
    if legal.around:
        return Action(operation=legal.around[0])
    pairs = [(state.complement(*action.modules), action) for action in legal.targets("hybridise")]
    pairs = [(value, action) for value, action in pairs if value > settings.complementarity]
    if pairs:
        # Each pair comes in both orders; the fitter module keeps its frame.
        return min(pairs, key=lambda pair: (-pair[0], -modules[pair[1].modules[0]].fitness, pair[1].modules))[1]
    absent = missing(state, legal)
    if absent and state.plateaued(settings.missing_plateau, settings.tolerance):
        return Action(operation="spawn", archetype=absent[0])
    enlarging = [action for operation, _ in legal.in_place for action in legal.targets(operation)]
    if enlarging and state.plateaued(settings.plateau, settings.tolerance):
        # The first of the operations that are open, for one module.
        return min(enlarging, key=lambda action: (-modules[action.modules[0]].fitness, action.modules))
    parents = legal.targets("grow")
    if parents and state.plateaued(settings.plateau, settings.tolerance):
        return min(parents, key=lambda action: (-modules[action.modules[0]].fitness, action.modules))
    return Action(operation="noop")


def missing(state: State, legal: Legal) -> tuple[str, ...]:
    """Families that may be spawned and that no module has, in their legal order."""
    alive = {module.archetype for module in state.modules}
    return tuple(
        action.archetype for action in legal.targets("spawn") if action.archetype and action.archetype not in alive
    )


@dataclass(frozen=True)
class Prior:
    """Logits of the heuristic.

    Attributes:
        action: Action of the heuristic.
        operations: Logit by legal operation, in their order: the choice is raised by ``strength``.
        targets: Logits of each legal operation's targets, in the order of ``Legal.targets``.
    """

    action: Action
    operations: dict[Operation, float]
    targets: dict[Operation, tuple[float, ...]]


def prior(state: State, legal: Legal, settings: HeuristicSettings) -> Prior:
    """The heuristic as a distribution: fit parents, unfit dead (73), complementary pairs, absent families."""
    action = rule(state, legal, settings)
    scores = standardised([module.fitness for module in state.modules])
    fitness = dict(zip((module.id for module in state.modules), scores, strict=True))
    candidates = {module.id for module in state.modules if module.candidate}
    absent = set(missing(state, legal))
    operations = {operation: settings.strength * (operation == action.operation) for operation in legal.operations}
    targets: dict[Operation, tuple[float, ...]] = {}
    for operation in operations:
        actions = legal.targets(operation)
        values: Sequence[float] = [0.0] * len(actions)
        if operation == "prune":
            values = [
                settings.strength * (choice.modules[0] in candidates) - settings.selection * fitness[choice.modules[0]]
                for choice in actions
            ]
        elif operation == "grow" or operation in dict(legal.in_place):
            values = [settings.selection * fitness[choice.modules[0]] for choice in actions]
        elif operation == REPLACE:
            values = [-settings.selection * fitness[choice.modules[0]] for choice in actions]
        elif operation == "hybridise":
            values = standardised([state.complement(*choice.modules) for choice in actions])
        elif operation == "spawn":
            values = [settings.strength * (choice.archetype in absent) for choice in actions]
        targets[operation] = tuple(values)
    return Prior(action, operations, targets)


def standardised(values: Sequence[float]) -> list[float]:
    """The values shifted to mean 0 and scaled to spread 1; all 0 where they are equal."""
    if not values:
        return []
    mean, spread = statistics.fmean(values), statistics.pstdev(values)
    return [(value - mean) / spread if spread > 1e-12 else 0.0 for value in values]
