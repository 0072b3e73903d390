"""An event of a growing zoo as its strategist saw it: what could be done, what was done, and what became of it."""

from __future__ import annotations

from pydantic import Field

from evodevo.growth.edit_spec import Action
from evodevo.growth.strategists.gains.record import MeasuredGain
from evodevo.growth.strategists.state import Legal, State, same_target
from evodevo.settings import Settings


class Decision(Settings):
    """One sub-action and how it was chosen.

    Attributes:
        legal: Actions that were legal.
        action: Action that was chosen.
        log_probability: Log-probability of the action at that moment; 0 for strategists that do not draw.
        prior: Action that the heuristic would have chosen from the same input.
    """

    legal: Legal
    action: Action
    log_probability: float = 0.0
    prior: Action | None = None

    @property
    def differs(self) -> bool:
        """Whether the heuristic would have chosen another operation or target."""
        return self.prior is not None and not same_target(self.action, self.prior)


class Transition(Settings):
    """An event and its result.

    Attributes:
        state: State at the event.
        decisions: Decisions in order, with the ``noop`` that ended them, if one did.
        reward: Reward r_t after the horizon (82).
        cost: Cost of the network after the event, in the unit of the target (80).
        after: State at the next event; None at the end of a training.
        gain: What a fork measured of its edits; None where none did.
    """

    state: State
    decisions: tuple[Decision, ...]
    reward: float
    cost: float = Field(default=0.0, ge=0)
    after: State | None = None
    gain: MeasuredGain | None = Field(default=None, exclude_if=lambda value: value is None)
