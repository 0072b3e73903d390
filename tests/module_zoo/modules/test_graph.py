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
from evodevo.module_zoo.modules.spec import ModuleGenotype, ModuleGraph
from evodevo.module_zoo.modules.zoo import ARCHETYPES, sample
from evodevo.operators.layers.base import Layer
from evodevo.operators.layers.liv import LIVLayer
from evodevo.operators.layers.pretrained import PretrainedLayer
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.randomness import generator
from module_zoo.modules.graphs import graph, node

WIDTH = 16
Edge = tuple[str, str]


CHAIN = graph("in>a a>b b>c in>c c>out", a="norm", b="feed_forward", c="sum")
HALTING = HModelStructure(stream="paper", width=WIDTH, halting=HaltingStructure(rule="ponder"))
NARROW = node("p", "projection", width=8)


def layer(made: Layer, text: str = "in>l l>out") -> ModuleGraph:
    return graph(text, node("l", "layer", layer=made))


WRONG = [
    (graph(""), "'out' has 0 edges that end there; exactly one"),
    (graph("in>a in>out a>out", a="norm"), "'out' has 2 edges"),
    (graph("in>out", node("in", "norm")), "'in', an end of every graph"),
    (graph("in>a a>out", node("a", "norm"), node("a", "feed_forward")), "'a' is on 2 nodes"),
    (graph("in>a a>b a>out", a="norm"), "ends at 'b'; nodes are a, or 'out'"),
    (graph("b>a a>out", a="norm"), "begins at 'b'; nodes are a, or 'in'"),
    (graph("in>a a>in a>out", a="norm"), "ends at 'in'"),
    (graph("in>a out>a a>out", a="norm"), "begins at 'out'"),
    (graph("in>a in>a a>out", a="sum"), "from 'in' to 'a' occurs twice"),
    (graph("a>out", a="norm"), "'a' \\(norm\\) has no input"),
    (graph("a>out", a="sum"), "'a' \\(sum\\) has no input"),
    (graph("in>a in>b a>b b>out", a="norm", b="norm"), "'b' \\(norm\\) has 2 edges that end there; it reads one"),
    (graph("in>a in>b a>out", a="norm", b="norm"), "'b' does not reach 'out'"),
    (graph("in>a b>a a>b a>out", a="sum", b="norm"), "the nodes a ← b ← a form a cycle"),
    (graph("in>a a>a a>out", a="sum"), "the nodes a ← a form a cycle"),
    (graph("in>a a>out", node("a", "attention", heads=3)), "'a' has 3 heads, which do not divide its 16"),
    (graph("in>p in>s p>s s>out", NARROW, s="sum"), "'s' adds values of 16, 8 channels"),
    (graph("in>p p>out", NARROW), "answers with 8 channels, of 'p', and its zoo has 16"),
    (
        graph("in>p p>c in>c c>q q>out", node("p", "projection", width=65536), c="concat", q="projection"),
        "'c' puts 65552 channels side by side; at most 65536",
    ),
    (layer(TransformerLayer(heads=5)), "'l', a layer of kind 'transformer' at 16 channels: 5 attention heads"),
    (layer(LIVLayer(operator="Rec-9", head_size=4)), "unknown LIV class"),
    (layer(NestedLayer(structure=HALTING)), "halting and losses"),
    (
        graph("in>p p>l l>out", node("p", "projection", width=4), node("l", "layer", layer=LIVLayer())),
        "at 4 channels: .*greater than or equal to 8",
    ),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG, ids=[message[:40] for _, message in WRONG])
def test_what_makes_no_sense_is_refused_with_its_place(wrong: ModuleGraph, message: str) -> None:
    with pytest.raises(GenomeError, match=message):
        check_graph(wrong, WIDTH)


def test_a_layer_whose_files_are_gone_is_not_called_a_wrong_graph() -> None:
    with pytest.raises(NotFoundError):
        check_graph(layer(PretrainedLayer(path="/no/such/folder", index=0)), 8)


def test_channels_and_order_also_of_the_empty_graph_and_long_chains() -> None:
    text = "in>conv in>both conv>both both>back back>out"
    one = graph(text, node("back", "projection", width=WIDTH), node("conv", "convolution", width=5), both="concat")
    assert [part.id for part in order(one)] == ["conv", "both", "back"]
    assert widths(one, WIDTH) == {"conv": 5, "both": WIDTH + 5, "back": WIDTH}
    check_graph(ModuleGraph(), WIDTH)
    assert order(ModuleGraph()) == ()
    assert widths(ModuleGraph(), WIDTH) == {}
    names = [f"n{number}" for number in range(256)]
    chain = tuple(itertools.pairwise(["in", *names, "out"]))
    check_graph(ModuleGraph(nodes=tuple(node(name, "norm") for name in reversed(names)), edges=chain), WIDTH)


# Hash


def renamed(one: ModuleGraph, seed: int) -> ModuleGraph:
    """The same architecture with other ids, lineages and orders, but for that of what a concat reads."""
    rng = generator(seed)
    names = {node.id: f"x{number}" for number, node in enumerate(one.nodes)} | {"in": "in", "out": "out"}
    nodes = [part.model_copy(update={"id": names[part.id], "lineage": f"line-{seed}"}) for part in one.nodes]
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
    nodes, lines = [node("all", "sum")], ["all>out"]
    for number, size in enumerate(sizes):
        for place in range(size):
            gate, add = f"g{number}-{place}", f"s{number}-{place}"
            nodes += [node(gate, "gate"), node(add, "sum")]
            lines += [f"in>{gate} {gate}>{add} g{number}-{(place + 1) % size}>{add} {add}>all"]
    return graph(" ".join(lines), *nodes)


BACK = node("p", "projection", width=WIDTH)
DIFFERENT = {
    "chain": CHAIN,
    "no residual": graph("in>a a>b b>out", a="norm", b="feed_forward"),
    "other size": graph("in>a a>b b>c in>c c>out", node("b", "feed_forward", hidden=7), a="norm", c="sum"),
    "norm after": graph("in>b b>a a>c in>c c>out", a="norm", b="feed_forward", c="sum"),
    "residual of the norm": graph("in>a a>b b>c a>c c>out", a="norm", b="feed_forward", c="sum"),
    "concat": graph("in>a in>c a>c c>p p>out", BACK, a="norm", c="concat"),
    "concat the other way": graph("in>a a>c in>c c>p p>out", BACK, a="norm", c="concat"),
    "two norms": graph("in>a in>b a>c b>d c>s d>s s>out", a="norm", b="norm", c="gate", d="gate", s="sum"),
    "one norm that two gates read": graph("in>a a>c a>d c>s d>s s>out", a="norm", c="gate", d="gate", s="sum"),
    "a ring of eight": ring((8,)),
    "two rings of four": ring((4, 4)),
    "rings of three and five": ring((3, 5)),
}


def test_what_is_built_differently_has_another_hash() -> None:
    hashes = {name: graph_hash(one) for name, one in DIFFERENT.items()}
    assert len(set(hashes.values())) == len(DIFFERENT), hashes
    for one in DIFFERENT.values():
        check_graph(one, WIDTH)
        assert graph_hash(one) == graph_hash(renamed(one, 4))
    one, other = (ModuleGenotype(archetype="hybrid", width=width, graph=CHAIN) for width in (8, 16))
    assert genotype_hash(one) != genotype_hash(other), "the width is part of it"
