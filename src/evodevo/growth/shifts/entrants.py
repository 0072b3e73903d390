"""The networks that may go on at a shift, from the structure alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evodevo.growth.edit_spec import Action
from evodevo.growth.growable import Growable
from evodevo.growth.spec import REPLACE
from evodevo.module_zoo.modules.cost import genotype_work
from evodevo.module_zoo.modules.families import ARCHETYPES, member
from evodevo.module_zoo.modules.spec import ModuleGenotype
from evodevo.module_zoo.modules.vector import LENGTH
from evodevo.module_zoo.modules.zoo import PAPER, archetype

AS_IT_IS = "as it is"


@dataclass(frozen=True)
class Continuation:
    """A network that may go on.

    Attributes:
        name: Its difference from the network as it is, in words.
        actions: The edits that lead to it, in order.
    """

    name: str
    actions: tuple[Action, ...] = ()


def continuations(
    structure: Growable, families: Mapping[str, ModuleGenotype], most: int
) -> tuple[tuple[Continuation, ...], ...]:
    """Networks by kind: as it is; with a fresh module of a family that it has not; a fresh one in the place of each of
    its modules; each of its modules alone, where it has several. Of each kind the cheapest module comes first.

    Args:
        structure: The network.
        families: Family -> genotype of a fresh module.
        most: Largest number of modules.
    """
    work = {module.id: _work(module.genotype) for module in structure.live}
    live = sorted(work, key=lambda name: work[name])
    there = {module.genotype.archetype for module in structure.live}
    absent = sorted((family for family in families if family not in there), key=lambda name: _work(families[name]))
    added = [Continuation(f"with {_one(family)}", (Action(operation="spawn", archetype=family),)) for family in absent]
    replaced = [
        Continuation(f"{_one(family)} for {name}", (Action(operation=REPLACE, modules=(name,), archetype=family),))
        for family in absent
        for name in reversed(live)
    ]
    alone = [
        Continuation(
            f"{name} alone", tuple(Action(operation="prune", modules=(gone,)) for gone in live if gone != name)
        )
        for name in live
    ]
    return (
        (Continuation(AS_IT_IS),),
        tuple(added) if len(live) < most else (),
        tuple(replaced),
        tuple(alone) if len(live) > 1 else (),
    )


def in_turn(kinds: Sequence[Sequence[Continuation]], most: int) -> tuple[Continuation, ...]:
    """At most so many networks, of each kind in turn as long as it has any; in the order of the kinds."""
    counts = [0] * len(kinds)
    for turn in range(max(map(len, kinds), default=0)):
        for place, kind in enumerate(kinds):
            counts[place] += turn < len(kind) and sum(counts) < most
    return tuple(one for kind, count in zip(kinds, counts, strict=True) for one in kind[:count])


def planned_families(structure: Growable) -> dict[str, ModuleGenotype]:
    """Family -> genotype of a fresh module: that of the first module of the zoo as it was planned, else the default.

    Nodes begin a lineage of their own, as the weights are fresh.
    """
    first = {family: archetype(family, structure.width) for family in PAPER}
    for module in reversed(structure.modules):
        genotype = module.genotype
        if genotype.archetype in ARCHETYPES:
            first[genotype.archetype] = member(genotype.archetype, genotype.width, dict(genotype.attributes))
    return first


def _work(genotype: ModuleGenotype) -> float:
    """FLOPs at a fixed length, for order alone."""
    return float(genotype_work(genotype, LENGTH).total)


def _one(family: str) -> str:
    word = family.replace("_", "-")
    return f"{'an' if word[0] in 'aeiou' or word in SPELLED else 'a'} {word}"


SPELLED = ("lstm", "mlp")
"""Words that are spelled and begin with a vowel then."""
