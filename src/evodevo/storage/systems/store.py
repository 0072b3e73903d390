"""Multitask systems in the store; open this file first in this folder.

Writes: ``writing`` and ``paths``. Reads: ``reading``, ``parts``, ``views``, ``status``. Garbage collection:
``garbage``. Tables: ``schema``.

``store.systems`` is a ``Systems``. A system is a run, an agent is a run, a path is an individual of its agent's run:
leases (``store.acquire(agent.id)``), evaluations, ancestry and events are read and written as those of every run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection

from evodevo.storage import recording
from evodevo.storage.base import Evaluation, EvaluationRow, EventRow, IndividualRow, Lease
from evodevo.storage.blobs import BlobPool
from evodevo.storage.engine import Database
from evodevo.storage.failpoints import failpoint
from evodevo.storage.systems import parts as system_parts
from evodevo.storage.systems import paths as asking
from evodevo.storage.systems import reading, writing
from evodevo.storage.systems import status as system_status
from evodevo.storage.systems import views as system_views
from evodevo.storage.systems.base import (
    AgentRow,
    ComponentRow,
    Counters,
    CycleRow,
    NewComponent,
    NewPath,
    PathRow,
    Publication,
    SystemRow,
    Use,
)
from evodevo.storage.systems.status import SystemCounts, SystemMoment

T = TypeVar("T")


class Writing(Protocol):
    """Work in a write transaction of the holder of a lease, while nobody else writes."""

    def __call__(self, lease: Lease, work: Callable[[Connection], T]) -> T: ...


class Systems:
    """Systems, agents, cycles, paths, components and publications of a store.

    The guarantees of ``Store`` hold here: each writing method is one durable transaction, whole or not at all; those
    that take a lease check its token in that transaction, and a stale one writes nothing. Every row is immutable
    except for the closing of a cycle; ids and numbers are never reused.

    Raises (all methods):
        NotFoundError: A system, agent, path, or blob does not exist.
        UsageError: The arguments contradict recorded rows.
        RunOwnedError: The lease was lost.
        StoreDamagedError: Needed weights are missing.
    """

    def __init__(self, database: Database, pool: BlobPool, write: Writing) -> None:
        self._database = database
        self._pool = pool
        self._write = write

    # Systems and agents

    def create_system(
        self,
        name: str,
        seed: int,
        settings: Mapping[str, Any],
        *,
        versions: Mapping[str, Any] | None = None,
        recipe: str = "multitask",
    ) -> str:
        """Record a new system under a name that is unique in the store; returns its id."""
        return self._database.write(writing.create_system, name, seed, settings, versions or {}, recipe)

    def add_agent(
        self,
        system_id: str,
        name: str,
        kind: str,
        task: str,
        seed: int,
        settings: Mapping[str, Any],
        *,
        versions: Mapping[str, Any] | None = None,
    ) -> str:
        """Record a new agent, without an owner; returns the id of its run.

        Args:
            system_id: Id of the agent's system.
            name: Name that is unique in the system, without ``:``; part of the ids of its components.
            kind: Class of the agent ("Vit").
            task: Name of the agent's task.
            seed: Seed of the agent, in [0, 2**63).
            settings: All settings, JSON.
            versions: Package -> version.
        """
        return self._database.write(writing.add_agent, system_id, name, kind, task, seed, settings, versions or {})

    def systems(self) -> list[SystemRow]:
        """All systems, oldest first."""
        return self._database.read(reading.systems)

    def find_system(self, name: str) -> SystemRow:
        """A system by its name, its id, or a unique prefix of either."""
        return self._database.read(reading.find_system, name)

    def agents(self, system_id: str) -> list[AgentRow]:
        """The agents of a system in the order in which they were added."""
        return self._database.read(reading.agents, system_id)

    def agent(self, agent_id: str) -> AgentRow:
        """One agent by the id of its run."""
        return self._database.read(reading.agent, agent_id)

    # A cycle: begin, ask, tell, publish

    def begin_cycle(self, lease: Lease, number: int, *, round: int | None, view: int | None) -> CycleRow:
        """Record the view of a new cycle, before the cycle reads anything; repeating the call changes nothing.

        Args:
            lease: Lease of the agent's run.
            number: Number of the cycle, greater than those of the agent's earlier cycles.
            round: Round of the schedule; None without rounds.
            view: Largest seq of the publications in the cycle's view, whose weights must exist; None = all so far.

        Returns:
            The open cycle, with its view.
        """

        def work(connection: Connection) -> CycleRow:
            cycle = writing.begin_cycle(connection, lease.run_id, number, round, view)
            failpoint("before_cycle_commit")
            return cycle

        cycle = self._write(lease, work)
        failpoint("after_cycle_commit")
        return cycle

    def ask(self, lease: Lease, cycle: int, paths: Sequence[NewPath]) -> int:
        """Record paths before they are trained, with the numbers reserved for their components; all or none.

        Repeating the call changes nothing. Sub-paths must be published at the cycle's view.

        Returns:
            Number of new paths.
        """

        def work(connection: Connection) -> int:
            count = asking.ask(connection, lease.run_id, cycle, paths)
            failpoint("before_ask_commit")
            return count

        count = self._write(lease, work)
        failpoint("after_ask_commit")
        return count

    def tell(
        self,
        lease: Lease,
        evaluation: Evaluation,
        components: Sequence[NewComponent] = (),
        uses: Sequence[Use] = (),
        *,
        releases: Sequence[str] = (),
    ) -> bool:
        """Record the result of a path: evaluation, new components with their blobs, and all components it consists of.

        Args:
            lease: Lease of the agent's run.
            evaluation: Evaluation of a recorded path; ``extra`` holds the decision about it.
            components: Components that were trained for the path, their blobs in the pool; empty where it is discarded.
            uses: All components of the path in order, new and old; empty where it is discarded.
            releases: Roles of blobs that the run itself held for this evaluation, its checkpoint, and lets go.

        Returns:
            False, with nothing written, where this attempt ended before or a later one has begun.
        """

        def work(connection: Connection) -> bool:
            accepted = asking.tell(connection, self._pool, lease.run_id, evaluation, components, uses)
            recording.detach_blobs(connection, lease.run_id, releases)
            failpoint("before_tell_commit")
            return accepted

        accepted = self._write(lease, work)
        failpoint("after_tell_commit")
        return accepted

    def publish(self, lease: Lease, cycle: int, path_id: str | None, *, retained: Sequence[str] = ()) -> int:
        """Publish a path (None: nothing) to all later views, and close the cycle.

        Args:
            lease: Lease of the agent's run.
            cycle: Number of the open cycle.
            path_id: Individual of the agent, of this cycle or an earlier one, whose weights exist.
            retained: Individuals that the agent keeps for its next cycle beside the published one.

        Returns:
            Seq of the publication.
        """

        def work(connection: Connection) -> int:
            seq = writing.publish(connection, lease.run_id, cycle, path_id, retained)
            failpoint("before_publish_commit")
            return seq

        seq = self._write(lease, work)
        failpoint("after_publish_commit")
        return seq

    def withdraw(self, lease: Lease) -> int:
        """Withdraw the agent's publications and close its open cycle, if any. Components that others use stay.

        Returns:
            Seq of the publication.
        """

        def work(connection: Connection) -> int:
            seq = writing.withdraw(connection, lease.run_id)
            failpoint("before_publish_commit")
            return seq

        seq = self._write(lease, work)
        failpoint("after_publish_commit")
        return seq

    # Reads

    def cycles(self, *, agent_id: str | None = None, system_id: str | None = None) -> list[CycleRow]:
        """Cycles of an agent or of a system, in the order in which they began."""
        return self._database.read(reading.cycles, agent_id=agent_id, system_id=system_id)

    def open_cycle(self, agent_id: str) -> CycleRow | None:
        """The open cycle of the agent, also after it was killed; None where it has none."""
        return self._database.read(reading.open_cycle, agent_id)

    def counters(self, agent_id: str) -> Counters:
        """The first path and component numbers that the agent never used."""
        return self._database.read(reading.counters, agent_id)

    def paths(self, agent_id: str, cycle: int | None = None) -> list[PathRow]:
        """Paths of an agent by number, discarded ones too; of all cycles or of one."""
        return self._database.read(reading.paths, agent_id, cycle)

    def path(self, individual_id: str) -> PathRow:
        """The path of an individual."""
        return self._database.read(reading.path, individual_id)

    def open_asks(self, agent_id: str) -> list[PathRow]:
        """Paths of the open cycle without a result, by number."""
        return self._database.read(reading.open_asks, agent_id)

    def publications(self, system_id: str, *, until: int | None = None) -> list[Publication]:
        """All publications up to a view, in order."""
        return self._database.read(system_views.publications, system_id, until=until)

    def view_now(self, system_id: str) -> int:
        """The view that includes everything published so far."""
        return self._database.read(system_views.view_now, system_id)

    def visible(self, system_id: str, view: int) -> dict[str, Publication]:
        """Agent's name -> its publication that is valid at a view; withdrawn agents are left out."""
        return self._database.read(system_views.visible, system_id, view)

    def locks(self, system_id: str, view: int) -> dict[str, frozenset[str]]:
        """Component -> names of the agents whose publication at the view uses it; derived, never stored."""
        return self._database.read(system_views.locks, system_id, view)

    def moment(self, system_id: str, fidelity: str, withdrawal: str) -> SystemMoment:
        """The current status of a system.

        Args:
            system_id: Id of the system.
            fidelity: Fidelity of the evaluations that decide about children.
            withdrawal: Type of the event by which an agent ends.
        """
        return self._database.read(system_status.moment, system_id, fidelity, withdrawal)

    def listing(self) -> list[SystemCounts]:
        """All systems with their agents and counts, oldest first."""
        return self._database.read(system_status.listing)

    def components(self, system_id: str) -> list[ComponentRow]:
        """All components of a system, by agent and number."""
        return self._database.read(system_parts.components, system_id)

    def components_of(self, individuals: Collection[str]) -> dict[str, list[ComponentRow]]:
        """The components of each of these paths, in order, with their roles in it; none for a discarded path."""
        return self._database.read(system_parts.components_of, individuals)

    def subpaths_of(self, individuals: Collection[str]) -> dict[str, list[str]]:
        """The ids of the sub-paths of each of these multipath individuals, the main path first."""
        return self._database.read(system_parts.subpaths_of, individuals)

    def individuals(self, ids: Collection[str]) -> dict[str, IndividualRow]:
        """The individuals of these ids with genomes and details; unknown ids are left out."""
        return self._database.read(reading.individuals, ids)

    def evaluations_of(self, individuals: Collection[str]) -> dict[str, list[EvaluationRow]]:
        """All evaluations of each of these individuals, in order of completion."""
        return self._database.read(reading.evaluations_of, individuals)

    def events_of(self, agent_ids: Collection[str], type: str) -> list[EventRow]:
        """Events of one type of these agents, in order."""
        return self._database.read(reading.events_of, agent_ids, type)
