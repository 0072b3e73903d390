"""Modules of a zoo: drawn, mutated and crossed (eqs. 12, 13 and 18), described in words, and the zoos to begin with.

Source: docs/spec/architect_thyself.md#attributes. In a free graph each attribute of a node is mutated as the same
attribute of a family would be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from evodevo.errors import GenomeError, UsageError
from evodevo.module_zoo.modules.attributes import Attribute
from evodevo.module_zoo.modules.families import (
    ARCHETYPES,
    PAPER,
    Archetype,
    archetype,
    check_genotype,
    member,
    repair,
)
from evodevo.module_zoo.modules.graph import check_graph, graph_hash, widths
from evodevo.module_zoo.modules.repair import repair_graph
from evodevo.module_zoo.modules.spec import HYBRID, ModuleGenotype, ModuleGraph, ZooModule

__all__ = [
    "ARCHETYPES",
    "PAPER",
    "Archetype",
    "archetype",
    "check_genotype",
    "crossover",
    "descended",
    "identity",
    "mutate",
    "random_zoo",
    "repair",
    "sample",
    "start_zoo",
    "table_3_zoo",
    "with_lineage",
    "words",
]

TRIES = 32
"""Draws of a mutation until one changes something; small families often draw what they are."""


def sample(name: str, width: int, rng: np.random.Generator) -> ModuleGenotype:
    """A random member of a family, P(theta | a) of eq. 18.

    Raises:
        UsageError: an unknown family, or one that the width does not allow.
    """
    kinds = ARCHETYPES.get(name).attributes
    return member(name, width, {key: kind.draw(rng, width) for key, kind in kinds.items()})


def mutate(genotype: ModuleGenotype, rng: np.random.Generator, scale: float = 1.0) -> ModuleGenotype:
    """A genotype of the same family near this one (eq. 12): drawn again where nothing changed.

    Nodes keep their lineage. Of a hybrid the nodes' attributes mutate; its wiring stays.

    Args:
        scale: multiplies spreads and chances; 0 changes nothing.
    """
    before = graph_hash(genotype.graph)
    child = genotype
    for _ in range(TRIES if scale > 0 else 0):
        child = _mutated(genotype, rng, scale)
        if child.attributes != genotype.attributes or graph_hash(child.graph) != before:
            break
    return child


def _mutated(genotype: ModuleGenotype, rng: np.random.Generator, scale: float) -> ModuleGenotype:
    width = genotype.width
    if genotype.archetype == HYBRID:
        graph = mutated_nodes(repair_graph(genotype.graph, width), width, rng, scale)
        return genotype.model_copy(update={"graph": graph})
    kinds = ARCHETYPES.get(genotype.archetype).attributes
    changed = {key: kinds[key].mutate(value, rng, scale, width) for key, value in genotype.attributes.items()}
    return descended(member(genotype.archetype, width, changed), genotype)


def crossover(
    a: ModuleGenotype, b: ModuleGenotype, rng: np.random.Generator, share: float | None = None
) -> tuple[ModuleGenotype, ModuleGenotype]:
    """Two children between two parents (eq. 13), the first of a's family, the second of b's.

    Attributes that both have by name are crossed: lambda a + (1 - lambda) b and the other way round, lambda from
    U(0, 1); of categories each child takes a's, or b's, with its lambda. Where the families differ the rest stays as
    it is; hybrids, and families that share nothing, give equal copies. (Splicing graphs belongs to growth.)

    Args:
        share: lambda; drawn where it is left out.

    Raises:
        UsageError: different widths.
    """
    if a.width != b.width:
        raise UsageError(f"modules of width {a.width} and {b.width} have no children; both must be of one zoo.")
    first = float(rng.random()) if share is None else share
    return _child(a, b, first, rng), _child(b, a, first, rng)


def _child(own: ModuleGenotype, other: ModuleGenotype, share: float, rng: np.random.Generator) -> ModuleGenotype:
    if HYBRID in (own.archetype, other.archetype):
        return own
    kinds, others = ARCHETYPES.get(own.archetype).attributes, ARCHETYPES.get(other.archetype).attributes
    shared = [key for key in kinds if key in others and type(kinds[key]) is type(others[key])]
    if not shared:
        return own
    crossed: dict[str, Attribute] = dict(own.attributes)
    for key in shared:
        value = kinds[key].near(other.attributes[key], own.width)
        crossed[key] = kinds[key].cross(own.attributes[key], value, share, rng, own.width)
    return descended(member(own.archetype, own.width, crossed), own)


def descended(child: ModuleGenotype, parent: ModuleGenotype) -> ModuleGenotype:
    """The child, whose nodes have the lineage of the parent's nodes of the same id and type."""
    lines = {(node.id, node.type): node.lineage for node in parent.graph.nodes}
    nodes = tuple(
        node.model_copy(update={"lineage": lines.get((node.id, node.type), "")}) for node in child.graph.nodes
    )
    return child.model_copy(update={"graph": child.graph.model_copy(update={"nodes": nodes})})


# Zoos


def start_zoo(width: int) -> tuple[ZooModule, ...]:
    """One of each of the paper's families, as they are by default (docs/spec/architect_thyself.md#families)."""
    return _zoo([archetype(name, width) for name in PAPER])


def identity(width: int, name: str) -> ZooModule:
    """A module without a node, which answers with what it reads: a zoo of it alone has no module in effect."""
    return ZooModule(id=name, genotype=ModuleGenotype(archetype=HYBRID, width=width, graph=ModuleGraph()))


def table_3_zoo(width: int) -> tuple[ZooModule, ...]:
    """The nine modules that Table 3 takes away one by one; the paper leaves open in what they differ."""
    heads = 8 if width % 8 == 0 else 1
    return _zoo(
        [
            archetype("transformer", width),
            archetype("transformer", width, depth=2, heads=heads, feedforward_factor=1.0),
            archetype("mlp", width),
            archetype("mlp", width, hidden_factor=1.0, depth=2, activation="relu"),
            archetype("mlp", width, hidden_factor=4.0, activation="silu"),
            archetype("resnet1d", width),
            archetype("lstm", width),
            archetype("cnn", width),
            archetype("squeeze_excite", width),
        ]
    )


def random_zoo(
    width: int, count: int, rng: np.random.Generator, archetypes: Sequence[str] = PAPER
) -> tuple[ZooModule, ...]:
    """Modules of random families with random attributes."""
    names = [archetypes[int(rng.integers(len(archetypes)))] for _ in range(count)]
    return _zoo([sample(name, width, rng) for name in names])


def _zoo(genotypes: Sequence[ModuleGenotype]) -> tuple[ZooModule, ...]:
    """Modules with ids by family and number, ``mlp-2``, and a seed each."""
    counts: Counter[str] = Counter()
    modules = []
    for seed, genotype in enumerate(genotypes):
        counts[genotype.archetype] += 1
        name = f"{genotype.archetype}-{counts[genotype.archetype]}"
        modules.append(ZooModule(id=name, genotype=with_lineage(genotype, name), seed=seed))
    return tuple(modules)


def with_lineage(genotype: ModuleGenotype, origin: str) -> ModuleGenotype:
    """The genotype, whose nodes without lineage begin one: ``origin/node``."""
    nodes = tuple(
        node if node.lineage else node.model_copy(update={"lineage": f"{origin}/{node.id}"[:80]})
        for node in genotype.graph.nodes
    )
    return genotype.model_copy(update={"graph": genotype.graph.model_copy(update={"nodes": nodes})})


# For people


def words(genotype: ModuleGenotype) -> str:
    """Description of a genotype: ``transformer, depth 2, 4 heads, gelu``; defaults are left out."""
    if genotype.archetype == HYBRID or genotype.archetype not in ARCHETYPES:
        counts = Counter(node.type for node in genotype.graph.nodes)
        parts = [f"{count} {name}" if count > 1 else name for name, count in sorted(counts.items())]
        return ", ".join([HYBRID, *(part.replace("_", "-") for part in parts)])
    family = ARCHETYPES.get(genotype.archetype)
    parts = [_word(key, genotype.attributes[key]) for key in family.attributes if key in genotype.attributes]
    return ", ".join([family.title, *(part for part in parts if part)])


def _word(key: str, value: Attribute) -> str:
    """One attribute in words; empty where the name of the family suffices."""
    if key.endswith("_factor"):
        return f"{key.removesuffix('_factor').replace('feedforward', 'feed-forward')} ×{value:.3g}"
    if key == "dropout":
        return f"dropout {value:.3g}" if value else ""
    if isinstance(value, tuple):
        return f"{key} {'+'.join(map(str, value))}"
    known: dict[str, str] = {
        "heads": f"{value} head{'' if value == 1 else 's'}",
        "layers": f"{value} layer{'' if value == 1 else 's'}",
        "both_ways": "both ways" if value else "one way",
        "activation": str(value),
        "operator": str(value),
        "form": "" if value == "parallel" else str(value),
        "outer": "" if value == "none" else f"outer {value}",
    }
    return known.get(key, f"{key} {value}")


def mutated_nodes(graph: ModuleGraph, width: int, rng: np.random.Generator, scale: float) -> ModuleGraph:
    """A valid graph whose nodes have mutated; a change that does not fit to the other nodes is not made.

    Source: docs/spec/architect_thyself.md#attributes.

    Args:
        graph: a valid one.
        width: d.
        rng: generator of all draws.
        scale: multiplies spreads and chances.
    """
    channels = widths(graph, width)
    for place, node in enumerate(graph.nodes):
        nodes = (*graph.nodes[:place], node.mutated(channels[node.id], rng, scale), *graph.nodes[place + 1 :])
        changed = graph.model_copy(update={"nodes": nodes})
        try:
            check_graph(changed, width)
        except GenomeError:
            continue
        graph = changed
    return graph
