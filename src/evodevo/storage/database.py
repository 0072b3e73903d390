"""The store; open this file first. Each method is one transaction; the SQL is in the files beside it.

Reads: ``queries``. Writes: ``recording``. Write access: ``leases``. Blobs: ``blobs``. Damage: ``integrity``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection

from evodevo.errors import EvodevoError, StoreDamagedError, UsageError
from evodevo.storage import integrity, leases, migrations, pools, queries, recording
from evodevo.storage.addresses import Place, ServerAddress, place
from evodevo.storage.base import (
    CheckReport,
    Damage,
    Evaluation,
    EvaluationRow,
    EvaluationState,
    EventRow,
    GarbageReport,
    IndividualRow,
    Lease,
    NewIndividual,
    Parent,
    PrefixMatch,
    Progress,
    RepairReport,
    RunRow,
    RunState,
    quiet,
)
from evodevo.storage.blobs import BlobPool, MemoryPool
from evodevo.storage.dialects.sqlite import open_memory
from evodevo.storage.engine import Database
from evodevo.storage.failpoints import failpoint
from evodevo.storage.heartbeat import Heartbeat
from evodevo.storage.liveness import Owner, is_alive
from evodevo.storage.opening import Mode, StoreLayout, backup, backup_hint, open_database
from evodevo.storage.schema import metadata
from evodevo.storage.systems.store import Systems

T = TypeVar("T")
P = ParamSpec("P")
GRACE_SECONDS = 3600.0
RELEASED_GRACE_SECONDS = 60.0
"""A worker that puts such a blob again is recorded within seconds."""


class Store:
    """Runs, individuals, ancestry, evaluations, events and blobs, stored permanently.

    Guarantees to every caller:

    - Each writing method is one durable transaction: when it returns, a crash or loss of power undoes nothing; when it
      raises, nothing of it was written.
    - A writing method takes a lease and checks it in that same transaction; a lease that was lost raises
      ``RunOwnedError``, and nothing was written.
    - Reading never blocks a writer and is never blocked by one; each method reads one consistent state.
    - A full disk raises ``DiskFullError``, a damaged file ``StoreDamagedError``; nothing else is lost by either.
    - A store may be used from several threads of the process that opened it, not from its forks.
    """

    def __init__(
        self,
        database: Database,
        blobs: BlobPool,
        layout: StoreLayout | None = None,
        *,
        network: bool = False,
        address: ServerAddress | None = None,
    ) -> None:
        self._database = database
        self.blobs = blobs
        self._layout = layout
        self._address = address
        self._one_kernel = not network
        self._leases: set[Lease] = set()
        source = layout.database if layout else address
        self._heartbeat = Heartbeat(source) if source is not None else None

    @classmethod
    def open(
        cls,
        path: str | Path = "runs",
        mode: Mode = "rw",
        *,
        create: bool = True,
        blobs: str | Path | None = None,
        without_damaged_log: bool = False,
    ) -> Store:
        """Open the store in a folder, or in a PostgreSQL database.

        Args:
            path: Folder of the store, created with mode 0700 where it is missing; or ``postgresql://...``.
            mode: ``rw``, or ``ro``, which works beside a writer and after a crash.
            create: Whether to make a store where there is none (``rw`` only).
            blobs: Where a new store keeps its blobs: a folder, or an address such as ``s3://bucket/x``; None = its own
                folder, or for a database, EVODEVO_BLOBS of the environment. The store records it, a relative path as
                relative to its own folder. For a store that is there already: where its blobs lie now.
            without_damaged_log: Whether to go on without the transactions that a damaged write-ahead log has lost; a
                copy of the log is kept in ``backups``.

        Raises:
            NotFoundError: There is no store and ``create`` is False, or its blobs are not where they should be.
            UsageError: The blobs of another store lie there, or this one keeps them in its folder.
            StoreVersionError: A newer evodevo wrote the store.
            StoreDamagedError: The database differs from what was written.
        """
        where = place(path)
        if isinstance(where, ServerAddress):
            from evodevo.storage.serving import open_server

            server = open_server(where, mode, create=create, blobs=blobs)
            return cls(server, _pool(server, None, blobs), network=True, address=where)
        layout = StoreLayout(where.absolute())
        if blobs is not None:
            pools.normal(str(blobs))  # refused before there is a folder
            if mode == "rw" and create:
                _require_place(layout, blobs)
        database, network = open_database(layout, mode, create=create, without_damaged_log=without_damaged_log)
        return cls(database, _pool(database, layout.folder, blobs), layout, network=network)

    @classmethod
    def memory(cls) -> Store:
        """A store in memory that exists as long as this object; the same SQL, no files."""
        database = open_memory()
        with database.writing() as connection:
            metadata.create_all(connection)
        return cls(database, MemoryPool(), None)

    @property
    def folder(self) -> Path | None:
        """Absolute path of the store's folder; None in memory and in a database of a server."""
        return self._layout.folder if self._layout else None

    @property
    def blobs_folder(self) -> Path | None:
        """Folder of the blobs; None in memory, and in an object store."""
        return self.blobs.folder

    @property
    def blobs_address(self) -> str | None:
        """Address at which workers put blobs (``pools.pool_at``); None in memory."""
        return self.blobs.address

    @property
    def durable(self) -> bool:
        """Whether it outlives this process."""
        return self.blobs.address is not None

    @property
    def place(self) -> Place | None:
        """Where it can be opened again; None in memory."""
        return self._layout.folder if self._layout else self._address

    @property
    def systems(self) -> Systems:
        """The multitask systems in this store."""
        return Systems(self._database, self.blobs, self._write_alone)

    def close(self) -> None:
        """Release this object's leases and close the database."""
        if self._heartbeat is not None:
            self._heartbeat.close()
        try:
            if self._database.writable:
                for lease in list(self._leases):
                    self.release(lease)
                self._database.optimize()
        except EvodevoError:
            pass  # an error here would hide the error for which the store is closed; leases end with the process anyway
        finally:
            self._database.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Runs and leases

    def create_run(
        self,
        kind: str,
        recipe: str,
        settings: Mapping[str, Any],
        seed: int,
        space: Any = None,
        versions: Mapping[str, Any] | None = None,
        *,
        part_of: tuple[Lease, str, str] | None = None,
    ) -> str:
        """Record a new run, in state ``running`` and without an owner.

        Args:
            kind: Driver of the run: ``evolve``, ``train``, ...
            recipe: Name of the recipe.
            settings: All resolved settings; JSON.
            seed: Seed of the run, in [0, 2**63).
            space: Description of the space; JSON.
            versions: Package -> version.
            part_of: Lease of the run that it is a part of, and type and subject of the event that says so there, which
                is recorded in the same transaction.

        Returns:
            Id of the run, ``r`` and twelve hexadecimal digits.
        """

        def work(connection: Connection) -> str:
            run_id = recording.create_run(
                connection,
                kind=kind,
                recipe=recipe,
                settings=settings,
                seed=seed,
                space=space,
                versions=versions or {},
            )
            if not self._one_kernel and self._layout is not None:
                words = {
                    "message": "the store lies on a network file system: no WAL, slower, judge owners by heartbeat"
                }
                recording.add_event(connection, run_id, "store.warning", run_id, words)
            if part_of is not None:
                lease, kind_of_event, subject = part_of
                leases.confirm(connection, lease)
                recording.add_event(connection, lease.run_id, kind_of_event, subject, {"run": run_id})
            failpoint("before_run_commit")
            return run_id

        run_id = self._database.write(work)
        failpoint("after_run_commit")
        return run_id

    def acquire(self, run_id: str, *, patience: float = leases.PATIENCE_SECONDS) -> Lease:
        """Acquire the lease of a run for this process; see ``leases.acquire``.

        Raises:
            NotFoundError: The run does not exist.
            RunOwnedError: Another living process holds the lease.
        """
        lease = leases.acquire(self._database, run_id, one_kernel=self._one_kernel, patience=patience)
        self._leases.add(lease)
        return lease

    def heartbeat(self, lease: Lease) -> None:
        """Confirm the lease, as every writing method does: whoever waits for long learns that the run was taken over.

        Raises:
            RunOwnedError: It was.
        """
        self._database.write_beside(leases.confirm, lease)

    def keep_alive(self, lease: Lease) -> None:
        """Have the lease's heartbeat advanced by a process of its own until it is released, however busy this one is.

        To be called by whoever holds a lease for more than seconds. Without effect in memory.
        """
        if self._heartbeat is not None:
            self._heartbeat.add(lease)

    def release(self, lease: Lease) -> None:
        """Release the lease of a run; without effect where the lease was lost."""
        if self._heartbeat is not None:
            self._heartbeat.remove(lease)
        self._database.write(leases.release, lease)
        self._leases.discard(lease)

    def owner(self, run_id: str) -> Owner | None:
        """The process that holds the run's lease, unless it is known to be dead."""
        owner = self._database.read(leases.owner, run_id)
        if owner is not None and is_alive(owner, one_kernel=self._one_kernel) is False:
            return None
        return owner

    def owners(self) -> dict[str, Owner]:
        """Run -> the process that holds its lease, for all runs; dead processes are left out."""
        owners = self._database.read(leases.owners)
        # One process may hold many runs; each is looked up once.
        alive = {owner: is_alive(owner, one_kernel=self._one_kernel) for owner in set(owners.values())}
        return {run: owner for run, owner in owners.items() if alive[owner] is not False}

    def runs(self) -> list[RunRow]:
        """All runs, oldest first."""
        return self._database.read(queries.runs)

    def run(self, run_id: str) -> RunRow:
        """One run by its full id (``find`` resolves prefixes)."""
        return self._database.read(queries.run, run_id)

    def finish_run(self, lease: Lease, state: RunState) -> None:
        """Record the state of the run: ``finished``, ``interrupted``, ``failed``, or ``running`` again."""
        self._write(lease, recording.set_run_state, lease.run_id, state)

    def change_settings(self, lease: Lease, settings: Mapping[str, Any]) -> None:
        """Replace the run's settings (a resume with another budget); an event records the old ones."""
        self._write(lease, recording.set_run_settings, lease.run_id, settings)

    def find(self, prefix: str) -> PrefixMatch:
        """The run or individual with a unique prefix of its id; see ``queries.find``."""
        return self._database.read(queries.find, prefix)

    # Individuals and ancestry

    def add_individuals(self, lease: Lease, individuals: Sequence[NewIndividual]) -> int:
        """Record individuals with parents, all or none; repeating the call changes nothing.

        Parents are in the store already, or come before their children in the sequence.

        Returns:
            Number of new individuals.

        Raises:
            UsageError: An id is not derived from its birth, a parent is unknown, or an individual is recorded already
                with other contents.
        """

        def work(connection: Connection) -> int:
            count = recording.add_individuals(connection, lease.run_id, individuals)
            failpoint("before_individuals")
            return count

        count = self._write(lease, work)
        failpoint("after_individuals")
        return count

    def individuals(self, run_id: str, *, generation: int | None = None, since_seq: int = 0) -> list[IndividualRow]:
        """Individuals of a run in order of birth, optionally only of one generation or after an event."""
        return self._database.read(queries.individuals, run_id, generation, since_seq)

    def individual(self, individual_id: str) -> IndividualRow:
        """One individual by its full id."""
        return self._database.read(queries.individual, individual_id)

    def parents(self, individual_id: str) -> list[Parent]:
        """The edges from an individual to its parents, in role order."""
        return self._database.read(queries.parents, individual_id)

    def children(self, individual_id: str) -> list[Parent]:
        """The edges from an individual to its children, in order of birth."""
        return self._database.read(queries.children, individual_id)

    def lineage(self, individual_id: str, *, depth: int | None = None) -> list[Parent]:
        """All edges of the ancestry graph above an individual, latest birth first, across runs; at most ``depth``
        generations."""
        return self._database.read(queries.lineage, individual_id, depth)

    # Evaluations

    def start_evaluation(
        self, lease: Lease, individual_id: str, fidelity: str, seed: int, resume: str | None = None
    ) -> int:
        """Record the start of an evaluation; one that a dead coordinator left running becomes ``stale``.

        Args:
            lease: Lease of the run.
            individual_id: Id of the individual.
            fidelity: Fidelity of the evaluation.
            seed: Seed of the evaluation, in [0, 2**63).
            resume: Digest of the checkpoint from which it goes on, recorded among its facts (``RESUMED``).

        Returns:
            Number of the attempt, from 1, for ``finish_evaluation``, which also works without a start.
        """
        return self._write(lease, recording.start_evaluation, lease.run_id, individual_id, fidelity, seed, resume)

    def abandon_evaluations(self, lease: Lease) -> None:
        """Record that the run's running evaluations were stopped on purpose, which is no evidence about anything."""
        self._write(lease, recording.abandon_evaluations, lease.run_id)

    def finish_evaluation(self, lease: Lease, evaluation: Evaluation, *, releases: Sequence[str] = ()) -> bool:
        """Record a whole outcome: state, scores, cost, curves, blobs, and the event that orders it.

        Args:
            lease: Lease of the run.
            evaluation: The outcome.
            releases: Roles of blobs that the run itself held for this evaluation, its checkpoint, and lets go.

        Returns:
            False, with nothing written, where this attempt ended before or a later one has begun.

        Raises:
            NotFoundError: A blob is not in the pool.
        """

        def work(connection: Connection) -> bool:
            accepted = recording.finish_evaluation(connection, self.blobs, lease.run_id, evaluation)
            recording.detach_blobs(connection, lease.run_id, releases)
            failpoint("before_evaluation_commit")
            return accepted

        accepted = self._write(lease, work)
        failpoint("after_evaluation_commit")
        return accepted

    def evaluations(
        self, run_id: str | None = None, *, individual_id: str | None = None, state: EvaluationState | None = None
    ) -> list[EvaluationRow]:
        """Evaluations with scores and blobs in order of completion, unfinished ones last."""
        return self._database.read(queries.evaluations, run_id=run_id, individual_id=individual_id, state=state)

    def series(self, evaluation_id: str) -> dict[str, list[tuple[float, float]]]:
        """Curves of one evaluation by name; y may be non-finite."""
        return self._database.read(queries.series, evaluation_id)

    # Events

    def add_event(self, lease: Lease, type: str, subject: str, payload: Mapping[str, Any]) -> int:
        """Append an event to the run.

        Returns:
            Number of the event, larger than any before in this store.
        """

        def work(connection: Connection) -> int:
            seq = recording.add_event(connection, lease.run_id, type, subject, payload)
            failpoint("before_event_commit")
            return seq

        seq = self._write(lease, work)
        failpoint("after_event_commit")
        return seq

    def events(
        self, run_id: str | None = None, *, since_seq: int = 0, limit: int | None = None, type: str | None = None
    ) -> list[EventRow]:
        """Events with a number above ``since_seq``, in order; of the first ``limit`` those of a type, or all."""
        return self._database.read(queries.events, run_id, since_seq, limit, type)

    # Blobs, damage, backups

    def attach_blobs(self, lease: Lease, blobs: Mapping[str, str]) -> None:
        """Let the run itself hold blobs (role -> digest): a tokenizer, a corpus index."""
        self._write(lease, recording.refer, self.blobs, lease.run_id, "run", lease.run_id, blobs)

    def detach_blobs(self, lease: Lease, roles: Sequence[str]) -> int:
        """Release blobs that the run itself holds; ``gc`` then frees the space.

        Returns:
            Number of released references.
        """
        return self._write(lease, recording.detach_blobs, lease.run_id, roles)

    def run_blobs(self, run_id: str) -> dict[str, str]:
        """Role -> digest of the blobs that the run itself holds."""
        return self._database.read(queries.run_blobs, run_id)

    def release_blobs(
        self, lease: Lease, evaluation_ids: Collection[str], *, roles: Sequence[str] | None = None
    ) -> int:
        """Release weights (of these roles, or all) of evaluations of the run; ``gc`` then frees the space.

        Returns:
            Number of released references. Rows, scores and ancestry stay.
        """
        return self._write(lease, recording.release_blobs, lease.run_id, list(evaluation_ids), roles)

    def gc(
        self,
        *,
        grace_seconds: float = GRACE_SECONDS,
        released_grace_seconds: float = RELEASED_GRACE_SECONDS,
        dry_run: bool = False,
        progress: Progress = quiet,
    ) -> GarbageReport:
        """Delete unreferenced blobs; safe beside running workers, whose blobs exist before the rows that refer to them.

        Args:
            grace_seconds: Smallest age in seconds of a deleted blob that no row ever referred to.
            released_grace_seconds: Smallest age in seconds of one whose owners have all let it go.
            dry_run: Whether to only report.
            progress: Called with the bytes that were deleted, and all that are to be.

        Raises:
            StoreDamagedError: A reference was changed or lost; nothing is deleted.
            UsageError: The pool belongs to another store; nothing is deleted.
        """
        released = min(grace_seconds, released_grace_seconds)
        if not dry_run:
            self._database.write(integrity.let_go)
        return self._database.write(
            integrity.collect,
            self.blobs,
            grace=grace_seconds,
            released_grace=released,
            dry_run=dry_run,
            gone={},
            progress=progress,
        )

    def tidy(self) -> GarbageReport:
        """Collect what runs have let go of, at once where no run is open; to be called when a run has ended."""
        return self.gc(released_grace_seconds=RELEASED_GRACE_SECONDS if self.owners() else 0.0)

    def check(self, *, deep: bool = False, progress: Progress = quiet) -> CheckReport:
        """Search for damage; ``deep`` hashes every held blob and reads every row.

        ``progress`` is called with the bytes of the blobs that were looked at, and of all.
        """
        try:
            with self._database.reading(math.inf) as connection:
                report = integrity.check(connection, self._database, self.blobs, deep=deep, progress=progress)
            return replace(report, sealed=not self._database.unsealed)
        except StoreDamagedError as error:
            return CheckReport(0, 0, deep, (Damage("database", self._database.place, str(error)),))

    def repair(self, progress: Progress = quiet) -> RepairReport:
        """Quarantine damaged blobs; mark the evaluations that lost theirs, or whose rows were changed, for repetition.

        A resume repeats them. Every blob is read three times: ``progress`` is called with the bytes of that, and all.

        Raises:
            RunOwnedError: An affected run is open in a living process; nothing of that run was changed.
            StoreDamagedError: The database itself is damaged beyond its indexes.
        """

        def part(number: int) -> Progress:
            return lambda done, whole: progress(number * whole + done, 3 * whole)

        self._reset_leases()
        before = self.check(deep=True, progress=part(0))
        if any(problem.kind == "database" for problem in before.problems):
            self._reindex()
        with self._database.reading(math.inf) as connection:
            lost = integrity.losses(connection, self.blobs, deep=True, progress=part(1))
        marked: list[str] = []
        for run_id in sorted({run for loss in lost for _, _, run in loss.owners}):
            lease = self.acquire(run_id)
            try:
                marked.extend(self._write(lease, integrity.mark_lost, run_id, lost))
            finally:
                self.release(lease)
        marked += self._mark_changed()
        with self._database.writing() as connection:
            for loss in lost:
                # A worker may have put the right bytes again in the meantime.
                if self.blobs.verify(loss.digest) is not None:
                    # Hashing may take long: the connection, and with it the lock, may be lost by now.
                    pools.confirm(connection, self.blobs)
                    self.blobs.quarantine(loss.digest)
        after = self.check(deep=True, progress=part(2))
        return RepairReport(tuple(loss.digest for loss in lost), tuple(marked), after.problems)

    def _reset_leases(self) -> None:
        """Give up the leases that cannot be read: nobody could resume their runs."""
        with self._database.writing() as connection:
            leases.reset(connection, leases.unreadable(connection, integrity.run_ids(connection)))

    def _mark_changed(self) -> list[str]:
        """Mark the evaluations whose rows were changed, in all runs; returns their ids."""
        with self._database.reading(math.inf) as connection:
            changed = {
                run_id: integrity.changed_evaluations(connection, run_id) for run_id in integrity.run_ids(connection)
            }
        for run_id, evaluations in changed.items():
            if not evaluations:
                continue
            lease = self.acquire(run_id)
            try:
                self._write(lease, integrity.mark_changed, run_id, evaluations)
            finally:
                self.release(lease)
        return [evaluation for evaluations in changed.values() for evaluation in evaluations]

    def _reindex(self) -> None:
        try:
            self._database.write(self._database.reindex)
            broken = [problem.message for problem in self.check(deep=True).problems if problem.kind == "database"]
        except StoreDamagedError as error:
            broken = [str(error.__cause__ or error)]
        if broken:
            hint = backup_hint(self._layout) if self._layout else "restore it from your backup."
            raise StoreDamagedError(f"{self._database.place} cannot be mended ({broken[0]}); {hint}")

    def backup(self, progress: Progress = quiet) -> Path | None:
        """Copy the database (not the blobs) into ``backups/``; None in memory.

        ``progress`` is called with the bytes of the copy, and of the database, which may be larger.

        Raises:
            UsageError: The store lies in a database of a server.
        """
        if self._address is not None:
            raise UsageError(
                f"{self._database.place} is backed up by its server (pg_dump); evodevo store copy makes a copy with "
                "blobs in a folder."
            )
        return backup(self._database.copy_to, self._layout, migrations.HEAD, progress) if self._layout else None

    def copy_database(self, target: Path) -> None:
        """Write a compact, consistent copy of the database, without blobs, into a new file of SQLite."""
        self._database.copy_to(target)

    @contextmanager
    def giving(self) -> Iterator[Connection]:
        """A transaction in which all of the store can be read, for as long as that takes.

        Raises:
            UsageError: An older evodevo wrote the store, so that its rows have no seals.
        """
        if self._database.unsealed:
            raise UsageError(f"{self._database.place} has an older schema; open it once for writing (evodevo repair).")
        with self._database.reading(math.inf) as connection:
            yield connection

    @contextmanager
    def receiving(self) -> Iterator[Connection]:
        """A transaction in which an empty store is filled from outside; what is in it then is checked before it ends.

        Raises:
            StoreDamagedError: What came in is damaged; nothing was written.
        """
        with self._database.writing() as connection:
            yield connection
            integrity.check(connection, self._database, self.blobs, deep=True, hashed=True).require()

    def _write(
        self, lease: Lease, work: Callable[Concatenate[Connection, P], T], *args: P.args, **settings: P.kwargs
    ) -> T:
        """Work in a write transaction of the holder of a lease; holders of others may write meanwhile."""
        return self._database.write_beside(_confirmed, lease, work, *args, **settings)

    def _write_alone(self, lease: Lease, work: Callable[[Connection], T]) -> T:
        """As ``_write``, while nobody else writes."""
        return self._database.write(_confirmed, lease, work)


def _require_place(layout: StoreLayout, blobs: str | Path) -> None:
    """Refuse a place for the blobs of a new store before there is a folder."""
    if layout.database.exists():
        return
    try:
        pools.require_place(layout.folder, blobs)
    except UsageError:
        # Another process may have made the same store just now, with its blobs there.
        if not layout.database.exists():
            raise


def _pool(database: Database, folder: Path | None, blobs: str | Path | None) -> BlobPool:
    try:
        return pools.of_store(database, folder, blobs)
    except BaseException:
        database.close()
        raise


def _confirmed(
    connection: Connection,
    lease: Lease,
    work: Callable[Concatenate[Connection, P], T],
    /,
    *args: P.args,
    **settings: P.kwargs,
) -> T:
    leases.confirm(connection, lease)
    return work(connection, *args, **settings)
