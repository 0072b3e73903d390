"""Any graph at all: a clear error, and a valid module near it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evodevo import canonical
from evodevo.errors import GenomeError, UsageError
from evodevo.module_zoo.modules.build import MAX_PARAMETERS, build_module
from evodevo.module_zoo.modules.cost import genotype_parameters, genotype_work
from evodevo.module_zoo.modules.graph import check_graph, graph_hash, order, widths
from evodevo.module_zoo.modules.nodes.base import BUILT_IN
from evodevo.module_zoo.modules.repair import repair_graph
from evodevo.module_zoo.modules.spec import HYBRID, MAX_NODES, ModuleGenotype, ModuleGraph
from evodevo.module_zoo.modules.vector import genotype_vector
from evodevo.module_zoo.modules.zoo import ARCHETYPES, check_genotype, mutate, repair, sample
from evodevo.operators.layers.convolution import ConvolutionLayer
from evodevo.operators.layers.liv import LIVLayer
from evodevo.operators.layers.lstm import LSTMLayer
from evodevo.operators.layers.mlp import MLPLayer
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.randomness import generator
from evodevo.settings import validate
from module_zoo.modules.graphs import edges, graph, hybrid_of, node

WIDTH = 12
IDS = st.sampled_from([*"abcdefgh", "in", "out", "fit-1"])
SIZES = st.integers(1, 24) | st.sampled_from([1 << 10, 1 << 16])
LAYERS = st.one_of(
    st.builds(TransformerLayer, heads=st.integers(1, 9), width=st.none() | st.integers(1, 20)),
    st.builds(LIVLayer, operator=st.sampled_from(["Rec-1", "SA-3", "GMemless", "Rec-99", "1.2.3", "5.4.1.1.1"])),
    st.builds(LIVLayer, operator=st.just("GConv-1"), head_size=st.sampled_from([2, 3, 4])),
    st.builds(ConvolutionLayer, kernel=st.integers(1, 6)),
    st.just(MLPLayer(hidden=5)) | st.just(LSTMLayer()),
)
SETTINGS: dict[str, dict[str, Any]] = {
    "attention": {"heads": st.integers(1, 64)},
    "feed_forward": {"hidden": SIZES, "outer": st.sampled_from(["none", "sigmoid"])},
    "convolution": {"width": SIZES, "kernel": st.sampled_from([1, 3, 9])},
    "lstm": {"hidden": SIZES, "layers": st.integers(1, 3), "both_ways": st.booleans()},
    "squeeze_excite": {"reduction": st.sampled_from([2, 16])},
    "projection": {"width": SIZES},
    "layer": {"layer": LAYERS},
}
NODES = st.one_of([st.builds(node, IDS, st.just(kind), **SETTINGS.get(kind, {})) for kind in BUILT_IN])
ENDS = IDS | st.sampled_from(["nobody", ""])
GRAPHS = st.builds(
    ModuleGraph,
    nodes=st.lists(NODES, max_size=9).map(tuple),
    edges=st.lists(st.tuples(ENDS, ENDS), max_size=24).map(tuple),
)
"""Cycles, unknown ends, ids that stand twice, widths that do not fit, heads that do not divide."""


def assert_mended(given_: ModuleGraph, width: int) -> ModuleGraph:
    """Refused by name or valid; after repair valid, and repaired once and for all."""
    try:
        check_graph(given_, width)
        valid = True
    except GenomeError:
        valid = False
    mended = repair_graph(given_, width)
    assert (mended is given_) == valid
    check_graph(mended, width)
    assert repair_graph(mended, width) is mended
    if not valid:
        with pytest.raises(GenomeError):
            check_genotype(hybrid_of(given_, width))
    return mended


@pytest.mark.slow
@given(absurd=GRAPHS, width=st.integers(1, 20), built=st.integers(0, 19))
@settings(max_examples=max(120, settings().max_examples), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_absurd_graphs_are_refused_and_mended_to_modules_that_build_and_mutate(
    absurd: ModuleGraph, width: int, built: int
) -> None:
    mended = hybrid_of(assert_mended(absurd, width), width)
    assert repair(mended) is mended
    count, work = genotype_parameters(mended), genotype_work(mended, 3)
    assert count >= 0
    assert work.total >= 0
    assert all(0 <= number <= 1 for number in genotype_vector(mended))
    again = ModuleGenotype.model_validate_json(canonical.dumps(mended.model_dump(mode="json")))
    assert graph_hash(again.graph) == graph_hash(mended.graph)
    if built:
        return
    check_genotype(mutate(mended, generator(built)))
    if count > MAX_PARAMETERS:
        with pytest.raises(UsageError, match="parameters"):
            build_module(mended)
        return
    with torch.device("meta"):
        assert sum(parameter.numel() for parameter in build_module(mended).parameters()) == count
    if count < 100_000:
        x = torch.randn(2, 3, width)
        y = build_module(mended, seed=0)(x).y
        assert y.shape == x.shape
        assert bool(y.isfinite().all())


SCALARS = st.none() | st.booleans() | st.integers(-3, 1 << 40) | st.floats() | st.text(max_size=8)
JUNK = st.dictionaries(st.sampled_from(["id", "type", "heads", "hidden", "width", "kernel", "layer", "x"]), SCALARS)


@given(
    data=st.fixed_dictionaries(
        {
            "archetype": st.sampled_from([*ARCHETYPES, HYBRID, "", "golem"]),
            "width": st.integers(-1, 20),
            "attributes": st.dictionaries(
                st.sampled_from(["depth", "heads", "dropout", "kernels", "operator"]), SCALARS
            ),
            "graph": st.fixed_dictionaries(
                {"nodes": st.lists(JUNK, max_size=3), "edges": st.lists(st.lists(ENDS, max_size=3), max_size=3)}
            ),
        }
    )
)
@settings(max_examples=40, deadline=None)
def test_absurd_files_are_refused_or_mended(data: dict[str, Any]) -> None:
    try:
        genotype = validate(ModuleGenotype, data, what="a module")
    except UsageError:
        return
    try:
        check_genotype(genotype)
    except UsageError:
        try:
            mended = repair(genotype)
        except UsageError:  # a family that the width does not allow
            assert genotype.archetype == "operator"
            assert genotype.width < 8
            return
        assert mended is not genotype
        genotype = mended
    check_genotype(genotype)
    assert repair(genotype) is genotype


# What is done


ATTENTION = node("a", "attention", heads=8)


@pytest.mark.parametrize(
    ("given_", "wanted"),
    [
        (  # what reaches nothing goes
            graph(
                "in>a a>b in>dead deaf>s b>s a>s s>out", a="norm", b="feed_forward", dead="norm", deaf="gate", s="sum"
            ),
            "in>a a>b b>s a>s s>out",
        ),
        (graph("in>a a>b", a="norm", b="norm"), "in>a a>b b>out"),  # an answer is found
        (graph(""), "in>out"),
        (graph("in>a a>b b>a b>out", a="sum", b="norm"), "in>a a>b b>out"),  # what closes a cycle goes
        (  # a layer that cannot be
            graph("in>l l>a a>out", ATTENTION, node("l", "layer", layer=LIVLayer(operator="Rec-1"))),
            "in>a a>out",
        ),
    ],
)
def test_what_cannot_be_goes_and_the_rest_stays(given_: ModuleGraph, wanted: str) -> None:
    mended = repair_graph(given_, WIDTH)
    assert set(mended.edges) == set(edges(wanted))
    assert [one.id for one in mended.nodes] == [one.id for one in given_.nodes if f">{one.id} " in wanted]
    if ATTENTION in given_.nodes:
        assert mended.nodes == (ATTENTION.model_copy(update={"heads": 6}),), "heads become a divisor"


def test_projections_come_only_where_channels_differ() -> None:
    nodes = (node("p", "projection", width=5), node("c", "convolution", width=7))
    given_ = graph("in>p in>c p>fit-1 c>s fit-1>s p>s s>out", *nodes, node("fit-1", "norm"), s="sum")
    mended = repair_graph(given_, WIDTH)
    new = [one for one in mended.nodes if one.id not in {one.id for one in given_.nodes}]
    assert [(one.id, one.type, getattr(one, "width", 0)) for one in new] == [
        ("fit-2", "projection", 7),
        ("fit-3", "projection", 7),
        ("fit-4", "projection", WIDTH),
    ]
    assert widths(mended, WIDTH)["s"] == 7


def test_full_graphs_are_mended_within_the_limits() -> None:
    """256 nodes of different widths that are all to be added up: not every one finds a projection."""
    nodes = [node(f"p{number}", "projection", width=1 + number % 50) for number in range(MAX_NODES - 1)]
    mended = repair_graph(graph("s>out " + " ".join(f"in>{p.id} {p.id}>s" for p in nodes), *nodes, s="sum"), WIDTH)
    check_graph(mended, WIDTH)
    assert len(order(mended)) <= MAX_NODES
    dense = [(a.id, b.id) for place, a in enumerate(nodes) for b in nodes[:place]][:1024]
    check_graph(repair_graph(ModuleGraph(nodes=tuple(nodes), edges=tuple(dense)), WIDTH), WIDTH)


def test_members_of_a_family_are_mended_by_their_attributes() -> None:
    genotype = sample("transformer", 16, generator(0))
    broken = genotype.model_copy(update={"attributes": {**genotype.attributes, "heads": 3, "depth": 9, "x": 1}})
    mended = repair(broken)
    assert mended.attributes == {**genotype.attributes, "heads": 2, "depth": 4}
    assert repair(genotype.model_copy(update={"archetype": "golem"})).archetype == HYBRID
