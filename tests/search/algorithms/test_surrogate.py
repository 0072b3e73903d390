"""Surrogate-assisted search: what it knows beforehand is used exactly, and it finds more than random search."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.errors import UsageError
from evodevo.execution.serial import SerialExecutor
from evodevo.operators.spec import Dimensions
from evodevo.randomness import generator
from evodevo.search import dominance
from evodevo.search.algorithms.surrogate.state import SurrogateState
from evodevo.search.base import Foreseen, Scored, create
from evodevo.search.problem import INFEASIBLE, FunctionProblem, Goal, Outcome
from evodevo.search.settings import StudySettings
from evodevo.search.study import Study
from evodevo.storage import Store
from evodevo.testing.algorithms import SPACE, TARGET, failing, two_objectives
from evodevo.testing.bare_search import generational, steady_state
from evodevo.testing.tabular import Cell, CellSpace, CellTable

TABLE = Path(__file__).parents[4] / "shared" / "data" / "nas_bench_201_12epoch" / "table.npz"
needs_table = pytest.mark.skipif(not TABLE.is_file(), reason=f"no NAS-Bench-201 table at {TABLE}")


def exact_sum(genome: Cell) -> Foreseen:
    return Foreseen((None, sum(genome) / 32))


def asked(foresee: Any, state: Any = None, count: int = 16, seed: int = 0) -> list[Cell]:
    algorithm = create("surrogate").informed(foresee)
    if state is None:
        state = generational(create("surrogate"), SPACE, two_objectives, seed=1, evaluations=48).state
    known = {SPACE.hash(one.genome) for one in state.archive}
    return [one.genome for one in algorithm.ask(state, SPACE, partial(generator, seed, 3), count, known.__contains__)]


def test_what_is_known_beforehand_decides() -> None:
    # The evaluated front is worse in both objectives than what is promised of one child: it must be the first choice.
    def promising(genome: Cell) -> Foreseen:
        return Foreseen((-5.0, -5.0) if genome[0] == 4 else (5.0, 5.0))

    assert asked(promising)[0][0] == 4


def test_exact_values_are_not_learnt() -> None:
    # Told values of the second objective are noise: learnt, they would say nothing of the sum of the genes.
    rng = np.random.default_rng(0)
    algorithm = create("surrogate")
    cells = [SPACE.sample(generator(0, slot)) for slot in range(40)]
    scored = [Scored(str(i), cell, (1.0, float(rng.random()))) for i, cell in enumerate(cells)]
    state = algorithm.tell(algorithm.start(), scored)
    drawn = [sum(SPACE.sample(generator(1, slot))) for slot in range(200)]
    for seed in range(3):
        (chosen,) = asked(lambda genome: Foreseen((None, sum(genome) / 48 - 1)), state, count=1, seed=seed)
        assert sum(chosen) <= np.quantile(drawn, 0.05)


def test_constraints_that_are_foreseen_are_kept() -> None:
    def foresee(genome: Cell) -> Foreseen:
        return Foreseen((None, None), violation=float(genome[0] > 1))

    assert all(genome[0] <= 1 for genome in asked(foresee))


def test_where_no_child_keeps_them_the_least_broken_are_taken() -> None:
    violations = [1 + genome[0] for genome in asked(lambda genome: Foreseen((None, None), 1.0 + genome[0]))]
    assert max(violations) == 1


def test_failures_of_a_kind_are_avoided() -> None:
    def evaluate(genome: Cell) -> tuple[float, float] | None:
        return None if genome[5] == 0 else two_objectives(genome)  # the target of the first objective has a 0 there

    def share(name: str) -> float:
        rows = [generational(create(name), SPACE, evaluate, seed=seed, evaluations=80).scored for seed in range(3)]
        return float(np.mean([one.values is None for row in rows for one in row[16:]]))

    assert share("surrogate") < 0.1 < 0.15 < share("random")


def test_a_batch_is_spread_over_the_front() -> None:
    genomes = asked(exact_sum)
    assert len({sum(genome) for genome in genomes}) >= 5


def test_a_stopped_training_is_no_member_of_the_front() -> None:
    # Trainings that stopped at a rung have better numbers than all that ended; those numbers must promise nothing.
    algorithm = create("surrogate")
    cells = [SPACE.sample(generator(0, slot)) for slot in range(48)]
    ended = [Scored(str(i), cell, two_objectives(cell)) for i, cell in enumerate(cells[:32])]
    stopped = [Scored(str(i), cell, (two_objectives(cell)[0] - 9, 0.0)) for i, cell in enumerate(cells[32:], 32)]
    rungs = [Scored(one.id, one.genome, one.values, share=0.25) for one in stopped]

    def chosen(told: list[Scored]) -> list[Cell]:
        return asked(exact_sum, algorithm.tell(algorithm.start(), told))

    assert chosen([*ended, *rungs]) != chosen([*ended, *stopped])
    state = algorithm.tell(algorithm.start(), [*ended, *rungs])
    assert SurrogateState.from_json(SPACE, state.to_json(SPACE)) == state


def test_one_objective_is_optimised() -> None:
    def distance(genome: Cell) -> tuple[float]:
        return (sum(abs(a - b) for a, b in zip(genome, TARGET, strict=True)) / 8,)

    def evaluations(name: str, seed: int) -> int:
        values = generational(create(name), SPACE, distance, seed=seed, evaluations=160).values
        return next((place for place, (value,) in enumerate(values) if value == 0), 160)

    ours, control = ([evaluations(name, seed) for seed in range(4)] for name in ("surrogate", "random"))
    assert max(ours) < 100
    assert np.mean(ours) < np.mean(control) / 2


def test_scale_and_unit_of_an_objective_do_not_matter() -> None:
    def scaled(genome: Cell) -> tuple[float, float]:
        first, second = two_objectives(genome)
        return 1024 * first + 8, second / 4  # exact in floating point

    def cells(evaluate: Any) -> list[Cell]:
        return [one.genome for one in generational(create("surrogate"), SPACE, evaluate, seed=2, evaluations=64).scored]

    assert cells(scaled) == cells(two_objectives)


def test_steady_state_replays_to_the_same_proposals() -> None:
    history = steady_state(create("surrogate"), SPACE, failing, seed=5, evaluations=60)
    algorithm = create("surrogate")
    state = algorithm.start()
    for one in history.scored:
        state = algorithm.tell(state, [one])
    assert state == history.state
    fresh = create("surrogate").ask(state, SPACE, partial(generator, 5, 99), 1, lambda _: False)
    assert algorithm.ask(state, SPACE, partial(generator, 5, 99), 1, lambda _: False) == fresh


def test_backbones_of_any_depth_are_compared() -> None:
    space = BackboneSpace(BackboneSettings(depth=6, depth_range=(3, 9), dimensions=Dimensions(width=64)))

    def evaluate(genome: Any) -> tuple[float, float]:
        kinds = [liv.spec.family for liv in space.plan(genome)]
        return -len(set(kinds)) / len(kinds), float(space.cost(genome, length=64).cache_bytes)

    algorithm = create("surrogate", {"population": 8}).informed(
        lambda genome: Foreseen((None, float(space.cost(genome, length=64).cache_bytes)))
    )
    history = generational(algorithm, space, evaluate, seed=0, evaluations=32)
    assert len({space.hash(one.genome) for one in history.proposals}) == 32
    assert len({len(one.genome) for one in history.proposals}) > 2


def test_a_state_of_another_form_is_refused() -> None:
    state = generational(create("surrogate"), SPACE, failing, seed=1, evaluations=32).state
    data = state.to_json(SPACE)
    with pytest.raises(UsageError, match="archive and count disagree"):
        SurrogateState.from_json(SPACE, {**data, "archive": data["archive"][1:]})
    with pytest.raises(UsageError, match="not the state of a search"):
        SurrogateState.from_json(SPACE, {key: value for key, value in data.items() if key != "archive"})


class Screened(FunctionProblem):
    """Cells without a 4 in front."""

    def screen(self, genome: Cell) -> Outcome | None:
        return Outcome(reason=INFEASIBLE, violation=1.0) if genome[0] == 4 else None


def test_a_study_tells_what_needs_no_evaluation() -> None:
    asked_for: list[Cell] = []

    def size(genome: Cell) -> float:
        asked_for.append(genome)
        return -sum(genome)

    problem = Screened(SPACE, two_objectives, (Goal("distance"), Goal("size", direction="maximise", exact=size)))
    assert problem.foresee((0, 0, 1, 0, 0, 1)) == Foreseen((None, 2.0), 0.0)
    assert problem.foresee((4, 0, 0, 0, 0, 1)) == Foreseen((None, 5.0), 1.0)
    with Store.memory() as store:
        study = Study(
            SPACE,
            problem,
            settings=StudySettings(algorithm="surrogate", generations=4),
            store=store,
            executor=SerialExecutor(),
        )
        result = study.run()
    later = [member for member in result.members if member.generation > 0]
    assert len(asked_for) > 300
    assert not any(member.genome[0] == 4 for member in later)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["generational", "steady"])
def test_stopped_and_resumed_it_is_the_uninterrupted_search(mode: str) -> None:
    settings = StudySettings(algorithm="surrogate", generations=4, population=8, mode=mode, seed=4)
    goals = (Goal("distance"), Goal("size", exact=lambda genome: two_objectives(genome)[1]))

    def genomes(stops: bool) -> list[Cell]:
        with Store.memory() as store:
            first = Study(SPACE, two_objectives, goals=goals, settings=settings, store=store, executor=SerialExecutor())
            if stops:
                evaluated = 0

                def listener(kind: str, facts: dict[str, Any]) -> None:
                    nonlocal evaluated
                    evaluated += kind == "evaluated"
                    if evaluated == 19:
                        first.stop()

                first.listener = listener
            result = first.run()
            if stops:
                assert result.state == "interrupted"
                result = Study(
                    SPACE,
                    two_objectives,
                    goals=goals,
                    settings=settings,
                    store=store,
                    run=first.run_id,
                    executor=SerialExecutor(),
                ).run()
            assert result.state == "finished"
            return [member.genome for member in result.members]

    assert genomes(stops=True) == genomes(stops=False)


@pytest.mark.slow
@needs_table
def test_nas_bench_201_it_finds_more_than_random_search_with_p_below_a_hundredth() -> None:
    table = CellTable(TABLE)

    def share(name: str, seed: int) -> float:
        algorithm = create(name).informed(lambda genome: Foreseen((None, table.objectives(genome)[1])))
        history = generational(algorithm, CellSpace(), table.objectives, seed=seed, evaluations=96)
        return dominance.hypervolume(history.values, table.reference) / table.optimum

    ours, control = ([share(name, seed) for seed in range(8)] for name in ("surrogate", "random"))
    assert mannwhitneyu(ours, control, alternative="greater").pvalue < 0.01
    assert np.mean(ours) > 0.97
