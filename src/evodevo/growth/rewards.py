"""What an event was worth (eqs. 14, 24, 82, 95, Algorithm 2; docs/spec/architect_thyself.md#rewards).

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


class Scale(Settings):
    """By what changes of validation are divided: their root mean square so far.

    Around 0 and not around their mean: equal gains must neither vanish nor explode.

    Attributes:
        count: changes seen.
        squares: their sum of squares.
    """

    count: int = Field(default=0, ge=0)
    squares: float = Field(default=0.0, ge=0)

    def seen(self, change: float) -> Scale:
        """With one change more."""
        return Scale(count=self.count + 1, squares=self.squares + change**2)

    @property
    def size(self) -> float:
        """In the unit of the changes; 1 before anything changed."""
        size = math.sqrt(self.squares / self.count) if self.count else 0.0
        return size if size > TINY else 1.0


@dataclass(frozen=True)
class Standing:
    """A zoo at one moment, on the split ``architecture``.

    Attributes:
        value: the validation metric; higher is better.
        loss: in nats.
        cost: FLOPs of the network, as a factor of those at the start of the run.
        novelty: mean over modules of 1 - redundancy.
        diversity: D(M) (19).
        entropy: of the router's weights, in nats (Algorithm 2).
        parameters: of the network, as a factor of those at the start.
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
    """A reward and what it was made of.

    Attributes:
        terms: name -> what it added.
    """

    terms: dict[str, float] = field(default_factory=dict)

    @property
    def total(self) -> float:
        """r_t."""
        return sum(self.terms.values())


def reward(
    before: Standing, after: Standing, curve: Sequence[float], scale: Scale, settings: RewardSettings
) -> tuple[Reward, Scale]:
    """The reward of an event, and the scale for the next.

    Args:
        before: when the event came, before its edits.
        after: when its horizon is over.
        curve: values of the metric that were measured over the horizon; fewer than two have no instability.
        scale: of earlier changes; this one counts already, so that the first of a run is worth 1 or -1.
        settings: which reward.
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
        "cost": -settings.cost * (after.cost - before.cost),
        "novelty": settings.diversity * after.novelty,
        "instability": -settings.instability * shaking / scale.size,
    }
    return Reward(terms | _priced(after.parameters - before.parameters, settings)), scale


def _priced(parameters: float, settings: RewardSettings) -> dict[str, float]:
    """What parameters cost (95), where they have a price."""
    return {"parameters": -settings.parameters * parameters} if settings.parameters else {}
