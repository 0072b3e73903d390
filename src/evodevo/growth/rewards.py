"""Rewards of events (eqs. 14, 24, 82, 95, Algorithm 2; docs/spec/architect_thyself.md#rewards).

As printed, eq. 82 adds the mean of eq. 70, which is redundancy: clones would be rewarded. Here novelty is 1 -
redundancy. Validation is measured on the split ``architecture``, never on what selects the model.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import Field

from evodevo.growth.spec import RewardSettings
from evodevo.settings import Settings

TINY = 1e-12


class RewardScale(Settings):
    """Scale of changes of the validation metric: their root mean square so far.

    Around 0 and not around their mean: equal gains must neither vanish nor explode.

    Attributes:
        count: Number of changes so far.
        squares: Sum of their squares.
    """

    count: int = Field(default=0, ge=0)
    squares: float = Field(default=0.0, ge=0)

    def seen(self, change: float) -> RewardScale:
        """The scale after one more change."""
        return RewardScale(count=self.count + 1, squares=self.squares + change**2)

    @property
    def size(self) -> float:
        """Root mean square, in the unit of the changes; 1 before anything changed."""
        size = math.sqrt(self.squares / self.count) if self.count else 0.0
        return size if size > TINY else 1.0


@dataclass(frozen=True)
class RewardState:
    """A network at one moment, on the split ``architecture``.

    Attributes:
        value: Validation metric; higher is better.
        loss: Loss in nats.
        cost: FLOPs of the network, as a multiple of those at the start of the run.
        novelty: Mean over modules of 1 - redundancy, in [0, 1].
        diversity: D(M), in [0, 2) (19).
        entropy: Entropy of the router's weights, in nats (Algorithm 2).
        parameters: Parameters of the network, as a multiple of those at the start.
    """

    value: float
    loss: float
    cost: float
    novelty: float = 0.0
    diversity: float = 0.0
    entropy: float = 0.0
    parameters: float = 0.0


@dataclass(frozen=True)
class Reward:
    """A reward and its terms.

    Attributes:
        terms: Summands by name.
    """

    terms: dict[str, float] = field(default_factory=dict)

    @property
    def total(self) -> float:
        """Sum of the terms: r_t."""
        return sum(self.terms.values())


def reward(
    before: RewardState,
    after: RewardState,
    curve: Sequence[float],
    scale: RewardScale,
    settings: RewardSettings,
    price: float | None = None,
) -> tuple[Reward, RewardScale]:
    """The reward of an event, and the scale for the next.

    Args:
        before: The network when the event came, before its edits.
        after: The network when the horizon is over.
        curve: Values of the metric over the horizon; fewer than two have no instability.
        scale: Scale of earlier changes; this one is added first, so that the first of a run is worth 1 or -1.
        settings: Kind and weights of the reward.
        price: What the change of FLOPs costs, in the unit of the metric (``growth.price``), which is the term of
            ``change`` then, scaled as its value is; None where FLOPs are priced by the start's.
    """
    change = after.value - before.value
    scale = scale.seen(change)
    if settings.kind == "entropy":
        return Reward({"loss": -after.loss, "entropy": settings.diversity * after.entropy}), scale
    if settings.kind == "absolute":
        terms = {
            "loss": -after.loss,
            "cost": -settings.cost * after.cost,
            "diversity": settings.diversity * after.diversity,
        }
        return Reward(terms | _priced(after.parameters, settings)), scale
    shaking = statistics.pstdev(curve) if len(curve) > 1 else 0.0
    terms = {
        "value": change / scale.size,
        "cost": -settings.cost * (after.cost - before.cost) if price is None else -price / scale.size,
        "novelty": settings.diversity * after.novelty,
        "instability": -settings.instability * shaking / scale.size,
    }
    return Reward(terms | _priced(after.parameters - before.parameters, settings)), scale


def _priced(parameters: float, settings: RewardSettings) -> dict[str, float]:
    """The term of parameters (95), where they have a price."""
    return {"parameters": -settings.parameters * parameters} if settings.parameters else {}
