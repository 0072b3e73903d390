"""What the store keeps of multitask systems: open this file first.

Writes: ``system_writing`` and ``system_paths``. Reads: ``system_reading``, ``system_parts``, ``system_views``,
``system_standing``. What may go: ``system_garbage``. The tables: ``system_schema``.

``store.systems`` is one of these. A system is a run, an agent is a run, a path is an individual of its agent's run:
leases (``store.acquire(agent.id)``), evaluations, ancestry and events are read and held as those of every run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from sqlalchemy import Connection

from evodevo.storage.base import Evaluation, EvaluationRow, IndividualRow, Lease
from evodevo.storage.blobs import BlobPool
from evodevo.storage.engine import Database
from evodevo.storage.failpoints import failpoint
from evodevo.storage.systems import parts as system_parts
from evodevo.storage.systems import paths as asking
from evodevo.storage.systems import reading, writing
from evodevo.storage.systems import standing as system_standing
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
from evodevo.storage.systems.standing import SystemCounts, SystemMoment

Writing = Callable[[Lease], AbstractContextManager[Connection]]


class Systems:
    """Systems, agents, cycles, paths, components and publications of a store.

    What ``Store`` promises holds here: each writing method is one durable transaction, whole or not at all; those
    that take a lease check its token in that transaction, and a stale one writes nothing. Every row is immutable but
    for a cycle's closing; ids and numbers are never used twice.

    Raises (all methods):
        NotFoundError: no such system, agent, path, or blob.
        UsageError: what is written contradicts what is recorded.
        RunOwnedError: the lease was lost.
        StoreDamagedError: weights that are needed are gone.
    """

    def __init__(self, database: Database, pool: BlobPool, writing: Writing) -> None:
        self._database = database
        self._pool = pool
        self._writing = writing

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
        with self._database.writing() as connection:
            return writing.create_system(connection, name, seed, settings, versions or {}, recipe)

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
        """Record a new agent, held by nobody; returns the id of its run.

        Args:
            system_id: whose it is.
            name: unique in the system, without ``:``; components are called after it.
            kind: its class ("Vit").
            task: that it answers.
            seed: in [0, 2**63).
            settings: all of them, JSON.
            versions: package -> version.
        """
        with self._database.writing() as connection:
            return writing.add_agent(connection, system_id, name, kind, task, seed, settings, versions or {})

    def systems(self) -> list[SystemRow]:
        """All systems, oldest first."""
        with self._database.reading() as connection:
            return reading.systems(connection)

    def find_system(self, name: str) -> SystemRow:
        """A system by its name, its id, or a unique prefix of either."""
        with self._database.reading() as connection:
            return reading.find_system(connection, name)

    def agents(self, system_id: str) -> list[AgentRow]:
        """The agents of a system in the order in which they were added."""
        with self._database.reading() as connection:
            return reading.agents(connection, system_id)

    def agent(self, agent_id: str) -> AgentRow:
        """One agent by the id of its run."""
        with self._database.reading() as connection:
            return reading.agent(connection, agent_id)

    # A cycle: begin, ask, tell, publish

    def begin_cycle(self, lease: Lease, number: int, *, round: int | None, view: int | None) -> CycleRow:
        """Commit what a cycle of the agent may see, before anything of it is read; repeating it changes nothing.

        Args:
            lease: of the agent's run.
            number: greater than those of its earlier cycles.
            round: the round it belongs to; None without rounds.
            view: publications with a seq up to this one are seen, and their weights must be there; None sees all
                that there are at this moment.

        Returns:
            The open cycle, with its view.
        """
        with self._writing(lease) as connection:
            cycle = writing.begin_cycle(connection, lease.run_id, number, round, view)
            failpoint("before_cycle_commit")
        failpoint("after_cycle_commit")
        return cycle

    def ask(self, lease: Lease, cycle: int, paths: Sequence[NewPath]) -> int:
        """Record paths before they are trained, with the numbers set aside for their components; all or none.

        Repeating it in the same words changes nothing. Sub-paths were published at the cycle's view.

        Returns:
            How many were new.
        """
        with self._writing(lease) as connection:
            count = asking.ask(connection, lease.run_id, cycle, paths)
            failpoint("before_ask_commit")
        failpoint("after_ask_commit")
        return count

    def tell(
        self,
        lease: Lease,
        evaluation: Evaluation,
        components: Sequence[NewComponent] = (),
        uses: Sequence[Use] = (),
    ) -> bool:
        """Record the result of a path: evaluation, new components with their blobs, and all that it is made of.

        Args:
            lease: of the agent's run.
            evaluation: of an individual that was asked for; ``extra`` tells its fate.
            components: trained for it and kept, their blobs in the pool; none where it is discarded.
            uses: all its components in order, new and old; none where it is discarded.

        Returns:
            False, with nothing written, where this attempt ended before or a later one has begun.
        """
        with self._writing(lease) as connection:
            accepted = asking.tell(connection, self._pool, lease.run_id, evaluation, components, uses)
            failpoint("before_tell_commit")
        failpoint("after_tell_commit")
        return accepted

    def publish(self, lease: Lease, cycle: int, path_id: str | None, *, retained: Sequence[str] = ()) -> int:
        """Offer a path (None: nothing) to the views to come, and close the cycle.

        Args:
            lease: of the agent's run.
            cycle: the open one.
            path_id: an individual of the agent, of this cycle or an earlier one, whose weights are there.
            retained: individuals that the agent wants to find in its next cycle beside the published one.

        Returns:
            The publication's seq.
        """
        with self._writing(lease) as connection:
            seq = writing.publish(connection, lease.run_id, cycle, path_id, retained)
            failpoint("before_publish_commit")
        failpoint("after_publish_commit")
        return seq

    def withdraw(self, lease: Lease) -> int:
        """Offer nothing any more; an open cycle ends with it. What others use of the agent's stays.

        Returns:
            The publication's seq.
        """
        with self._writing(lease) as connection:
            seq = writing.withdraw(connection, lease.run_id)
            failpoint("before_publish_commit")
        failpoint("after_publish_commit")
        return seq

    # What is there

    def cycles(self, *, agent_id: str | None = None, system_id: str | None = None) -> list[CycleRow]:
        """Cycles of an agent or of a system, in the order in which they began."""
        with self._database.reading() as connection:
            return reading.cycles(connection, agent_id=agent_id, system_id=system_id)

    def open_cycle(self, agent_id: str) -> CycleRow | None:
        """The cycle that the agent is in, or was in when it was killed."""
        with self._database.reading() as connection:
            return reading.open_cycle(connection, agent_id)

    def counters(self, agent_id: str) -> Counters:
        """The first path and component numbers that the agent never gave out."""
        with self._database.reading() as connection:
            return reading.counters(connection, agent_id)

    def paths(self, agent_id: str, cycle: int | None = None) -> list[PathRow]:
        """Paths of an agent by number, discarded ones too; of all cycles or of one."""
        with self._database.reading() as connection:
            return reading.paths(connection, agent_id, cycle)

    def path(self, individual_id: str) -> PathRow:
        """The path that an individual is."""
        with self._database.reading() as connection:
            return reading.path(connection, individual_id)

    def open_asks(self, agent_id: str) -> list[PathRow]:
        """Paths of the open cycle that have no result yet, by number."""
        with self._database.reading() as connection:
            return reading.open_asks(connection, agent_id)

    def publications(self, system_id: str, *, until: int | None = None) -> list[Publication]:
        """All that was published, in order, up to a view."""
        with self._database.reading() as connection:
            return system_views.publications(connection, system_id, until=until)

    def view_now(self, system_id: str) -> int:
        """The view that sees everything published so far."""
        with self._database.reading() as connection:
            return system_views.view_now(connection, system_id)

    def visible(self, system_id: str, view: int) -> dict[str, Publication]:
        """Agent's name -> what it offers at a view; whoever withdrew is not in it."""
        with self._database.reading() as connection:
            return system_views.visible(connection, system_id, view)

    def locks(self, system_id: str, view: int) -> dict[str, frozenset[str]]:
        """Component -> names of the agents whose publication at the view uses it; derived, never stored."""
        with self._database.reading() as connection:
            return system_views.locks(connection, system_id, view)

    def moment(self, system_id: str, fidelity: str, withdrawal: str) -> SystemMoment:
        """All that the status of a system tells, of one moment.

        Args:
            system_id: of the system.
            fidelity: of the evaluations that decide about children.
            withdrawal: type of the event by which an agent ends.
        """
        with self._database.reading() as connection:
            return system_standing.moment(connection, system_id, fidelity, withdrawal)

    def listing(self) -> list[SystemCounts]:
        """All systems with their agents and counts, oldest first."""
        with self._database.reading() as connection:
            return system_standing.listing(connection)

    def components(self, system_id: str) -> list[ComponentRow]:
        """All components of a system, by agent and number."""
        with self._database.reading() as connection:
            return system_parts.components(connection, system_id)

    def components_of(self, individuals: Collection[str]) -> dict[str, list[ComponentRow]]:
        """The components of each of these paths, in order, with their roles there; none for a discarded one."""
        with self._database.reading() as connection:
            return system_parts.components_of(connection, individuals)

    def subpaths_of(self, individuals: Collection[str]) -> dict[str, list[str]]:
        """The individuals inside each of these multipath ones, the main path first."""
        with self._database.reading() as connection:
            return system_parts.subpaths_of(connection, individuals)

    def individuals(self, ids: Collection[str]) -> dict[str, IndividualRow]:
        """The individuals of these ids with genomes and details; what is not there is left out."""
        with self._database.reading() as connection:
            return reading.individuals(connection, ids)

    def evaluations_of(self, individuals: Collection[str]) -> dict[str, list[EvaluationRow]]:
        """All evaluations of each of these individuals, in order of completion."""
        with self._database.reading() as connection:
            return reading.evaluations_of(connection, individuals)
