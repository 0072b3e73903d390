"""A process that is killed with SIGKILL, for real, while agents run; another one goes on.

Deaths at every commit: ``test_wherever_it_is_killed`` in ``test_rounds.py``, in one process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from evodevo.multitask.system import System
from evodevo.storage import Store
from evodevo.storage.failpoints import VARIABLE
from evodevo.testing.multitask.paths import PathTrainer, executor_of, new_system, tasks_of, told

SESSION = """
import sys
from evodevo.storage import Store
from evodevo.multitask.system import System
from evodevo.testing.multitask.paths import PathTrainer, executor_of, tasks_of

with Store.open(sys.argv[1]) as store:
    system = System.open(store, "zoo")
    system.run(tasks_of(system), 2, executor_of(PathTrainer(store)), schedule=sys.argv[2])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "point",
    ["after_blob_rename:kill@9", "before_tell_commit:kill@4"],
)
def test_what_a_killed_process_left_is_gone_on_with(tmp_path: Path, point: str) -> None:
    folder = tmp_path / "runs"
    with Store.open(folder) as store:
        new_system(store)
    environment = {**os.environ, VARIABLE: point}
    command = [sys.executable, "-c", SESSION, str(folder), "rounds"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == -signal.SIGKILL, done.stderr
    with Store.open(folder) as store, Store.memory() as other:
        system, whole = System.open(store, "zoo"), new_system(other)
        system.run(tasks_of(system), 2, executor_of(PathTrainer(store)))
        whole.run(tasks_of(whole), 2, executor_of(PathTrainer(other)))
        assert told(system) == told(whole)
        assert store.check(deep=True).ok


@pytest.mark.slow
def test_agents_of_one_system_in_two_processes(tmp_path: Path) -> None:
    """Each sees what the other has published by then, and writes no row of it; its views are enough to repeat all."""
    folder = tmp_path / "runs"
    with Store.open(folder) as store:
        system = new_system(store, ("a", "b"))
        system.run([system.agents()[0]], 1, executor_of(PathTrainer(store)))  # the root
    session = SESSION.replace("tasks_of(system), 2", "[system.agent(sys.argv[3])], 3")
    both = [
        subprocess.Popen([sys.executable, "-c", session, str(folder), "free", f"VitTiny~{task}"]) for task in ("a", "b")
    ]
    assert [one.wait(timeout=300) for one in both] == [0, 0]
    with Store.open(folder) as store, Store.memory() as other:
        system, again = System.open(store, "zoo"), new_system(other, ("a", "b"))
        assert len(store.systems.publications(system.row.id)) == 7
        again.replay(system, executor_of(PathTrainer(other)))
        first, second = told(system), told(again)
        # The root had a round of its own.
        for facts in (first, second):
            facts["cycles"] = [[agent, number, view, state] for agent, number, _, view, state in facts["cycles"]]
        assert first == second
