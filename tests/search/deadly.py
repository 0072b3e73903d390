"""A study with one genome that ends the process of whoever evaluates it there, or that of the coordinator."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from evodevo.execution.forked import ForkedExecutor
from evodevo.execution.serial import SerialExecutor
from evodevo.search.settings import StudySettings
from evodevo.search.study import Study
from evodevo.storage import Store
from evodevo.testing.real_vector import Point, RealVectorSpace

POPULATION = 4


def go(folder: Path, isolated: bool) -> None:
    """Begin the study of a store, or go on with it."""
    coordinator = os.getpid()

    def evaluate(point: Point) -> float:
        if point == deadly:
            os.kill(coordinator, signal.SIGKILL)
        return point[0]

    with Store.open(folder) as store:
        runs = store.runs()
        executor = ForkedExecutor() if isolated else SerialExecutor()
        with executor:
            study = Study(
                RealVectorSpace(2),
                evaluate,
                settings=StudySettings(population=POPULATION, generations=2),
                store=store,
                executor=executor,
                run=runs[0].id if runs else None,
            )
            deadly = (
                Study(RealVectorSpace(2), lambda point: point[0], settings=study.settings, executor=SerialExecutor())
                .run()
                .members[2]
                .genome
            )
            study.run()
            print("finished", flush=True)
