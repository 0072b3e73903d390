"""Hybrids are modules, made of what their parents are made of (docs/spec/architect_thyself.md#splices)."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from evodevo.errors import UsageError
from evodevo.growth.spec import BirthSettings
from evodevo.growth.zoo.splice import Motif, Splice, motifs, splice
from evodevo.module_zoo.modules.families import check_genotype
from evodevo.module_zoo.modules.graph import genotype_hash, graph_hash, sources, widths
from evodevo.module_zoo.modules.nodes.gate import GateNode
from evodevo.module_zoo.modules.nodes.joins import SumNode
from evodevo.module_zoo.modules.spec import HYBRID, INPUT, ModuleGenotype, ModuleGraph, ZooModule
from evodevo.module_zoo.modules.zoo import ARCHETYPES, archetype, sample, with_lineage

WIDTH = 16
FAMILIES = tuple(ARCHETYPES.names())


def module(name: str, genotype: ModuleGenotype) -> ZooModule:
    return ZooModule(id=name, genotype=with_lineage(genotype, name))


def naive_motifs(graph: ModuleGraph, most: int) -> set[Motif]:
    """Every set of nodes, tried."""
    found = set()
    ids = [node.id for node in graph.nodes]
    for size in range(1, most + 1):
        for chosen in combinations(ids, size):
            inside = frozenset(chosen)
            entries = {begin for begin, end in graph.edges if end in inside and begin not in inside}
            exits = {begin for begin, end in graph.edges if begin in inside and end not in inside}
            if len(entries) == 1 and len(exits) == 1:
                found.add(Motif(inside, entries.pop(), exits.pop()))
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_motifs_are_all_there_are(family: str) -> None:
    for seed in range(3):
        graph = sample(family, WIDTH, np.random.default_rng(seed)).graph
        assert set(motifs(graph, 4)) == naive_motifs(graph, 4)
        assert len(set(motifs(graph, 4))) == len(motifs(graph, 4))


def spliced(
    kind: str, seed: int, parents: tuple[ZooModule, ZooModule] | None = None
) -> tuple[Splice, ZooModule, ZooModule]:
    rng = np.random.default_rng(seed)
    if parents is None:
        names = rng.integers(len(FAMILIES), size=2)
        parents = (
            module("first", sample(FAMILIES[names[0]], WIDTH, rng)),
            module("second", sample(FAMILIES[names[1]], WIDTH, rng)),
        )
    settings = BirthSettings(splice="insert" if kind == "insert" else "replace")
    return splice(*parents, rng, settings), *parents


ANSWERING = {"attention", "feed_forward", "convolution", "lstm", "squeeze_excite", "projection", "operator", "layer"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["replace", "insert"])
def test_a_splice_means_what_it_says(kind: str) -> None:
    """docs/spec/architect_thyself.md#splices."""
    replaced = 0
    for seed in range(80):
        result, a, b = spliced(kind, seed)
        child = result.child
        check_genotype(child)
        assert child.archetype == HYBRID
        assert genotype_hash(ModuleGenotype.model_validate_json(child.model_dump_json())) == genotype_hash(child)
        nodes = {node.id: node for node in child.graph.nodes}
        theirs = {(one.id, node.id): node for one in (a, b) for node in one.genotype.graph.nodes}
        new = {*result.projections, *result.joints}
        if a.genotype.archetype != b.genotype.archetype:  # of one family, recombined ones may have what neither has
            assert set(result.correspondence) | new == set(nodes)
        assert not set(result.kept) & set(result.grafted)
        for name, (parent, node) in result.grafted.items():
            assert nodes[name].model_copy(update={"id": node}) == theirs[parent, node]
            assert parent == b.id
        for name in result.kept:
            assert nodes[name].type == theirs[result.kept[name]].type
        assert all(not nodes[name].lineage for name in new)
        if kind == "replace" and not result.joints:
            assert result.removed
            assert not {node for _, node in result.removed} & set(nodes)
            assert any(nodes[name].type in ANSWERING for name in result.kept), "nothing of the first parent is left"
            replaced += 1
        else:
            assert not result.removed
            assert {(a.id, node.id) for node in a.genotype.graph.nodes} == set(result.kept.values())
            assert all(nodes[name] == theirs[origin] for name, origin in result.kept.items())
            gate, joint = (nodes[name] for name in result.joints)
            assert isinstance(gate, GateNode)
            assert gate.start == 0
            assert isinstance(joint, SumNode)
        # Projections stand only where widths differ.
        channels = {INPUT: WIDTH, **widths(child.graph, WIDTH)}
        for name in result.projections:
            assert channels[name] != channels[sources(child.graph)[name][0]]
    assert replaced > 25 if kind == "replace" else replaced == 0


def test_equal_draws_give_equal_children() -> None:
    assert spliced("replace", 3)[0] == spliced("replace", 3)[0]


def test_children_differ_from_their_parents() -> None:
    for seed in range(60):
        result, a, b = spliced("replace", seed)
        hashes = {graph_hash(one.genotype.graph) for one in (a, b)}
        assert graph_hash(result.child.graph) not in hashes


def test_motifs_stay_small() -> None:
    for seed in range(60):
        rng = np.random.default_rng(seed)
        a, b = (module(name, sample("transformer", WIDTH, rng)) for name in ("first", "second"))
        result = splice(a, b, rng, BirthSettings(motif=2))
        assert 1 <= len(result.grafted) <= 2
        assert len(result.removed) <= 2


def test_symmetry_draws_who_is_grafted_into() -> None:
    a, b = (module(name, archetype(name, WIDTH)) for name in ("lstm", "transformer"))
    hosts = set()
    for seed in range(20):
        result = splice(a, b, np.random.default_rng(seed), BirthSettings(symmetric=True, splice="insert"))
        hosts |= {parent for parent, _ in result.kept.values()}
    assert hosts == {"lstm", "transformer"}


def test_one_family_recombines_its_attributes() -> None:
    a = module("first", archetype("mlp", WIDTH, hidden_factor=1.0, depth=3))
    b = module("second", archetype("mlp", WIDTH, hidden_factor=3.0, depth=3))
    result = splice(a, b, np.random.default_rng(0), BirthSettings(), share=0.5)
    hidden = {getattr(node, "hidden", None) for node in result.child.graph.nodes if node.id in result.kept}
    assert hidden & {32}
    assert not hidden & {16, 48}


def test_what_cannot_be_spliced_is_refused() -> None:
    a = module("first", archetype("mlp", WIDTH))
    wide = module("wide", archetype("mlp", 2 * WIDTH))
    empty = ZooModule(id="empty", genotype=ModuleGenotype(archetype=HYBRID, width=WIDTH, graph=ModuleGraph()))
    for other in (wide, empty):
        with pytest.raises(UsageError):
            splice(a, other, np.random.default_rng(0), BirthSettings())
        with pytest.raises(UsageError):
            splice(other, a, np.random.default_rng(0), BirthSettings())
