"""A function of the user's own: isolated where this process can be forked, and never met for ever."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from evodevo.execution.forked import ForkedExecutor
from evodevo.execution.serial import SerialExecutor
from evodevo.search.evaluations import LOST_ATTEMPTS
from evodevo.search.settings import StudySettings
from evodevo.search.study import Study
from evodevo.storage import Store
from evodevo.testing.misbehaviour import WAYS, judged, search, way_of
from evodevo.testing.real_vector import RealVectorSpace
from search.deadly import go
from storage.forks import forked

SMALL = StudySettings(population=2, generations=2)


@pytest.fixture
def thread() -> Iterator[None]:
    """This process has a second thread."""
    event = threading.Event()
    other = threading.Thread(target=event.wait)
    other.start()
    yield
    event.set()
    other.join()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 3])
def test_a_function_that_misbehaves_is_a_row_with_a_reason_and_changes_nothing_else(seed: int, tmp_path: Path) -> None:
    ways = sorted(WAYS)
    with Store.open(tmp_path / "runs") as store, ForkedExecutor(2) as executor:
        result = search(store, ways, seed, executor=executor, population=10, generations=3)
        plain = search(Store.memory(), ways, seed, plain=True, executor=SerialExecutor(), population=10, generations=3)
        assert judged(result, plain, ways, seed) == []
        assert store.check(deep=True).ok
    assert len({way_of(member.genome, ways, seed) for member in result.members}) > 5


@pytest.mark.slow
def test_a_process_with_one_thread_is_forked() -> None:
    code = (
        "import os; from evodevo.search.settings import StudySettings; from evodevo.search.study import Study;"
        "from evodevo.testing.real_vector import RealVectorSpace;"
        "settings = StudySettings(population=8, generations=2);"
        "result = Study(RealVectorSpace(2), lambda point: point[0] if point[0] < 0.3 else os._exit(3),"
        " settings=settings).run();"
        "print(sorted({str(member.outcomes[0].reason) for member in result.members}))"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("['None', 'crash']\n", "")


@pytest.mark.usefixtures("thread")
def test_a_process_with_threads_says_that_nothing_is_isolated() -> None:
    seen: list[float] = []
    with pytest.warns(UserWarning, match=r"several threads.*executor=SerialExecutor\(\)"):
        study = Study(RealVectorSpace(2), lambda point: seen.append(point[0]) or point[0], settings=SMALL)
    assert study.run().state == "finished"
    assert len(seen) == 4, "it ran in this process"


@pytest.mark.usefixtures("thread")
def test_who_asks_for_this_process_gets_it_without_a_word() -> None:
    assert Study(RealVectorSpace(2), lambda p: p[0], settings=SMALL, executor=SerialExecutor()).run().members


@pytest.mark.slow
@pytest.mark.parametrize("isolated", [True, False])
def test_a_genome_that_ends_the_run_is_given_up(isolated: bool, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    for _ in range(LOST_ATTEMPTS):
        with forked(go, folder, isolated) as process:
            assert process.end() == (-9, "")
    with forked(go, folder, isolated) as process:
        assert process.end() == (0, "finished\n")
    with Store.open(folder) as store:
        (run,) = store.runs()
        assert run.state == "finished"
        rows = store.evaluations(run.id)
        (failed,) = [row for row in rows if row.reason is not None]
        assert (failed.reason, failed.attempt) == ("crash", LOST_ATTEMPTS + 1)
        assert f"{LOST_ATTEMPTS} attempts" in failed.detail
        assert sum(row.state == "done" for row in rows) == 7


def test_attempts_that_were_stopped_on_purpose_do_not_count(tmp_path: Path) -> None:
    def evaluate(point: tuple[float, ...]) -> float:
        if stopping:
            raise KeyboardInterrupt
        return point[0]

    with Store.open(tmp_path / "runs") as store:
        stopping, run = True, None
        for _ in range(LOST_ATTEMPTS + 1):
            study = Study(RealVectorSpace(2), evaluate, settings=SMALL, store=store, run=run, executor=SerialExecutor())
            run = study.run_id
            with pytest.raises(KeyboardInterrupt):
                study.run()
        stopping = False
        study = Study(RealVectorSpace(2), evaluate, settings=SMALL, store=store, run=run, executor=SerialExecutor())
        assert [member.outcomes[0].reason for member in study.run().members] == [None] * 4
