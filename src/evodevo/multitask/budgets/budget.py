"""A budget of a run of agents, and what one cycle may use of it. Functions of values: no clock, no store.

A cycle gets an equal share of what is left. A child makes a whole number of periods of ``FEWEST`` steps, and ends
earlier where its validation is flat (``PathTrainingSettings.is_flat``). A cycle has as many children as its settings
ask for, where each can make ``PERIODS`` periods; else fewer children, never shorter ones. What is more than that makes
them longer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from evodevo.errors import UsageError
from evodevo.multitask.settings import AgentSettings
from evodevo.settings import Settings

FEWEST = 500
"""Steps of a child at least, unless its validation is flat before."""
PERIODS = 2
"""Periods of ``FEWEST`` steps that a child may make at least, where a cycle has several."""
_GENERATIONS = 2
OF_ROOT = 3
"""A root is trained until its validation is flat, on one part in so many of the budget at most."""
OF_JOINT = 2
"""Likewise one that several tasks train together, and begin with."""

_GIVEN = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|steps?)")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class RunBudget:
    """The limit of a whole run of agents.

    Attributes:
        amount: number of units.
        unit: "seconds" of wall time, or "steps" of all children together.
    """

    amount: float
    unit: Literal["seconds", "steps"]

    def words(self, amount: float | None = None) -> str:
        """The budget, or another amount of its unit, as it is given to the command."""
        value = self.amount if amount is None else amount
        if self.unit == "steps":
            return f"{-(-value // 1):.0f}steps"
        return f"{-(-value // 1):.0f}s" if value < 600 else f"{-(-value // 60):.0f}m"


class Allowance(Settings):
    """The part of a budget that one cycle may use; recorded before it begins, and the same when it is resumed."""

    children: int = Field(ge=1, description="number of children")
    generation_size: int = Field(ge=1, description="number of children asked for together")
    steps: int = Field(ge=1, description="steps of a child")
    most_steps: int = Field(ge=1, description="steps of a child at most, where validation is not flat before")
    untrained: int = Field(
        default=0, ge=0, exclude_if=lambda value: not value, description="number of the children that make no step"
    )

    @property
    def total(self) -> int:
        """Number of steps of all children, at most."""
        return (self.children - self.untrained) * self.most_steps

    def applied(self, settings: AgentSettings) -> AgentSettings:
        """The settings of an agent in this cycle."""
        assert settings.cycle is not None, "recorded with the agent"
        cycle = settings.cycle.model_copy(update={"samples": self.children, "generation_size": self.generation_size})
        training = {**settings.training, "steps": self.steps, "most_steps": self.most_steps}
        return settings.model_copy(update={"cycle": cycle, "training": training})


def read_budget(given: str) -> RunBudget:
    """A budget out of a text such as 90s, 10m, 1h or 5000steps.

    Raises:
        UsageError: it is none, or not above 0.
    """
    found = _GIVEN.fullmatch(given.strip().lower())
    if found is None or float(found[1]) <= 0:
        raise UsageError(f"the budget is {given!r}; give a time such as 90s, 10m or 1h, or steps such as 5000steps.")
    if found[2].startswith("step"):
        return RunBudget(float(int(float(found[1]))), "steps")
    return RunBudget(float(found[1]) * _SECONDS[found[2]], "seconds")


def allowance(
    share: float, most: int, generation_size: int, looks: int, together: int = 1, least: int = 1, untrained: int = 0
) -> Allowance | None:
    """What a cycle may do with its share; None where it does not suffice for one child that is trained.

    Few long children before many short ones: ``PERIODS`` periods each where that leaves two generations of two, so that
    the second goes on with what the first has learned; else one child for all of the share.

    Args:
        share: number of steps.
        most: children of a cycle, as its settings have it: whole generations.
        generation_size: children asked for together, likewise.
        looks: looks at the validation split in a period; steps are whole intervals between them.
        together: children of the cycle that keep all workers busy.
        least: children that begin differently, each of which is tried where the share suffices for a period of each.
        untrained: how many of them make no step.
    """
    period = period_of(looks)
    affordable = int(share // period)
    if affordable < 1:
        return None
    two_generations = affordable >= 2 * _GENERATIONS * PERIODS
    wanted = affordable // PERIODS if two_generations else 1
    wanted = max(wanted, min(max(together, least), affordable + untrained))
    if wanted >= most:
        size, children = generation_size, most
    else:
        # A generation is full: rather smaller ones of equal size than one child more than there are steps for.
        # Children that begin differently are one generation: none begins with what another one of them has learned.
        size = wanted if wanted <= least else max(together, wanted // _GENERATIONS)
        size = min(generation_size, size, wanted)
        children = wanted // size * size
    return Allowance(
        children=children,
        generation_size=size,
        steps=period,
        most_steps=period * max(1, affordable // max(1, children - untrained)),
        untrained=min(untrained, children),
    )


def of_root(share: float, looks: int, tasks: int = 1) -> Allowance:
    """What a root that so many tasks train may use: one period for each at least."""
    period = period_of(looks) * tasks
    return Allowance(children=1, generation_size=1, steps=period, most_steps=period * max(1, int(share // period)))


def period_of(looks: int) -> int:
    """``FEWEST`` steps, up to whole intervals between looks."""
    return -(-FEWEST // looks) * looks
