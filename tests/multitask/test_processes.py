"""An agent belongs to one process while that one lives, and to the next one after it (docs/spec/munet.md#laws).

Processes are killed with SIGKILL, for real; deaths at every commit, in one process: ``test_rounds.py``.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from evodevo.errors import ExitCode, RunOwnedError
from evodevo.multitask.system import System
from evodevo.storage import Store
from evodevo.storage.failpoints import VARIABLE
from evodevo.testing.multitask.paths import PathTrainer, executor_of, new_system, tasks_of, told

SESSION = """
import sys
from evodevo.storage import Store
from evodevo.multitask.system import System
from evodevo.testing.multitask.paths import PathTrainer, executor_of

class Waiting(PathTrainer):
    def __call__(self, payload, report):
        print("training", flush=True)
        sys.stdin.readline()
        return super().__call__(payload, report)

with Store.open(sys.argv[1]) as store:
    system = System.open(store, "zoo")
    agents = [system.agent(name) for name in sys.argv[3:]]
    system.run(agents, 2, executor_of(PathTrainer(store)), schedule=sys.argv[2])
"""
WAITING = SESSION.replace("(PathTrainer(", "(Waiting(")


@pytest.mark.slow
def test_what_a_killed_process_left_is_gone_on_with(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    with Store.open(folder) as store:
        new_system(store)
    environment = {**os.environ, VARIABLE: "after_blob_rename:kill@9"}
    command = [sys.executable, "-c", SESSION, str(folder), "rounds", "VitTiny~a", "VitTiny~b"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == -signal.SIGKILL, done.stderr
    with Store.open(folder) as store, Store.memory() as other:
        system, whole = System.open(store, "zoo"), new_system(other)
        system.run(tasks_of(system), 2, executor_of(PathTrainer(store)))
        whole.run(tasks_of(whole), 2, executor_of(PathTrainer(other)))
        assert told(system) == told(whole)
        assert store.check(deep=True).ok


@pytest.mark.slow
def test_a_second_process_is_refused_while_the_first_lives_and_goes_on_after_it_died(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    with Store.open(folder) as store, Store.memory() as other:
        system, whole = new_system(store), new_system(other)
        a, b = tasks_of(system)
        system.run([system.agents()[0]], 1, executor_of(PathTrainer(store)))  # the root
        command = [sys.executable, "-c", WAITING, str(folder), "rounds", "VitTiny~a"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
            assert first.stdout is not None
            assert first.stdout.readline() == "training\n"
            with pytest.raises(RunOwnedError, match=r"is open in process|VitTiny~a") as caught:
                system.run([a], 1, executor_of(PathTrainer(store)))
            assert caught.value.exit_code == ExitCode.RUN_OWNED
            with pytest.raises(RunOwnedError):
                system.withdraw("VitTiny~a")
            system.run([b], 1, executor_of(PathTrainer(store)))  # agents that it does not hold are free
            first.send_signal(signal.SIGKILL)
            assert first.wait(60) == -signal.SIGKILL
        system.run([a], 1, executor_of(PathTrainer(store)))
        assert set(system.view().offers) == {one.name for one in system.agents()}
        assert store.check(deep=True).ok
        # What it had asked for was trained under the ids and seeds that it had: as if nothing had happened.
        whole.run([whole.agents()[0]], 1, executor_of(PathTrainer(other)))
        whole.run(tasks_of(whole), 1, executor_of(PathTrainer(other)))
        mine, theirs = ({name: one for name, one in told(made).items() if "/" in name} for made in (system, whole))
        assert mine == theirs


@pytest.mark.slow
def test_agents_of_one_system_in_two_processes(tmp_path: Path) -> None:
    """Each sees what the other has published by then, and writes no row of it; its views are enough to repeat all."""
    folder = tmp_path / "runs"
    with Store.open(folder) as store:
        system = new_system(store)
        system.run([system.agents()[0]], 1, executor_of(PathTrainer(store)))  # the root
    command = [sys.executable, "-c", SESSION, str(folder), "free"]
    both = [subprocess.Popen([*command, f"VitTiny~{task}"]) for task in ("a", "b")]
    assert [one.wait(timeout=300) for one in both] == [0, 0]
    with Store.open(folder) as store, Store.memory() as other:
        system, again = System.open(store, "zoo"), new_system(other)
        assert len(store.systems.publications(system.row.id)) == 5
        again.replay(system, executor_of(PathTrainer(other)))
        first, second = told(system), told(again)
        # The root had a round of its own.
        for facts in (first, second):
            facts["cycles"] = [[agent, number, view, state] for agent, number, _, view, state in facts["cycles"]]
        assert first == second
