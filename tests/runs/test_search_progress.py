"""How a search stands, from what its study tells: counts, shares, time left."""

from __future__ import annotations

import math
from typing import Any

import pytest

from evodevo.execution.serial import SerialExecutor
from evodevo.runs.search_progress import SearchProgress, duration
from evodevo.search.problem import Goal
from evodevo.search.settings import StudySettings
from evodevo.search.study import Study
from evodevo.testing.real_vector import RealVectorSpace


def followed(settings: StudySettings, fail: int = 0) -> tuple[SearchProgress, list[tuple[str, float, float | None]]]:
    """A study in memory, one second per evaluation, whose first ``fail`` evaluations fail; what was seen at each."""
    now, calls = [100.0], iter(range(1000))
    standing = SearchProgress(lambda: now[0])
    seen = []

    def evaluate(point: tuple[float, ...]) -> tuple[float, float]:
        now[0] += 1.0
        number = next(calls)
        return (math.nan, 0.0) if number < fail else (point[0], 1 - point[0])

    def listen(kind: str, facts: dict[str, Any]) -> None:
        standing.handle(kind, facts)
        seen.append((kind, standing.share, standing.seconds_left))

    goals = (Goal("a"), Goal("b"))
    study = Study(
        RealVectorSpace(3), evaluate, goals=goals, settings=settings, listener=listen, executor=SerialExecutor()
    )
    standing.begin(study)
    study.run()
    return standing, seen


def test_everything_is_counted_once_and_time_left_is_true_where_all_take_the_same() -> None:
    standing, seen = followed(StudySettings(population=4, generations=3))
    assert (standing.done, standing.wanted, standing.scored, standing.generation) == (12, 12, 12, 2)
    assert (standing.share, standing.running) == (1.0, {})
    assert standing.study is not None
    assert len(standing.front) == len(standing.study.front())
    assert standing.hypervolume is not None
    assert standing.gain is not None
    assert standing.gain >= 0
    left = [seconds for kind, _, seconds in seen if kind == "evaluated"]
    assert left == pytest.approx([float(12 - done) for done in range(1, 13)])
    shares = [share for _, share, _ in seen]
    assert shares == sorted(shares)


def test_failures_are_counted_by_reason() -> None:
    standing, _ = followed(StudySettings(population=4, generations=2), fail=3)
    assert sum(standing.failed.values()) == 3
    assert standing.scored == 5


def test_nothing_is_known_before_the_study_begins() -> None:
    standing = SearchProgress()
    assert (standing.wanted, standing.share, standing.seconds_left) == (0, 0.0, None)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, "–"), (0.04, "0.0 s"), (4.21, "4.2 s"), (59, "59 s"), (100, "1 min 40 s"), (7500, "2 h 05 min")],
)
def test_durations_as_people_say_them(seconds: float | None, words: str) -> None:
    assert duration(seconds) == words
