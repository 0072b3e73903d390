"""Rungs: who stops is decided by the scores of one rung, never beside whole budgets; stopped or killed, the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from evodevo import canonical
from evodevo.errors import UsageError
from evodevo.execution.base import Report
from evodevo.execution.serial import SerialExecutor
from evodevo.randomness import generator
from evodevo.search import dominance
from evodevo.search.base import Scored, SearchState
from evodevo.search.front import front_places, hypervolume
from evodevo.search.problem import FunctionProblem, Goal, Outcome, Terms, read_answer, write_answer
from evodevo.search.record import is_final, to_outcome
from evodevo.search.rungs import RungSettings, going_on, mean_changes, spent_tokens
from evodevo.search.selection import crowded_standings, summed_standings
from evodevo.search.settings import StudySettings
from evodevo.search.study import Study
from evodevo.storage import Store
from evodevo.testing.histories import evaluated_twice, history, hypervolumes
from evodevo.testing.real_vector import RealVectorSpace, zdt1

SPACE = RealVectorSpace(4)
GOALS = (Goal("f1"), Goal("f2"))
BUDGET = 1000


class Learning(FunctionProblem):
    """ZDT1 with a first score that falls while a candidate is trained, by another amount for each."""

    undivided = ""

    def __init__(self) -> None:
        super().__init__(SPACE, zdt1, GOALS)
        self.trained: list[tuple[str, float]] = []

    def payload(self, genome: Any, seed: int, resume: str | None = None) -> bytes:
        return self.payload_on(Terms(), genome, seed, resume)

    def payload_on(self, terms: Terms, genome: Any, seed: int, resume: str | None = None) -> bytes:
        return canonical.dumps([SPACE.to_json(genome), seed, terms.share]).encode()

    def read(self, payload: bytes) -> Outcome:
        return read_answer(payload)

    def _evaluate(self, payload: bytes, report: Report) -> bytes:
        genes, seed, share = canonical.loads(payload)
        genome = SPACE.from_json(genes)
        self.trained.append((SPACE.hash(genome), share))
        first, second = zdt1(genome)
        noise = generator(seed, SPACE.hash(genome)).random()
        scores = {"f1": first + (1 - share) * noise, "f2": second}
        reason = "diverged" if noise > 0.9 and share > 0.4 else None
        return write_answer(Outcome(reason=reason, scores=scores, extra={"tokens": int(BUDGET * share)}))


def study(store: Store, *, run: str | None = None, listener: Any = None, **changes: Any) -> Study:
    values = {"population": 8, "generations": 3, "seed": 5, "rungs": {"shares": (0.25, 0.5), "minimum": 2}, **changes}
    problem = Learning()
    return Study(
        SPACE,
        problem,
        settings=StudySettings(**values),
        store=store,
        run=run,
        listener=listener,
        executor=SerialExecutor(),
    )


def told(store: Store, run: str) -> tuple[Any, ...]:
    """Everything that must not depend on interruptions."""
    assert evaluated_twice(store, run) == []
    births = {row.id: row.birth for row in store.individuals(run)}
    scores = {
        (births[row.individual_id], row.fidelity, row.seed): canonical.dumps(row.extra)
        for row in store.evaluations(run)
        if is_final(row)
    }
    rungs = [
        (event.subject, [births[one] for one in event.payload["went_on"]])
        for event in store.events(run)
        if event.type == "rung"
    ]
    tokens = [event.payload["tokens"] for event in store.events(run) if event.type == "generation"]
    return history(store, run), hypervolumes(store, run), scores, rungs, tokens


@pytest.fixture(scope="module")
def whole() -> tuple[Any, ...]:
    with Store.memory() as store:
        return told(store, study(store).run().run)


# The rule


def test_settings_that_are_no_rungs_are_refused() -> None:
    for wrong in ({"shares": ()}, {"shares": (0.5, 0.25)}, {"shares": (1.0,)}, {"kept": 1.0}, {"minimum": 0}):
        with pytest.raises(ValidationError):
            RungSettings(**wrong)


QUIET = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@QUIET
@given(st.integers(1, 100), st.floats(0.05, 0.9), st.integers(1, 5), st.sampled_from([(0.25,), (0.1, 0.5)]))
def test_a_plan_costs_what_its_rungs_cost(
    candidates: int, kept: float, minimum: int, shares: tuple[float, ...]
) -> None:
    rungs = RungSettings(shares=shares, kept=kept, minimum=minimum)
    sizes = [candidates]
    for _ in shares:
        sizes.append(rungs.size(sizes[-1]))
        assert min(minimum, sizes[-2]) <= sizes[-1] <= sizes[-2]
    steps = [b - a for a, b in zip((0.0, *shares), (*shares, 1.0), strict=True)]
    assert rungs.planned(candidates) == pytest.approx(sum(n * s for n, s in zip(sizes, steps, strict=True)))
    assert rungs.planned(candidates) <= candidates


def test_the_quoted_share_of_the_tokens() -> None:
    assert RungSettings(shares=(0.25,), kept=0.25).planned(32) / 32 == pytest.approx(0.25 + 0.25 * 0.75)


POINTS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=12)


@QUIET
@given(POINTS, st.integers(1, 12), st.sets(st.integers(0, 11)))
def test_who_goes_on_is_dominated_by_nobody_that_stops(
    points: list[tuple[int, int]], size: int, failed: set[int]
) -> None:
    pool = [Scored(str(n), n, None if n in failed else (float(a), float(b))) for n, (a, b) in enumerate(points)]
    ahead = going_on(pool, size)
    scored = {one.id: one.values for one in pool if one.values is not None}
    assert len(ahead) == min(size, len(scored))
    for stopped in scored.keys() - set(ahead):
        assert not any(dominance.dominates(scored[stopped], scored[one]) for one in ahead)


@QUIET
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.sampled_from([0.25, 0.5, 1.0])), min_size=1))
@pytest.mark.parametrize("standings_of", [crowded_standings, summed_standings])
def test_a_lower_rung_ranks_behind_every_higher_one(
    standings_of: Callable[..., Any], rows: list[tuple[int, int, float]]
) -> None:
    pool = [Scored(str(n), n, (float(a), float(b)), share=share) for n, (a, b, share) in enumerate(rows)]
    standings = standings_of(pool)
    for share in {one.share for one in pool}:
        own = [n for n, one in enumerate(pool) if one.share == share]
        alone = standings_of([pool[n] for n in own])
        assert [standings[n] - standings[own].min() for n in own] == alone.tolist(), "as among themselves"
        lower = [standings[n] for n, one in enumerate(pool) if one.share < share]
        assert not lower or min(lower) > standings[own].max()


def test_a_front_holds_whole_budgets_alone() -> None:
    stopped = Outcome(scores={"f1": 0.0, "f2": 0.0}, share=0.25)
    whole = Outcome(scores={"f1": 1.0, "f2": 1.0})
    assert front_places([stopped, whole], GOALS) == [1]
    assert hypervolume([stopped, whole], GOALS, (2.0, 2.0)) == 1.0


def test_the_share_of_an_individual_survives_json() -> None:
    point = (0.1, 0.2, 0.3, 0.4)
    state = SearchState((Scored("a", point, (1.0,), share=0.25), Scored("b", point, (1.0,))), (1, 0), 2)
    stored = state.to_json(SPACE)
    assert SearchState.from_json(SPACE, stored) == state
    assert "share" not in stored["population"][1], "states of before there were rungs read as they were written"


def test_what_an_algorithm_is_told_of_the_stopped_is_moved_by_the_mean_change_of_the_others() -> None:
    early, late = ({"f1": 3.0, "f2": 1.0}, {"f1": 5.0, "f2": 1.0}), ({"f1": 2.0, "f2": 1.0}, {"f1": 1.0, "f2": 1.0})
    went_on = [{0.25: Outcome(scores=a, share=0.25), 1.0: Outcome(scores=b)} for a, b in zip(early, late, strict=True)]
    stopped = {0.25: Outcome(scores={"f1": 9.0, "f2": 2.0}, share=0.25)}
    failed = {0.25: Outcome(scores={"f1": 0.0, "f2": 0.0}, share=0.25), 1.0: Outcome(reason="nan")}
    assert mean_changes([*went_on, stopped, failed], GOALS) == {0.25: (-2.5, 0.0)}
    assert mean_changes([stopped], GOALS) == {}, "where nobody went on nothing is known"
    with Store.memory() as store:
        one = study(store, generations=1)
        told: list[Scored] = []
        tell = one.algorithm.tell
        one.algorithm.tell = lambda state, scored: [told.extend(scored), tell(state, scored)][1]  # type: ignore[method-assign, assignment, func-returns-value, list-item]
        one.run()
        changes = mean_changes([{**m.rungs, m.outcomes[0].share: m.outcomes[0]} for m in one.members.values()], GOALS)
        for scored in told:
            own, change = one.members[scored.id].outcomes[0], changes.get(scored.share, (0.0, 0.0))
            expected = own.values(GOALS)
            if expected is not None:
                assert scored.values == tuple(a + b for a, b in zip(expected, change, strict=True))


# A search


def test_a_search_spends_what_its_rungs_say_and_no_more(whole: tuple[Any, ...]) -> None:
    births, _, scores, rungs, tokens = whole
    assert [name for name, _ in rungs[:2]] == ["0/0.25", "0/0.5"]
    for generation in range(3):
        climbing = {birth.birth for birth in births if birth.generation == generation}
        for share in ("0.25", "0.5"):
            assert {key[0] for key in scores if key[1] == f"share={share};function"} >= climbing
            climbing = set(dict(rungs)[f"{generation}/{share}"])
            assert len(climbing) == 2 or (share == "0.5" and len(climbing) < 2), "who diverges does not go on"
        full = {key[0] for key in scores if key[1] == "function" and key[0].startswith(f"{generation}/")}
        assert full == climbing
        assert tokens[generation] == {"0.25": 8 * 250, "0.5": 2 * 250, "1.0": len(climbing) * 500}


def test_the_front_is_of_those_that_were_trained_to_the_end() -> None:
    with Store.memory() as store:
        result = study(store).run()
        assert result.front
        assert all(member.outcomes[0].share == 1 for member in result.front)
        stopped = [member for member in result.members if member.outcomes[0].share < 1]
        assert len(stopped) >= 3 * 6
        assert all(member.outcomes[0].share == max(member.rungs) for member in stopped)
        spent = spent_tokens({**m.rungs, m.outcomes[0].share: m.outcomes[0]} for m in result.members)
        rows = [to_outcome(row) for row in store.evaluations(result.run)]
        ended = sum(row.share == 1 for row in rows)
        assert 0 < ended < 6, "some diverge"
        assert spent == {0.25: 24 * 250, 0.5: 6 * 250, 1.0: ended * 500}
        assert {row.share for row in rows} == {0.25, 0.5, 1.0}


class Killed(BaseException):
    """As kill -9: nothing of ours catches it."""


def _at(moment: int | None, one: Study, hard: bool) -> Callable[[str, dict[str, Any]], None]:
    seen = 0

    def listen(kind: str, facts: dict[str, Any]) -> None:
        nonlocal seen
        seen += 1
        if seen == moment:
            if hard:
                raise Killed
            one.stop()

    return listen


@pytest.mark.slow
@settings(QUIET, max_examples=8)
@given(moments=st.lists(st.integers(1, 60), min_size=1, max_size=3), hard=st.booleans())
def test_an_interrupted_search_has_the_same_future(whole: tuple[Any, ...], moments: list[int], hard: bool) -> None:
    with Store.memory() as store:
        run = None
        for moment in [*moments, None]:
            one = study(store, run=run)
            one.listener = _at(moment, one, hard)
            run = one.run_id
            try:
                one.run()
            except Killed:
                continue
        assert told(store, run) == whole


def test_a_finished_run_is_read_and_made_longer_without_training_anything_again(whole: tuple[Any, ...]) -> None:
    with Store.memory() as store:
        short = study(store, generations=2).run()
        longer = study(store, run=short.run)
        longer.run()
        assert told(store, short.run) == whole
        assert isinstance(longer.problem, Learning)
        assert {share for _, share in longer.problem.trained} == {0.25, 0.5, 1.0}
        assert len(longer.problem.trained) <= 8 + 2 + 2


def test_without_rungs_nothing_is_new() -> None:
    with Store.memory() as store:
        result = study(store, rungs=None).run()
        assert {row.fidelity for row in store.evaluations(result.run)} == {"function"}
        assert not any(event.type == "rung" for event in store.events(result.run))
        assert not any("share" in row.extra for row in store.evaluations(result.run))


def test_what_has_no_rungs_is_refused_before_it_begins() -> None:
    make = partial(Study, SPACE, zdt1, goals=("f1", "f2"))
    with pytest.raises(UsageError, match="rungs cannot be used here"):
        make(settings=StudySettings(rungs=RungSettings()))
    with pytest.raises(UsageError, match="inheritance cannot be used here"):
        make(settings=StudySettings(inheritance={}))
    with Store.memory() as store, pytest.raises(UsageError, match="steady mode has none"):
        study(store, mode="steady")
