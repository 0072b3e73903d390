"""How a zoo grows while it trains, as plain data (Architect Thyself 3.5, appendices B, G, H).

Source: docs/spec/architect_thyself.md#events.

All numbers that the paper leaves open stand here with their default; where the paper gives one, it is the default of
the preset ``paper``, named in brackets.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from evodevo.growth.strategists.spec import StrategistSettings
from evodevo.settings import Settings

Operation = Literal["noop", "prune", "grow", "spawn", "hybridise", "rewarm"]
OPERATIONS: tuple[Operation, ...] = ("noop", "prune", "grow", "spawn", "hybridise", "rewarm")


class EventSettings(Settings):
    """When the zoo may change. Shares are of the budget.

    Attributes:
        count: events in a run (every 3 of at most 25 epochs: 8).
        first, last: share at which the first and the last one come (E_warm).
        actions: sub-actions of one event.
        births: new modules in one event (G_max).
        warm: share of the budget in which a newborn's birth factor rises from 0 to 1 (T_warm); meanwhile there is no
            other birth, and it is not pruned.
        warm_rate: factor of a newborn's learning rate meanwhile (zeta).
        horizon: share of the budget after which an event is rewarded (H).
        looks: probes between two events, evenly, that only bring the moving averages up to date (T_eval).
        overhead: FLOPs of probes, distillation and replay as a share of those of training, at most; of a budget in
            seconds, the seconds. Probes have fewer samples, and there are fewer steps, where they would exceed it.
    """

    count: int = Field(default=8, ge=0, le=1000)
    first: float = Field(default=0.15, ge=0, lt=1)
    last: float = Field(default=0.85, gt=0, le=1)
    actions: int = Field(default=3, ge=1, le=16)
    births: int = Field(default=1, ge=1, le=16)
    warm: float = Field(default=0.06, gt=0, le=0.5)
    warm_rate: float = Field(default=0.1, gt=0, le=1)
    horizon: float = Field(default=0.08, gt=0, le=0.5)
    looks: int = Field(default=1, ge=0, le=1000)
    overhead: float = Field(default=0.1, gt=0, le=10)

    @model_validator(mode="after")
    def _first_before_last(self) -> Self:
        if self.first > self.last:
            raise ValueError(f"the first event comes at {self.first}, after the last one at {self.last}")
        return self


class FitnessSettings(Settings):
    """What a module is worth (eqs. 19, 66 to 71, 90 to 92; docs/spec/architect_thyself.md#fitness).

    Attributes:
        kind: ``contribution`` F = a_C C - a_cost cost + a_nov (1 - redundancy) (71); ``usage_loss`` (92); ``advantage``
            (Algorithm 1: a moving mean of alpha (baseline - loss), where the baseline is the loss under equal weights).
        contribution, cost, novelty: alpha_C, alpha_cost, alpha_nov.
        spread: gamma_theta of the similarity kernel (70).
        rate: rho of the moving averages.
        ablation: a module that is left out is masked in logits, synergy and gate (91), or its output is ``zero`` (67).
        samples: of the ``architecture`` split in a probe (|P|).
    """

    kind: Literal["contribution", "usage_loss", "advantage"] = "contribution"
    contribution: float = Field(default=1.0, ge=0)
    cost: float = Field(default=0.1, ge=0)
    novelty: float = Field(default=0.1, ge=0)
    spread: float = Field(default=4.0, gt=0)
    rate: float = Field(default=0.3, gt=0, le=1)
    ablation: Literal["masked", "zero"] = "masked"
    samples: int = Field(default=256, ge=2, le=1 << 20)


class PruneSettings(Settings):
    """Who may go (eqs. 23, 72; docs/spec/architect_thyself.md#pruning).

    Attributes:
        rule: ``standard`` (F below mean - kappa std, hysteresis included, for ``patience`` events, and leaving it out
            costs at most ``tolerance``); ``quantile`` (72, as printed; always prunes); ``threshold`` (F below
            ``threshold``); ``patience_usage`` and ``patience_advantage`` (Algorithms 2 and 1).
        kappa, patience, tolerance, threshold, quantile: of the rules (q = .15).
        age: events that a module must have lived (A_min).
        least: modules that always stay (N_min).
        distil_steps: of the rest, before a module goes (T_kd); 0 switches it off.
        distil_tolerance: loss at which that ends early.
        bank: pruned modules that are kept for a newborn of equal genotype.
    """

    rule: Literal["standard", "quantile", "threshold", "patience_usage", "patience_advantage"] = "standard"
    kappa: float = Field(default=1.0, ge=0)
    patience: int = Field(default=2, ge=1, le=100)
    tolerance: float = Field(default=1e-3, ge=0)
    threshold: float = 0.05
    quantile: float = Field(default=0.15, gt=0, lt=1)
    age: int = Field(default=2, ge=0, le=1000)
    least: int = Field(default=3, ge=1, le=256)
    distil_steps: int = Field(default=50, ge=0, le=100_000)
    distil_tolerance: float = Field(default=1e-3, ge=0)
    bank: int = Field(default=10, ge=0, le=1000)


class BirthSettings(Settings):
    """How a module comes to be (eqs. 12, 13, 21, 22, 73 to 78, 93).

    Source: docs/spec/architect_thyself.md#inheritance, docs/spec/architect_thyself.md#splices.

    Attributes:
        inheritance: ``function_preserving`` (overlapping tensors are copied, new units are silent); ``split`` (parent
            and child share the parent's weight); ``soft`` (75); ``copy_noise`` (H).
        keep: gamma_inh of ``soft``.
        noise: sigma_w, spread of what is drawn anew, as a factor of a fresh module's.
        mutation: sigma_theta.
        selection: eta of the softmax over standardised fitness that chooses parents (73).
        splice: ``replace`` takes the motif out that the graft stands for; ``insert`` puts it beside, gated by 0.
        motif: nodes of a motif at most.
        symmetric: both children of a splice are made, and one is drawn.
        blend: kappa of eq. 78; 1 copies from the fitter parent.
        most: modules at most (N_max).
    """

    inheritance: Literal["function_preserving", "split", "soft", "copy_noise"] = "function_preserving"
    keep: float = Field(default=0.9, ge=0, le=1)
    noise: float = Field(default=0.02, ge=0)
    mutation: float = Field(default=0.2, ge=0, le=2)
    selection: float = Field(default=1.0, ge=0)
    splice: Literal["replace", "insert"] = "replace"
    motif: int = Field(default=4, ge=1, le=64)
    symmetric: bool = False
    blend: float = Field(default=1.0, ge=0, le=1)
    most: int = Field(default=9, ge=1, le=256)


class RewardSettings(Settings):
    """What an event is worth (eqs. 14, 24, 80, 82, 95; docs/spec/architect_thyself.md#rewards).

    Attributes:
        kind: ``change`` r = dVal - eta_c dCost + eta_d mean(1 - redundancy) - k std(val) (82, 95, sign repaired);
            ``absolute`` (24); ``entropy`` (Algorithm 2).
        cost, diversity, instability: eta_comp (of FLOPs), eta_div, k.
        parameters: eta_param of eq. 95, which prices parameters beside FLOPs; not of ``entropy``.
        discount: gamma.
    """

    kind: Literal["change", "absolute", "entropy"] = "change"
    cost: float = Field(default=0.1, ge=0)
    diversity: float = Field(default=0.05, ge=0)
    instability: float = Field(default=0.1, ge=0)
    parameters: float = Field(default=0.0, ge=0)
    discount: float = Field(default=0.99, ge=0, le=1)


class CapSettings(Settings):
    """What the zoo may never exceed; None is no cap.

    Attributes:
        parameters, flops: of the whole network; FLOPs of one sample, executed.
        memory_bytes: of weights, gradients, moments and activations of one batch, estimated.
        latency: seconds of one batch by the stored calibration table.
        target_flops: the mean that the Lagrangian holds (80), under the cap.
    """

    parameters: int | None = Field(default=None, gt=0)
    flops: float | None = Field(default=None, gt=0)
    memory_bytes: int | None = Field(default=None, gt=0)
    latency: float | None = Field(default=None, gt=0)
    target_flops: float | None = Field(default=None, gt=0)


class ReplaySettings(Settings):
    """Which samples are seen again after an edit (docs/spec/architect_thyself.md#sample-replay).

    Attributes:
        capacity: N_R; 0 switches replay off.
        steps: R minibatches after each edit whose loss includes replayed samples.
    """

    capacity: int = Field(default=256, ge=0, le=1 << 20)
    steps: int = Field(default=20, ge=0, le=100_000)


class GrowthSettings(Settings):
    """The growth of one run.

    Attributes:
        strategist: who decides: a row of ``strategist.base.STRATEGISTS``.
        allow: operations that it may use. Without ``prune`` nobody goes, not even to make room for a newborn.
        memory: edits of earlier runs warm-start a learned strategist.
        edit_memory: those edits: a blob of the store (``edit_memory`` of an evaluation that grew); None begins without.
        policy: of the strategists. How parents are chosen, the discount and the target of the cost are said by
            ``birth``, ``reward`` and ``caps``.
    """

    strategist: str = Field(default="ppo", min_length=1, max_length=60)
    allow: tuple[Operation, ...] = ("prune", "grow", "spawn", "hybridise", "rewarm")
    events: EventSettings = EventSettings()
    fitness: FitnessSettings = FitnessSettings()
    prune: PruneSettings = PruneSettings()
    birth: BirthSettings = BirthSettings()
    reward: RewardSettings = RewardSettings()
    caps: CapSettings = CapSettings()
    replay: ReplaySettings = ReplaySettings()
    memory: bool = True
    edit_memory: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    policy: StrategistSettings = StrategistSettings()

    @model_validator(mode="after")
    def _said_once(self) -> Self:
        usual, given = StrategistSettings(), self.policy
        for name, mine, default, place in (
            ("heuristic.selection", given.heuristic.selection, usual.heuristic.selection, "birth.selection"),
            ("learning.discount", given.learning.discount, usual.learning.discount, "reward.discount"),
            ("learning.target_cost", given.learning.target_cost, usual.learning.target_cost, "caps.target_flops"),
        ):
            if mine != default:
                raise ValueError(f"policy.{name} is said by {place}; set that")
        return self
