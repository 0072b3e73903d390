"""The space of routes: the laws of every space, equal tables, and the words of refusals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evodevo.errors import GenomeError, UsageError
from evodevo.h_model.routes.genome import RoutesGenome
from evodevo.h_model.routes.settings import RouteSearchSettings
from evodevo.h_model.routes.space import RoutesSpace, space_of
from evodevo.h_model.spec import HModelStructure
from evodevo.operators.layers.mlp import MLPLayer
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.randomness import generator
from evodevo.testing.spaces import SpaceTests

KINDS = ("a", "b", "a", "a", "b")


class RoutesSpaceTests(SpaceTests):
    arguments: ClassVar[tuple[Any, ...]] = ((8, 17, 26), 3, 6, KINDS)

    def make_space(self) -> RoutesSpace:
        return RoutesSpace(*self.arguments)

    def make_invalid(self, space: Any, rng: np.random.Generator) -> RoutesGenome:
        genome = space.sample(rng)
        slots = genome.slots[: int(rng.integers(0, 3))] + (99,) * int(rng.integers(0, 3))
        layers = tuple(place + int(rng.choice([0, 0, 50])) for place in genome.layers * int(rng.integers(0, 3)))
        return RoutesGenome(slots, layers)

    def make_equivalent(self, space: Any, genome: RoutesGenome, rng: np.random.Generator) -> RoutesGenome:
        """The same table with the layers of each kind named otherwise."""
        names = np.arange(len(space.kinds))
        for kind in set(space.kinds):
            places = [place for place, one in enumerate(space.kinds) if one == kind]
            names[places] = rng.permutation(places)
        return replace(genome, layers=tuple(int(names[place]) for place in genome.layers))


class TestMixed(RoutesSpaceTests):
    pass


class TestSmallest(RoutesSpaceTests):
    arguments: ClassVar[tuple[Any, ...]] = ((0,), 1, 1, ("a",))


class TestEqualLayers(RoutesSpaceTests):
    arguments: ClassVar[tuple[Any, ...]] = ((0, 3), 2, 3, ("a",) * 9)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_a_mutation_changes_one_gene_or_exchanges_two_slots(seed: int) -> None:
    space = RoutesSpace((8, 17, 26), 3, 6, KINDS)
    rng = generator(seed)
    genome = space.sample(rng)
    mutant = space.mutate(genome, rng)
    pairs = zip(space.segments(genome), space.segments(mutant), strict=True)
    unlike = [gene for gene, (before, after) in enumerate(pairs) if before != after]
    if len(unlike) == 2:
        assert max(unlike) < 3
        assert sorted(mutant.slots) == sorted(genome.slots)
    else:
        assert len(unlike) == 1


def test_every_gene_is_drawn_and_mutated() -> None:
    space, rng = RoutesSpace((8, 17), 2, 3, KINDS), generator(0)
    drawn = {space.sample(rng) for _ in range(400)}
    for gene in range(5):
        allowed = {8, 17} if gene < 2 else set(range(5))
        assert {space.segments(genome)[gene] for genome in drawn} == allowed
    start = RoutesGenome((8, 8), (0, 0, 0))
    mutants = {space.mutate(start, rng) for _ in range(400)}
    assert len(mutants) == 2 + 3 * 4, "each other value of each gene"
    apart = [space.mutate(RoutesGenome((8, 17), (0, 0, 0)), rng) for _ in range(400)]
    assert 150 < sum(one.slots == (8, 17) for one in apart) < 250, "a half has other layers"
    assert 50 < sum(one.slots == (17, 8) for one in apart) < 150, "a quarter exchanges the slots"
    full = [space.mutate(RoutesGenome((8, 8), (0, 1, 2)), rng).layers for _ in range(600)]
    assert sum(len(set(one)) == 3 for one in full if one != (0, 1, 2)) > 0.6 * sum(one != (0, 1, 2) for one in full)


def test_layers_of_one_kind_are_exchangeable_and_of_two_kinds_not() -> None:
    space = RoutesSpace((8,), 1, 3, KINDS)

    def same(left: tuple[int, ...], right: tuple[int, ...]) -> bool:
        return space.hash(RoutesGenome((8,), left)) == space.hash(RoutesGenome((8,), right))

    assert same((0, 2, 0), (3, 0, 3))
    assert same((1, 0, 4), (4, 3, 1))
    assert not same((0, 0, 0), (1, 1, 1))
    assert not same((0, 2, 0), (0, 2, 2))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_children_have_all_slots_of_one_parent_and_each_symbol_of_either(seed: int) -> None:
    space, rng = RoutesSpace((8, 17, 26), 3, 6, KINDS), generator(seed)
    a, b = space.sample(rng), space.sample(rng)
    other = space.renamed(b, space._order(a))
    children = space.crossover(a, b, rng)
    assert {child.slots for child in children} == {a.slots, b.slots}
    for symbol in range(6):
        assert sorted(child.layers[symbol] for child in children) == sorted((a.layers[symbol], other.layers[symbol]))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_children_of_tables_without_collisions_have_none_whatever_their_layers_are_called(seed: int) -> None:
    space, rng = RoutesSpace((8, 17), 2, 5, ("a",) * 6), generator(seed)
    a, b = (RoutesGenome((8, 17), tuple(int(one) for one in rng.permutation(6)[:5])) for _ in range(2))
    assert space.hash(space.renamed(b, range(5, -1, -1))) == space.hash(b)
    for child in space.crossover(a, b, rng):
        assert child.layers == a.layers, "both are one table under other names; the names are those of the first"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("8 | 0 1", "3 layers, not 2"),
        ("8 8 | 0 1 2", "1 slots, not 2"),
        ("9 | 0 1 2", "slots hold 9; allowed: 8, 17"),
        ("8 | 0 1 5", "layers hold 5"),
        ("8 0 1 2", "write slots . layers"),
        ("8 | 0 x 2", "'x' is not understood"),
        ("8 | 0 1 2 | 3", "is not understood"),
    ],
)
def test_words_of_refusals(text: str, words: str) -> None:
    with pytest.raises(GenomeError, match=words):
        RoutesSpace((8, 17), 1, 3, KINDS).parse(text)


@pytest.mark.parametrize("arguments", [((), 1, 1, KINDS), ((1, 1), 1, 1, KINDS), ((1,), 0, 1, KINDS), ((1,), 1, 1, ())])
def test_nothing_to_choose_from_is_refused(arguments: Any) -> None:
    with pytest.raises(UsageError, match="each slot once"):
        RoutesSpace(*arguments)


def test_the_space_of_a_model_has_its_layers() -> None:
    search = RouteSearchSettings(input="x", slots=(0, 3), symbols=3)
    mixed = HModelStructure(hidden=(MLPLayer(), TransformerLayer(), MLPLayer()), iterations=2, stream="carried")
    space = space_of(search, mixed)
    assert (space.slots, space.iterations, space.symbols) == ((0, 3), 2, 3)
    assert space.kinds[0] == space.kinds[2] != space.kinds[1]
    with pytest.raises(UsageError, match=r"\[1\] are disabled"):
        space_of(search, mixed.model_copy(update={"disabled": (1,)}))
