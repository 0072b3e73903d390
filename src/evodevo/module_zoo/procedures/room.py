"""The networks that a race of modules may have, and whether a budget is enough under a limit; no torch here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evodevo.errors import UsageError
from evodevo.experiments.racing.plan import plan_first
from evodevo.experiments.racing.room import RaceRoom
from evodevo.module_zoo.cost import zoo_cost
from evodevo.module_zoo.modules.zoo import identity
from evodevo.module_zoo.procedures.search_settings import RaceOptions, training_after
from evodevo.module_zoo.spec import ZooStructure
from evodevo.tasks.base import SampleTask
from evodevo.training.settings import TrainingSettings

ARMS = 2
"""Networks of the smallest race, each of which is trained once."""
IDENTITY = "identity"
"""Id of the module that passes on what it reads, in the network without a module."""
ROUNDED_UP = 1.005
"""So that three digits of the least budget are enough."""


def network_of(structure: ZooStructure, ids: Sequence[str]) -> ZooStructure:
    """The zoo with these modules alone; without any it has the identity, so that its encoders are read as they are."""
    kept = tuple(module for module in structure.modules if module.id in ids)
    kept = kept or (identity(structure.width, IDENTITY),)
    return structure.model_copy(update={"modules": kept, "disabled": ()})


def alone(structure: ZooStructure, options: RaceOptions) -> list[str]:
    """Ids of what the first heat tries alone."""
    names = [module.id for module in structure.live]
    if options.identity and IDENTITY not in (module.id for module in structure.modules):
        names.append(IDENTITY)
    return names


def step_flops(structure: ZooStructure, task: SampleTask, batch: int) -> float:
    """FLOPs of a training step of a network, in which every module runs."""
    return zoo_cost(structure, inputs=task.inputs, outputs=task.outputs, batch=batch, mode="train").flops


def under_limit(networks: Mapping[str, ZooStructure], options: RaceOptions, task: SampleTask) -> list[str]:
    """Names of the networks whose FLOPs of one sample are under the limit; all where there is none."""
    if options.flops is None:
        return list(networks)
    costs = {name: zoo_cost(one, inputs=task.inputs, outputs=task.outputs) for name, one in networks.items()}
    return [name for name, cost in costs.items() if cost.executed_flops <= options.flops]


def check_room(
    arm: str, training: TrainingSettings, options: RaceOptions, structure: ZooStructure, task: SampleTask
) -> None:
    """Refuse a race under a limit in which no two networks could take part; without a limit none need to.

    Args:
        arm: Name of the arm.
        training: Training of which the race takes a share, from ``options.begin`` on.
        options: Options of the race.
        structure: Zoo of at least two live modules.
        task: What its cost depends on.

    Raises:
        UsageError: Fewer than two modules alone are under the limit, or the budget is too small; it names the least.
    """
    if options.flops is None:
        return
    networks = {name: network_of(structure, [name]) for name in alone(structure, options)}
    under = under_limit(networks, options, task)
    limit = f"{options.flops:,.6g} FLOPs"
    if len(under) < ARMS:
        who = f"only {under[0]} alone" if under else "no module alone"
        raise UsageError(f"{arm}: {who} is under the {limit} of the race, which needs two; allow more.")
    room = RaceRoom.of(training_after(training, options.begin), options)
    if room.unit == "seconds":  # what a step takes is measured when the race begins
        return
    in_flops = room.unit == "flops"
    costs = [step_flops(networks[name], task, training.batch_size) if in_flops else 1.0 for name in under]
    judging = room.judging_of(0, options)
    race = room.race(options, costs) * options.singles
    if plan_first(costs, race, options.least, judging) is None:
        need = ARMS * sorted(costs)[ARMS - 1] * (options.least + judging)
        raise UsageError(
            f"{arm}: the budget has no room for a race of two networks under {limit} with rungs of {options.least} "
            f"steps. Give {ROUNDED_UP * need / race:.3g} times as much, or a larger share of it to the race."
        )
