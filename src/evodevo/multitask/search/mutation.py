"""The learned mutation function µ(δ|m): which actions are taken on a child, drawn with rates that the path carries.

Source: docs/spec/munet.md#learned-mutation; µ2Net+ (2209.07326). The table is data of the path, inherited by copy and
moved by the draws below; it adapts because children that improve keep theirs. Nothing here keeps state between
children.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from evodevo.multitask.genome import Value
from evodevo.multitask.hyperparameters import MU, Hyperparameter
from evodevo.settings import Settings

if TYPE_CHECKING:
    import numpy as np


class MutationSettings(Settings):
    """The actions that may be taken.

    Patterns are names of actions with ``*`` for any text: ``hp:<key>``, ``clone:<role>``.
    """

    forced: tuple[str, ...] = Field(
        default=("clone:encoder_norm",), description="actions always taken; they touch no rate and draw nothing"
    )
    forbidden: tuple[str, ...] = Field(
        default=(), description="actions never taken, unless forced; a layer that must be copied is copied all the same"
    )


@dataclass(frozen=True)
class MutationDecision:
    """Whether an action was taken, and why; kept for ever, so that each child's outcome is explained.

    Attributes:
        action: its name.
        applied: whether it was taken.
        why: "forced" or "forbidden" by settings, else "drawn".
        probability: probability of the action, 0 to 1.
        draw: drawn number in [0, 1); the action is taken where it is below the probability. None where nothing was
            drawn.
        rate: the global rate ``_mu_`` at that moment: how often the action's own rate moves.
        rate_draw: drawn number in [0, 1); the action's own rate moved where it is below the global one. None as above.
        before: the action's own rate before; None where it followed the global one.
        after: its own rate afterwards; None where it still follows the global one.
    """

    action: str
    applied: bool
    why: Literal["forced", "forbidden", "drawn"]
    probability: float
    draw: float | None = None
    rate: float | None = None
    rate_draw: float | None = None
    before: float | None = None
    after: float | None = None


@dataclass(frozen=True)
class Move:
    """A mutated value: ``before`` equals ``after`` where it was at the end of its list."""

    key: str
    before: Value
    after: Value


def incremental(row: Hyperparameter, value: Value, rng: np.random.Generator) -> Value:
    """The next value of an ordered list or the previous one, evenly; at an end half of the moves change nothing.

    Raises:
        UsageError: the value is not in the list.
    """
    return row.neighbour(value, up=bool(rng.random() < 0.5))


def decide(
    action: str, mu: Mapping[str, float], rates: Hyperparameter, rng: np.random.Generator, settings: MutationSettings
) -> MutationDecision:
    """Whether an action is taken on a child with this table.

    Args:
        action: its name.
        mu: the child's table: ``_mu_``, and ``_mu_|<action>`` for those with a rate of their own.
        rates: the row of ``_mu_``.
        rng: draws up to three numbers; none for a forced or forbidden action.
        settings: settings of mutation.

    Raises:
        UsageError: a rate of the table is not in its list.
    """
    if matches(action, settings.forced):
        return MutationDecision(action, applied=True, why="forced", probability=1.0)
    if matches(action, settings.forbidden):
        return MutationDecision(action, applied=False, why="forbidden", probability=0.0)
    rate = mu[MU]
    before = mu.get(entry(action))
    probability = rate if before is None else before
    rate_draw = float(rng.random())
    if rate_draw < rate:
        probability = float(incremental(rates, probability, rng))
    keeps = before is not None or rate_draw < rate  # an action has a rate of its own once that was drawn to move
    # Drawn after the rate, which may have moved by the draw above.
    draw = float(rng.random())
    return MutationDecision(
        action, draw < probability, "drawn", probability, draw, rate, rate_draw, before, probability if keeps else None
    )


def entry(action: str) -> str:
    """The key of an action's own rate in the table."""
    return f"{MU}|{action}"


def matches(action: str, patterns: tuple[str, ...]) -> bool:
    """Whether one of the patterns fits an action's name."""
    return any(fnmatchcase(action, pattern) for pattern in patterns)


class Mutator:
    """The decisions on the actions of one child, one after another, with their record.

    Attributes:
        mu: the child's present table of rates.
        decisions: the decisions, in the order in which they were made.
        moves: mutated values, likewise.
    """

    def __init__(
        self, mu: Mapping[str, float], rates: Hyperparameter, rng: np.random.Generator, settings: MutationSettings
    ) -> None:
        self.mu = dict(mu)
        self.decisions: list[MutationDecision] = []
        self.moves: list[Move] = []
        self._rates = rates
        self._rng = rng
        self._settings = settings

    def applies(self, action: str) -> bool:
        """Whether the action is taken."""
        decision = decide(action, self.mu, self._rates, self._rng, self._settings)
        self.decisions.append(decision)
        if decision.after is not None:
            self.mu[entry(action)] = decision.after
        return decision.applied

    def mutate(self, row: Hyperparameter, value: Value) -> Value:
        """A value after the action ``hp:<key>``, taken or not."""
        if not self.applies(f"hp:{row.key}"):
            return value
        after = incremental(row, value, self._rng)
        self.moves.append(Move(row.key, value, after))
        return after

    def mutate_rate(self) -> None:
        """The action on the global rate itself: whatever is decided later follows the new one."""
        self.mu[MU] = float(self.mutate(self._rates, self.mu[MU]))
