"""What may be done to a zoo now, and a sentence for everything that may not (docs/spec/architect_thyself.md#events).

What a birth would cost is estimated by a copy of its parent, of the larger one of two, or of its family's default;
``refusal`` looks again at the exact child. Caps are hard: a child that breaks one is not born.

Legend: N modules, N_max at most.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from evodevo.errors import UsageError
from evodevo.growth.fitness import History
from evodevo.growth.h_model.pool import HModelPool, PoolStructure
from evodevo.growth.resources import Resources, Task
from evodevo.growth.spec import CapSettings, GrowthSettings, Operation
from evodevo.growth.strategists.state import BIRTHS, Legal
from evodevo.module_zoo.modules.cost import genotype_parameters
from evodevo.module_zoo.modules.spec import ModuleGenotype, ZooModule
from evodevo.module_zoo.modules.zoo import PAPER, archetype

CHILD = "child"


@dataclass(frozen=True)
class Situation:
    """A zoo at an event.

    Attributes:
        structure: of the zoo.
        task: what its cost depends on.
        history: of this event.
        spared: id -> why it may not be pruned; see ``pruning.Verdict``.
        warming: ids of newborns whose birth factor still rises.
        left: share of the budget that is left.
        gain: by how much the loss is expected to fall by a birth; who contributes more is not replaced.
        families: that may be spawned.
    """

    structure: PoolStructure
    task: Task
    history: History
    spared: Mapping[str, str] = field(default_factory=dict)
    warming: Collection[str] = ()
    left: float = 1.0
    gain: float = 0.0
    families: Sequence[str] = PAPER


@dataclass(frozen=True)
class Ruling:
    """What is legal.

    Attributes:
        legal: for a strategist.
        replaces: id of the module that a birth takes the place of, where the zoo is full.
    """

    legal: Legal
    replaces: str | None = None


def rule(situation: Situation, settings: GrowthSettings) -> Ruling:
    """What may be done before the first sub-action of an event; after each the driver asks again.

    Raises:
        UsageError: a cap of latency without a table.
    """
    reasons: dict[str, str] = {}
    live = [module.id for module in situation.structure.live]
    allowed = set(settings.allow)
    for operation in ("prune", "rewarm", *BIRTHS):
        if operation not in allowed:
            reasons[operation] = f"{operation} is not among the operations that the settings allow"
    prune = _unless([one for one in live if "prune" in allowed], situation.spared, "prune", reasons)
    cold = {one: f"{one} warms up already" for one in situation.warming}
    rewarm = _unless([one for one in live if "rewarm" in allowed], cold, "rewarm", reasons)
    spare = max(len(live) - settings.prune.least, 0)
    prunes = min(spare, 1) if settings.prune.rule == "standard" else spare
    full = len(live) >= settings.birth.most
    replaces = _replaced(situation) if full and "prune" in allowed else None
    obstacle = _no_birth(situation, settings, replaces)
    if obstacle is not None:
        reasons |= {one: obstacle for one in BIRTHS if one in allowed}
        return Ruling(Legal(prune=prune, rewarm=rewarm, births=0, prunes=prunes, reasons=reasons))
    grow, spawn, pairs = _births(situation, settings, replaces, allowed, reasons)
    room = 1 if replaces is not None else settings.birth.most - len(live)
    legal = Legal(
        prune=prune,
        grow=grow,
        spawn=spawn,
        hybridise=pairs,
        rewarm=rewarm,
        births=min(settings.events.births, room),
        prunes=prunes,
        replaces=replaces,
        reasons=reasons,
    )
    return Ruling(legal, replaces)


def refusal(
    structure: PoolStructure, child: ModuleGenotype, task: Task, caps: CapSettings, replaces: str | None = None
) -> str | None:
    """Why exactly this child may not be born into the zoo; None where it may.

    Raises:
        UsageError: a cap of latency without a table.
    """
    misfit = structure.misfit(child) if isinstance(structure, HModelPool) else None
    if misfit is not None:
        return misfit
    if caps.parameters is caps.flops is caps.memory_bytes is caps.latency is None:
        return None
    excess = Resources.of(_with(structure, child, replaces), task).excess(caps)
    return None if excess is None else f"with the child {excess}"


def _no_birth(situation: Situation, settings: GrowthSettings, replaces: str | None) -> str | None:
    """What stands against every birth."""
    if situation.warming:
        return f"{', '.join(sorted(situation.warming))} warms up, and meanwhile nobody is born"
    if situation.left < settings.events.warm:
        return f"{situation.left:.1%} of the budget is left, and a newborn needs {settings.events.warm:.1%} to be heard"
    count = len(situation.structure.live)
    if count > settings.birth.most:
        return f"the zoo has {count} modules, and may have {settings.birth.most}"
    if count == settings.birth.most and "prune" not in settings.allow:
        return f"the zoo is full ({count} modules), and nobody may go"
    if count == settings.birth.most and replaces is None:
        return (
            f"the zoo is full ({count} modules), and each of them gains more than the {situation.gain:.3g} "
            "that a child is expected to"
        )
    return None


def _replaced(situation: Situation) -> str | None:
    """The least fit that is not missed more than a child is expected to be worth, outside its warm-up."""
    modules = situation.history.modules
    live = [module.id for module in situation.structure.live if module.id in modules]
    going = [one for one in live if one not in situation.warming and modules[one].impact <= situation.gain]
    return min(going, key=lambda one: (modules[one].fitness, one), default=None)


def _births(
    situation: Situation,
    settings: GrowthSettings,
    replaces: str | None,
    allowed: Collection[Operation],
    reasons: dict[str, str],
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Parents, families and pairs whose child fits under the caps."""
    structure = situation.structure

    def over(child: ModuleGenotype) -> str | None:
        return refusal(structure, child, situation.task, settings.caps, replaces)

    genotypes = {module.id: module.genotype for module in structure.live}
    opaque = structure.opaque if isinstance(structure, HModelPool) else {}
    heavy = {one: words for one, genotype in genotypes.items() if (words := opaque.get(one) or over(genotype))}
    grow = _unless([one for one in genotypes if "grow" in allowed], heavy, "grow", reasons)
    families: dict[str, str] = {}
    for family in situation.families if "spawn" in allowed else ():
        try:
            words = over(archetype(family, structure.width))
        except UsageError as error:
            words = str(error)
        if words is not None:
            families[family] = words
    spawn = _unless(situation.families if "spawn" in allowed else (), families, "spawn", reasons)
    size = {one: genotype_parameters(genotype) for one, genotype in genotypes.items()}
    pairs = []
    for first in genotypes if "hybridise" in allowed else ():
        for second in genotypes:
            larger = max(first, second, key=size.__getitem__)
            if first == second:
                continue
            obstacle = opaque.get(first) or opaque.get(second) or heavy.get(larger)
            if obstacle is not None:
                reasons[f"hybridise:{first},{second}"] = obstacle
            else:
                pairs.append((first, second))
    return grow, spawn, tuple(pairs)


def _with(structure: PoolStructure, child: ModuleGenotype, replaces: str | None) -> PoolStructure:
    """The zoo with a child, and without the one that it replaces."""
    modules = tuple(one for one in structure.modules if one.id != replaces)
    taken = {one.id for one in modules}
    name = next(name for name in (f"{CHILD}{number}" for number in range(len(modules) + 1)) if name not in taken)
    return structure.model_copy(update={"modules": (*modules, ZooModule(id=name, genotype=child))})


def _unless(
    names: Sequence[str], refused: Mapping[str, str], operation: Operation, reasons: dict[str, str]
) -> tuple[str, ...]:
    """Those that are not refused; why the others are goes to the reasons."""
    reasons.update({f"{operation}:{one}": refused[one] for one in names if one in refused})
    return tuple(one for one in names if one not in refused)
