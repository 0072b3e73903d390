"""Copies of a system, so that several continuations can be compared that begin alike.

A copy repeats all cycles of the first system, with their recorded results in place of training: its agents have other
runs, and its components are the same blobs.
"""

from __future__ import annotations

from typing import Any

from evodevo import canonical
from evodevo.errors import NotFoundError, StoreDamagedError, UsageError
from evodevo.execution.base import Event, Job, Result
from evodevo.execution.serial import SerialExecutor
from evodevo.multitask.recorded import KEPT, deciding
from evodevo.multitask.stored import agent_settings
from evodevo.multitask.system import System
from evodevo.storage.systems.base import path_id


def fork(system: System, name: str) -> System:
    """A system that begins in the state of another one; called again, it resumes a copy that was interrupted.

    Args:
        system: the copied system: all cycles that ended, and withdrawals.
        name: name of the copy, in the same store. A copy that has gone on since is returned as it is.

    Raises:
        UsageError: another system has this name.
        StoreDamagedError: this evodevo would have made other children; the copy has none of them.
    """
    store = system.store
    row = next((candidate for candidate in store.systems.systems() if candidate.name == name), None)
    if row is None:
        store.systems.create_system(name, system.row.seed, system.row.settings)
        copy = System.open(store, name)
    else:
        copy = System(store, row)
    if (copy.row.seed, copy.row.settings) != (system.row.seed, system.row.settings):
        raise UsageError(f"there is a system {name!r} already, and it is no copy of {system.row.name!r}.")
    there = {agent.name for agent in copy.agents()}
    for agent in system.agents():
        if agent.name not in there:
            settings = agent_settings(agent)
            copy.add_agent(agent.kind, agent.task, settings)
    wanted, done = system.recorded(), copy.recorded()
    if done[: len(wanted)] != wanted:
        with _Recorded(system) as executor:
            copy.replay(system, executor)
    return copy


class _Recorded(SerialExecutor):
    """Answers jobs with what another system recorded for the same children.

    Args:
        system: the other one.
    """

    def __init__(self, system: System) -> None:
        super().__init__()
        self._system = system
        self._agents = {agent.name: agent.id for agent in system.agents()}

    def _knows(self, entry: str) -> bool:
        return True

    def _evaluate(self, job: Job) -> list[Event]:
        asked: dict[str, Any] = canonical.loads(job.payload, what="an evaluation", max_bytes=1 << 26)
        genes = asked["path"]
        individual = path_id(self._agents.get(genes["agent"], ""), genes["number"])
        systems = self._system.store.systems
        row = systems.individuals([individual]).get(individual)
        result = None if row is None else deciding(systems.evaluations_of([individual])[individual])
        if row is None or result is None:
            raise NotFoundError(f"system {self._system.row.name!r} has no result of path {job.id}.")
        if (row.genome_envelope["genes"], row.seed) != (genes, asked["seed"]):
            # Of another version: to record its results for other children would be a lie.
            raise StoreDamagedError(
                f"path {genes['agent']}/{genes['number']} of system {self._system.row.name!r} was made by other rules"
                " than this evodevo's; begin anew in another store."
            )
        trained = {role for role, source in asked["components"].items() if source["train"]}
        made = {
            part.role: {"digest": part.digest, "parameters": part.parameters}
            for part in systems.components_of([individual])[individual]
            if part.role in trained
        }
        numbers = [score.value for name, score in result.scores.items() if name == "quality"]
        answer = {
            **result.extra.get("answer", {}),
            "reason": result.reason if result.state == "failed" else None,
            "detail": result.detail,
            "evals": result.extra["evals"],
            "quality": numbers[0] if numbers else None,
            "improved": result.extra["fate"] == KEPT,
            "components": made,
            "seconds": result.seconds,
        }
        return [Result(job.id, "done", canonical.dumps(answer).encode())]
