"""The probability of each agent's path in a draw: uniform, by earlier success of its paths and similarity of its task,
or by probes of its paths.

The published agents draw uniformly and name that as room for improvement (docs/spec/munet.md#informed-sampling).
The other samplers are ours. A share of their draws stays uniform, so that every agent keeps a chance.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from evodevo.errors import UsageError
from evodevo.multitask.search.transfer import TEMPERATURE, transfer_weights
from evodevo.settings import Settings

if TYPE_CHECKING:
    import numpy as np


class SamplerSettings(Settings):
    """Uniform, informed, or probed."""

    kind: Literal["uniform", "informed", "probed"] = Field(
        default="uniform",
        description="draw all alike, by past success and similarity, or by probes of what paths represent",
    )
    explore: float = Field(default=0.25, gt=0, le=1, description="share of another draw that is uniform")
    temperature: float = Field(
        default=TEMPERATURE,
        gt=0,
        exclude_if=lambda value: value == TEMPERATURE,
        description="difference between the log-losses of two probes that makes one path e times as likely, in nats",
    )


@dataclass(frozen=True)
class Record:
    """The success of an agent's paths: number of children that used one, and number of improved ones among them."""

    trials: int = 0
    successes: int = 0

    @property
    def rate(self) -> float:
        """The share of successes, with one success and one failure added: 1/2 where nothing is known."""
        return (self.successes + 1) / (self.trials + 2)


@dataclass(frozen=True)
class Evidence:
    """The evidence on agents, by name.

    Attributes:
        records: success of their paths; an absent one was never tried.
        similarity: similarity of their task to the one at hand, in [0, 1]; an absent one counts as the mean of the
            others.
        losses: log-loss of a linear probe of their paths on the task at hand, in nats; likewise.
    """

    records: Mapping[str, Record] = field(default_factory=dict)
    similarity: Mapping[str, float] = field(default_factory=dict)
    losses: Mapping[str, float] = field(default_factory=dict)


def records(history: Iterable[tuple[Collection[str], bool]]) -> dict[str, Record]:
    """Count uses.

    Args:
        history: for each child, the agents whose paths it used, and whether it improved.
    """
    counts: dict[str, Record] = {}
    for agents, improved in history:
        for agent in sorted(set(agents)):
            before = counts.get(agent, Record())
            counts[agent] = Record(before.trials + 1, before.successes + bool(improved))
    return counts


def component_similarity(first: Mapping[str, int], other: Mapping[str, int]) -> float:
    """The share of parameters that two paths have in common, of all that either has: 1 for one path, 0 for strangers.

    Args:
        first, other: component id -> parameters.
    """
    union = {**first, **other}
    total = sum(union.values())
    return sum(size for name, size in first.items() if name in other) / total if total else 0.0


def agent_weights(agents: Collection[str], settings: SamplerSettings, evidence: Evidence) -> dict[str, float]:
    """The weight of each agent's path in a draw, positive; they are not normalised over paths.

    Informed: ``explore / n + (1 - explore) · w / Σw``, where w is the rate of success times the similarity. Probed: see
    ``transfer_weights``.

    Args:
        agents: names, once or more.
        settings: settings of the sampler.
        evidence: the evidence on agents.

    Raises:
        UsageError: a similarity outside [0, 1].
    """
    # Sorted, since sets of strings have another order in each process.
    names = sorted(set(agents))
    if settings.kind == "uniform" or not names:
        return dict.fromkeys(names, 1.0)
    if settings.kind == "probed":
        probed = transfer_weights(
            names, [], evidence.losses, temperature=settings.temperature, explore=settings.explore
        )
        return probed or dict.fromkeys(names, 1.0)
    known = [evidence.similarity[name] for name in names if name in evidence.similarity]
    if any(not 0 <= value <= 1 for value in known):
        raise UsageError(f"a similarity is in [0, 1]; got {known}.")
    usual = sum(known) / len(known) if known else 1.0
    raw = {name: evidence.records.get(name, Record()).rate * evidence.similarity.get(name, usual) for name in names}
    total = sum(raw.values())
    # Without any success or similarity there is nothing to go by: uniform.
    if not total:
        return dict.fromkeys(names, 1.0)
    return {
        name: settings.explore / len(names) + (1 - settings.explore) * weight / total for name, weight in raw.items()
    }


def draw(names: Sequence[str], weights: Mapping[str, float] | None, rng: np.random.Generator) -> tuple[int, float]:
    """Draw one of several with one number.

    Args:
        names: at least one; the same one may occur more than once.
        weights: name -> weight, positive; None = all alike.
        rng: draws one number.

    Returns:
        The drawn index, and its probability.
    """
    import numpy as np  # commands that only read a system do without

    shares = np.array([1.0 if weights is None else weights[name] for name in names])
    shares /= shares.sum()
    # The sum may end a rounding below 1, and the draw above it.
    place = min(int(np.searchsorted(np.cumsum(shares), rng.random(), side="right")), len(names) - 1)
    return place, float(shares[place])
