"""Graphs of modules: what is refused and how, the order, the channels, and a name that only architecture changes."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evodevo.errors import GenomeError, NotFoundError
from evodevo.h_model.nested_layer import NestedLayer
from evodevo.h_model.spec import HaltingStructure, HModelStructure
from evodevo.module_zoo.modules.graph import check_graph, genotype_hash, graph_hash, order, widths
from evodevo.module_zoo.modules.nodes.attention import AttentionNode
from evodevo.module_zoo.modules.nodes.base import NodeSpec
from evodevo.module_zoo.modules.nodes.convolution import ConvolutionNode
from evodevo.module_zoo.modules.nodes.feed_forward import FeedForwardNode
from evodevo.module_zoo.modules.nodes.gate import GateNode
from evodevo.module_zoo.modules.nodes.joins import ConcatNode, SumNode
from evodevo.module_zoo.modules.nodes.layer import LayerNode
from evodevo.module_zoo.modules.nodes.norm import NormNode
from evodevo.module_zoo.modules.nodes.projection import ProjectionNode
from evodevo.module_zoo.modules.spec import ModuleGenotype, ModuleGraph
from evodevo.module_zoo.modules.zoo import ARCHETYPES, sample
from evodevo.operators.layers.liv import LIVLayer
from evodevo.operators.layers.pretrained import PretrainedLayer
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.randomness import generator

WIDTH = 16
Edge = tuple[str, str]


def graph(*nodes: NodeSpec, edges: str) -> ModuleGraph:
    """``"in>a a>out"`` is two edges."""
    return ModuleGraph(nodes=nodes, edges=tuple((one.split(">")[0], one.split(">")[1]) for one in edges.split()))


def norm(name: str) -> NormNode:
    return NormNode(id=name)


CHAIN = graph(norm("a"), FeedForwardNode(id="b"), SumNode(id="c"), edges="in>a a>b b>c in>c c>out")
HALTING = HModelStructure(width=WIDTH, halting=HaltingStructure(rule="ponder"))

WRONG = [
    (graph(edges=""), "'out' has 0 edges that end there; exactly one"),
    (graph(norm("a"), edges="in>a in>out a>out"), "'out' has 2 edges"),
    (graph(norm("in"), edges="in>out"), "'in', an end of every graph"),
    (graph(norm("a"), FeedForwardNode(id="a"), edges="in>a a>out"), "'a' is on 2 nodes"),
    (graph(norm("a"), edges="in>a a>b a>out"), "ends at 'b'; nodes are a, or 'out'"),
    (graph(norm("a"), edges="b>a a>out"), "begins at 'b'; nodes are a, or 'in'"),
    (graph(norm("a"), edges="in>a a>in a>out"), "ends at 'in'"),
    (graph(norm("a"), edges="in>a out>a a>out"), "begins at 'out'"),
    (graph(SumNode(id="a"), edges="in>a in>a a>out"), "from 'in' to 'a' occurs twice"),
    (graph(norm("a"), edges="a>out"), "'a' \\(norm\\) has no input"),
    (graph(SumNode(id="a"), edges="a>out"), "'a' \\(sum\\) has no input"),
    (
        graph(norm("a"), norm("b"), edges="in>a in>b a>b b>out"),
        "'b' \\(norm\\) has 2 edges that end there; it reads one",
    ),
    (graph(norm("a"), norm("b"), edges="in>a in>b a>out"), "'b' does not reach 'out'"),
    (graph(SumNode(id="a"), norm("b"), edges="in>a b>a a>b a>out"), "the nodes a ← b ← a form a cycle"),
    (graph(SumNode(id="a"), edges="in>a a>a a>out"), "the nodes a ← a form a cycle"),
    (graph(AttentionNode(id="a", heads=3), edges="in>a a>out"), "'a' has 3 heads, which do not divide its 16"),
    (
        graph(ProjectionNode(id="p", width=8), SumNode(id="s"), edges="in>p in>s p>s s>out"),
        "'s' adds values of 16, 8 channels",
    ),
    (graph(ProjectionNode(id="p", width=8), edges="in>p p>out"), "answers with 8 channels, of 'p', and its zoo has 16"),
    (
        graph(
            ProjectionNode(id="p", width=65536),
            ConcatNode(id="c"),
            ProjectionNode(id="q"),
            edges="in>p p>c in>c c>q q>out",
        ),
        "'c' puts 65552 channels side by side; at most 65536",
    ),
    (
        graph(LayerNode(id="l", layer=TransformerLayer(heads=5)), edges="in>l l>out"),
        "'l', a layer of kind 'transformer' at 16 channels: 5 attention heads",
    ),
    (graph(LayerNode(id="l", layer=LIVLayer(operator="Rec-9", head_size=4)), edges="in>l l>out"), "unknown LIV class"),
    (graph(LayerNode(id="l", layer=NestedLayer(structure=HALTING)), edges="in>l l>out"), "halting and losses"),
    (
        graph(ProjectionNode(id="p", width=4), LayerNode(id="l", layer=LIVLayer()), edges="in>p p>l l>out"),
        "at 4 channels: .*greater than or equal to 8",
    ),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG, ids=[message[:40] for _, message in WRONG])
def test_what_makes_no_sense_is_refused_with_its_place(wrong: ModuleGraph, message: str) -> None:
    with pytest.raises(GenomeError, match=message):
        check_graph(wrong, WIDTH)


def test_a_layer_whose_files_are_gone_is_not_called_a_wrong_graph() -> None:
    gone = LayerNode(id="l", layer=PretrainedLayer(path="/no/such/folder", index=0))
    with pytest.raises(NotFoundError):
        check_graph(graph(gone, edges="in>l l>out"), 8)


def test_the_empty_graph_and_long_chains_are_valid() -> None:
    check_graph(ModuleGraph(), WIDTH)
    assert order(ModuleGraph()) == ()
    assert widths(ModuleGraph(), WIDTH) == {}
    names = [f"n{number}" for number in range(256)]
    edges = tuple(itertools.pairwise(["in", *names, "out"]))
    check_graph(ModuleGraph(nodes=tuple(norm(name) for name in reversed(names)), edges=edges), WIDTH)


def test_channels_and_order() -> None:
    one = graph(
        ProjectionNode(id="back", width=WIDTH),
        ConcatNode(id="both"),
        ConvolutionNode(id="conv", width=5),
        edges="in>conv in>both conv>both both>back back>out",
    )
    assert [node.id for node in order(one)] == ["conv", "both", "back"]
    assert widths(one, WIDTH) == {"conv": 5, "both": WIDTH + 5, "back": WIDTH}


# Hash


def renamed(one: ModuleGraph, seed: int) -> ModuleGraph:
    """The same architecture with other ids, lineages and orders, but for that of what a concat reads."""
    rng = generator(seed)
    names = {node.id: f"x{number}" for number, node in enumerate(one.nodes)} | {"in": "in", "out": "out"}
    nodes = [node.model_copy(update={"id": names[node.id], "lineage": f"line-{seed}"}) for node in one.nodes]
    ends = {end: [edge for edge in one.edges if edge[1] == end] for _, end in one.edges}
    edges: list[Edge] = []
    concats = {node.id for node in one.nodes if node.type == "concat"}
    for end in [list(ends)[place] for place in rng.permutation(len(ends))]:
        places = range(len(ends[end])) if end in concats else rng.permutation(len(ends[end]))
        edges += [(names[ends[end][place][0]], names[end]) for place in places]
    return ModuleGraph(nodes=tuple(nodes[place] for place in rng.permutation(len(nodes))), edges=tuple(edges))


@given(seed=st.integers(0, 2**32), names=st.tuples(*[st.sampled_from(ARCHETYPES.names())] * 2))
@settings(max_examples=20, deadline=None)
def test_ids_lineage_and_order_do_not_change_the_hash_and_architecture_does(seed: int, names: tuple[str, str]) -> None:
    one, other = (sample(name, WIDTH, generator(seed, place)) for place, name in enumerate(names))
    check_graph(renamed(one.graph, seed), WIDTH)
    assert graph_hash(one.graph) == graph_hash(renamed(one.graph, seed))
    plain = [genotype.model_copy(update={"archetype": "hybrid", "attributes": {}}) for genotype in (one, other)]
    assert (genotype_hash(one) == genotype_hash(other)) == (plain[0] == plain[1])


def ring(sizes: tuple[int, ...]) -> ModuleGraph:
    """Gates and sums in rings, each sum of its two neighbours: nodes that look alike from everywhere."""
    nodes: list[NodeSpec] = [SumNode(id="all")]
    edges: list[Edge] = []
    for number, size in enumerate(sizes):
        for place in range(size):
            gate, add = f"g{number}-{place}", f"s{number}-{place}"
            nodes += [GateNode(id=gate), SumNode(id=add)]
            edges += [("in", gate), (gate, add), (f"g{number}-{(place + 1) % size}", add), (add, "all")]
    return ModuleGraph(nodes=tuple(nodes), edges=(*edges, ("all", "out")))


DIFFERENT = {
    "chain": CHAIN,
    "no residual": graph(norm("a"), FeedForwardNode(id="b"), edges="in>a a>b b>out"),
    "other size": graph(norm("a"), FeedForwardNode(id="b", hidden=7), SumNode(id="c"), edges="in>a a>b b>c in>c c>out"),
    "norm after": graph(FeedForwardNode(id="b"), norm("a"), SumNode(id="c"), edges="in>b b>a a>c in>c c>out"),
    "residual of the norm": graph(norm("a"), FeedForwardNode(id="b"), SumNode(id="c"), edges="in>a a>b b>c a>c c>out"),
    "concat": graph(
        norm("a"), ConcatNode(id="c"), ProjectionNode(id="p", width=WIDTH), edges="in>a in>c a>c c>p p>out"
    ),
    "concat the other way": graph(
        norm("a"), ConcatNode(id="c"), ProjectionNode(id="p", width=WIDTH), edges="in>a a>c in>c c>p p>out"
    ),
    "two norms": graph(
        norm("a"), norm("b"), GateNode(id="c"), GateNode(id="d"), SumNode(id="s"),
        edges="in>a in>b a>c b>d c>s d>s s>out",
    ),
    "one norm that two gates read": graph(
        norm("a"), GateNode(id="c"), GateNode(id="d"), SumNode(id="s"), edges="in>a a>c a>d c>s d>s s>out"
    ),
    "a ring of eight": ring((8,)),
    "two rings of four": ring((4, 4)),
    "rings of three and five": ring((3, 5)),
}  # fmt: skip


def test_what_is_built_differently_has_another_hash() -> None:
    hashes = {name: graph_hash(one) for name, one in DIFFERENT.items()}
    assert len(set(hashes.values())) == len(DIFFERENT), hashes
    for one in DIFFERENT.values():
        check_graph(one, WIDTH)
        assert graph_hash(one) == graph_hash(renamed(one, 4))
    one, other = (ModuleGenotype(archetype="hybrid", width=width, graph=CHAIN) for width in (8, 16))
    assert genotype_hash(one) != genotype_hash(other), "the width is part of it"
