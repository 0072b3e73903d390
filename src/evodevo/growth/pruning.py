"""Choice of the modules that may be pruned (eqs. 23, 72, Algorithms 1, 2; docs/spec/architect_thyself.md#pruning).

The paper has five rules. As printed, the quantile rule prunes at every event, also when all modules are good; the
rule ``standard`` takes only modules that fall short for some events in a row and whose absence costs nothing. In
practice it takes none: its bound is relative to the others, and lies below the fitness of modules without any use.
The rule ``unused`` looks at each module alone: it has hardly any weight, and leaving it out changes hardly an answer.

Under every rule ``least`` modules stay, a module that warms up stays, and so does one that is younger than ``age``.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from evodevo.growth.fitness import FitnessHistory, ModuleHistory
from evodevo.growth.spec import PruneSettings


@dataclass(frozen=True)
class PruneCandidate:
    """A module that the rule proposes for pruning.

    Attributes:
        id: Id of the module.
        reason: Reason, for people.
    """

    id: str
    reason: str


@dataclass(frozen=True)
class PruneDecision:
    """Result of a rule at one event.

    Attributes:
        candidates: Proposed modules, the least fit first, never so many that fewer than ``least`` would stay; one under
            ``standard`` and ``unused`` at most.
        low: Number of events (under ``unused``, of probes) in a row in which it fell short, by id; input of the next.
        spared: Reason why it stays, by id, for modules that may not be pruned under any rule.
    """

    candidates: tuple[PruneCandidate, ...] = ()
    low: dict[str, int] = field(default_factory=dict)
    spared: dict[str, str] = field(default_factory=dict)


def judge(
    history: FitnessHistory,
    low: Mapping[str, int],
    ages: Mapping[str, int],
    warming: Collection[str],
    settings: PruneSettings,
) -> PruneDecision:
    """Apply the rule, once per event.

    Args:
        history: History of this event.
        low: Field ``low`` of the verdict before.
        ages: Events since its birth, by id.
        warming: Ids of newborns whose birth factor still rises.
        settings: The rule and its parameters.
    """
    modules = history.modules
    short, now = _RULES[settings.rule](modules, settings), counted(history, low, settings)
    kept = spared(history, ages, warming, settings)
    if settings.rule == "unused":  # nobody chooses among modules that are of use
        kept = {
            name: _useful(name, modules[name], now[name], settings) for name in modules if now[name] < settings.patience
        } | kept
    needed = settings.patience if settings.rule in _PATIENT else 1
    going = [name for name in modules if now[name] >= needed and name not in kept]
    # By id among equals, so that the choice is a function of the history alone.
    going.sort(key=lambda name: (modules[name].fitness, name))
    most = max(len(modules) - settings.least, 0)
    if settings.rule in SINGLE:
        most = min(most, 1)
    candidates = []
    for name in going[:most]:
        what = "probes" if settings.rule in EVERY_PROBE else "events"
        repeated = "" if now[name] == 1 else f", {now[name]} {what} in a row"
        candidates.append(PruneCandidate(name, short[name] + repeated))
    return PruneDecision(tuple(candidates), now, kept)


def counted(history: FitnessHistory, low: Mapping[str, int], settings: PruneSettings) -> dict[str, int]:
    """Id -> in how many events or probes in a row it fell short, this one included."""
    short = _RULES[settings.rule](history.modules, settings)
    return {name: low.get(name, 0) + 1 if name in short else 0 for name in history.modules}


def spared(
    history: FitnessHistory, ages: Mapping[str, int], warming: Collection[str], settings: PruneSettings
) -> dict[str, str]:
    """Reason by id for each module that may not be pruned at all. Only ``standard`` reads the impact."""
    modules = history.modules
    if len(modules) <= settings.least:
        return dict.fromkeys(modules, f"{len(modules)} modules are left, and {settings.least} always stay")
    reasons = {}
    for name, module in modules.items():
        if name in warming:
            reasons[name] = f"{name} warms up"
        elif ages[name] < settings.age:
            lived = f"{ages[name]} event{'' if ages[name] == 1 else 's'}"
            reasons[name] = f"{name} has lived {lived}, and {settings.age} are needed"
        elif settings.rule == "standard" and module.impact > settings.tolerance:
            reasons[name] = f"leaving {name} out costs {module.impact:.3g}, more than {settings.tolerance:g}"
    return reasons


def _useful(name: str, module: ModuleHistory, probes: int, settings: PruneSettings) -> str:
    """Why ``unused`` keeps a module that did not fall short often enough."""
    if probes:
        return f"{name} was unused in {probes} probes in a row, and {settings.patience} are needed"
    if module.used is None or module.benefit is None:
        return f"nothing was measured of {name} yet"
    if module.used >= settings.usage:
        return f"{name} has {module.used:.1%} of the router's weight, at least {settings.usage:.1%}"
    return f"leaving {name} out may cost {module.benefit:.3g} points, at least {settings.benefit:g}"


Rule = Callable[[Mapping[str, ModuleHistory], PruneSettings], dict[str, str]]
"""Returns the reason by id for each module that falls short now."""


def _standard(modules: Mapping[str, ModuleHistory], settings: PruneSettings) -> dict[str, str]:
    """F < mean - kappa std - its own running std: a module whose F varies must fall deeper."""
    values = [module.fitness for module in modules.values()]
    bound = statistics.fmean(values) - settings.kappa * statistics.pstdev(values)
    # A bound at the mean of equal modules lies a rounding above or below them.
    bound -= ROUNDING * max(map(abs, values))
    return {
        name: f"fitness {module.fitness:.3g} below {bound - module.spread:.3g}"
        for name, module in modules.items()
        if module.fitness < bound - module.spread
    }


ROUNDING = 1e-9
"""Relative tolerance: equal modules differ by rounding, and none is pruned for it."""


def _unused(modules: Mapping[str, ModuleHistory], settings: PruneSettings) -> dict[str, str]:
    """Hardly any weight, and hardly any benefit on the samples of the probe, overall and in every class."""
    return {
        name: f"weight {module.used:.2%} below {settings.usage:.1%}, {_seen(module.benefit)}"
        for name, module in modules.items()
        if module.used is not None
        and module.benefit is not None
        and module.used < settings.usage
        and module.benefit < settings.benefit
    }


def _seen(benefit: float) -> str:
    """A benefit below the limit, in words; one of 0 is no bound (``growth.benefit``)."""
    return f"benefit at most {benefit:.2g} points (95 %)" if benefit else "no benefit on the samples of the probe"


def _quantile(modules: Mapping[str, ModuleHistory], settings: PruneSettings) -> dict[str, str]:
    bound = float(np.quantile([module.fitness for module in modules.values()], settings.quantile))
    words = f"at most the quantile {settings.quantile:g}, {bound:.3g}"
    return _below(modules, lambda module: module.fitness, lambda value: value <= bound, f"fitness {{:.3g}} {words}")


def _threshold(modules: Mapping[str, ModuleHistory], settings: PruneSettings) -> dict[str, str]:
    return _under(modules, lambda module: module.fitness, settings.threshold, "fitness")


def _usage(modules: Mapping[str, ModuleHistory], settings: PruneSettings) -> dict[str, str]:
    return _under(modules, lambda module: module.usage, settings.threshold, "usage")


def _advantage(modules: Mapping[str, ModuleHistory], settings: PruneSettings) -> dict[str, str]:
    return _under(modules, lambda module: module.advantage, settings.threshold, "advantage")


def _under(
    modules: Mapping[str, ModuleHistory], of: Callable[[ModuleHistory], float], bound: float, what: str
) -> dict[str, str]:
    return _below(modules, of, lambda value: value < bound, f"{what} {{:.3g}} below {bound:g}")


def _below(
    modules: Mapping[str, ModuleHistory],
    of: Callable[[ModuleHistory], float],
    short: Callable[[float], bool],
    words: str,
) -> dict[str, str]:
    return {name: words.format(of(module)) for name, module in modules.items() if short(of(module))}


SINGLE = frozenset({"standard", "unused"})
"""Rules by which one module goes at an event at most."""
REPLACING_PRUNES = frozenset({"unused"})
"""Rules of ``SINGLE`` under which the one that gives its place to a newborn is that module. Under ``standard``, the
paper's, a birth is no pruning."""
EVERY_PROBE = frozenset({"unused"})
"""Rules that count every probe, also those between events."""
_PATIENT = frozenset({"standard", "patience_usage", "patience_advantage", "unused"})
_RULES: dict[str, Rule] = {
    "standard": _standard,
    "quantile": _quantile,
    "threshold": _threshold,
    "patience_usage": _usage,
    "patience_advantage": _advantage,
    "unused": _unused,
}
