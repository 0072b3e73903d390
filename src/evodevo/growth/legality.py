"""The legal actions for a network now, and a reason for each other one (docs/spec/architect_thyself.md#events).

What a birth would cost is estimated by a copy of its parent, of the larger one of two, or of its family's default;
``refusal`` checks the exact child again. Caps are hard: a child that breaks one is not born.

Legend: N modules, N_max at most.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from evodevo.errors import UsageError
from evodevo.growth.caps.smaller import needed, unreachable
from evodevo.growth.fitness import FitnessHistory
from evodevo.growth.growable import Growable, TaskSizes
from evodevo.growth.in_place.base import EDITS
from evodevo.growth.pruning import REPLACING_PRUNES, SINGLE
from evodevo.growth.resources import Resources
from evodevo.growth.spec import REPLACE, CapSettings, GrowthSettings, Operation
from evodevo.growth.strategists.state import BIRTHS, Legal
from evodevo.module_zoo.modules.cost import genotype_parameters
from evodevo.module_zoo.modules.spec import ModuleGenotype, ZooModule
from evodevo.module_zoo.modules.zoo import PAPER, archetype

CHILD = "child"


@dataclass(frozen=True)
class EventState:
    """A network at an event.

    Attributes:
        structure: Modules of the network.
        task: Task on which its cost depends.
        history: History of this event.
        spared: Reason by id why a module may not be pruned; see ``pruning.Verdict``.
        warming: Ids of newborns whose birth factor still rises.
        left: Share of the budget that is left, 0 to 1.
        gain: Expected fall of the loss by a birth, in nats; a module that contributes more is not replaced.
        families: Families that may be spawned.
        refused: How often forks have refused an edit around the modules, by operation.
    """

    structure: Growable
    task: TaskSizes
    history: FitnessHistory
    spared: Mapping[str, str] = field(default_factory=dict)
    warming: Collection[str] = ()
    left: float = 1.0
    gain: float = 0.0
    families: Sequence[str] = PAPER
    refused: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Ruling:
    """The legal actions.

    Attributes:
        legal: Legal actions, as the strategist gets them.
        replaces: Id of the module that a birth replaces where the zoo is full; None otherwise.
    """

    legal: Legal
    replaces: str | None = None


def rule(situation: EventState, settings: GrowthSettings) -> Ruling:
    """The actions that are legal before the first sub-action of an event; the driver checks again after each.

    Raises:
        UsageError: A cap of latency without a table.
    """
    reasons: dict[str, str] = {}
    live = [module.id for module in situation.structure.live]
    allowed = set(settings.allow)
    for operation in ("prune", "rewarm", *BIRTHS):
        if operation not in allowed:
            reasons[operation] = f"{operation} is not among the operations that the settings allow"
    lasting = needed(situation.structure, situation.task, settings.caps)
    situation = replace(situation, spared={**lasting, **situation.spared})
    prune = _unless([module for module in live if "prune" in allowed], situation.spared, "prune", reasons)
    cold = {module: f"{module} warms up already" for module in situation.warming}
    rewarm = _unless([module for module in live if "rewarm" in allowed], cold, "rewarm", reasons)
    spare = max(len(live) - settings.prune.least, 0)
    prunes = min(spare, 1) if settings.prune.rule in SINGLE else spare
    full = len(live) >= settings.birth.most
    replaces = _replaced(situation, settings) if full and "prune" in allowed else None
    in_place = _in_place(situation, settings, reasons)
    exchanged = _replacements(situation, settings, reasons) if REPLACE in allowed else ()
    around = _around(situation, settings, reasons)
    legal = Legal(
        prune=prune, rewarm=rewarm, in_place=in_place, around=around, replace=exchanged, births=0, prunes=prunes
    )
    obstacle = _no_birth(situation, settings, replaces)
    if obstacle is not None:
        reasons |= {birth: obstacle for birth in BIRTHS if birth in allowed}
        return Ruling(legal.model_copy(update={"reasons": reasons}))
    grow, spawn, pairs = _births(situation, settings, replaces, allowed, reasons)
    room = 1 if replaces is not None else settings.birth.most - len(live)
    born = {"grow": grow, "spawn": spawn, "hybridise": pairs, "births": min(settings.events.births, room)}
    cuts = replaces is not None and settings.prune.rule in REPLACING_PRUNES
    more = {"replaces": replaces, "replacing_prunes": cuts, "reasons": reasons}
    return Ruling(legal.model_copy(update={**born, **more}), replaces)


def refusal(
    structure: Growable, child: ModuleGenotype, task: TaskSizes, caps: CapSettings, replaces: str | None = None
) -> str | None:
    """Why exactly this child may not be born into the network; None where it may.

    Raises:
        UsageError: A cap of latency without a table.
    """
    misfit = structure.misfit(child)
    if misfit is not None:
        return misfit
    excess = over_caps(_with(structure, child, replaces), task, caps)
    return None if excess is None else f"with the child {excess}"


def _no_birth(situation: EventState, settings: GrowthSettings, replaces: str | None) -> str | None:
    """Why no birth at all is legal; None where births are."""
    untimely = _untimely(situation, settings)
    if untimely is not None:
        return untimely
    count = len(situation.structure.live)
    if count > settings.birth.most:
        return f"the zoo has {count} modules, and may have {settings.birth.most}"
    if count == settings.birth.most and "prune" not in settings.allow:
        return f"the zoo is full ({count} modules), and nobody may go"
    if count == settings.birth.most and replaces is None and settings.prune.rule == "unused":
        return f"the zoo is full ({count} modules), and none of them may go"
    if count == settings.birth.most and replaces is None:
        return (
            f"the zoo is full ({count} modules), and each of them gains more than the {situation.gain:.3g} "
            "that a child is expected to"
        )
    return None


def _untimely(situation: EventState, settings: GrowthSettings) -> str | None:
    """Why it is no time for a newborn; None where it is."""
    if situation.warming:
        return f"{', '.join(sorted(situation.warming))} warms up, and meanwhile nobody is born"
    if situation.left < settings.events.warm:
        return (
            f"{situation.left:.1%} of the budget is left, and a newborn needs {settings.events.warm:.1%} to gain weight"
        )
    return None


def _replacements(
    situation: EventState, settings: GrowthSettings, reasons: dict[str, str]
) -> tuple[tuple[str, str], ...]:
    """Pairs of a module and another family of which a fresh one may take its place; room and rank play no part."""
    untimely = _untimely(situation, settings)
    if untimely is not None:
        reasons[REPLACE] = untimely
        return ()
    structure, pairs = situation.structure, []
    for module in structure.live:
        for family in situation.families:
            if family == module.genotype.archetype:
                continue
            words = structure.opaque.get(module.id)
            try:
                child = archetype(family, structure.width)
                words = words or refusal(structure, child, situation.task, settings.caps, module.id)
            except UsageError as error:
                words = words or str(error)
            if words is None:
                pairs.append((module.id, family))
            else:
                reasons[f"{REPLACE}:{module.id},{family}"] = words
    return tuple(pairs)


def over_caps(structure: Growable, task: TaskSizes, caps: CapSettings) -> str | None:
    """Why a network of this structure may not be; None where it may.

    Raises:
        UsageError: A cap of latency without a table.
    """
    if not caps.limits and not caps.schedule:
        return None
    return Resources.of(structure, task).excess(caps) or unreachable(structure, task, caps)


def _around(situation: EventState, settings: GrowthSettings, reasons: dict[str, str]) -> tuple[str, ...]:
    """Edits around the modules that are open: those that forks refused least often first."""
    structure, task, refused, found = situation.structure, situation.task, situation.refused, []
    for operation in sorted(settings.opened_around, key=lambda name: refused.get(name, 0)):
        if situation.left <= settings.events.warm:
            words: str | None = _late(situation, settings)
        elif refused.get(operation, 0) >= settings.around.tries:
            words = f"forks have refused it {refused[operation]} times"
        else:
            try:
                after = structure.changed_around(operation, settings.around, task)
                words = over_caps(after, task, settings.caps)
            except UsageError as error:
                words = str(error)
        if words is None:
            found.append(operation)
        else:
            reasons[operation] = words
    return tuple(found)


def _late(situation: EventState, settings: GrowthSettings) -> str:
    return f"{situation.left:.1%} of the budget is left; what is new needs {settings.events.warm:.1%} to learn"


def _in_place(
    situation: EventState, settings: GrowthSettings, reasons: dict[str, str]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Edits in place that are open, each with the modules that admit it."""
    structure, found = situation.structure, []
    for operation in settings.opened:
        if situation.left <= settings.events.warm:
            reasons[operation] = _late(situation, settings)
            continue
        row, refused = EDITS.get(operation)(), {}
        for module in structure.live:
            words = structure.opaque.get(module.id)
            if module.id in situation.warming:
                words = f"{module.id} warms up; it is edited in place when that is over"
            if words is None:
                try:
                    child = row.child(module.genotype, settings.in_place)
                    words = refusal(structure, child, situation.task, settings.caps, module.id)
                except UsageError as error:
                    words = str(error)
            if words is not None:
                refused[module.id] = words
        found.append((operation, _unless([module.id for module in structure.live], refused, operation, reasons)))
    return tuple(found)


def _replaced(situation: EventState, settings: GrowthSettings) -> str | None:
    """The least fit module outside its warm-up whose impact is at most the expected gain of a child.

    Under ``unused`` one that may be pruned: the impact of a module does not say what the network is without it.
    """
    modules = situation.history.modules
    live = [module.id for module in situation.structure.live if module.id in modules]
    if settings.prune.rule == "unused":
        live = [name for name in live if name not in situation.spared]
    going = [name for name in live if name not in situation.warming and modules[name].impact <= situation.gain]
    return min(going, key=lambda name: (modules[name].fitness, name), default=None)


def _births(
    situation: EventState,
    settings: GrowthSettings,
    replaces: str | None,
    allowed: Collection[Operation],
    reasons: dict[str, str],
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Parents, families and pairs whose child is within the caps."""
    structure = situation.structure

    def over(child: ModuleGenotype) -> str | None:
        return refusal(structure, child, situation.task, settings.caps, replaces)

    genotypes = {module.id: module.genotype for module in structure.live}
    opaque = structure.opaque
    heavy = {name: words for name, genotype in genotypes.items() if (words := opaque.get(name) or over(genotype))}
    grow = _unless([name for name in genotypes if "grow" in allowed], heavy, "grow", reasons)
    families: dict[str, str] = {}
    for family in situation.families if "spawn" in allowed else ():
        try:
            words = over(archetype(family, structure.width))
        except UsageError as error:
            words = str(error)
        if words is not None:
            families[family] = words
    spawn = _unless(situation.families if "spawn" in allowed else (), families, "spawn", reasons)
    size = {name: genotype_parameters(genotype) for name, genotype in genotypes.items()}
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


def _with(structure: Growable, child: ModuleGenotype, replaces: str | None) -> Growable:
    """The structure with a child, and without the module that it replaces."""
    modules = tuple(module for module in structure.modules if module.id != replaces)
    taken = {module.id for module in modules}
    name = next(name for name in (f"{CHILD}{number}" for number in range(len(modules) + 1)) if name not in taken)
    return structure.with_modules((*modules, ZooModule(id=name, genotype=child)))


def _unless(
    names: Sequence[str], refused: Mapping[str, str], operation: Operation, reasons: dict[str, str]
) -> tuple[str, ...]:
    """The names that are not refused; reasons for the others are added to ``reasons``."""
    reasons.update({f"{operation}:{name}": refused[name] for name in names if name in refused})
    return tuple(name for name in names if name not in refused)
