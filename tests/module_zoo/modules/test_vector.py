"""A module as numbers: from the graph alone, and far apart where modules are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evodevo.module_zoo.modules.spec import HYBRID, ModuleGenotype, ModuleGraph
from evodevo.module_zoo.modules.vector import VECTOR_SIZE, genotype_distance, genotype_vector
from evodevo.module_zoo.modules.zoo import ARCHETYPES, archetype, mutate, sample, table_3_zoo
from evodevo.randomness import generator

NAMES = st.sampled_from(ARCHETYPES.names())


def as_hybrid(genotype: ModuleGenotype) -> ModuleGenotype:
    return genotype.model_copy(update={"archetype": HYBRID, "attributes": {}})


@given(seed=st.integers(0, 2**32), name=NAMES, width=st.sampled_from([8, 16, 64, 512]))
@settings(max_examples=25, deadline=None)
def test_the_vector_is_of_the_graph_and_within_its_bounds(seed: int, name: str, width: int) -> None:
    genotype = sample(name, width, generator(seed))
    vector = genotype_vector(genotype)
    assert len(vector) == VECTOR_SIZE
    assert all(0 <= number <= 1 for number in vector)
    assert genotype_vector(as_hybrid(genotype)) == vector


def test_the_empty_module_has_a_vector() -> None:
    vector = genotype_vector(ModuleGenotype(archetype=HYBRID, width=8, graph=ModuleGraph()))
    assert len(vector) == VECTOR_SIZE
    assert sum(vector) <= 1  # only that a way leads past everything


@pytest.mark.slow
def test_every_attribute_moves_the_vector() -> None:
    """But for the texts of H-Models, of which it says no more than that it is one, and what it costs."""
    for name in ARCHETYPES:
        if name == "operator":
            continue
        start = archetype(name, 64)
        for seed in range(40):
            mutant = mutate(start, generator(seed, name), 2.0)
            assert genotype_vector(mutant) != genotype_vector(start), mutant.attributes


def test_members_of_one_family_are_nearer_than_strangers() -> None:
    zoo = [module.genotype for module in table_3_zoo(64)]
    vectors = np.array([genotype_vector(one) for one in zoo])
    apart = np.linalg.norm(vectors[:, None] - vectors[None], axis=-1)
    same = np.array([[a.archetype == b.archetype for a in zoo] for b in zoo])
    np.fill_diagonal(apart, np.nan)
    assert 2 * np.nanmean(apart[same]) < np.mean(apart[~same])


@given(seed=st.integers(0, 2**32), names=st.tuples(NAMES, NAMES), free=st.tuples(st.booleans(), st.booleans()))
@settings(max_examples=25, deadline=None)
def test_the_distance_is_symmetric_and_bounded(seed: int, names: tuple[str, str], free: tuple[bool, bool]) -> None:
    a, b = (sample(name, 16, generator(seed, place)) for place, name in enumerate(names))
    a, b = (as_hybrid(one) if hybrid else one for one, hybrid in zip((a, b), free, strict=True))
    distance = genotype_distance(a, b)
    assert distance == genotype_distance(b, a), "to the last digit, in every process"
    assert genotype_distance(a, a) == 0
    assert (1 <= distance <= 2) if a.archetype != b.archetype else (0 <= distance <= 1)


def test_the_distance_of_one_family_is_the_mean_over_attributes() -> None:
    a = archetype("squeeze_excite", 16, reduction=2, activation="relu")
    b = archetype("squeeze_excite", 16, reduction=8, activation="silu")
    assert genotype_distance(a, b) == pytest.approx((2 / 3 + 1) / 2)
    assert genotype_distance(a, archetype("squeeze_excite", 16, reduction=2)) == 0


def test_another_family_is_one_further_and_misses_attributes() -> None:
    a, b = archetype("lstm", 16), archetype("squeeze_excite", 16)
    assert genotype_distance(a, b) == 2  # nothing in common
    mlp, transformer = archetype("mlp", 16), archetype("transformer", 16)
    # depth, dropout and activation are equal; heads, form, two factors and outer are one's alone
    assert genotype_distance(mlp, transformer) == pytest.approx(1 + 5 / 8)
