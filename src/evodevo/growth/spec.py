"""Settings of growth during training, as plain data (Architect Thyself 3.5, appendices B, G, H).

Source: docs/spec/architect_thyself.md#events.

All numbers that the paper leaves open have their default here; where the paper gives one, it is named in brackets.
Fields with a value of new runs (``settings.NEW``) are a growth's reading of what was measured since; their defaults are
the paper's, which stored runs, ablations and ``module_zoo.paper`` keep.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from evodevo.growth.around.base import AROUND
from evodevo.growth.around.spec import AroundSettings
from evodevo.growth.in_place.base import EDITS
from evodevo.growth.in_place.spec import InPlaceSettings
from evodevo.growth.races.records import RaceSettings
from evodevo.growth.shifts.spec import ShiftSettings
from evodevo.growth.strategists.spec import StrategistSettings
from evodevo.settings import NEW, Settings

OPERATIONS: tuple[str, ...] = ("noop", "prune", "grow", "spawn", "hybridise", "rewarm")
"""The paper's operations, in the order in which a policy counts them."""
REPLACE = "replace"
"""A module leaves, and a fresh one of another family takes its place and its weight at once. No part of the paper."""


def _known(operation: str) -> str:
    if operation not in (*OPERATIONS, REPLACE, *EDITS, *AROUND):
        known = ", ".join((*OPERATIONS, REPLACE, *EDITS, *AROUND))
        raise ValueError(f"there is no operation {operation[:60]!r}; there are {known}")
    return operation


Operation = Annotated[str, AfterValidator(_known), WithJsonSchema({"type": "string"})]
"""One of ``OPERATIONS``, ``REPLACE``, or a row of ``EDITS`` or of ``AROUND``."""

Entry = Literal["gate", "beside"]
"""How a newborn gets its weight in a zoo; see ``BirthSettings``."""


class EventSettings(Settings):
    """The times at which the network may change. Shares are fractions of the budget, 0 to 1.

    Attributes:
        count: Number of events in a run (every 3 of at most 25 epochs: 8).
        first, last: Share of the budget at which the first and the last event come (E_warm).
        actions: Number of sub-actions of one event.
        births: Largest number of new modules in one event (G_max).
        warm: Share of the budget in which a newborn's birth factor rises from 0 to 1 (T_warm); meanwhile there is no
            other birth, and it is not pruned.
        warm_rate: Factor of a newborn's learning rate meanwhile, above 0 and at most 1 (zeta); 1 in new runs.
        horizon: Share of the budget after which an event is rewarded (H).
        looks: Number of probes between two events, evenly spaced, that only update the moving averages (T_eval).
        overhead: Largest FLOPs of probes, distillation and replay as a share of those of training; in seconds where the
            budget is. Probes use fewer samples, and there are fewer steps, where they would exceed it.
    """

    count: int = Field(default=8, ge=0, le=1000)
    first: float = Field(default=0.15, ge=0, lt=1)
    last: float = Field(default=0.85, gt=0, le=1)
    actions: int = Field(default=3, ge=1, le=16)
    births: int = Field(default=1, ge=1, le=16)
    warm: float = Field(default=0.06, gt=0, le=0.5)
    warm_rate: float = Field(default=0.1, gt=0, le=1, json_schema_extra={NEW: 1.0})
    horizon: float = Field(default=0.08, gt=0, le=0.5)
    looks: int = Field(default=1, ge=0, le=1000)
    overhead: float = Field(default=0.1, gt=0, le=10)

    @model_validator(mode="after")
    def _first_before_last(self) -> Self:
        if self.first > self.last:
            raise ValueError(f"the first event comes at {self.first}, after the last one at {self.last}")
        return self


class StartingRaceSettings(Settings):
    """The race that decides what a zoo begins with (``module_zoo.procedures.race``).

    Attributes:
        share: Largest share of the budget for it, 0 to 1; 0 for no race.
        samples: Number of samples of the ``architecture`` split by which a network is judged.
        least: Fewest steps of a network in a rung; where it is few, the cheapest wins (docs/results.md).
        partial: Whether the dearest modules are left out where the budget has no room for so many steps of each module
            alone; there is no race then otherwise.
        singles: Share of the race for the modules alone, above 0 and at most 1; pairs have what that leaves, and with 1
            there are none.
        identity: Whether a network without a module, whose encoders are read as they are, races with the modules alone.
        judge: Criterion by which networks go on. ``loss``: the loss so far. ``trend``: the loss to which its fall leads
            in eight times as many steps (``racing.plan.expected_loss``); each network is judged once more in its first
            rung then.
        otherwise: Network that grows where there is no race: that of ``all`` modules, or of the first ``mlp`` alone (of
            all where there is none).
    """

    share: float = Field(default=0.0, ge=0, lt=1)
    samples: int = Field(default=512, ge=1)
    least: int = Field(default=75, ge=1, le=100_000)
    partial: bool = False
    singles: float = Field(default=0.5, gt=0, le=1, json_schema_extra={NEW: 1.0}, exclude_if=lambda value: value == 0.5)
    identity: bool = Field(default=False, exclude_if=lambda value: not value)
    judge: Literal["loss", "trend"] = Field(
        default="loss", json_schema_extra={NEW: "trend"}, exclude_if=lambda value: value == "loss"
    )
    otherwise: Literal["all", "mlp"] = Field(
        default="all", json_schema_extra={NEW: "mlp"}, exclude_if=lambda value: value == "all"
    )


class ForkSettings(Settings):
    """Forks at the events: an edit is kept only where it was measured to pay (``growth.forks``).

    An edit is kept where the lower end of the one-sided interval, at ``level``, of its gain is above 0: the fall of the
    loss against the same training without it, after equal FLOPs on the same batches.

    Attributes:
        share: Largest share of the budget for all forks of a run, both sides, orders and judgements included, 0 to 1; 0
            for no forks.
        most_share: Share of the budget, 0 to 1, up to which one fork may take what it needs where ``share`` has no room
            for one; 0 for ``share`` alone.
        required: Whether nothing is edited in a run without room for a fork; else edits are made without one.
        samples: Number of samples of the ``architecture`` split that choose, and of others of it on which the published
            gain is measured; each at most half of the split.
        least: Fewest steps of the unchanged network in a fork; there are as many forks as the share pays for.
        orders: Number of other orders of the batches in which a side is trained, too, at the first fork of a run; the
            spread by the order is the noise in the interval of all forks.
        orders_again: The same at each later fork.
        paired: Whether both sides are trained in each of these orders, and not the one without the edit alone. The
            noise is then that of their difference, which is smaller, and the gain the mean over orders.
        level: Level of the one-sided interval, 0.5 to 1.
        average: Share of the steps of a training in a fork, the last ones, over which its weights are averaged before
            it is judged, 0 to 1; 0 for the last weights. What goes on has the last weights.
        follow: For how many times the length of a fork copies of both sides are trained on after the decision, at least
            0: for the record alone, which then has the gain at the longer horizon, too.
    """

    share: float = Field(default=0.0, ge=0, lt=1)
    most_share: float = Field(default=0.0, ge=0, lt=1, exclude_if=lambda value: not value)
    required: bool = Field(default=False, exclude_if=lambda value: not value)
    samples: int = Field(default=2000, ge=2, le=1 << 20)
    least: int = Field(default=50, ge=1, le=100_000)
    orders: int = Field(default=2, ge=0, le=100)
    orders_again: int = Field(default=0, ge=0, le=100)
    level: float = Field(default=0.95, ge=0.5, lt=1)
    paired: bool = Field(default=False, json_schema_extra={NEW: True}, exclude_if=lambda value: not value)
    average: float = Field(default=0.0, ge=0, le=1, json_schema_extra={NEW: 0.5}, exclude_if=lambda value: not value)
    follow: int = Field(default=0, ge=0, le=100, exclude_if=lambda value: not value)


class FitnessSettings(Settings):
    """The fitness of modules (eqs. 19, 66 to 71, 90 to 92; docs/spec/architect_thyself.md#fitness).

    Attributes:
        kind: ``contribution`` F = a_C C - a_cost cost + a_nov (1 - redundancy) (71); ``usage_loss`` (92); ``advantage``
            (Algorithm 1: a moving mean of alpha (baseline - loss), where the baseline is the loss under equal weights).
        contribution, cost, novelty: Weights alpha_C, alpha_cost and alpha_nov, at least 0.
        price: What cost is. ``parameters``: as a share of the largest module's, times alpha_cost (71). ``steps``: where
            the budget is in FLOPs, the share of the remaining steps that the module takes (``fitness.taken_steps``),
            times 1; the same as ``parameters`` in other budgets.
        inform: Whether the impacts of every probe enter the contribution in the router's bias (10, 69).
        spread: Width gamma_theta of the similarity kernel, above 0 (70).
        rate: Rate rho of the moving averages, above 0 and at most 1.
        ablation: Form of leaving out: ``masked`` in logits, synergy and gate (91), or the output is ``zero`` (67).
        samples: Number of samples of the ``architecture`` split in a probe (|P|).
    """

    kind: Literal["contribution", "usage_loss", "advantage"] = "contribution"
    contribution: float = Field(default=1.0, ge=0)
    cost: float = Field(default=0.1, ge=0)
    novelty: float = Field(default=0.1, ge=0)
    price: Literal["parameters", "steps"] = Field(default="parameters", json_schema_extra={NEW: "steps"})
    inform: bool = Field(default=False, json_schema_extra={NEW: True})
    spread: float = Field(default=4.0, gt=0)
    rate: float = Field(default=0.3, gt=0, le=1)
    ablation: Literal["masked", "zero"] = "masked"
    samples: int = Field(default=256, ge=2, le=1 << 20)


class PruneSettings(Settings):
    """The modules that may be pruned (eqs. 23, 72; docs/spec/architect_thyself.md#pruning).

    Attributes:
        rule: ``standard`` (F below mean - kappa std, hysteresis included, for ``patience`` events, and leaving it out
            costs at most ``tolerance``); ``quantile`` (72, as printed; always prunes); ``threshold`` (F below
            ``threshold``); ``patience_usage`` and ``patience_advantage`` (Algorithms 2 and 1); ``unused`` (usage below
            ``usage`` and benefit below ``benefit`` in ``patience`` probes in a row), the rule of new runs.
        usage: Mean router weight below which a module is unused, 0 to 1.
        benefit: Limit, in points of accuracy, below which the benefit of an unused module must lie: the upper end of a
            one-sided 95 % interval (Student's t) over the probe's samples, of all of them and of each class. It counts
            as 0 where no answer of the n samples changed; the exact 95 % bound is 100 (1 - .05^(1/n)) points then.
        kappa, patience, tolerance, threshold, quantile: Parameters of the rules; the tolerance in nats (q = .15).
        age: Number of events since its birth before a module may be pruned (A_min).
        least: Number of modules that always stay (N_min); after a race at most as many as it chose.
        distil_steps: Training steps of the others before a module is removed (T_kd); 0 switches distillation off.
        distil_tolerance: Distillation loss at which it ends early.
        bank: Number of pruned modules that are kept for a newborn of equal genotype.
    """

    rule: Literal["standard", "quantile", "threshold", "patience_usage", "patience_advantage", "unused"] = Field(
        default="standard", json_schema_extra={NEW: "unused"}
    )
    usage: float = Field(default=0.02, ge=0, le=1)
    benefit: float = Field(default=0.3, ge=0, le=100)
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
    """The birth of modules (eqs. 12, 13, 21, 22, 73 to 78, 93).

    Source: docs/spec/architect_thyself.md#inheritance, docs/spec/architect_thyself.md#splices.

    Attributes:
        entry: How a newborn gets its weight in a zoo: it joins the ``gate`` little by little, or is added ``beside`` it
            until it is warm (``module_zoo.router.births``).
        inheritance: ``function_preserving`` (overlapping tensors are copied, new units are inert); ``split`` (parent
            and child share the parent's weight); ``soft`` (75); ``copy_noise`` (H).
        keep: Share gamma_inh of the parent's weights under ``soft``, 0 to 1.
        noise: Spread sigma_w of what is drawn anew, as a multiple of a fresh module's.
        mutation: Mutation strength sigma_theta, 0 to 2.
        selection: Inverse temperature eta of the softmax over standardised fitness that chooses parents (73).
        splice: ``replace`` puts the graft in place of the motif; ``insert`` puts it beside, with a gate of 0.
        motif: Largest number of nodes in a motif.
        symmetric: Whether both children of a splice are made, and one is drawn.
        blend: Share kappa of the fitter parent in eq. 78, 0 to 1; 1 copies from it.
        most: Largest number of modules (N_max).
    """

    entry: Entry = Field(default="gate", exclude_if=lambda value: value == "gate", json_schema_extra={NEW: "beside"})
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
    """The reward of an event (eqs. 14, 24, 80, 82, 95; docs/spec/architect_thyself.md#rewards).

    Attributes:
        kind: ``change`` r = dVal - eta_c dCost + eta_d mean(1 - redundancy) - k std(val) (82, 95, sign repaired);
            ``absolute`` (24); ``entropy`` (Algorithm 2).
        cost, diversity, instability: Weights eta_comp (of FLOPs), eta_div and k, at least 0.
        price: What FLOPs cost under ``change``. ``start``: their change as a multiple of those at the start, times
            eta_comp. ``steps``: where the budget is in FLOPs, the rise of the metric in the steps that they take from
            the rest of the training (``rewards.Outlook``); the same as ``start`` in other budgets.
        parameters: Weight eta_param of parameters beside FLOPs (95), at least 0; ``entropy`` ignores it.
        discount: Discount gamma of later rewards, 0 to 1.
    """

    kind: Literal["change", "absolute", "entropy"] = "change"
    cost: float = Field(default=0.1, ge=0)
    price: Literal["start", "steps"] = Field(default="start", json_schema_extra={NEW: "steps"})
    diversity: float = Field(default=0.05, ge=0)
    instability: float = Field(default=0.1, ge=0)
    parameters: float = Field(default=0.0, ge=0)
    discount: float = Field(default=0.99, ge=0, le=1)


class CapStep(Settings):
    """Limits from one moment of the training on; None leaves a limit as it was.

    Attributes:
        at: Share of the budget from which they are in force, 0 to 1.
        parameters, flops, memory_bytes, latency: As in ``CapSettings``.
    """

    at: float = Field(ge=0, lt=1)
    parameters: int | None = Field(default=None, gt=0)
    flops: float | None = Field(default=None, gt=0)
    memory_bytes: int | None = Field(default=None, gt=0)
    latency: float | None = Field(default=None, gt=0)

    @property
    def limits(self) -> dict[str, float]:
        """The limits by name, without those that are None."""
        return _limits(self)

    @model_validator(mode="after")
    def _limits_something(self) -> Self:
        if not self.limits:
            raise ValueError(f"the step of schedule at {self.at:g} names no limit; give it one of {', '.join(LIMITS)}")
        return self


class CapRaceSettings(RaceSettings):
    """The race that decides which modules stay where a cap falls below the cost of the network (``growth.caps``).

    Attributes:
        share: Largest share of the budget for the races of all falls, everything counted, 0 to 1; 0 for none: the
            smaller networks are then compared as they are right after the removal.
        networks: Largest number of networks that race, at least 2.
        samples: Number of samples of the ``architecture`` split by which a network is judged.
        least: Fewest steps of a network in a rung.
        average: As in ``RaceSettings``.
        alone: Whether every single module that fits races, as far as their number permits, whatever its loss right
            after the removal is: a module of little use to the whole network may learn most in the FLOPs of a rung.
    """

    share: float = Field(default=0.2, ge=0, lt=1)
    networks: int = Field(default=9, ge=2, le=64)
    samples: int = Field(default=256, ge=1)
    least: int = Field(default=20, ge=1, le=100_000)
    alone: bool = Field(default=False, json_schema_extra={NEW: True}, exclude_if=lambda value: not value)


class CapSettings(Settings):
    """Limits that the network may never exceed; None is no limit.

    Attributes:
        parameters, flops: Limits of the whole network; FLOPs of one sample, executed.
        memory_bytes: Bytes of weights, gradients, moments and activations of one batch, estimated.
        latency: Seconds of one batch, from the stored calibration table.
        target_flops: Mean FLOPs that the Lagrangian aims at, below the cap (80).
        schedule: Steps by which the limits fall during the training, in order of time. At each of them the network is
            brought under the limits that are in force from then on.
        race: How the modules that stay are chosen there.
        restart: Whether the learning rate is the highest again where modules went, and falls from there to the end.
    """

    parameters: int | None = Field(default=None, gt=0)
    flops: float | None = Field(default=None, gt=0)
    memory_bytes: int | None = Field(default=None, gt=0)
    latency: float | None = Field(default=None, gt=0)
    target_flops: float | None = Field(default=None, gt=0)
    schedule: tuple[CapStep, ...] = Field(default=(), max_length=100, exclude_if=lambda value: not value)
    race: CapRaceSettings = Field(default=CapRaceSettings(), exclude_if=lambda value: value == CapRaceSettings())
    restart: bool = Field(default=False, json_schema_extra={NEW: True}, exclude_if=lambda value: not value)

    @property
    def limits(self) -> dict[str, float]:
        """The limits by name, without those that are None."""
        return _limits(self)

    @property
    def falls(self) -> tuple[CapStep, ...]:
        """The steps of the schedule after the start, in order."""
        return tuple(step for step in self.schedule if step.at > 0)

    def after(self, count: int) -> CapSettings:
        """The caps in force after so many falls; the falls that are still to come are their schedule."""
        begun = tuple(step for step in self.schedule if step.at == 0) + self.falls[:count]
        update: dict[str, object] = {}
        for step in begun:
            update |= step.limits
        return self.model_copy(update={**update, "schedule": self.falls[count:]}) if self.schedule else self

    def unmeasured(self) -> CapSettings:
        """The caps without those of measured seconds."""
        steps = tuple(step.model_copy(update={"latency": None}) for step in self.schedule)
        return self.model_copy(update={"latency": None, "schedule": steps})

    @property
    def measured(self) -> bool:
        """Whether some limit is one of measured seconds, now or later."""
        return self.latency is not None or any(step.latency is not None for step in self.schedule)

    @property
    def lowest(self) -> CapSettings:
        """The caps in force after the last fall."""
        return self.after(len(self.schedule))

    @model_validator(mode="after")
    def _falling(self) -> Self:
        before, at = self.limits, -1.0
        for step in self.schedule:
            if step.at <= at:
                raise ValueError(f"the steps of schedule must come one after the other; {step.at:g} follows {at:g}")
            for name, value in step.limits.items():
                if value > before.get(name, value):
                    raise ValueError(
                        f"caps fall and never rise; {name} rises from {before[name]:g} to {value:g} at {step.at:g}"
                    )
            before, at = {**before, **step.limits}, step.at
        return self


LIMITS = ("parameters", "flops", "memory_bytes", "latency")
"""The limits of ``CapSettings`` and of its steps."""


def _limits(caps: CapSettings | CapStep) -> dict[str, float]:
    return {name: value for name in LIMITS if (value := getattr(caps, name)) is not None}


class ReplaySettings(Settings):
    """Replay of samples after an edit (docs/spec/architect_thyself.md#sample-replay).

    Attributes:
        capacity: Number of samples kept, N_R; 0 switches replay off.
        steps: Number R of minibatches after each edit whose loss includes replayed samples.
    """

    capacity: int = Field(default=256, ge=0, le=1 << 20)
    steps: int = Field(default=20, ge=0, le=100_000)


class GrowthSettings(Settings):
    """The growth of one run.

    Attributes:
        strategist: Name of the strategist, a row of ``growth.strategists.base.STRATEGISTS``.
        allow: Operations that it may use. Without ``prune`` no module is removed, not even to make room for a newborn.
            Edits in place, edits around the modules and ``replace`` are closed unless they are named; that one needs no
            ``prune``.
        race: The race before the first event. Shares of the budget in ``events`` are of what it leaves.
        forks: Forks that decide whether an edit is kept.
        in_place: How modules are enlarged at their place.
        around: What may come around the modules.
        shift: A shift of the training data in the middle of the training.
        memory: Whether a strategist that learns begins with what earlier runs left.
        edit_memory: Digest of the blob with their edits (``edit_memory`` of an earlier growth); None for none.
        policy_memory: Digest of the blob with the policy of an earlier growth (its ``policy_memory``), from which that
            of this run goes on; None for a policy that begins anew.
        policy: Settings of the strategists. The choice of parents, the discount and the target of the cost come from
            ``birth``, ``reward`` and ``caps``.
    """

    strategist: str = Field(default="ppo", min_length=1, max_length=60)
    allow: tuple[Operation, ...] = Field(
        default=("prune", "grow", "spawn", "hybridise", "rewarm"),
        # At the full rate of newborns, to warm up again is to do nothing.
        json_schema_extra={NEW: ["prune", "grow", "spawn", "hybridise"]},
    )
    race: StartingRaceSettings = Field(
        default=StartingRaceSettings(), exclude_if=lambda value: value == StartingRaceSettings()
    )
    forks: ForkSettings = Field(default=ForkSettings(), exclude_if=lambda value: value == ForkSettings())
    events: EventSettings = EventSettings()
    fitness: FitnessSettings = FitnessSettings()
    prune: PruneSettings = PruneSettings()
    birth: BirthSettings = BirthSettings()
    reward: RewardSettings = RewardSettings()
    caps: CapSettings = CapSettings()
    replay: ReplaySettings = ReplaySettings()
    memory: bool = True
    edit_memory: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    policy_memory: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$", exclude_if=lambda value: value is None)
    policy: StrategistSettings = StrategistSettings()
    in_place: InPlaceSettings = Field(default=InPlaceSettings(), exclude_if=lambda value: value == InPlaceSettings())
    around: AroundSettings = Field(default=AroundSettings(), exclude_if=lambda value: value == AroundSettings())
    shift: ShiftSettings = Field(default=ShiftSettings(), exclude_if=lambda value: value == ShiftSettings())

    @property
    def opened(self) -> tuple[str, ...]:
        """Edits in place that it may use, in the order of ``allow``."""
        return tuple(operation for operation in dict.fromkeys(self.allow) if operation in EDITS)

    @property
    def opened_around(self) -> tuple[str, ...]:
        """Edits around the modules that it may use, in the order of ``allow``."""
        return tuple(operation for operation in dict.fromkeys(self.allow) if operation in AROUND)

    @model_validator(mode="after")
    def _said_once(self) -> Self:
        usual, given = StrategistSettings(), self.policy
        for name, mine, default, place in (
            ("heuristic.selection", given.heuristic.selection, usual.heuristic.selection, "birth.selection"),
            ("learning.discount", given.learning.discount, usual.learning.discount, "reward.discount"),
            ("learning.target_cost", given.learning.target_cost, usual.learning.target_cost, "caps.target_flops"),
        ):
            if mine != default:
                raise ValueError(f"policy.{name} is set by {place}; change that")
        return self
