"""An event of a growing zoo as its strategist saw it: what could be done, what was done, and what became of it."""

from __future__ import annotations

from pydantic import Field

from evodevo.growth.edit_spec import Action
from evodevo.growth.strategists.state import Legal, State, same_target
from evodevo.settings import Settings


class Decision(Settings):
    """One sub-action and how it came about.

    Attributes:
        legal: what could have been done.
        action: what is done.
        log_probability: of it, at that moment; 0 for who does not draw.
        prior: what the heuristic would have done, given the same.
    """

    legal: Legal
    action: Action
    log_probability: float = 0.0
    prior: Action | None = None

    @property
    def differs(self) -> bool:
        """Whether the heuristic would have done something else, or the same to another."""
        return self.prior is not None and not same_target(self.action, self.prior)


class Transition(Settings):
    """An event and what became of it.

    Attributes:
        state: at the event.
        decisions: of it, in order, with the ``noop`` that ended them, if one did.
        reward: r_t after the horizon (82).
        cost: of the network after the event, in the unit of the target (80).
        after: the state at the next event; None at the end of a training.
    """

    state: State
    decisions: tuple[Decision, ...]
    reward: float
    cost: float = Field(default=0.0, ge=0)
    after: State | None = None
