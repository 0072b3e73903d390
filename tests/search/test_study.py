"""One search: same seed, same history; stopped or killed anywhere and resumed, still the same; failures are facts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymoo.indicators.hv import HV

from evodevo import canonical
from evodevo.errors import DiskFullError, EvaluationsFailedError, ExitCode, GenomeError, RunOwnedError, UsageError
from evodevo.execution.base import Event, Job
from evodevo.execution.serial import SerialExecutor
from evodevo.randomness import generator
from evodevo.search.base import create
from evodevo.search.members import BASELINE, Listener
from evodevo.search.problem import DISK_FULL, INFEASIBLE, FunctionProblem, Goal, Outcome
from evodevo.search.settings import StudySettings
from evodevo.search.space import Space
from evodevo.search.study import Study, StudyResult
from evodevo.storage import Store
from evodevo.testing.histories import difference, evaluated_twice, history, hypervolumes
from evodevo.testing.real_vector import RealVectorSpace, zdt1
from evodevo.testing.tabular import CellSpace

SPACE = RealVectorSpace(6)
GOALS = ("f1", "f2")
MODES = ("generational", "steady")


class Digits(Space[int]):
    """The numbers below ``size``: a space that a search can come to the end of."""

    name = "digits"

    def __init__(self, size: int = 10) -> None:
        self.size = size

    def check(self, genome: int) -> None:
        if not 0 <= genome < self.size:
            raise GenomeError(f"{genome} is no digit")

    def repair(self, genome: int, rng: np.random.Generator) -> int:
        return genome % self.size

    def _sample(self, rng: np.random.Generator) -> int:
        return int(rng.integers(self.size))

    def _mutate(self, genome: int, rng: np.random.Generator) -> int:
        return genome + int(rng.integers(3))

    def _crossover(self, a: int, b: int, rng: np.random.Generator) -> tuple[int, int]:
        return b, a

    def segments(self, genome: int) -> tuple[int, ...]:
        return (genome,)

    def join(self, segments: Sequence[Any]) -> int:
        return int(segments[0])

    def parse(self, text: str) -> int:
        return int(text)

    def print(self, genome: int) -> str:
        return str(genome)

    def _to_genes(self, genome: int) -> int:
        return genome

    def _from_genes(self, genes: Any) -> int:
        return int(genes)


class Disorderly(SerialExecutor):
    """Several workers, and which of them ends first is drawn."""

    def __init__(self, problem: FunctionProblem, workers: int, seed: int) -> None:
        super().__init__(evaluators=problem.local_evaluators())
        self.workers = workers
        self._rng = np.random.default_rng(seed)

    def poll(self, timeout: float) -> list[Event]:
        self._waiting.rotate(int(self._rng.integers(100)))
        return super().poll(timeout) + (super().poll(timeout) if self._rng.random() < 0.3 else [])


class Noisy(FunctionProblem):
    """The seed of an evaluation shifts its first score; hand-drawn genomes; the fifth digit is forbidden."""

    def __init__(self, space: Space[Any], goals: Sequence[str] = GOALS, drawn: Sequence[Any] = ()) -> None:
        super().__init__(space, lambda genome: (0.0,), tuple(Goal(name) for name in goals))
        self.calls: Counter[tuple[str, int]] = Counter()
        self.drawn = {f"drawn {number}": genome for number, genome in enumerate(drawn)}

    def payload(self, genome: Any, seed: int, resume: str | None = None) -> bytes:
        return canonical.dumps([self.space.print(genome), seed]).encode()

    def baselines(self) -> dict[str, Any]:
        return self.drawn

    def screen(self, genome: Any) -> Outcome | None:
        if genome != 5:
            return None
        return Outcome(reason=INFEASIBLE, detail="5 is too much", violation=0.5, cost={"parameters": 5})

    def _evaluate(self, payload: bytes, report: Any) -> bytes:
        text, seed = canonical.loads(payload)
        self.calls[text, seed] += 1
        number = sum(float(word) for word in text.split())
        scores = (number + seed % 1000 / 1e6, (number - 7) ** 2)
        return canonical.dumps(dict(zip((goal.name for goal in self.goals), scores, strict=False))).encode()


class Killed(BaseException):
    """As kill -9: nothing of ours catches it."""


def study(store: Store | None = None, *, run: str | None = None, **other: Any) -> Study:
    arguments: dict[str, Any] = {"space": SPACE, "evaluate": zdt1, "goals": GOALS, "listener": None, "executor": None}
    named = {name: other.pop(name, default) for name, default in arguments.items()}
    chosen = StudySettings(**{"population": 6, "generations": 4, "seed": 3, **other})
    named["executor"] = named["executor"] or SerialExecutor()
    return Study(named.pop("space"), named.pop("evaluate"), store=store, run=run, settings=chosen, **named)


def told(store: Store, result: StudyResult | Study) -> tuple[Any, ...]:
    """Everything that must not depend on interruptions."""
    run = result.run if isinstance(result, StudyResult) else result.run_id
    assert evaluated_twice(store, run) == []
    return history(store, run), hypervolumes(store, run), [_generation(store, run, e) for e in _events(store, run)]


def _events(store: Store, run: str) -> list[Any]:
    return [event for event in store.events(run) if event.type == "generation"]


def _generation(store: Store, run: str, event: Any) -> dict[str, Any]:
    births = {row.id: row.birth for row in store.individuals(run)}
    payload = dict(event.payload)
    return {**payload, **{name: [births[one] for one in payload[name]] for name in ("front", "population")}}


def same(ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> None:
    assert not difference(ours[0], theirs[0]), difference(ours[0], theirs[0])
    assert ours[1:] == theirs[1:]


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "runs") if getattr(request, "param", "") == "disk" else Store.memory() as opened:
        yield opened


both = pytest.mark.parametrize("store", ["memory", "disk"], indirect=True)


# Same seed, same history


@pytest.mark.parametrize(
    ("algorithm", "mode"),
    [
        *((name, "generational") for name in ("nsga2", "genetic", "firefly", "regularized", "random")),
        *((name, "steady") for name in ("nsga2", "firefly")),
    ],
)
def test_the_seed_decides_everything(store: Store, algorithm: str, mode: str) -> None:
    results = [study(store, mode=mode, algorithm=algorithm, seed=seed, generations=3).run() for seed in (1, 1, 2)]
    assert all(result.state == "finished" for result in results)
    first, again, other = (told(store, result) for result in results)
    same(first, again)
    assert first[0] != other[0]
    offspring = 6 if mode == "steady" else create(algorithm, {"population": 6}).offspring
    assert len(first[0]) == 6 + 2 * offspring
    assert len(first[1]) == 3


def test_memory_and_disk_tell_the_same_story(tmp_path: Path) -> None:
    before = np.random.get_state()[1].tolist()  # type: ignore[index,union-attr]
    with Store.open(tmp_path) as disk:
        same(uninterrupted(), told(disk, study(disk).run()))
    assert np.random.get_state()[1].tolist() == before, "and leave global generators alone"  # type: ignore[index,union-attr]


@pytest.mark.parametrize("workers", [2, 8])
def test_a_generation_does_not_care_who_is_ready_first(store: Store, workers: int) -> None:
    problem = FunctionProblem(SPACE, zdt1, tuple(map(Goal, GOALS)))
    same(told(store, study(store, evaluate=problem, executor=Disorderly(problem, workers, 1)).run()), uninterrupted())


# Stopped, killed, resumed


def interrupted(
    store: Store, moments: Sequence[int], end: Callable[[Study], None], make: Callable[..., Study]
) -> tuple[Study, int]:
    """Go on and on, each time to the end or until ``end`` at the moment-th thing that happens; (study, sessions)."""
    run, sessions = None, 0
    for moment in [*moments, None]:
        one = make(store, run=run)
        one.listener = _at(moment, one, end)
        run, sessions = one.run_id, sessions + 1
        try:
            result = one.run()
        except Killed:
            continue
        if result.state == "finished":
            return one, sessions
    raise AssertionError("the last session has no end but its own")


def _at(moment: int | None, one: Study, end: Callable[[Study], None]) -> Listener:
    happened = 0

    def listen(kind: str, facts: dict[str, Any]) -> None:
        nonlocal happened
        happened += 1
        if happened == moment:
            end(one)

    return listen


def once(one: Study) -> None:
    one.stop()


def twice(one: Study) -> None:
    one.stop()
    one.stop()


def kill(one: Study) -> None:
    raise Killed


@cache
def uninterrupted(**chosen: Any) -> tuple[Any, ...]:
    """What a search tells that nothing disturbs."""
    with Store.memory() as store:
        return told(store, study(store, **chosen).run())


ENDS = st.sampled_from([once, twice, kill])


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=10, deadline=None)
@given(moments=st.lists(st.integers(1, 60), min_size=1, max_size=3), end=ENDS, seed=st.integers(0, 1))
def test_an_interrupted_search_has_the_same_future(
    mode: str, moments: list[int], end: Callable[[Study], None], seed: int
) -> None:
    chosen: dict[str, Any] = {"mode": mode, "seed": seed, "population": 4}
    with Store.memory() as store:
        one, _ = interrupted(store, moments, end, partial(study, **chosen))
        same(told(store, one), uninterrupted(**chosen))


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(
    moments=st.lists(st.integers(1, 60), min_size=1, max_size=3),
    end=ENDS,
    workers=st.integers(2, 5),
    order=st.integers(0, 2**16),
)
def test_a_generational_search_on_many_workers_has_the_same_future(
    moments: list[int], end: Callable[[Study], None], workers: int, order: int
) -> None:
    problem = FunctionProblem(SPACE, zdt1, tuple(map(Goal, GOALS)))

    def make(store: Store, **other: Any) -> Study:
        return study(store, evaluate=problem, executor=Disorderly(problem, workers, order), population=4, **other)

    with Store.memory() as store:
        one, _ = interrupted(store, moments, end, make)
        same(told(store, one), uninterrupted(population=4))


@pytest.mark.parametrize(
    ("mode", "end", "moment"),
    [("generational", once, 2), ("steady", twice, 9), ("generational", kill, 22), ("steady", kill, 2)],
)
def test_on_disk_too(tmp_path: Path, mode: str, end: Callable[[Study], None], moment: int) -> None:
    with Store.open(tmp_path / "runs") as store:
        one, sessions = interrupted(store, [moment], end, partial(study, mode=mode))
        assert sessions == 2
        same(told(store, one), uninterrupted(mode=mode))


@pytest.mark.parametrize("mode", MODES)
def test_the_first_stop_waits_for_what_runs_and_the_second_does_not(mode: str) -> None:
    problem = FunctionProblem(SPACE, zdt1, tuple(map(Goal, GOALS)))
    done = {}
    for stop in (once, twice):
        with Store.memory() as store:
            one = study(store, mode=mode, evaluate=problem, executor=Disorderly(problem, 3, seed=2))
            started = _stopped_at_the_first_result(one, stop)
            assert one.run().state == "interrupted"
            assert store.run(one.run_id).state == "interrupted"
            finished = {row.individual_id for row in store.evaluations(one.run_id)}
            assert finished <= started
            done[stop] = (len(finished), len(started))
    assert done[once] == (3, 3), "whoever was running was finished"
    assert done[twice][0] < done[twice][1], "whoever was running was dropped"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("confirmations", [0, 1])
def test_a_stop_ends_a_run_early_only_where_something_is_left(mode: str, confirmations: int) -> None:
    def states(moment: int | None) -> tuple[str, str, int]:
        heard = 0

        def listen(kind: str, facts: dict[str, Any]) -> None:
            nonlocal heard
            heard += kind == "evaluated"
            if kind == "evaluated" and heard == moment:
                one.stop()

        with Store.memory() as store:
            one = study(store, mode=mode, generations=2, confirmations=confirmations, listener=listen)
            result = one.run()
            return result.state, store.run(one.run_id).state, heard

    whole = states(None)[2]
    assert states(None)[:2] == ("finished", "finished")
    for moment in range(1, whole):
        assert states(moment)[:2] == ("interrupted", "interrupted"), moment
    assert states(whole)[:2] == ("finished", "finished"), "the last evaluation had ended"


def _stopped_at_the_first_result(one: Study, stop: Callable[[Study], None]) -> set[str]:
    """Who was started until then, once the study has run."""
    started: set[str] = set()

    def listen(kind: str, facts: dict[str, Any]) -> None:
        if kind == "started":
            started.add(facts["id"])
        if kind == "evaluated" and not one.stopping:
            stop(one)

    one.listener = listen
    return started


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(
    moments=st.lists(st.integers(1, 60), max_size=3),
    workers=st.integers(1, 5),
    order=st.integers(0, 2**16),
    end=ENDS,
)
def test_what_steady_state_recorded_replays_to_the_same_proposals(
    moments: list[int], workers: int, order: int, end: Callable[[Study], None]
) -> None:
    problem = FunctionProblem(SPACE, zdt1, tuple(map(Goal, GOALS)))

    def make(store: Store, **other: Any) -> Study:
        executor = Disorderly(problem, workers, order)
        return study(store, evaluate=problem, executor=executor, mode="steady", population=4, **other)

    with Store.memory() as store:
        one, _ = interrupted(store, moments, end, make)
        rows = store.individuals(one.run_id)
        assert [row.birth for row in rows] == [f"event/{number}" for number in range(4 * 4)]
        by_id = {row.id: row for row in rows}
        completed = [by_id[evaluation.individual_id] for evaluation in store.evaluations(one.run_id)]
        assert sorted(row.id for row in completed) == sorted(by_id), "each once"
        # An algorithm of its own, and nothing but the record.
        states = [one.algorithm.start()]
        for row in completed:
            states.append(one.algorithm.tell(states[-1], [one._ask_tell._scored(one.members[row.id], {})]))
        known: set[str] = set()
        for number, row in enumerate(rows):
            if number < 4:
                asked, place = 0, number
            else:
                asked, place = number, 0
            draw = partial(lambda born, slot, purpose: generator(3, born, slot, purpose), asked)
            count = 4 if asked == 0 else 1
            if place == 0:
                proposals = one.algorithm.ask(states[row.details["told"]], SPACE, draw, count, known.__contains__)
                known |= {SPACE.hash(proposal.genome) for proposal in proposals}
            proposal = proposals[place]
            assert SPACE.from_json(row.genome_envelope) == proposal.genome
            assert row.parents == proposal.parents
            assert row.operation == proposal.operation


@both
def test_a_finished_run_can_be_made_longer(store: Store) -> None:
    short = study(store, generations=2).run()
    longer = study(store, run=short.run, generations=4).run()
    assert longer.run == short.run
    same(told(store, longer), uninterrupted())


@pytest.mark.parametrize("mode", MODES)
def test_a_finished_run_that_is_resumed_does_nothing(store: Store, mode: str) -> None:
    calls: list[Any] = []
    first = study(store, mode=mode).run()
    before = told(store, first)
    again = study(store, mode=mode, run=first.run, evaluate=lambda genome: calls.append(genome) or zdt1(genome)).run()
    assert calls == []
    assert [one.id for one in again.front] == [one.id for one in first.front]
    assert again.hypervolumes == first.hypervolumes
    same(told(store, again), before)


# The end of a space


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [3, 10])
def test_a_space_that_is_searched_through_is_a_regular_end(store: Store, mode: str, size: int) -> None:
    calls: list[int] = []

    def evaluate(genome: int) -> tuple[float, float]:
        calls.append(genome)
        return float(genome), float((genome - 2) ** 2)

    make = partial(study, store, mode=mode, space=Digits(size), population=4, generations=9)
    result = make(evaluate=evaluate).run()
    assert result.state == "finished"
    assert result.exhausted
    assert store.run(result.run).state == "finished"
    assert sorted(calls) == list(range(size)), "each once"
    assert sorted(one.genome for one in result.front) == [0, 1, 2]
    assert result.hypervolumes[-1] == max(result.hypervolumes)
    assert hypervolumes(store, result.run) == [one.hex() for one in result.hypervolumes]
    closed = [event.payload["evaluated"] for event in _events(store, result.run)]
    assert sum(closed) == size, "what came last counts too"
    again = make(run=result.run, evaluate=evaluate).run()
    assert again.exhausted
    assert again.hypervolumes == result.hypervolumes
    assert len(calls) == size


# Failures


def by_place(answer: Callable[[], Any]) -> Callable[[tuple[float, ...]], Any]:
    return lambda genome: answer() if genome[0] < 0.5 else zdt1(genome)


def _raise(error: BaseException) -> Any:
    raise error


@pytest.mark.parametrize(
    ("answer", "reason", "words"),
    [
        (lambda: (math.nan, 1.0), "nan", "f1"),
        (lambda: (1.0, math.inf), "nan", "f2"),
        (lambda: {"f1": 1.0, "f2": -math.inf}, "nan", "f2"),
        (lambda: (1.0, 2.0, 3.0), "exception", "3 numbers; 2 goals"),
        (lambda: 1.0, "exception", "1 numbers; 2 goals"),
        (lambda: {"f1": 1.0}, "exception", "gave no f2"),
        (lambda: None, "exception", "float"),
        (lambda: ("a", "b"), "exception", "could not convert"),
        (lambda: _raise(ValueError("of mine")), "exception", "of mine"),
        (lambda: _raise(SystemExit(3)), "exception", "SystemExit"),
        (lambda: _raise(MemoryError("too much")), "memory", "too much"),
    ],
)
def test_a_failure_is_an_individual_with_a_reason(
    store: Store, answer: Callable[[], Any], reason: str, words: str
) -> None:
    mode = "steady" if reason == "memory" else "generational"
    result = study(store, mode=mode, generations=2, evaluate=by_place(answer)).run()
    assert result.state == "finished"
    assert len(result.members) == 12
    rows = {row.individual_id: row for row in store.evaluations(result.run)}
    failed = [one for one in result.members if one.genome[0] < 0.5]
    assert 0 < len(failed) < 12
    for one in result.members:
        row = rows[one.id]
        assert (row.state, row.reason) == (("failed", reason) if one in failed else ("done", None))
        if one in failed:
            assert words in row.detail
            assert one not in result.front
    failures = [event.payload["failed"] for event in _events(store, result.run)]
    assert sum(failures) == len(failed)
    populations = [set(event.payload["population"]) for event in _events(store, result.run)]
    assert not set.union(*populations) & {one.id for one in failed}


@pytest.mark.parametrize("value", [1e308, -1.7976931348623157e308, 5e-324, -0.0])
def test_numbers_at_the_ends_of_the_range_are_numbers(store: Store, value: float) -> None:
    values = iter([value, -value] * 100)
    result = study(store, generations=2, evaluate=lambda genome: (next(values), genome[0])).run()
    assert result.state == "finished"
    assert all(math.isfinite(one) for one in result.hypervolumes)
    assert result.front


@pytest.mark.parametrize("kind", [np.float32, np.float64, int, lambda x: np.array(x)])
def test_any_number_is_a_number(kind: Callable[[float], Any]) -> None:
    result = study(goals=("score",), generations=2, evaluate=lambda genome: kind(3 * genome[0])).run()
    assert result.state == "finished"
    assert all(one.outcomes[0].reason is None for one in result.members)


@pytest.mark.parametrize("mode", MODES)
def test_where_nothing_succeeds_the_run_has_failed(store: Store, mode: str) -> None:
    one = study(store, mode=mode, evaluate=lambda genome: 1 / 0)
    with pytest.raises(EvaluationsFailedError, match=r"none of 24 .*exception.*ZeroDivisionError") as caught:
        one.run()
    assert caught.value.exit_code == ExitCode.EVALUATIONS_FAILED
    assert one.run_id in str(caught.value)
    assert store.run(one.run_id).state == "failed"
    assert store.owner(one.run_id) is None
    assert len(store.individuals(one.run_id)) == 24, "the search went on to its end all the same"


def test_where_nothing_is_a_number_the_run_has_failed_and_trains_nothing_more() -> None:
    heard: list[str] = []

    def listen(kind: str, facts: dict[str, Any]) -> None:
        heard.append(kind)

    with pytest.raises(EvaluationsFailedError, match="nan"):
        study(evaluate=lambda genome: (math.nan, 0.0), confirmations=3, listener=listen).run()
    assert heard.count("phase") == 1, "no confirmation"


def test_the_share_of_failures_is_judged_where_that_is_wanted() -> None:
    def evaluate(genome: int) -> float:
        return math.nan if genome < 3 else float(genome)

    make = partial(study, space=Digits(10), goals=("value",), evaluate=evaluate, population=5, generations=20)
    assert make().run().state == "finished"
    assert make(max_failed_share=0.3).run().state == "finished"
    with pytest.raises(EvaluationsFailedError, match=r"3 of 10 .*30%.*29%.*max_failed_share"):
        make(max_failed_share=0.29).run()


def test_what_breaks_a_constraint_is_never_evaluated(store: Store) -> None:
    space = Digits(8)
    problem = Noisy(space)
    result = study(store, space=space, evaluate=problem, population=4, generations=9, max_failed_share=0.0).run()
    assert result.state == "finished", "a broken constraint is no failed evaluation"
    refused = next(one for one in result.members if one.genome == 5)
    assert refused.outcomes[0].reason == INFEASIBLE
    assert refused.outcomes[0].violation == 0.5
    assert refused not in result.front
    assert "5" not in {text for text, _ in problem.calls}
    row = next(row for row in store.evaluations(result.run) if row.individual_id == refused.id)
    assert (row.reason, row.detail, row.cost) == (INFEASIBLE, "5 is too much", {"parameters": 5})


def test_where_every_genome_breaks_a_constraint_the_run_has_failed() -> None:
    class Strict(Noisy):
        def screen(self, genome: Any) -> Outcome | None:
            return Outcome(reason=INFEASIBLE, violation=float(genome) + 1)

    with pytest.raises(EvaluationsFailedError, match="infeasible"):
        study(space=Digits(8), evaluate=Strict(Digits(8)), population=4).run()


@pytest.mark.slow
@both
def test_a_full_disk_is_not_the_fault_of_a_genome(store: Store) -> None:
    class Full(Noisy):
        def read(self, payload: bytes) -> Outcome:
            return Outcome(reason=DISK_FULL, detail="no space left on device.") if self.full else super().read(payload)

        full = False

    problem = Full(SPACE)

    def listen(kind: str, facts: dict[str, Any]) -> None:
        problem.full = problem.full or kind == "generation"

    one = study(store, evaluate=problem, listener=listen)
    with pytest.raises(DiskFullError, match="evodevo store gc") as caught:
        one.run()
    assert caught.value.exit_code == ExitCode.DISK_FULL
    assert all(row.state == "done" for row in store.evaluations(one.run_id) if row.finished_seq is not None)
    problem.full = False
    result = study(store, evaluate=problem, run=one.run_id).run()
    with Store.memory() as other:
        same(told(store, result), told(other, study(other, evaluate=Noisy(SPACE)).run()))


# Baselines and fresh seeds


@both
def test_baselines_are_evaluated_first_and_take_no_part(store: Store) -> None:
    drawn = [(0.0,) * 6, (0.5,) * 6]  # the first lies on the true front
    problem = Noisy(SPACE, drawn=drawn)
    result = study(store, evaluate=problem).run()
    first, second, *rest = result.members
    assert [one.operation for one in (first, second)] == [BASELINE] * 2
    assert [one.birth for one in (first, second)] == ["baseline/drawn 0", "baseline/drawn 1"]
    assert [one.generation for one in (first, second)] == [-1, -1]
    assert all(one.operation != BASELINE for one in rest)
    assert not {first.id, second.id} & {one.id for one in result.front}
    for event in _events(store, result.run):
        assert not {first.id, second.id} & {*event.payload["population"], *event.payload["front"]}
    without = study(store, evaluate=Noisy(SPACE, drawn=drawn), baselines=False).run()
    same((history(store, without.run),), (history(store, result.run)[2:],))


@pytest.mark.parametrize("mode", MODES)
def test_a_child_that_equals_a_baseline_takes_its_outcome(store: Store, mode: str) -> None:
    space = Digits(8)
    problem = Noisy(space, drawn=[7, 3])
    make = partial(study, store, space=space, population=4, generations=9, mode=mode, confirmations=2)
    result = make(evaluate=problem).run()
    assert set(problem.calls.values()) == {1}, "no genome twice with one seed"
    copies = [one for one in result.members if one.genome in (7, 3) and one.operation != BASELINE]
    assert len(copies) == 2
    for copy in copies:
        original = next(one for one in result.members if one.genome == copy.genome)
        assert copy.outcomes[0].scores == original.outcomes[0].scores
        assert copy.outcomes[0].extra["same_as"] == original.id
        assert copy.outcomes[0].seconds == 0.0
    assert 7 in {one.genome for one in result.front}, "it counts for the search"


@pytest.mark.slow
@pytest.mark.parametrize("end", [once, twice, kill])
def test_the_front_and_the_baselines_are_confirmed_with_fresh_seeds(store: Store, end: Callable[[Study], None]) -> None:
    drawn = [(0.25,) * 6]

    def make(store: Store, **other: Any) -> Study:
        return study(store, evaluate=Noisy(SPACE, drawn=drawn), confirmations=3, **other)

    listened = 0

    def listen(kind: str, facts: dict[str, Any]) -> None:
        nonlocal listened
        listened += 1

    result = make(store, listener=listen).run()
    for one in result.members:
        confirmed = one in result.front or one.operation == BASELINE
        assert sorted(one.outcomes) == ([0, 1, 2, 3] if confirmed else [0])
        if confirmed:
            assert len({outcome.scores["f1"] for outcome in one.outcomes.values()}) == 4, "four different seeds"
    seeds = {row.seed for row in store.evaluations(result.run)}
    assert len(seeds) == 4
    other, sessions = interrupted(store, [listened - 4, 6], end, make)  # in the confirmation
    assert sessions == 3
    same(told(store, other), told(store, result))


# What is recorded on the way


def test_the_hypervolume_is_that_of_all_so_far_and_never_falls(store: Store) -> None:
    result = study(store, generations=12).run()
    events = _events(store, result.run)
    assert len(events) == 12
    references = {tuple(event.payload["reference"]) for event in events}
    assert len(references) == 1
    (reference,) = references
    points = np.array([[one.outcomes[0].scores[name] for name in GOALS] for one in result.members])
    first = points[:6]
    assert np.allclose(reference, first.max(0) + 0.1 * (first.max(0) - first.min(0)))
    for number, event in enumerate(events):
        # pymoo measures the same points by code of its own.
        measured = HV(np.array(reference))(points[: 6 * (number + 1)])
        assert event.payload["hypervolume"] == pytest.approx(measured, rel=1e-12)
    assert sorted(result.hypervolumes) == list(result.hypervolumes)
    assert result.hypervolumes[-1] > result.hypervolumes[0]


def test_goals_are_maximised_where_that_is_wanted(store: Store) -> None:
    space = Digits(10)
    goals = (Goal("value", direction="maximise"), Goal("distance"))
    result = study(
        store, space=space, goals=goals, evaluate=lambda g: (g, abs(g - 6)), population=5, generations=9
    ).run()
    assert sorted(one.genome for one in result.front) == [6, 7, 8, 9]
    assert sorted(result.hypervolumes) == list(result.hypervolumes)


def test_the_listener_hears_everything_in_order() -> None:
    heard: list[tuple[str, dict[str, Any]]] = []
    result = study(
        evaluate=Noisy(SPACE, drawn=[(0.5,) * 6]),
        confirmations=1,
        generations=2,
        listener=lambda kind, facts: heard.append((kind, facts)),
    ).run()
    canonical.dumps([facts for _, facts in heard])  # JSON-able
    kinds = [kind for kind, _ in heard]
    assert kinds[0] == "run"
    assert kinds[-1] == "finished"
    generation = ["proposed", *["started", "evaluated"] * 6, "generation"]
    start = ["run", "task", "phase", "proposed", "started", "evaluated", *generation * 2, "phase"]
    assert kinds[: len(start)] == start
    proposed = [one["id"] for kind, facts in heard if kind == "proposed" for one in facts["individuals"]]
    assert proposed == [one.id for one in result.members]
    evaluated = {(facts["id"], facts["seed"]) for kind, facts in heard if kind == "evaluated"}
    assert evaluated == {(one.id, seed) for one in result.members for seed in one.outcomes}
    assert heard[-1][1] == {"run": result.run, "state": "finished"}


def test_time_is_accounted_for_in_every_session(store: Store) -> None:
    import time

    def slow(genome: tuple[float, ...]) -> tuple[float, float]:
        time.sleep(0.01)
        return zdt1(genome)

    make = partial(study, evaluate=slow, confirmations=2)
    one, sessions = interrupted(store, [20], once, make)
    assert sessions == 2
    times = [event.payload for event in store.events(one.run_id) if event.type == "study.time"]
    assert len(times) == 2
    calls = sum(len(member.outcomes) for member in one.members.values())
    assert calls > len(one.members), "confirmations belong to the time too"
    for row in times:
        assert 0 <= row["waited_seconds"] <= row["wall_seconds"]
    assert 0.01 * calls <= sum(row["waited_seconds"] for row in times) < 0.01 * calls + 5
    before = times[0]["wall_seconds"]
    assert before < 0.01 * calls + 5, "each session counts its own time"


# What is refused


@both
def test_a_run_that_is_open_elsewhere_is_refused(store: Store) -> None:
    refused = []

    def listen(kind: str, facts: dict[str, Any]) -> None:
        if kind == "generation":
            with pytest.raises(RunOwnedError) as caught:
                study(store, run=one.run_id).run()
            refused.append(caught.value.exit_code)

    one = study(store, listener=listen)
    one.run()
    assert refused == [ExitCode.RUN_OWNED] * 4
    same(told(store, one), uninterrupted())


def test_a_run_is_continued_with_its_own_seed_and_data_and_by_a_new_study(store: Store) -> None:
    first = study(store, generations=1)
    first.run()
    with pytest.raises(UsageError, match="seed 3, not 4"):
        study(store, seed=4, run=first.run_id)
    changed = FunctionProblem(SPACE, zdt1, tuple(map(Goal, GOALS)))
    changed.fidelity = "tokens=5"
    with pytest.raises(UsageError, match=r"hold for function, new ones would hold for tokens=5.*Restore"):
        study(store, evaluate=changed, run=first.run_id)
    with pytest.raises(UsageError, match=first.run_id):
        first.run()


@pytest.mark.parametrize(
    "wrong",
    [
        {"algorithm": "nsga3"},
        {"population": 1},
        {"generations": 0},
        {"seed": -1},
        {"max_failed_share": 2.0},
        {"algorithm_settings": {"no_such": 1}},
    ],
)
def test_settings_that_cannot_be_leave_no_run_behind(store: Store, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="|".join([*wrong, "no_such"])):
        study(store, **wrong)
    assert store.runs() == []


def test_the_nearest_algorithm_is_named() -> None:
    with pytest.raises(UsageError, match="Did you mean 'nsga2'"):
        study(algorithm="nsga3")


@pytest.mark.parametrize("mode", MODES)
def test_no_genome_is_evaluated_twice(store: Store, mode: str) -> None:
    calls: Counter[tuple[int, ...]] = Counter()

    def evaluate(cell: tuple[int, ...]) -> tuple[float, float]:
        calls[cell] += 1
        return float(sum(cell)), float(sum((gene - 2) ** 2 for gene in cell))

    make = partial(study, space=CellSpace(), evaluate=evaluate, mode=mode, population=8, generations=10)
    one, _ = interrupted(store, [50, 70], kill, make)
    assert set(calls.values()) == {1}
    assert len(calls) == len(one.members) == 80


def test_jobs_are_named_once() -> None:
    names: list[str] = []

    class Watching(SerialExecutor):
        def submit(self, job: Job) -> None:
            names.append(job.id)
            super().submit(job)

    problem = FunctionProblem(SPACE, zdt1, tuple(map(Goal, GOALS)))
    executor = Watching(evaluators=problem.local_evaluators())
    study(evaluate=problem, executor=executor).run()
    assert len(names) == len(set(names)) == 24
