"""The laws of every space of genomes, as tests to inherit.

    class TestMine(SpaceTests):
        def make_space(self) -> Space:
            return MySpace()

Hypothesis chooses the seeds; a space draws its genomes from them.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evodevo.errors import GenomeError
from evodevo.randomness import generator
from evodevo.search.space import Space

SEEDS = st.integers(0, 2**32 - 1)
# One test method runs for many subclasses, which Hypothesis takes for a mistake.
LAWS = settings(max_examples=10, deadline=None, database=None, suppress_health_check=[HealthCheck.differing_executors])


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner) | st.dictionaries(st.text(), inner)


class SpaceTests:
    """Inherit, and give ``make_space``; ``make_invalid`` and ``make_equivalent`` where the space has such genomes."""

    def make_space(self) -> Space[Any]:
        """The space with the settings to be tested."""
        raise NotImplementedError

    def make_invalid(self, space: Space[Any], rng: np.random.Generator) -> Any:
        """A genome that ``check`` refuses and ``repair`` must mend; a valid one where there is none."""
        return space.sample(rng)

    def make_equivalent(self, space: Space[Any], genome: Any, rng: np.random.Generator) -> Any:
        """A genome, written differently if possible, that builds the same model."""
        return genome

    def genomes(self, space: Space[Any], rng: np.random.Generator) -> list[Any]:
        """Valid genomes of every origin."""
        a, b = space.sample(rng), space.sample(rng)
        children = space.crossover(a, b, rng)
        mutants = [space.mutate(genome, rng) for genome in (a, *children)]
        initial = space.initial(rng)
        return [a, b, *children, *mutants, *([] if initial is None else [initial])]

    @LAWS
    @given(seed=SEEDS)
    def test_every_operation_gives_valid_genomes(self, seed: int) -> None:
        space = self.make_space()
        for genome in self.genomes(space, generator(seed)):
            space.check(genome)

    @LAWS
    @given(seed=SEEDS)
    def test_a_mutation_is_the_mutant_with_facts(self, seed: int) -> None:
        space = self.make_space()
        genome = space.sample(generator(seed))
        mutant, facts = space.mutation(genome, generator(seed, "mutation"))
        assert mutant == space.mutate(genome, generator(seed, "mutation"))
        assert json.loads(json.dumps(facts)) == facts

    @LAWS
    @given(seed=SEEDS)
    def test_equal_generators_give_equal_genomes(self, seed: int) -> None:
        space = self.make_space()
        assert self.genomes(space, generator(seed)) == self.genomes(self.make_space(), generator(seed))

    @LAWS
    @given(seed=SEEDS)
    def test_repair_is_the_identity_on_valid_genomes(self, seed: int) -> None:
        space, rng = self.make_space(), generator(seed)
        for genome in self.genomes(space, rng):
            assert space.repair(genome, rng) == genome

    @LAWS
    @given(seed=SEEDS)
    def test_repair_mends_and_is_idempotent(self, seed: int) -> None:
        space, rng = self.make_space(), generator(seed)
        left, right = space.segments(space.sample(rng)), space.segments(space.sample(rng))
        # As the firefly does: any position may come from another genome.
        mixed = [b if rng.random() < 0.5 else a for a, b in zip(left, right, strict=False)]
        for broken in (self.make_invalid(space, rng), space.join([*mixed, *left[len(mixed) :]])):
            mended = space.repair(broken, rng)
            space.check(mended)
            assert space.repair(mended, rng) == mended

    @LAWS
    @given(seed=SEEDS)
    def test_json_and_text_round_trip(self, seed: int) -> None:
        space = self.make_space()
        for genome in self.genomes(space, generator(seed)):
            envelope = json.loads(json.dumps(space.to_json(genome), allow_nan=False))
            read = space.from_json(envelope)
            assert read == genome
            assert hash(read) == hash(genome)
            assert space.parse(space.print(genome)) == genome

    @LAWS
    @given(seed=SEEDS)
    def test_segments_and_join_are_inverse(self, seed: int) -> None:
        space = self.make_space()
        for genome in self.genomes(space, generator(seed)):
            assert space.join(space.segments(genome)) == genome

    @LAWS
    @given(seed=SEEDS)
    def test_hash_is_that_of_the_model(self, seed: int) -> None:
        space, rng = self.make_space(), generator(seed)
        for genome in self.genomes(space, rng):
            digest = space.hash(genome)
            assert len(digest) == 64
            assert set(digest) <= set("0123456789abcdef")
            assert space.hash(space.parse(space.print(genome))) == digest
            twin = self.make_equivalent(space, genome, rng)
            space.check(twin)
            assert space.hash(twin) == digest
            canonical = space.canonical(genome)
            space.check(canonical)
            assert space.canonical(canonical) == canonical
            assert space.hash(canonical) == digest

    @LAWS
    @given(seed=SEEDS)
    def test_different_canonical_genomes_have_different_hashes(self, seed: int) -> None:
        space = self.make_space()
        canonical = {space.canonical(genome) for genome in self.genomes(space, generator(seed))}
        assert len({space.hash(genome) for genome in canonical}) == len(canonical)

    @LAWS
    @given(seed=SEEDS)
    def test_distance_is_a_symmetric_share(self, seed: int) -> None:
        space = self.make_space()
        a, b, *_ = self.genomes(space, generator(seed))
        assert space.distance(a, a) == 0
        assert space.distance(a, b) == space.distance(b, a)
        assert 0 <= space.distance(a, b) <= 1

    @LAWS
    @given(data=st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), _containers))
    def test_any_other_genes_are_refused_or_read_as_valid(self, data: Any) -> None:
        space = self.make_space()
        try:
            genome = space.from_json({"space": space.name, "version": space.version, "genes": data})
        except GenomeError:
            return
        space.check(genome)

    @LAWS
    @given(text=st.text(alphabet=st.characters() | st.sampled_from("0123456789 .-–"), max_size=60))
    def test_any_other_text_is_refused_or_read_as_valid(self, text: str) -> None:
        space = self.make_space()
        try:
            genome = space.parse(text)
        except GenomeError:
            return
        space.check(genome)
        assert space.parse(space.print(genome)) == genome

    def test_envelopes_of_others_are_refused(self) -> None:
        space = self.make_space()
        envelope = space.to_json(space.sample(generator(0)))
        damages: list[Any] = [
            None,
            [],
            envelope["genes"],
            envelope | {"space": "another"},
            envelope | {"version": space.version + 1},
            envelope | {"version": True},
            envelope | {"more": 1},
            {key: value for key, value in envelope.items() if key != "version"},
        ]
        for damaged in damages:
            with pytest.raises(GenomeError):
                space.from_json(damaged)
