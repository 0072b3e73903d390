"""The values that pass through ask and tell, and how slots are filled."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import numpy as np
import pytest

from evodevo.errors import ExitCode, UsageError
from evodevo.randomness import generator
from evodevo.search.base import Scored, SearchState, SpaceExhausted, create
from evodevo.testing.tabular import Cell, CellSpace

SPACE = CellSpace()


class DesignedSpace(CellSpace):
    """A cell space with a few simple designs."""

    def __init__(self, designs: int) -> None:
        super().__init__()
        self.designs = designs

    def initial(self, rng: np.random.Generator) -> Cell:
        return (int(rng.integers(self.designs)), 0, 0, 0, 0, 0)


@pytest.mark.parametrize("values", [(float("nan"), 1.0), (float("inf"),), ()])
def test_scores_are_finite_numbers(values: tuple[float, ...]) -> None:
    with pytest.raises(UsageError, match="tell a failed evaluation as values=None"):
        Scored("x", (0,) * 6, values)


@pytest.mark.parametrize("violation", [-1.0, float("nan"), float("inf")])
def test_violations_are_finite_and_not_negative(violation: float) -> None:
    with pytest.raises(UsageError, match="violation"):
        Scored("x", (0,) * 6, (1.0,), violation)


def test_telling_twice_or_in_other_dimensions_is_refused() -> None:
    algorithm = create("nsga2")
    state = algorithm.tell(algorithm.start(), [Scored("a", (0,) * 6, (1.0, 2.0))])
    with pytest.raises(UsageError, match="told twice"):
        algorithm.tell(state, [Scored("a", (0,) * 6, (1.0, 2.0))])
    with pytest.raises(UsageError, match="one number of objectives"):
        algorithm.tell(state, [Scored("b", (0,) * 6, (1.0,))])


@pytest.mark.parametrize(
    "damage",
    [
        {"told": None},
        {"told": 0},
        {"standings": []},
        {"population": [{"id": "a"}]},
        {"population": [{"id": "a", "genome": {}, "values": [1.0], "violation": 0.0}]},
        {"population": [{"id": "a", "genome": SPACE.to_json((0,) * 6), "values": ["x"], "violation": 0.0}]},
    ],
)
def test_a_damaged_state_is_refused(damage: dict[str, object]) -> None:
    algorithm = create("nsga2")
    state = algorithm.tell(algorithm.start(), [Scored("a", (0,) * 6, (1.0, 2.0), 0.5)])
    data = state.to_json(SPACE)
    assert SearchState.from_json(SPACE, data) == state
    with pytest.raises(UsageError):
        SearchState.from_json(SPACE, data | damage)
    with pytest.raises(UsageError):
        SearchState.from_json(SPACE, [])


def test_half_of_the_founders_are_simple_designs() -> None:
    algorithm = create("nsga2")
    founders = algorithm.ask(algorithm.start(), DesignedSpace(5), partial(generator, 1), 9, lambda _: False)
    assert [one.operation for one in founders] == ["initial"] * 5 + ["sample"] * 4
    assert {one.genome for one in founders[:5]} == {(first, 0, 0, 0, 0, 0) for first in range(5)}


def test_designs_that_run_out_are_replaced_by_samples() -> None:
    algorithm = create("nsga2")
    founders = algorithm.ask(algorithm.start(), DesignedSpace(1), partial(generator, 1), 6, lambda _: False)
    assert [one.operation for one in founders] == ["initial"] + ["sample"] * 5
    assert [one.details for one in founders] == [{}, {"redraws": 100}, {"redraws": 100}, {}, {}, {}]


def test_a_duplicate_child_is_redrawn_and_says_so() -> None:
    # All but one genome in five count as known, so most first draws are duplicates.
    def known(genome_hash: str) -> bool:
        return int(genome_hash, 16) % 5 > 0

    algorithm = create("nsga2")
    parents = [Scored(str(a), (a, a, 1, 2, 3, 4), (float(a), -float(a))) for a in range(5)]
    state = algorithm.tell(algorithm.start(), parents)
    children = algorithm.ask(state, SPACE, partial(generator, 2), 20, known)
    assert len({one.genome for one in children}) == 20
    assert not any(known(SPACE.hash(one.genome)) for one in children)
    assert sum(one.details.get("redraws", 0) > 0 for one in children) > 10


def test_children_that_are_all_known_become_samples() -> None:
    near = [(0, 0, 0, 0, 0, a) for a in range(5)]
    state = SearchState(tuple(Scored(str(a), near[a], (float(a),)) for a in range(5)), tuple(range(5)), 5)
    space = CellSpace(mutation_probability=0.0)  # crossover alone stays within the five
    known = {space.hash(genome) for genome in near}
    children = create("nsga2").ask(state, space, partial(generator, 3), 4, known.__contains__)
    assert [(one.operation, one.parents, one.details) for one in children] == [("sample", (), {"redraws": 100})] * 4


def test_exhaustion_hands_over_what_was_found_and_is_a_success() -> None:
    target = SPACE.hash((1, 2, 3, 4, 0, 1))
    state = SearchState((Scored("a", (1, 2, 3, 4, 0, 0), (0.0,)),), (0,), 1)
    with pytest.raises(SpaceExhausted) as caught:
        create("nsga2").ask(state, SPACE, partial(generator, 3), 16, lambda genome_hash: genome_hash != target)
    assert [SPACE.hash(one.genome) for one in caught.value.proposals] in ([], [target])
    assert caught.value.exit_code is ExitCode.SUCCESS


def test_the_mating_of_two_slots_is_drawn_once_and_both_children_are_kept() -> None:
    space = CellSpace(mutation_probability=0.0)
    parents = [(0,) * 6, (4,) * 6]
    state = SearchState(tuple(Scored(str(i), genome, (float(i),)) for i, genome in enumerate(parents)), (0, 1), 2)
    drawn: list[tuple[int, str]] = []

    def draw(slot: int, purpose: str) -> np.random.Generator:
        drawn.append((slot, purpose))
        return generator(8, slot, purpose)

    children = create("nsga2").ask(state, space, draw, 2, lambda _: False)
    assert drawn == [(0, "child/0")]
    assert [a + b for a, b in zip(*(one.genome for one in children), strict=True)] == [4] * 6
    assert {one.operation for one in children} == {"crossover"}
    assert children[0].parents == children[1].parents


def test_a_slot_does_not_depend_on_how_many_are_asked_for() -> None:
    parents = tuple(Scored(str(i), (i, 1, 2, 3, 4, i), (float(i), -float(i))) for i in range(5))
    algorithm = create("nsga2")
    state = algorithm.tell(algorithm.start(), parents)
    ask = partial(algorithm.ask, state, SPACE, partial(generator, 4))
    assert ask(12, lambda _: False)[:5] == ask(5, lambda _: False)


@pytest.mark.slow
def test_the_room_loads_nothing_heavy() -> None:
    script = (
        "import sys; from evodevo.search.base import ALGORITHMS; [ALGORITHMS.get(name) for name in ALGORITHMS]; "
        "sys.exit(any(name in sys.modules for name in ('torch', 'pymoo', 'scipy', 'hypothesis', 'pytest')))"
    )
    assert subprocess.run([sys.executable, "-c", script], timeout=60).returncode == 0
