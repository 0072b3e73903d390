"""Zoos by name: what the parameter ``modules`` may say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from evodevo.errors import UsageError, unknown_name
from evodevo.randomness import integer_seed
from evodevo.spaces.zoo_archetypes import ARCHETYPES, archetype, start_zoo, table_3_zoo
from evodevo.spaces.zoo_genotype import ZooModule

ZOOS = {"start": start_zoo, "table_3": table_3_zoo}


def zoo(modules: str | Sequence[str] | Sequence[ZooModule], width: int, seed: int) -> tuple[ZooModule, ...]:
    """The modules that are meant, with initial weights of their own.

    Args:
        modules: a row of ``ZOOS``, names of archetypes, or modules as they are.
        width: d.
        seed: of the initial weights of modules that are given by name.

    Raises:
        UsageError: an unknown name, or nothing.
    """
    if isinstance(modules, str):
        if modules not in ZOOS:
            raise unknown_name("zoo", modules, ZOOS)
        found = ZOOS[modules](width)
    else:
        found = _listed(modules, width)
    if not found:
        raise UsageError("modules names none; give 'start', 'table_3' or some archetypes.")
    given = set() if isinstance(modules, str) else {one.id for one in modules if isinstance(one, ZooModule)}
    return tuple(
        one if one.id in given else one.model_copy(update={"seed": integer_seed(seed, "module", one.id)})
        for one in found
    )


def _listed(modules: Sequence[str] | Sequence[ZooModule], width: int) -> tuple[ZooModule, ...]:
    counts: Counter[str] = Counter()
    found = []
    for one in modules:
        if isinstance(one, ZooModule):
            found.append(one)
            continue
        if one not in ARCHETYPES:
            raise unknown_name("archetype", str(one), ARCHETYPES.names())
        counts[one] += 1
        # Ids have no underscore in them where archetypes do: what stands for a module is one word.
        found.append(ZooModule(id=f"{one}-{counts[one]}", genotype=archetype(one, width)))
    return tuple(found)
