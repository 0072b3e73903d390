"""Checks of the store for damage, marking of lost results for repetition, and garbage collection of blobs.

Nothing here invents data: a lost result is marked and repeated, never reconstructed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Connection, and_, func, select, update

from evodevo.errors import StoreDamagedError
from evodevo.storage import leases, pools, queries, seals
from evodevo.storage.base import CheckReport, Damage, GarbageReport, Progress, evaluation_id, individual_id, quiet
from evodevo.storage.blobs import BlobPool
from evodevo.storage.engine import Database
from evodevo.storage.recording import add_event, change_evaluation, release
from evodevo.storage.schema import blob_reference_table, blob_table, evaluation_table, individual_table, run_table
from evodevo.storage.systems import garbage as system_garbage
from evodevo.storage.systems import integrity as system_integrity
from evodevo.storage.systems.schema import component_table


@dataclass(frozen=True)
class Loss:
    """A missing or damaged blob, and its owners."""

    digest: str
    problem: str
    owners: tuple[tuple[str, str, str], ...]  # (kind, id, run id)


def check(
    connection: Connection,
    database: Database,
    pool: BlobPool,
    *,
    deep: bool,
    hashed: bool = False,
    progress: Progress = quiet,
) -> CheckReport:
    """Check the database and every blob that a row refers to.

    Args:
        connection: Connection with an open transaction.
        database: Its database.
        pool: Pool of the blobs.
        deep: Whether to hash every blob and read every row and page; otherwise only sizes and structure.
        hashed: Whether the blobs were hashed just now, so that sizes are enough.
        progress: Called with the bytes of the blobs that were looked at, and of all.
    """
    problems: list[Damage] = list(database.problems(connection, deep=deep))
    count = size = 0
    if not problems:
        problems.extend(_row_problems(connection, deep=deep))
        sizes = held(connection)
        count, size = len(sizes), sum(sizes.values())
        lost = losses(connection, pool, deep=deep and not hashed, progress=progress)
        problems.extend(Damage("blob", loss.digest, loss.problem) for loss in lost)
    return CheckReport(count, size, deep, tuple(problems))


def losses(connection: Connection, pool: BlobPool, *, deep: bool, progress: Progress = quiet) -> list[Loss]:
    """The held blobs that are missing or damaged, with their owners."""
    faults: dict[str, str] = {}
    every = held(connection)
    done, whole = 0, sum(every.values())
    for digest, length in every.items():
        size = pool.size(digest)
        if size is None:
            faults[digest] = "the file is missing"
        elif size != length:
            faults[digest] = f"the file has {size} bytes instead of {length}"
        elif deep and (wrong := pool.verify(digest)) is not None:
            faults[digest] = wrong
        done += length
        progress(done, whole)
    return [Loss(digest, problem, _owners(connection, digest)) for digest, problem in faults.items()]


def mark_lost(connection: Connection, run_id: str, lost: list[Loss]) -> list[str]:
    """Release a run's references to lost blobs; mark its evaluations ``failed: lost``, so that a resume repeats them.

    Their scores and curves stay as history. A lost component marks its path's evaluation while the cycle is open; in a
    closed cycle nothing repeats it, and only the component itself is marked as lost. Returns the ids of the
    evaluations.
    """
    reference = blob_reference_table
    marked: dict[str, None] = {}
    for loss in lost:
        own = [(kind, owner) for kind, owner, run in loss.owners if run == run_id]
        for kind, owner in own:
            own_one = (reference.c.owner_kind == kind, reference.c.owner_id == owner)
            release(connection, run_id, *own_one, reference.c.digest == loss.digest)
            affected = [owner] if kind == "evaluation" else []
            if kind == "component":
                affected = system_garbage.evaluations_to_redo(connection, owner)
            for evaluation in affected:
                marked[evaluation] = None
                if _state(connection, evaluation) in ("done", "failed"):
                    values = {"state": "failed", "reason": "lost", "detail": f"blob {loss.digest}: {loss.problem}"}
                    change_evaluation(connection, run_id, evaluation, values)
            payload = {"digest": loss.digest, "owner": owner, "problem": loss.problem}
            add_event(connection, run_id, f"{kind}.lost", owner, payload)
        if own:
            connection.execute(update(blob_table).where(blob_table.c.digest == loss.digest).values(state="lost"))
    return list(marked)


def _state(connection: Connection, evaluation: str) -> str | None:
    return connection.execute(select(evaluation_table.c.state).where(evaluation_table.c.id == evaluation)).scalar()


def let_go(connection: Connection) -> None:
    """Release the weights of unreachable components.

    In a transaction before that of ``collect``: one that is undone brings references back, but no blobs.
    """
    idle = system_garbage.unreachable(connection)
    if idle:
        _confirm_references(connection)
        system_garbage.release(connection, idle)


def collect(
    connection: Connection,
    pool: BlobPool,
    *,
    grace: float,
    released_grace: float,
    dry_run: bool,
    gone: dict[str, int],
    progress: Progress = quiet,
) -> GarbageReport:
    """Delete unreferenced blobs. The open write transaction prevents new references in the meantime.

    Before each blob a statement is run, which fails where the connection was lost, and with it the lock: another client
    may hold the next blob by then.

    Args:
        connection: Connection with an open write transaction.
        pool: Pool of the blobs.
        grace: Smallest age in seconds of a deleted blob that no row ever referred to: the row that refers to a younger
            one may not be written yet.
        released_grace: Smallest age in seconds of one whose owners have all let it go, which may have been put again.
        dry_run: Whether to only report.
        gone: Blobs (digest -> bytes) that were deleted in transactions of this collection that were undone; the
            deleted ones are added.
        progress: Called with the bytes that were deleted, and all that are to be.
    """
    # A reference that was changed to released would cost its blob.
    _confirm_references(connection)
    kept = held(connection, but=system_garbage.unreachable(connection) if dry_run else ())
    asked = system_garbage.oldest_ask_seconds(connection)
    known = set(connection.execute(select(blob_table.c.digest)).scalars())
    ages = {True: max(released_grace, asked), False: max(grace, asked)}
    free = sorted((entry for entry in pool.stored() if entry.digest not in kept), key=lambda entry: entry.digest)
    least = {entry.digest: ages[entry.digest in known] for entry in free}
    # What tells no time counts as young: its row may not be written yet.
    old = {entry.digest: entry.bytes for entry in free if (entry.age or 0.0) >= least[entry.digest]}
    undated = sum(entry.age is None and least[entry.digest] > 0 for entry in free)
    if not dry_run:
        pools.confirm(connection, pool)
    # One that was put again since is there, and held or young.
    before = {digest: length for digest, length in gone.items() if digest not in old and pool.size(digest) is None}
    for digest in before:
        _mark_collected(connection, digest)
    old = before | old
    size, whole = sum(before.values()), sum(old.values())
    for digest, length in old.items():
        if digest in before:
            continue
        size += length
        if not dry_run:
            _mark_collected(connection, digest)
            pool.remove(digest)
            gone[digest] = length
            progress(size, whole)
    count, temporary = pool.remove_temporary(ages[False], dry_run=dry_run)
    return GarbageReport(tuple(sorted(old)), count, size + temporary, undated)


def _confirm_references(connection: Connection) -> None:
    for run_id in run_ids(connection):
        queries.references(connection, run_id)


def _mark_collected(connection: Connection, digest: str) -> None:
    table = blob_table
    mine = (table.c.digest == digest, table.c.state == "present")
    connection.execute(update(table).where(*mine).values(state="collected"))


def held(connection: Connection, *, but: Collection[str] = ()) -> dict[str, int]:
    """Digest -> bytes of the blobs that a row refers to, in the order of the digests.

    Args:
        connection: Connection with an open transaction.
        but: Components whose references do not count.
    """
    reference, without = blob_reference_table, set(but)
    query = (
        select(blob_table.c.digest, blob_table.c.bytes, reference.c.owner_kind, reference.c.owner_id)
        .join(reference, reference.c.digest == blob_table.c.digest)
        .where(reference.c.released == 0)
        .order_by(blob_table.c.digest)
    )
    rows = connection.execute(query).all()
    for row in rows:
        if not isinstance(row.bytes, int):
            raise StoreDamagedError(f"the size of blob {row.digest} is {row.bytes!r}. {seals.NEXT}")
    return {row.digest: row.bytes for row in rows if row.owner_kind != "component" or row.owner_id not in without}


def _owners(connection: Connection, digest: str) -> tuple[tuple[str, str, str], ...]:
    reference, evaluation, component = blob_reference_table, evaluation_table, component_table
    run = func.coalesce(evaluation.c.run_id, component.c.agent_id, reference.c.owner_id)
    query = (
        select(reference.c.owner_kind, reference.c.owner_id, run)
        .outerjoin(evaluation, and_(reference.c.owner_kind == "evaluation", evaluation.c.id == reference.c.owner_id))
        .outerjoin(component, and_(reference.c.owner_kind == "component", component.c.id == reference.c.owner_id))
        .where(reference.c.digest == digest, reference.c.released == 0)
    )
    return tuple((kind, owner, run) for kind, owner, run in connection.execute(query))


def _row_problems(connection: Connection, *, deep: bool) -> Iterator[Damage]:
    table = individual_table
    for row in connection.execute(select(table.c.id, table.c.run_id, table.c.birth)):
        if row.id != individual_id(row.run_id, row.birth):
            yield Damage("row", f"individual {row.id}", "its id does not follow from its run and birth")
    yield from system_integrity.problems(connection)
    for run_id, wrong in leases.unreadable(connection, run_ids(connection)).items():
        yield Damage("row", f"the lease of run {run_id}", f"{wrong}, which evodevo did not write")
    if not deep:
        return
    named: set[str] = set()
    for what, reading in _readings(connection):
        try:
            reading()
        except StoreDamagedError as error:
            if str(error) not in named:
                yield Damage("row", what, str(error))
            named.add(str(error))


def _readings(connection: Connection) -> Iterator[tuple[str, Callable[[], object]]]:
    """Everything that readers read of runs, each with its name; the seals are compared there."""
    for run_id in run_ids(connection):
        what = f"run {run_id}"
        yield what, partial(queries.run, connection, run_id)
        yield what, partial(queries.individuals, connection, run_id, None, 0)
        yield what, partial(queries.evaluations, connection, run_id=run_id)
        yield what, partial(queries.all_series, connection, run_id)
        yield what, partial(queries.run_blobs, connection, run_id)
        yield what, partial(queries.events, connection, run_id, 0, None)
    yield "the store", partial(queries.runs, connection)


def run_ids(connection: Connection) -> list[str]:
    """Ids of all runs, also of rows that were changed."""
    return list(connection.execute(select(run_table.c.id)).scalars())


def changed_evaluations(connection: Connection, run_id: str) -> list[str]:
    """Ids of the ended evaluations of a run whose rows or scores are not those that were written.

    Only those whose id still follows from what they evaluate: what such a row is can be trusted, what it holds not.
    """
    changed = []
    for row in connection.execute(select(evaluation_table).where(evaluation_table.c.run_id == run_id)).all():
        known = row.id == evaluation_id(row.individual_id, row.fidelity, row.seed, row.attempt)
        if known and row.state in ("done", "failed") and row.finished_seq is not None:
            try:
                queries.evaluations(connection, id=row.id)
            except StoreDamagedError:
                changed.append(row.id)
    return changed


def mark_changed(connection: Connection, run_id: str, evaluations: Collection[str]) -> None:
    """Mark changed evaluations as ``failed: lost``, so that a resume repeats them, and seal what is there."""
    for evaluation in evaluations:
        values = {"state": "failed", "reason": "lost", "detail": "its row or its scores were changed"}
        change_evaluation(connection, run_id, evaluation, values, trusted=False)
        add_event(connection, run_id, "evaluation.lost", evaluation, {"owner": evaluation, "problem": values["detail"]})
