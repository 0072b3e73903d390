"""The genome of a zoo: its pool of modules and how they are chosen, as plain data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from evodevo.errors import GenomeError, UsageError, quoted_list
from evodevo.module_zoo.modules.graph import check_graph
from evodevo.module_zoo.modules.spec import HYBRID, ModuleGenotype, ModuleGraph
from evodevo.module_zoo.modules.zoo import archetype
from evodevo.module_zoo.spec import Gate
from evodevo.settings import validate

Synergy = Literal["off", "similar", "complement", "bilinear"]
Keys = Literal["output", "genotype", "predictor"]
FusionKind = Literal["asym_residual", "paper", "symmetric", "concat", "gmu", "bilinear"]

ALL = 0
"""The ``top_k`` of a zoo in which all modules may count."""
MAX_MODULES = 64

NAME = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)
"""Pattern of the names of archetypes and attributes, and of values that are words."""


@dataclass(frozen=True)
class ZooGenome:
    """One zoo, without the settings that its space fixes.

    Attributes:
        fusion: fusion of the modalities.
        gate, synergy, heads, keys: settings of the router.
        top_k: modules that a sample may use when it is answered; ``ALL`` for all.
        modules: the pool.
    """

    fusion: FusionKind = "asym_residual"
    gate: Gate = "sparsemax"
    synergy: Synergy = "similar"
    heads: int = 4
    top_k: int = 4
    keys: Keys = "output"
    modules: tuple[ModuleGenotype, ...] = ()


GENES = tuple(field.name for field in fields(ZooGenome) if field.name != "modules")
"""Everything but the modules."""
WORDS: dict[str, tuple[str, ...]] = {
    "fusion": get_args(FusionKind),
    "gate": get_args(Gate),
    "synergy": get_args(Synergy),
    "keys": get_args(Keys),
}
"""Genes that are words -> what they can be."""


# JSON


def genes_of(genome: ZooGenome) -> dict[str, Any]:
    """The genes as plain data; a module of an archetype goes without its graph, which follows from the attributes."""
    return {
        **{gene: getattr(genome, gene) for gene in GENES},
        "modules": [
            {"archetype": HYBRID, "graph": module.graph.model_dump(mode="json")}
            if module.archetype == HYBRID
            else {"archetype": module.archetype, "attributes": _plain(module.attributes)}
            for module in genome.modules
        ],
    }


def _plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in attributes.items()}


def genome_of(genes: Any, width: int) -> ZooGenome:
    """The inverse of ``genes_of``.

    Raises:
        GenomeError: a missing or unknown gene, a value of the wrong JSON type, or a module that cannot be.
    """
    names = [*GENES, "modules"]
    if not isinstance(genes, dict) or set(genes) != set(names):
        raise GenomeError(f"the genes of a zoo are an object with exactly the keys {quoted_list(names)}.")
    for gene in GENES:
        kind = str if gene in WORDS else int
        if type(genes[gene]) is not kind:
            raise GenomeError(f"{gene} is {str(genes[gene])[:40]!r}; the JSON type for {kind.__name__} is wanted.")
    modules = genes["modules"]
    if not isinstance(modules, list) or len(modules) > MAX_MODULES:
        raise GenomeError(f"modules are a list of at most {MAX_MODULES}.")
    return ZooGenome(**{**genes, "modules": tuple(_module_of(module, width) for module in modules)})


def _module_of(given: Any, width: int) -> ModuleGenotype:
    if isinstance(given, dict) and type(given.get("archetype")) is str:
        if set(given) == {"archetype", "graph"} and given["archetype"] == HYBRID:
            return make_hybrid(given["graph"], width)
        if set(given) == {"archetype", "attributes"} and isinstance(given["attributes"], dict):
            return make_module(given["archetype"], width, given["attributes"])
    raise GenomeError(
        f"a module is an object with archetype and attributes, or {HYBRID!r} with a graph; got {str(given)[:60]!r}."
    )


# Modules


def make_module(name: str, width: int, attributes: Mapping[str, Any]) -> ModuleGenotype:
    """A module of an archetype. Raises GenomeError for an unknown one, or a wrong attribute."""
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in attributes.items()}
    if any(type(key) is not str or not NAME.fullmatch(key) for key in values):
        raise GenomeError(f"an attribute of {name[:40]!r} has no name that can be read; names are small letters.")
    try:
        return archetype(name, width, **values)
    except GenomeError:
        raise
    except UsageError as error:
        raise GenomeError(str(error)) from None


def make_hybrid(graph: Any, width: int) -> ModuleGenotype:
    """A free graph as a module. Raises GenomeError where it is none."""
    if not isinstance(graph, dict):
        raise GenomeError(f"the graph of a hybrid is an object with nodes and edges; got {str(graph)[:60]!r}.")
    try:
        made = validate(ModuleGraph, graph, what="the graph of a hybrid")
        check_graph(made, width)
    except GenomeError:
        raise
    except UsageError as error:
        raise GenomeError(str(error)) from None
    return ModuleGenotype(archetype=HYBRID, width=width, graph=made)
