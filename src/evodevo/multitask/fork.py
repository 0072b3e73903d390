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
from evodevo.multitask.problem import EVALS, IMPROVED, SIZES
from evodevo.multitask.recorded import KEPT, QUALITY, deciding, value_of
from evodevo.multitask.stored import agent_settings
from evodevo.multitask.system import System
from evodevo.multitask.transfer.problem import ENTRY, TABLE
from evodevo.multitask.transfer.table import recorded
from evodevo.search.problem import Outcome, write_answer
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
    row = next((row for row in store.systems.systems() if row.name == name), None)
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

    def _probes(self, agent: str) -> Outcome:
        """The probes of an agent, as they were recorded."""
        table = recorded(self._system.store, self._agents.get(agent, ""))
        if table is None:
            raise NotFoundError(f"system {self._system.row.name!r} has no probes of {agent}.")
        if table.failed:
            return Outcome("error", detail=table.failed)
        return Outcome(extra={TABLE: table.model_dump(mode="json")})

    def _evaluate(self, job: Job) -> list[Event]:
        request: dict[str, Any] = canonical.loads(job.payload, what="an evaluation", max_bytes=1 << 26)
        if job.entry == ENTRY:
            return [Result(job.id, "done", write_answer(self._probes(request["agent"])))]
        genes = request["path"]
        individual = path_id(self._agents.get(genes["agent"], ""), genes["number"])
        systems = self._system.store.systems
        row = systems.individuals([individual]).get(individual)
        result = None if row is None else deciding(systems.evaluations_of([individual])[individual])
        if row is None or result is None:
            raise NotFoundError(f"system {self._system.row.name!r} has no result of path {job.id}.")
        if (row.genome_envelope["genes"], row.seed) != (genes, request["seed"]):
            # Of another version: to record its results for other children would be a lie.
            raise StoreDamagedError(
                f"path {genes['agent']}/{genes['number']} of system {self._system.row.name!r} was made by other rules"
                " than this evodevo's; begin anew in another store."
            )
        facts = result.extra.get("answer", {})
        if result.state == "failed":
            outcome = Outcome(result.reason, detail=result.detail, extra=facts, seconds=result.seconds)
        else:
            parts = systems.components_of([individual])[individual]
            made = [part for part in parts if request["components"].get(part.role, {}).get("train")]
            quality = value_of(result, QUALITY)
            outcome = Outcome(
                scores={} if quality is None else {QUALITY: quality},
                extra={
                    **facts,
                    EVALS: result.extra["evals"],
                    IMPROVED: result.extra["fate"] == KEPT,
                    SIZES: {part.role: part.parameters for part in made},
                },
                blobs={part.role: part.digest for part in made},
                seconds=result.seconds,
            )
        return [Result(job.id, "done", write_answer(outcome))]
