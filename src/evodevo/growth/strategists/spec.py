"""Settings of strategists; the paper gives none of these numbers (docs/spec/architect_thyself.md#strategists)."""

from __future__ import annotations

from pydantic import Field

from evodevo.settings import Settings


class HeuristicSettings(Settings):
    """When the heuristic acts, and how much of a prior it is.

    Attributes:
        plateau: events without a rise of validation before the zoo grows.
        missing_plateau: the same before a family that no module has is spawned.
        tolerance: a rise of at most this is none.
        budget: share of the budget below which nothing is born.
        complementarity: c_0, above which the best pair has a child.
        strength: by how much the logit of its choice is raised in a prior.
        selection: eta of the softmax over standardised fitness (73).
    """

    plateau: int = Field(default=2, ge=1, le=4)
    missing_plateau: int = Field(default=1, ge=1, le=4)
    tolerance: float = 0.0
    budget: float = Field(default=0.05, ge=0, le=1)
    complementarity: float = 0.1
    strength: float = Field(default=2.0, ge=0, le=20)
    selection: float = Field(default=1.0, ge=0)


class LearningSettings(Settings):
    """How a policy learns (80, 81, 97; docs/spec/architect_thyself.md#strategists).

    Attributes:
        width: of its layers.
        rate: of Adam, for PPO.
        reinforce_rate: the same for REINFORCE, which makes one step where PPO makes several.
        discount: gamma, between events.
        clip, trace, epochs: of PPO: clipping range, lambda of generalised advantages, passes over what it is told.
        entropy: lambda_H; J + lambda_H H is maximised.
        baseline: weight of the value's loss.
        norm: of the gradient at most.
        target_cost: mean that the Lagrangian holds; None switches it off.
        multiplier_rate: of its dual ascent, for costs as shares of the target.
    """

    width: int = Field(default=32, ge=1, le=1024)
    rate: float = Field(default=3e-4, gt=0, le=1)
    reinforce_rate: float = Field(default=1.5e-3, gt=0, le=1)
    discount: float = Field(default=0.99, ge=0, le=1)
    clip: float = Field(default=0.2, gt=0, lt=1)
    trace: float = Field(default=0.95, ge=0, le=1)
    epochs: int = Field(default=4, ge=1, le=100)
    entropy: float = Field(default=0.01, ge=0)
    baseline: float = Field(default=0.5, ge=0)
    norm: float = Field(default=1.0, gt=0)
    target_cost: float | None = Field(default=None, gt=0)
    multiplier_rate: float = Field(default=0.05, gt=0)


class MetaSettings(Settings):
    """Truncated meta-gradients (98).

    Attributes:
        steps: K, of plain SGD that are differentiated through.
        step_rate: of those.
        rate: of Adam over the policy.
        every: events between two of them, where they only help REINFORCE.
    """

    steps: int = Field(default=2, ge=1, le=3)
    step_rate: float = Field(default=0.05, gt=0)
    rate: float = Field(default=3e-3, gt=0, le=1)
    every: int = Field(default=3, ge=1)


class MemorySettings(Settings):
    """What edits of earlier runs are worth (docs/spec/architect_thyself.md#edit-memory).

    Attributes:
        epochs: passes of behaviour cloning over those that were rewarded.
        rate: of Adam meanwhile.
        most: edits that are imitated, the best ones.
        bias: by how much the logit of what was always well rewarded is raised, or lowered at most.
        doubt: a mean of n rewards counts n / (n + doubt).
    """

    epochs: int = Field(default=20, ge=0, le=10_000)
    rate: float = Field(default=1e-3, gt=0, le=1)
    most: int = Field(default=64, ge=1, le=10_000)
    bias: float = Field(default=1.0, ge=0, le=20)
    doubt: float = Field(default=4.0, ge=0)


class StrategistSettings(Settings):
    """All of them."""

    heuristic: HeuristicSettings = HeuristicSettings()
    learning: LearningSettings = LearningSettings()
    meta: MetaSettings = MetaSettings()
    memory: MemorySettings = MemorySettings()
