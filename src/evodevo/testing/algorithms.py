"""The laws of every search algorithm, as tests to inherit.

    class TestMine(AlgorithmTests):
        def make_algorithm(self) -> Algorithm:
            return Mine(MineSettings(population=8))

The class of the algorithm must be importable by its module's name, because one test asks it in another process.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from functools import partial
from typing import ClassVar

import numpy as np
import pytest

from evodevo import canonical
from evodevo.randomness import generator
from evodevo.search.base import Algorithm, Proposal, Scored, SearchState, SpaceExhausted
from evodevo.testing.bare_search import SearchHistory, generational, steady_state
from evodevo.testing.tabular import OPERATIONS, Cell, CellSpace

SPACE = CellSpace()
TARGET: Cell = (0, 1, 2, 3, 4, 0)


def two_objectives(genome: Cell) -> tuple[float, float]:
    """Genes that miss the target, and the genes' sum over its largest value: in conflict, exact in floating point."""
    return sum(a != b for a, b in zip(genome, TARGET, strict=True)) / 8, sum(genome) / 32


def failing(genome: Cell) -> tuple[float, float] | None:
    """As ``two_objectives``, but a third of the genomes fail."""
    return None if sum(genome) % 3 == 0 else two_objectives(genome)


def fingerprint(algorithm: Algorithm, proposals: int = 200) -> str:
    """A hash of the first proposals of a search on ``CellSpace``: genomes, parents, operations and details."""
    history = generational(algorithm, SPACE, failing, seed=7, evaluations=proposals)
    return canonical.digest([_plain(proposal) for proposal in history.proposals])


class AlgorithmTests:
    """Inherit, and give ``make_algorithm``."""

    permanence: ClassVar[str | None] = None
    """The fingerprint that must not change unnoticed: a change makes old runs impossible to resume."""

    def make_algorithm(self) -> Algorithm:
        """A fresh algorithm with the settings to be tested."""
        raise NotImplementedError

    def history(self, evaluations: int = 96, seed: int = 1) -> SearchHistory:
        """A generational search in which a third of the genomes fail."""
        return generational(self.make_algorithm(), SPACE, failing, seed=seed, evaluations=evaluations)

    def test_same_seed_gives_the_same_search_and_another_seed_another(self) -> None:
        assert self.history() == self.history()
        assert self.history().proposals != self.history(seed=2).proposals

    @pytest.mark.slow
    def test_another_process_gives_the_same_search(self) -> None:
        if self.permanence is not None:
            pytest.skip("its fingerprint was recorded by another process")
        algorithm = self.make_algorithm()
        kind = type(algorithm)
        script = (
            "import importlib, sys\n"
            "from evodevo.testing.algorithms import fingerprint\n"
            "kind = getattr(importlib.import_module(sys.argv[1]), sys.argv[2])\n"
            "print(fingerprint(kind(kind.settings_class.model_validate_json(sys.argv[3])), 96))\n"
        )
        arguments = [kind.__module__, kind.__qualname__, algorithm.settings.model_dump_json()]
        answer = subprocess.run(
            [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True, timeout=120
        )
        assert answer.stdout.strip() == fingerprint(algorithm, 96)

    def test_first_200_proposals_are_permanent(self) -> None:
        if self.permanence is None:
            pytest.skip(f"no fingerprint is recorded; today's is {fingerprint(self.make_algorithm())}")
        assert fingerprint(self.make_algorithm()) == self.permanence, (
            "the proposals for a fixed seed have changed: runs recorded before cannot be resumed. If that is wanted, "
            "record the new fingerprint and say so in the changelog."
        )

    def test_replaying_the_record_gives_the_state(self) -> None:
        history = self.history()
        algorithm = self.make_algorithm()
        state = algorithm.start()
        sizes = [algorithm.settings.population]
        while sum(sizes) < len(history.scored):
            sizes.append(algorithm.offspring)
        told = 0
        for size in sizes:
            state = algorithm.tell(state, history.scored[told : told + size])
            told += size
        assert state == history.state

    def test_a_stored_state_goes_on_as_the_live_one(self) -> None:
        algorithm = self.make_algorithm()
        live = self.history().state
        text = json.dumps(live.to_json(SPACE), allow_nan=False)
        stored = type(live).from_json(SPACE, json.loads(text))
        assert stored == live
        assert _ask(algorithm, stored, 16) == _ask(algorithm, live, 16)

    def test_ask_and_tell_change_nothing(self) -> None:
        algorithm = self.make_algorithm()
        state = self.history().state
        before = json.dumps(state.to_json(SPACE))
        settings = algorithm.settings.model_dump()
        first = _ask(algorithm, state, 16)
        algorithm.tell(state, [Scored("new", first[0].genome, two_objectives(first[0].genome))])
        assert _ask(algorithm, state, 16) == first
        assert json.dumps(state.to_json(SPACE)) == before
        assert algorithm.settings.model_dump() == settings

    def test_global_generators_are_untouched(self) -> None:
        before = random.getstate(), _numpy_state()
        self.history()
        assert (random.getstate(), _numpy_state()) == before

    def test_proposals_are_valid_new_and_of_living_parents(self) -> None:
        algorithm = self.make_algorithm()
        state, seen, told = algorithm.start(), set[str](), 0
        for generation in range(6):
            count = algorithm.offspring if generation else algorithm.settings.population
            draw = partial(generator, 3, generation)
            asked = algorithm.ask(state, SPACE, draw, count, seen.__contains__)
            assert len(asked) == count
            hashes = [SPACE.hash(proposal.genome) for proposal in asked]
            assert len(set(hashes) | seen) == len(hashes) + len(seen)
            living = {individual.id for individual in state.population}
            for proposal in asked:
                SPACE.check(proposal.genome)
                assert set(proposal.parents) <= living
                assert (proposal.parents == ()) == (proposal.operation in ("initial", "sample"))
                json.dumps(proposal.details, allow_nan=False)
            seen.update(hashes)
            born = [
                Scored(f"{told + slot}", proposal.genome, failing(proposal.genome))
                for slot, proposal in enumerate(asked)
            ]
            told += count
            state = algorithm.tell(state, born)
            assert state.told == told

    def test_the_failed_never_live(self) -> None:
        state = self.history().state
        assert len(state.population) <= self.make_algorithm().settings.population
        for individual in state.population:
            assert individual.values == failing(individual.genome) is not None

    def test_a_wholly_failed_beginning_is_survived_by_new_samples(self) -> None:
        algorithm = self.make_algorithm()
        size = algorithm.settings.population
        founders = _ask(algorithm, algorithm.start(), size)
        state = algorithm.tell(
            algorithm.start(), [Scored(str(slot), proposal.genome, None) for slot, proposal in enumerate(founders)]
        )
        assert (state.population, state.told) == ((), size)
        known = {SPACE.hash(founder.genome) for founder in founders}
        again = algorithm.ask(state, SPACE, partial(generator, 1, 1), size, known.__contains__)
        assert {proposal.operation for proposal in again} == {"sample"}
        assert known.isdisjoint(SPACE.hash(proposal.genome) for proposal in again)

    def test_a_wholly_failed_generation_changes_nothing_but_the_count(self) -> None:
        algorithm = self.make_algorithm()
        state = self.history().state
        failed = [
            Scored(f"failed {slot}", proposal.genome, None) for slot, proposal in enumerate(_ask(algorithm, state, 8))
        ]
        after = algorithm.tell(state, failed)
        assert (after.population, after.standings) == (state.population, state.standings)
        assert after.told == state.told + 8

    def test_one_survivor_is_enough(self) -> None:
        algorithm = self.make_algorithm()
        state = algorithm.tell(algorithm.start(), [Scored("a", TARGET, (0.0, 1.0)), Scored("b", TARGET, None)])
        assert len(_ask(algorithm, state, 5)) == 5

    def test_one_objective_equal_values_and_huge_values_do_no_harm(self) -> None:
        for evaluate in (
            lambda genome: (float(genome[0]),),
            lambda genome: (1.0, 1.0, 1.0),
            lambda genome: (1.7e308 if genome[0] else -1.7e308, 5e-324 * genome[1]),
        ):
            history = generational(self.make_algorithm(), SPACE, evaluate, seed=4, evaluations=64)
            assert len(history.scored) == 64

    def test_steady_state_spends_the_budget_without_repeating_itself(self) -> None:
        def seconds(event: int) -> float:
            return float(generator(5, event).lognormal())

        history = steady_state(self.make_algorithm(), SPACE, failing, seed=5, evaluations=100, seconds=seconds)
        assert len({SPACE.hash(proposal.genome) for proposal in history.proposals}) == 100
        assert history.state.told == 100

    def test_a_small_space_is_searched_through_and_then_exhausted(self) -> None:
        algorithm = self.make_algorithm()
        allowed = {SPACE.hash((a, 0, 0, 0, 0, b)) for a in range(len(OPERATIONS)) for b in range(len(OPERATIONS))}
        state = algorithm.tell(
            algorithm.start(), [Scored(str(a), (a, 0, 0, 0, 0, 0), (float(a), 0.0)) for a in range(3)]
        )

        def known(genome_hash: str) -> bool:
            return genome_hash not in allowed

        with pytest.raises(SpaceExhausted) as caught:
            algorithm.ask(state, SPACE, partial(generator, 6), 200, known)
        hashes = [SPACE.hash(proposal.genome) for proposal in caught.value.proposals]
        assert len(set(hashes)) == len(hashes)
        assert set(hashes) <= allowed


def _ask(algorithm: Algorithm, state: SearchState, count: int) -> list[Proposal]:
    return algorithm.ask(state, SPACE, partial(generator, 0, 0), count, lambda genome_hash: False)


def _numpy_state() -> tuple[bytes, int]:
    # The one place that reads numpy's global generator, to check that no other code does.
    _, key, position, *_ = np.random.get_state(legacy=True)
    return np.asarray(key).tobytes(), int(position)


def _plain(proposal: Proposal) -> list[object]:
    # β goes through the C library's exponential, whose last digit may differ between platforms.
    details = {key: round(value, 9) if isinstance(value, float) else value for key, value in proposal.details.items()}
    return [SPACE.print(proposal.genome), list(proposal.parents), proposal.operation, details]
