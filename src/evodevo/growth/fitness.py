"""The fitness of modules (eqs. 19, 66 to 71, 90 to 92, Algorithm 1; docs/spec/architect_thyself.md#fitness).

The history is a value, by module id: ``assess`` makes the next one from it, from a probe and from the modules' costs.

Legend: N modules.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from pydantic import Field

from evodevo.growth.pairwise import Pairs
from evodevo.growth.probes import ModuleProbe
from evodevo.growth.spec import FitnessSettings
from evodevo.growth.strategists.heuristic import standardised
from evodevo.settings import Settings

USAGE, IMPACT = 0.5, 0.5
"""w_beta and w_l of eq. 69, gamma_1 and gamma_2 of eq. 92."""
TINY = 1e-12


class ModuleHistory(Settings):
    """Values kept for one module; moving averages begin with their first value.

    Attributes:
        events: Number of events in which it was assessed.
        usage: Moving average of its mean router weight (90).
        contribution: Moving average C, in [0, 1] (69).
        advantage: Moving average Phi (Algorithm 1, line 18).
        impact: Impact in the last probe, in nats; no average (91).
        redundancy: Redundancy in the last probe, in [0, 1]; no average (70).
        used: Mean router weight in the last probe; no average. None in records that lack it, as ``benefit``.
        benefit: Upper bound of its benefit in the last probe, in points of accuracy (``growth.benefit``).
        fitness: F of the last event.
        mean, variance: Running mean and variance of F, for hysteresis.
    """

    events: int = Field(default=0, ge=0)
    usage: float = 0.0
    contribution: float = 0.0
    advantage: float = 0.0
    impact: float = 0.0
    redundancy: float = 0.0
    used: float | None = Field(default=None, exclude_if=lambda value: value is None)
    benefit: float | None = Field(default=None, exclude_if=lambda value: value is None)
    fitness: float = 0.0
    mean: float = 0.0
    variance: float = Field(default=0.0, ge=0)

    @property
    def spread(self) -> float:
        """Running standard deviation of F; 0 after one event."""
        return math.sqrt(self.variance)


class FitnessHistory(Settings):
    """Histories of the live modules, by id; those of removed modules are dropped."""

    modules: dict[str, ModuleHistory] = Field(default_factory=dict)

    @property
    def fitness(self) -> dict[str, float]:
        """Id -> F of the last event."""
        return {name: module.fitness for name, module in self.modules.items()}


def assess(
    history: FitnessHistory,
    probe: ModuleProbe,
    costs: Mapping[str, float],
    settings: FitnessSettings,
    taken: Mapping[str, float] | None = None,
) -> FitnessHistory:
    """The history after one more event, for the modules of the probe.

    Args:
        history: History before the event.
        probe: Probe of this event.
        costs: Cost by id, as a share of the dearest module's, 0 to 1; see ``relative_costs``.
        settings: Kind and weights of the fitness.
        taken: Share of the remaining steps that each module takes (``price.taken_steps``), which is then its price
            instead of alpha_cost times its cost; None where steps are no budget of FLOPs.
    """
    now = _contributions(probe)
    redundancy = redundancies(probe, settings.spread)
    rate = settings.rate
    modules = {}
    for name in probe.ids:
        before = history.modules.get(name, ModuleHistory())
        # The first value counts whole: an average that began at 0 would favour old modules.
        share = rate if before.events else 1.0
        modules[name] = before.model_copy(
            update={
                "events": before.events + 1,
                "usage": _moved(before.usage, probe.usage[name], share),
                "contribution": _moved(before.contribution, now[name], share),
                "advantage": _moved(before.advantage, probe.advantage[name], share),
                "impact": probe.impact[name],
                "redundancy": redundancy[name],
                "used": probe.usage[name],
                "benefit": probe.benefit.get(name),
            }
        )
    prices = {name: settings.cost * cost for name, cost in costs.items()} if taken is None else taken
    fitness = _fitness(modules, prices, settings)
    return FitnessHistory(modules={name: _judged(module, fitness[name], rate) for name, module in modules.items()})


def relative_costs(costs: Mapping[str, float]) -> dict[str, float]:
    """Id -> its cost (parameters, FLOPs) as a share of the dearest module's, 0 to 1.

    Not as a share of the sum: a clone would lower the cost of every module.
    """
    return _shares(costs)


def redundancies(probe: ModuleProbe, spread: float) -> dict[str, float]:
    """Id -> mean over the others of exp(-gamma distance^2), in [0, 1]; 0 for a module that is alone (70).

    The paper calls this novelty, which is its opposite: novelty is 1 - redundancy.
    """
    distance = probe.genotype_distance
    return Pairs(distance.ids, np.exp(-spread * np.square(distance.values))).mean_of_others()


def diversity(probe: ModuleProbe) -> float:
    """D(M), in [0, 2): mean distance of genotypes and mean distance of outputs, each in [0, 1] (19)."""
    return probe.genotype_distance.mean() / 2 + probe.output_distance.mean()


def novelty(history: FitnessHistory) -> float:
    """Mean over modules of 1 - redundancy, in [0, 1]."""
    if not history.modules:
        return 0.0
    return 1 - sum(module.redundancy for module in history.modules.values()) / len(history.modules)


def complementarity(probe: ModuleProbe, fitness: Mapping[str, float]) -> Pairs:
    """Share of samples on which exactly one of two modules is right alone, times the lesser of their standardised F.

    Source: docs/spec/architect_thyself.md#complementarity.
    """
    fit = dict(zip(fitness, standardised(list(fitness.values())), strict=True))

    def of(a: str, b: str) -> float:
        return float((probe.alone[a] != probe.alone[b]).mean()) * min(fit[a], fit[b])

    return Pairs.of_each(probe.ids, of)


def _contributions(probe: ModuleProbe) -> dict[str, float]:
    """Terms that move C: usage and impact, each as a share of the most used and of the most needed module (69)."""
    used, needed = _shares(probe.usage), _shares(probe.impact)
    return {name: USAGE * used[name] + IMPACT * needed[name] for name in probe.ids}


def _shares(values: Mapping[str, float]) -> dict[str, float]:
    """Each value as a share of the largest, none below 0; all 0 where no value is above 0."""
    most = max(values.values(), default=0.0)
    return {name: max(value, 0.0) / max(most, TINY) for name, value in values.items()}


def _fitness(
    modules: Mapping[str, ModuleHistory], prices: Mapping[str, float], settings: FitnessSettings
) -> dict[str, float]:
    if settings.kind == "advantage":
        return {name: module.advantage for name, module in modules.items()}
    if settings.kind == "usage_loss":
        raw = {name: USAGE * module.usage + IMPACT * max(module.impact, 0.0) for name, module in modules.items()}
        total = max(sum(raw.values()), TINY)
        return {name: value / total for name, value in raw.items()}
    return {
        name: settings.contribution * module.contribution - prices[name] + settings.novelty * (1 - module.redundancy)
        for name, module in modules.items()
    }


def _judged(module: ModuleHistory, fitness: float, rate: float) -> ModuleHistory:
    """The history with fitness F, and its running mean and variance updated."""
    if module.events == 1:
        return module.model_copy(update={"fitness": fitness, "mean": fitness, "variance": 0.0})
    change = fitness - module.mean
    return module.model_copy(
        update={
            "fitness": fitness,
            "mean": module.mean + rate * change,
            "variance": (1 - rate) * (module.variance + rate * change**2),
        }
    )


def _moved(average: float, value: float, rate: float) -> float:
    return (1 - rate) * average + rate * value
