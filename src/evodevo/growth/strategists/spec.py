"""Settings of strategists; the paper gives none of these numbers (docs/spec/architect_thyself.md#strategists)."""

from __future__ import annotations

from pydantic import Field

from evodevo.settings import Settings


class HeuristicSettings(Settings):
    """Conditions of the heuristic's actions, and its strength as a prior.

    Attributes:
        plateau: Number of events without a rise of validation before the zoo grows.
        missing_plateau: Number of such events before a family that no module has is spawned.
        tolerance: Largest rise of validation that counts as none.
        budget: Share of the budget below which nothing is born, 0 to 1.
        complementarity: Value c_0 above which the best pair has a child.
        strength: Amount added to the logit of its choice in a prior.
        selection: Inverse temperature eta of the softmax over standardised fitness (73).
    """

    plateau: int = Field(default=2, ge=1, le=4)
    missing_plateau: int = Field(default=1, ge=1, le=4)
    tolerance: float = 0.0
    budget: float = Field(default=0.05, ge=0, le=1)
    complementarity: float = 0.1
    strength: float = Field(default=2.0, ge=0, le=20)
    selection: float = Field(default=1.0, ge=0)


class LearningSettings(Settings):
    """The learning of a policy (80, 81, 97; docs/spec/architect_thyself.md#strategists).

    Attributes:
        width: Width of its layers.
        rate: Learning rate of Adam, for PPO.
        reinforce_rate: Learning rate for REINFORCE, which makes one step where PPO makes several.
        discount: Discount gamma between events, 0 to 1.
        clip, trace, epochs: PPO's clipping range, lambda of generalised advantages, and number of passes per update.
        entropy: Weight lambda_H of the entropy; J + lambda_H H is maximised.
        baseline: Weight of the value's loss.
        norm: Largest norm of the gradient.
        target_cost: Mean cost that the Lagrangian aims at, in the unit of the costs; None switches it off.
        multiplier_rate: Rate of its dual ascent, for costs as shares of the target.
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
        steps: Number K of steps of plain SGD that are differentiated through.
        step_rate: Learning rate of those steps.
        rate: Learning rate of Adam over the policy.
        every: Interval in events, where meta-gradients only support REINFORCE.
    """

    steps: int = Field(default=2, ge=1, le=3)
    step_rate: float = Field(default=0.05, gt=0)
    rate: float = Field(default=3e-3, gt=0, le=1)
    every: int = Field(default=3, ge=1)


class MemorySettings(Settings):
    """The use of edits of earlier runs (docs/spec/architect_thyself.md#edit-memory).

    Attributes:
        epochs: Number of passes of behaviour cloning over rewarded edits.
        rate: Learning rate of Adam for these.
        most: Largest number of edits that are imitated, the best ones.
        bias: Largest shift of a logit, up or down, by the rewards of such edits.
        doubt: Shrinkage: a mean of n rewards counts n / (n + doubt).
        continues: Whether a policy goes on from that of the earlier run, where there is one
            (``memory_of_policy``); else it begins anew and imitates.
    """

    epochs: int = Field(default=20, ge=0, le=10_000)
    rate: float = Field(default=1e-3, gt=0, le=1)
    most: int = Field(default=64, ge=1, le=10_000)
    bias: float = Field(default=1.0, ge=0, le=20)
    doubt: float = Field(default=4.0, ge=0)
    continues: bool = Field(default=True, exclude_if=lambda value: value)


class GainSettings(Settings):
    """The model of measured gains (docs/spec/architect_thyself.md#gains-of-edits).

    Attributes:
        prior: Scale in nats of the gain of an edit while no gain is known; with gains it is their median size.
    """

    prior: float = Field(default=0.1, gt=0, le=100)


class StrategistSettings(Settings):
    """Settings of all strategists."""

    heuristic: HeuristicSettings = HeuristicSettings()
    learning: LearningSettings = LearningSettings()
    meta: MetaSettings = MetaSettings()
    memory: MemorySettings = MemorySettings()
    gains: GainSettings = Field(default=GainSettings(), exclude_if=lambda value: value == GainSettings())
