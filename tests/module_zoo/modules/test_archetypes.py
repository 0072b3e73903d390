"""Families of modules: what is refused, how they mutate, cross and begin; a module as words and as numbers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evodevo.errors import GenomeError, UsageError
from evodevo.module_zoo.modules.graph import genotype_hash
from evodevo.module_zoo.modules.spec import HYBRID, ModuleGenotype, ModuleGraph
from evodevo.module_zoo.modules.vector import VECTOR_SIZE, genotype_distance, genotype_vector
from evodevo.module_zoo.modules.zoo import (
    ARCHETYPES,
    PAPER,
    archetype,
    check_genotype,
    crossover,
    mutate,
    random_zoo,
    sample,
    start_zoo,
    table_3_zoo,
    with_lineage,
    words,
)
from evodevo.operators.layers.liv import LIVLayer
from evodevo.randomness import generator
from module_zoo.modules.graphs import graph, hybrid_of, node

NAMES = st.sampled_from(ARCHETYPES.names())
SEEDS = st.integers(0, 2**32)


def free() -> ModuleGenotype:
    """A hybrid."""
    made = graph(
        "in>c c>f f>p p>g g>l l>s in>s s>out",
        node("c", "convolution", width=16, kernel=3),
        node("f", "feed_forward", hidden=8),
        node("p", "projection", width=16),
        node("l", "layer", layer=LIVLayer(operator="Rec-1", head_size=4)),
        g="gate",
        s="sum",
    )
    return hybrid_of(made, 16)


# Making


@pytest.mark.parametrize(
    ("name", "attributes", "message"),
    [
        ("transformr", {}, "unknown archetype 'transformr'. Did you mean 'transformer'"),
        ("mlp", {"hidden": 2.0}, "unknown attribute of the archetype 'mlp' 'hidden'. Did you mean 'hidden_factor'"),
        ("transformer", {"heads": 3}, "heads of 'transformer' is 3; allowed: 1, 2, 4, 8, 16 .divisors of the width 16"),
        ("transformer", {"depth": 5}, "depth of 'transformer' is 5; allowed: 1, 2, 3, 4"),
        ("lstm", {"dropout": 0.6}, "dropout of 'lstm' is 0.6; allowed: 0 to 0.5"),
        ("mlp", {"hidden_factor": 9}, "allowed: 0.25 to 4"),
        ("cnn", {"kernels": (4,)}, "one or more of 1, 3, 5, 7, 9"),
        ("operator", {"operator": "Wreck-1"}, "operator of 'operator' is 'Wreck-1'; allowed: .*Rec-1"),
    ],
)
def test_wrong_attributes_are_refused(name: str, attributes: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        archetype(name, 16, **attributes)


def test_defaults_fit_every_width_and_graphs_that_are_not_their_attributes_are_refused() -> None:
    for width in (1, 2, 3, 7, 8, 16, 30, 64, 512):
        for name in PAPER:
            check_genotype(archetype(name, width))
    assert archetype("transformer", 30).attributes["heads"] == 2
    for width in (4, 8, 64, 512):
        check_genotype(archetype("operator", width))
    with pytest.raises(UsageError, match="an H-Model has at least 4 channels"):
        archetype("operator", 3)
    one, other = archetype("mlp", 16), archetype("mlp", 16, depth=2)
    with pytest.raises(GenomeError, match="not the one that the attributes of this 'mlp' give"):
        check_genotype(one.model_copy(update={"graph": other.graph}))
    with pytest.raises(GenomeError, match="a hybrid has no attributes"):
        check_genotype(one.model_copy(update={"archetype": HYBRID}))
    check_genotype(one.model_copy(update={"archetype": HYBRID, "attributes": {}}))


# Mutation and crossover


@given(seed=SEEDS, names=st.tuples(NAMES, NAMES), scale=st.floats(0, 50))
@settings(max_examples=20, deadline=None)
def test_mutants_and_children_are_valid_reproducible_and_of_their_families(
    seed: int, names: tuple[str, str], scale: float
) -> None:
    parents = [sample(name, 16, generator(seed, place)) for place, name in enumerate(names)]
    mutant = mutate(parents[0], generator(seed, "mutation"), scale)
    children = crossover(parents[0], parents[1], generator(seed, "crossover"))
    for one, name in zip((mutant, *children), (names[0], *names), strict=True):
        check_genotype(one)
        assert one.archetype == name
    assert mutant == mutate(parents[0], generator(seed, "mutation"), scale)
    assert children == crossover(parents[0], parents[1], generator(seed, "crossover"))


def test_mutation_nearly_always_changes_something_and_can_change_every_attribute() -> None:
    for start in (*(archetype(name, 16) for name in ARCHETYPES), free()):
        mutants = [mutate(start, generator(seed, start.archetype)) for seed in range(60)]
        assert sum(genotype_hash(one) != genotype_hash(start) for one in mutants[:20]) >= 18, start.archetype
        for key, value in start.attributes.items():
            assert any(mutant.attributes[key] != value for mutant in mutants), (start.archetype, key)


def test_the_nodes_of_a_hybrid_mutate_and_its_wiring_stays() -> None:
    start = free()
    found = [mutate(start, generator(seed)) for seed in range(60)]
    for mutant in found:
        check_genotype(mutant)
        assert mutant.graph.edges == start.graph.edges
        assert [node.id for node in mutant.graph.nodes] == [node.id for node in start.graph.nodes]
    nodes = [{node.id: node for node in mutant.graph.nodes} for mutant in found]
    assert len({one["c"].kernel for one in nodes}) == 3
    assert len({one["c"].width for one in nodes}) > 3
    assert {one["p"].width for one in nodes} == {16}  # the sum wants it
    assert {one["f"].hidden for one in nodes} > {8}
    assert len({one["l"].layer.operator for one in nodes}) > 3


def test_children_are_equation_13_where_their_parents_share_attributes() -> None:
    a, b = (archetype("mlp", 16, hidden_factor=one, depth=two, dropout=0.0) for one, two in ((1.0, 1), (3.0, 3)))
    left, right = crossover(a, b, generator(0), share=0.75)
    assert left.attributes["hidden_factor"] == pytest.approx(1.5)
    assert right.attributes["hidden_factor"] == pytest.approx(2.5)
    assert (left.attributes["depth"], right.attributes["depth"]) == (1, 2)  # of 1.5 and 2.5
    drawn = {crossover(a, b, generator(seed))[0].attributes["hidden_factor"] for seed in range(20)}
    assert len(drawn) > 15
    assert all(1 <= float(one) <= 3 for one in drawn)
    a, b = archetype("transformer", 16, dropout=0.4, depth=4), archetype("resnet1d", 16, dropout=0.0, depth=2)
    left, right = crossover(a, b, generator(0), share=0.5)
    assert left.attributes["dropout"] == right.attributes["dropout"] == pytest.approx(0.2)
    assert left.attributes["depth"] == right.attributes["depth"] == 3
    assert left.attributes["heads"] == a.attributes["heads"]
    assert right.attributes["kernel"] == b.attributes["kernel"]
    mlp, operator = archetype("mlp", 16), archetype("operator", 16)
    assert crossover(free(), mlp, generator(0)) == (free(), mlp)
    assert crossover(operator, mlp, generator(0)) == (operator, mlp)
    with pytest.raises(UsageError, match="modules of width 16 and 8 have no children"):
        crossover(mlp, archetype("mlp", 8), generator(0))


# Zoos


def test_the_first_zoos() -> None:
    assert set(ARCHETYPES) == {*PAPER, "operator"}
    start, table_3 = start_zoo(64), table_3_zoo(64)
    assert [module.genotype.archetype for module in start] == list(PAPER)
    assert [module.id for module in start][:2] == ["transformer-1", "mlp-1"]
    counts = [len(list(group)) for _, group in itertools.groupby(module.genotype.archetype for module in table_3)]
    assert counts == [2, 3, 1, 1, 1, 1]
    assert table_3[6].genotype.attributes["both_ways"] is True
    for zoo in (start, table_3, random_zoo(64, 20, generator(0))):
        assert len({module.id for module in zoo}) == len(zoo)
        assert len({module.seed for module in zoo}) == len(zoo)
        lines = [node.lineage for module in zoo for node in module.genotype.graph.nodes]
        assert len(set(lines)) == len(lines)
        for module in zoo:
            check_genotype(module.genotype)
    assert len({genotype_hash(module.genotype) for module in table_3}) == 9
    for width in (4, 7, 16, 30):
        assert len({genotype_hash(module.genotype) for module in table_3_zoo(width)}) == 9
    assert random_zoo(64, 5, generator(1)) == random_zoo(64, 5, generator(1))
    assert {one.genotype.archetype for one in random_zoo(8, 9, generator(0), ("lstm",))} == {"lstm"}
    once = with_lineage(archetype("mlp", 8), "a")
    assert with_lineage(once, "b") == once, "a lineage that is there stays"
    assert [node.lineage for node in once.graph.nodes] == ["a/block1.feed_forward"]


# Words


@pytest.mark.parametrize(
    ("genotype", "wanted"),
    [
        (archetype("transformer", 16, depth=2, dropout=0.0), "transformer, depth 2, 4 heads, feed-forward ×2, gelu"),
        (archetype("mlp", 16, outer="sigmoid"), "MLP, hidden ×2, depth 1, dropout 0.1, gelu, outer sigmoid"),
        (archetype("lstm", 16, both_ways=False, layers=2), "LSTM, hidden ×0.5, 2 layers, one way, dropout 0.1"),
        (archetype("cnn", 16), "CNN, kernels 3+5+7, channel ×0.5, dropout 0.1, gelu"),
        (archetype("squeeze_excite", 16), "squeeze-excite, reduction 4, relu"),
        (archetype("operator", 16, operator="SA-1"), "operator, SA-1"),
        (free(), "hybrid, convolution, feed-forward, gate, layer, projection, sum"),
    ],
)
def test_words(genotype: ModuleGenotype, wanted: str) -> None:
    assert words(genotype) == wanted


# As numbers


def as_hybrid(genotype: ModuleGenotype) -> ModuleGenotype:
    return genotype.model_copy(update={"archetype": HYBRID, "attributes": {}})


@given(seed=SEEDS, name=NAMES, width=st.sampled_from([8, 16, 64, 512]))
@settings(max_examples=20, deadline=None)
def test_the_vector_is_of_the_graph_and_within_its_bounds(seed: int, name: str, width: int) -> None:
    genotype = sample(name, width, generator(seed))
    vector = genotype_vector(genotype)
    assert len(vector) == VECTOR_SIZE
    assert all(0 <= number <= 1 for number in vector)
    assert genotype_vector(as_hybrid(genotype)) == vector


def test_every_attribute_moves_the_vector() -> None:
    """But for the texts of H-Models, of which it says no more than that it is one, and what it costs."""
    for name in PAPER:
        start = archetype(name, 64)
        for seed in range(20):
            mutant = mutate(start, generator(seed, name), 2.0)
            assert genotype_vector(mutant) != genotype_vector(start), mutant.attributes
    empty = genotype_vector(ModuleGenotype(archetype=HYBRID, width=8, graph=ModuleGraph()))
    assert len(empty) == VECTOR_SIZE
    assert sum(empty) <= 1  # only that a way leads past everything


def test_members_of_one_family_are_nearer_than_strangers() -> None:
    zoo = [module.genotype for module in table_3_zoo(64)]
    vectors = np.array([genotype_vector(one) for one in zoo])
    apart = np.linalg.norm(vectors[:, None] - vectors[None], axis=-1)
    same = np.array([[a.archetype == b.archetype for a in zoo] for b in zoo])
    np.fill_diagonal(apart, np.nan)
    assert 2 * np.nanmean(apart[same]) < np.mean(apart[~same])


@given(seed=SEEDS, names=st.tuples(NAMES, NAMES), free=st.tuples(st.booleans(), st.booleans()))
@settings(max_examples=20, deadline=None)
def test_the_distance_is_symmetric_and_bounded(seed: int, names: tuple[str, str], free: tuple[bool, bool]) -> None:
    a, b = (sample(name, 16, generator(seed, place)) for place, name in enumerate(names))
    a, b = (as_hybrid(one) if hybrid else one for one, hybrid in zip((a, b), free, strict=True))
    distance = genotype_distance(a, b)
    assert distance == genotype_distance(b, a), "to the last digit, in every process"
    assert genotype_distance(a, a) == 0
    assert (1 <= distance <= 2) if a.archetype != b.archetype else (0 <= distance <= 1)


def test_the_distance_is_the_mean_over_attributes_and_one_more_between_families() -> None:
    a = archetype("squeeze_excite", 16, reduction=2, activation="relu")
    b = archetype("squeeze_excite", 16, reduction=8, activation="silu")
    assert genotype_distance(a, b) == pytest.approx((2 / 3 + 1) / 2)
    assert genotype_distance(a, archetype("squeeze_excite", 16, reduction=2)) == 0
    assert genotype_distance(archetype("lstm", 16), a) == 2, "nothing in common"
    # depth, dropout and activation are equal; heads, form, two factors and outer are one's alone
    assert genotype_distance(archetype("mlp", 16), archetype("transformer", 16)) == pytest.approx(1 + 5 / 8)
