"""Zoos by name, and the network of the paper's experiments (Architect Thyself 4.1, Table 3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evodevo.errors import UsageError, unknown_name
from evodevo.module_zoo.modules.spec import ZooModule
from evodevo.module_zoo.modules.zoo import (
    ARCHETYPES,
    PAPER,
    archetype,
    random_zoo,
    start_zoo,
    table_3_zoo,
    with_lineage,
)
from evodevo.module_zoo.spec import ZooRouterStructure, ZooStructure
from evodevo.networks.towers.spec import ExtractorStructure
from evodevo.randomness import generator
from evodevo.settings import merge, validate


def _random(width: int) -> tuple[ZooModule, ...]:
    return random_zoo(width, len(start_zoo(width)), generator(0, "random zoo"))


ZOOS: Mapping[str, Callable[[int], tuple[ZooModule, ...]]] = {
    "start": start_zoo,
    "table_3": table_3_zoo,
    "random": _random,
}
"""``start``: one module of each of the six families; ``table_3``: the paper's nine; ``random``: as many as ``start``,
of families and with attributes that were drawn once."""
SHORTCUTS = ("drop", "same_config")
"""Keys that ``zoo_structure`` accepts beside fields of a structure."""
TEXT_TOWER = "distilbert-base-uncased"
IMAGE_TOWER = "openai/clip-vit-base-patch32"
PAPER_WIDTH, PAPER_LENGTH, PAPER_PIXELS = 512, 128, 224
"""d; words of a text; height and width of an image."""


def named_zoo(modules: str | Sequence[str], width: int) -> tuple[ZooModule, ...]:
    """The modules that are meant.

    Args:
        modules: a row of ``ZOOS``, or archetypes by name (a sequence, or commas between them), each as often as
            modules of it are wanted.
        width: d.

    Raises:
        UsageError: an unknown name, or nothing.
    """
    if isinstance(modules, str):
        if modules in ZOOS:
            return ZOOS[modules](width)
        names = [part.strip() for part in modules.split(",")]
        if len(names) == 1 and names[0] not in ARCHETYPES:
            raise unknown_name("zoo", modules, [*ZOOS, *ARCHETYPES.names()])
        modules = names
    for entry in modules:
        if entry not in ARCHETYPES:
            raise unknown_name("archetype", str(entry), ARCHETYPES.names())
    if not modules:
        raise UsageError("a zoo needs at least one module; give 'start', 'table_3' or names of archetypes.")
    counts: Counter[str] = Counter()
    zoo_modules = []
    for seed, entry in enumerate(modules):
        counts[entry] += 1
        name = f"{entry}-{counts[entry]}"
        zoo_modules.append(ZooModule(id=name, genotype=with_lineage(archetype(entry, width), name), seed=seed))
    return tuple(zoo_modules)


def zoo_structure(changes: Mapping[str, Any], base: ZooStructure | None = None) -> ZooStructure:
    """A zoo from plain data, in which ``modules`` may be given by name.

    Args:
        changes: fields of ``ZooStructure``, nested; ``modules`` may be all that ``named_zoo`` takes.
            Where the width changes and the modules do not, they are those of ``start`` in that width.
            Beside them ``drop`` names modules that are taken away (ids, or commas between them), and ``same_config``
            gives all modules of a family its default attributes (Table 3, block A).
        base: the zoo that the changes are made to; an empty zoo if left out.

    Raises:
        UsageError: an unknown setting or a wrong value, or a module to drop that is not there.
    """
    values: dict[str, Any] = (base or ZooStructure()).model_dump(mode="json")
    shortcuts = {name: changes[name] for name in SHORTCUTS if name in changes}
    changed = merge(values, {name: value for name, value in changes.items() if name not in shortcuts})
    modules = changes.get("modules")
    by_name = isinstance(modules, str) or (
        isinstance(modules, (list, tuple)) and all(isinstance(module, str) for module in modules)
    )
    width = changed["width"]
    if isinstance(width, int) and (by_name or (modules is None and (base is None or width != base.width))):
        # Every family can be built in the widths that ``ZooStructure`` allows; others are refused below.
        named = named_zoo(modules or "start", width) if 4 <= width <= 65536 else ()
        changed["modules"] = [module.model_dump(mode="json") for module in named]
    structure = validate(ZooStructure, changed, what="zoo")
    if shortcuts.get("same_config", False) not in (True, False):
        raise UsageError(f"zoo.same_config is true or false; got {shortcuts['same_config']!r}.")
    return _without(_alike(structure) if shortcuts.get("same_config") else structure, shortcuts.get("drop", ()))


def _alike(structure: ZooStructure) -> ZooStructure:
    """All modules of a family are its default; hybrids stay, since they have no family."""
    modules = tuple(
        module.model_copy(
            update={"genotype": with_lineage(archetype(module.genotype.archetype, structure.width), module.id)}
        )
        if module.genotype.archetype in PAPER
        else module
        for module in structure.modules
    )
    return structure.model_copy(update={"modules": modules})


def _without(structure: ZooStructure, drop: Any) -> ZooStructure:
    """The zoo without the modules of these ids."""
    names = [name.strip() for name in drop.split(",")] if isinstance(drop, str) else list(drop)
    ids = [module.id for module in structure.modules]
    for name in names:
        if name not in ids:
            raise unknown_name("module", str(name), ids)
    kept = tuple(module for module in structure.modules if module.id not in names)
    return structure.model_copy(
        update={"modules": kept, "disabled": tuple(name for name in structure.disabled if name not in names)}
    )


def paper(text: str | None = TEXT_TOWER, image: str | None = IMAGE_TOWER) -> ZooStructure:
    """The network of section 4.1: d = 512, nine modules, dropout 0.1 on both embeddings, two towers.

    Where the paper leaves a setting open, the defaults are this library's: the towers stay as they are while training,
    and no K limits the modules that count (the paper's 9 is the limit of the pool).

    Args:
        text, image: folders or cached names of a DistilBERT and a CLIP-ViT; None reads with built-in extractors.
    """
    towers = {
        name: ExtractorStructure(kind="hugging_face", path=path)
        for name, path in (("text", text), ("image", image))
        if path is not None
    }
    modules = table_3_zoo(PAPER_WIDTH)
    return ZooStructure(
        width=PAPER_WIDTH,
        modules=modules,
        extractors=towers,
        router=ZooRouterStructure(top_k=len(modules)),  # a number: files of settings have no null
        dropout=0.1,
    )
