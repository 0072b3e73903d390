"""Is everything still as it was written, and what to do where it is not. Nothing here invents data."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from sqlalchemy import Connection, and_, func, select, update
from sqlalchemy.exc import DatabaseError

from evodevo.errors import StoreDamagedError
from evodevo.storage import queries
from evodevo.storage.base import CheckReport, GarbageReport, Problem, individual_id
from evodevo.storage.blobs import BlobPool
from evodevo.storage.recording import add_event
from evodevo.storage.schema import blob_reference_table, blob_table, evaluation_table, individual_table, run_table
from evodevo.storage.systems import garbage as system_garbage
from evodevo.storage.systems import integrity as system_integrity
from evodevo.storage.systems.schema import component_table


@dataclass(frozen=True)
class Loss:
    """A blob that is gone or damaged, and who held it."""

    digest: str
    problem: str
    owners: tuple[tuple[str, str, str], ...]  # (kind, id, run id)


def check(connection: Connection, pool: BlobPool, *, deep: bool) -> CheckReport:
    """Look at the database and at every blob that is held.

    Args:
        connection: an open transaction.
        pool: the blobs.
        deep: hash every blob, read every row and every page; otherwise sizes and structure only.
    """
    problems: list[Problem] = list(_database_problems(connection, deep=deep))
    count = size = 0
    if not problems:
        problems.extend(_row_problems(connection, deep=deep))
        held = _held(connection)
        count, size = len(held), sum(held.values())
        problems.extend(Problem("blob", loss.digest, loss.problem) for loss in losses(connection, pool, deep=deep))
    return CheckReport(count, size, deep, tuple(problems))


def losses(connection: Connection, pool: BlobPool, *, deep: bool) -> list[Loss]:
    """The held blobs that are not what they were, with their owners."""
    found: dict[str, str] = {}
    for digest, length in _held(connection).items():
        size = pool.size(digest)
        if size is None:
            found[digest] = "the file is missing"
        elif size != length:
            found[digest] = f"the file has {size} bytes instead of {length}"
        elif deep and (wrong := pool.verify(digest)) is not None:
            found[digest] = wrong
    return [Loss(digest, problem, _owners(connection, digest)) for digest, problem in found.items()]


def mark_lost(connection: Connection, run_id: str, lost: list[Loss]) -> list[str]:
    """Release what a run held of lost blobs and mark its evaluations ``failed: lost``, so that resume redoes them.

    Their scores and curves stay as history. A lost component marks its path's evaluation while the cycle is open;
    later there is nobody to do it again, and only the component says that it is gone. Returns the ids of the
    evaluations.
    """
    reference, evaluation = blob_reference_table, evaluation_table
    marked: dict[str, None] = {}
    for loss in lost:
        own = [(kind, owner) for kind, owner, run in loss.owners if run == run_id]
        for kind, owner in own:
            connection.execute(
                update(reference)
                .where(reference.c.owner_kind == kind, reference.c.owner_id == owner, reference.c.digest == loss.digest)
                .values(released=1)
            )
            told = [owner] if kind == "evaluation" else []
            if kind == "component":
                told = system_garbage.evaluations_to_redo(connection, owner)
            for one in told:
                marked[one] = None
                connection.execute(
                    update(evaluation)
                    .where(evaluation.c.id == one, evaluation.c.state.in_(("done", "failed")))
                    .values(state="failed", reason="lost", detail=f"blob {loss.digest}: {loss.problem}")
                )
            payload = {"digest": loss.digest, "owner": owner, "problem": loss.problem}
            add_event(connection, run_id, f"{kind}.lost", owner, payload)
        if own:
            connection.execute(update(blob_table).where(blob_table.c.digest == loss.digest).values(state="lost"))
    return list(marked)


def reindex(connection: Connection) -> None:
    """Build the indexes anew from the rows: the one damage of a database that can be mended without inventing."""
    connection.exec_driver_sql("REINDEX")


def collect(connection: Connection, pool: BlobPool, *, grace: float, dry_run: bool) -> GarbageReport:
    """Delete the blobs that nobody holds. The open write transaction keeps anybody from beginning to hold one.

    Args:
        connection: an open write transaction.
        pool: the blobs.
        grace: seconds since its last put during which a blob is left alone: its row may be on the way.
        dry_run: only say what would go.
    """
    # Weights of components that nothing can reach any more are let go here, under the same write lock.
    idle = system_garbage.unreachable(connection)
    held = _held(connection, but=idle)
    if not dry_run:
        system_garbage.release(connection, idle)
    grace = max(grace, system_garbage.oldest_ask_seconds(connection))
    gone: list[str] = []
    size = 0
    for digest in sorted(pool.digests()):
        if digest not in held and pool.age(digest) >= grace:
            size += pool.size(digest) or 0
            gone.append(digest)
            if not dry_run:
                connection.execute(
                    update(blob_table)
                    .where(blob_table.c.digest == digest, blob_table.c.state == "present")
                    .values(state="collected")
                )
                pool.remove(digest)
    count, temporary = pool.remove_temporary(grace, dry_run=dry_run)
    return GarbageReport(tuple(gone), count, size + temporary)


def _held(connection: Connection, *, but: Collection[str] = ()) -> dict[str, int]:
    reference, without = blob_reference_table, set(but)
    query = (
        select(blob_table.c.digest, blob_table.c.bytes, reference.c.owner_kind, reference.c.owner_id)
        .join(reference, reference.c.digest == blob_table.c.digest)
        .where(reference.c.released == 0)
        .order_by(blob_table.c.digest)
    )
    rows = connection.execute(query)
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


def _database_problems(connection: Connection, *, deep: bool) -> Iterator[Problem]:
    try:
        pragma = "integrity_check" if deep else "quick_check"
        for (line,) in connection.exec_driver_sql(f"PRAGMA {pragma}(20)"):
            if line != "ok":
                yield Problem("database", "store.db", str(line))
        for row in connection.exec_driver_sql("PRAGMA foreign_key_check"):
            yield Problem("database", "store.db", f"row {row[1]} of {row[0]} refers to a row of {row[2]} that is not")
    except DatabaseError as error:
        yield Problem("database", "store.db", str(error.orig))


def _row_problems(connection: Connection, *, deep: bool) -> Iterator[Problem]:
    table = individual_table
    for row in connection.execute(select(table.c.id, table.c.run_id, table.c.birth)):
        if row.id != individual_id(row.run_id, row.birth):
            yield Problem("row", f"individual {row.id}", "its id does not follow from its run and birth")
    yield from system_integrity.problems(connection)
    if not deep:
        return
    for run_id in connection.execute(select(run_table.c.id)).scalars().all():
        try:
            queries.run(connection, run_id)
            queries.individuals(connection, run_id, None, 0)
            queries.evaluations(connection, run_id=run_id)
            queries.events(connection, run_id, 0, None)
        except StoreDamagedError as error:
            yield Problem("row", f"run {run_id}", str(error))
