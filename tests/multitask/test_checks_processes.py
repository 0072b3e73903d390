"""An agent belongs to one process while that one lives, and to the next one after it (docs/spec/munet.md#laws)."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from evodevo.errors import ExitCode, RunOwnedError
from evodevo.multitask.system import System
from evodevo.storage import Store
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
    system.run([system.agent("VitTiny~a")], 1, executor_of(Waiting(store)))
"""


@pytest.mark.slow
def test_a_second_process_is_refused_while_the_first_lives_and_goes_on_after_it_died(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    with Store.open(folder) as store, Store.memory() as other:
        system = new_system(store)
        system.run([system.agents()[0]], 1, executor_of(PathTrainer(store)))  # the root
        command = [sys.executable, "-c", SESSION, str(folder)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
            assert first.stdout is not None
            assert first.stdout.readline() == "training\n"
            with pytest.raises(RunOwnedError, match=r"is open in process|VitTiny~a") as caught:
                system.run([system.agent("VitTiny~a")], 1, executor_of(PathTrainer(store)))
            assert caught.value.exit_code == ExitCode.RUN_OWNED
            with pytest.raises(RunOwnedError):
                system.withdraw("VitTiny~a")
            # Agents that it does not hold are free.
            system.run([system.agent("VitTiny~b")], 1, executor_of(PathTrainer(store)))
            first.send_signal(signal.SIGKILL)
            assert first.wait(60) == -signal.SIGKILL
        system.run([system.agent("VitTiny~a")], 1, executor_of(PathTrainer(store)))
        assert set(system.view().offers) == {one.name for one in system.agents()}
        assert store.check(deep=True).ok
        # What it had asked for was trained under the ids and seeds that it had: as if nothing had happened.
        whole = new_system(other)
        whole.run([whole.agents()[0]], 1, executor_of(PathTrainer(other)))
        whole.run([whole.agent("VitTiny~a"), whole.agent("VitTiny~b")], 1, executor_of(PathTrainer(other)))
        mine, theirs = told(system), told(whole)
        assert {name: one for name, one in mine.items() if "/" in name} == {
            name: one for name, one in theirs.items() if "/" in name
        }


@pytest.mark.slow
def test_a_replay_repeats_withdrawals() -> None:
    """Asynchronous runs are repeated from what was recorded, who left them, too."""
    first = new_system(Store.memory(), ("a", "b", "c"))
    first.run(tasks_of(first), 1, executor_of(PathTrainer(first.store), 2), schedule="free")
    first.withdraw("VitTiny~b")
    rest = [one for one in tasks_of(first) if one.task != "b"]
    first.run(rest, 3, executor_of(PathTrainer(first.store), 2), schedule="free")
    first.withdraw("VitTiny~a")
    again = new_system(Store.memory(), ("a", "b", "c"))
    again.replay(first, executor_of(PathTrainer(again.store)))
    assert told(again) == told(first)
    assert [one.name for one in again.agents() if again.is_withdrawn(one)] == ["VitTiny~a", "VitTiny~b"]
    again.replay(first, executor_of(PathTrainer(again.store)))
    assert told(again) == told(first), "a replay that is done has nothing to do"


@pytest.mark.slow
def test_an_agent_that_was_withdrawn_in_the_midst_of_a_cycle_is_withdrawn_there() -> None:
    first = new_system(Store.memory(), ("a", "b"))
    first.run(tasks_of(first), 1, executor_of(PathTrainer(first.store)))
    watched = System(first.store, first.row, listener=lambda kind, facts: watched.stop() if kind == "child" else None)
    assert watched.run(tasks_of(first), 2, executor_of(PathTrainer(first.store))).state == "interrupted"
    first.withdraw("VitTiny~a")
    first.run([first.agent("VitTiny~b")], 2, executor_of(PathTrainer(first.store)))
    again = new_system(Store.memory(), ("a", "b"))
    again.replay(first, executor_of(PathTrainer(again.store)))
    mine, theirs = told(again), told(first)
    assert mine["publications"] != []
    assert [one[:2] + one[3:] for one in mine["publications"]] == [one[:2] + one[3:] for one in theirs["publications"]]
    assert set(again.view().offers) == set(first.view().offers)
