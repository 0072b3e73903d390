"""Write operations: functions over an open write transaction with a confirmed lease. Each records its event."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, get_args

from sqlalchemy import ColumnElement, Connection, bindparam, insert, select, update

from evodevo import canonical
from evodevo.errors import NotFoundError, UsageError
from evodevo.storage import queries, seals
from evodevo.storage.base import (
    MAX_DETAIL,
    RESUMED,
    ROLES,
    Evaluation,
    IndividualRow,
    NewIndividual,
    RunState,
    evaluation_id,
    individual_id,
    new_run_id,
)
from evodevo.storage.blobs import BlobPool, checked
from evodevo.storage.dialects.upsert import upsert
from evodevo.storage.schema import (
    blob_reference_table,
    blob_table,
    evaluation_table,
    event_table,
    individual_table,
    parentage_table,
    run_table,
    score_table,
    series_table,
)

BATCH = 500

# Built once: SQLAlchemy takes longer to construct a statement than SQLite to run it.
_ADD_EVENT = insert(event_table)
_ADD_EVALUATION = insert(evaluation_table)
_ADD_SCORES = insert(score_table)
_ADD_SERIES = insert(series_table)
_SAME = (
    evaluation_table.c.individual_id == bindparam("of_individual"),
    evaluation_table.c.fidelity == bindparam("of_fidelity"),
    evaluation_table.c.seed == bindparam("of_seed"),
)
_RUNNING = select(evaluation_table.c.id).where(
    *_SAME, evaluation_table.c.run_id == bindparam("of_run"), evaluation_table.c.state == "running"
)
_LAST_ATTEMPT = select(evaluation_table.c.attempt).where(*_SAME).order_by(evaluation_table.c.attempt.desc()).limit(1)
_ATTEMPTS_FROM = select(evaluation_table.c.run_id, evaluation_table.c.attempt, evaluation_table.c.state).where(
    *_SAME, evaluation_table.c.attempt >= bindparam("of_attempt")
)
_CHANGE = update(evaluation_table).where(evaluation_table.c.id == bindparam("of_id"))
_ONE_EVALUATION = select(evaluation_table).where(evaluation_table.c.id == bindparam("of_id"))
_ITS_SCORES = select(score_table).where(score_table.c.evaluation_id == bindparam("of_id"))


def now() -> str:
    """Current time for display: UTC, to the millisecond. No decision depends on it; clocks jump and differ."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def add_event(connection: Connection, run_id: str | None, kind: str, subject: str, payload: Mapping[str, Any]) -> int:
    """Append an event and return its number."""
    values = {"run_id": run_id, "at": now(), "type": kind, "subject": subject, "payload": _json(payload)}
    key = connection.execute(_ADD_EVENT, values).inserted_primary_key
    assert key is not None, "an insert of one row has a key"
    seq = int(key[0])
    sealed = {str(seq): seals.digest(event_table, {**values, "seq": seq})}
    seals.put(connection, seals.STORE if run_id is None else run_id, seals.EVENT, sealed)
    return seq


def create_run(
    connection: Connection,
    *,
    kind: str,
    recipe: str,
    settings: Mapping[str, Any],
    seed: int,
    space: Any,
    versions: Mapping[str, Any],
) -> str:
    """Record a new run in state ``running``, without an owner; returns its id."""
    run_id = new_run_id()
    seq = add_event(connection, run_id, "run.created", run_id, {"kind": kind, "recipe": recipe})
    row = {
        "id": run_id,
        "kind": kind,
        "recipe": recipe,
        "settings": _json(settings),
        "seed": _checked_seed(seed),
        "space": _json(space),
        "versions": _json(versions),
        "state": "running",
        "created_seq": seq,
        "created_at": now(),
    }
    connection.execute(insert(run_table).values(row))
    seals.put(connection, seals.STORE, seals.RUN, {run_id: seals.digest(run_table, row)})
    return run_id


def set_run_state(connection: Connection, run_id: str, state: RunState) -> None:
    """Write the state of a run; only ``running`` has no end time."""
    if state not in get_args(RunState):
        raise UsageError(f"unknown run state {state!r}; known: {', '.join(get_args(RunState))}.")
    ended = None if state == "running" else now()
    _change_run(connection, run_id, {"state": state, "finished_at": ended})
    add_event(connection, run_id, f"run.{state}", run_id, {})


def set_run_settings(connection: Connection, run_id: str, settings: Mapping[str, Any]) -> None:
    """Replace a run's settings; the event records the old and the new ones."""
    before = queries.run(connection, run_id).settings
    _change_run(connection, run_id, {"settings": _json(settings)})
    add_event(connection, run_id, "run.settings", run_id, {"before": before, "after": settings})


def _change_run(connection: Connection, run_id: str, values: Mapping[str, Any]) -> None:
    queries.run(connection, run_id)  # a damaged row is not sealed anew
    row = connection.execute(select(run_table).where(run_table.c.id == run_id)).mappings().one()
    connection.execute(update(run_table).where(run_table.c.id == run_id).values(**values))
    seals.put(connection, seals.STORE, seals.RUN, {run_id: seals.digest(run_table, {**row, **values})})


def add_individuals(connection: Connection, run_id: str, individuals: Sequence[NewIndividual]) -> int:
    """Record individuals with their parents; those recorded already with equal contents are skipped.

    Returns:
        Number of new individuals.
    """
    known = {
        row.id: row
        for batch in _batches([individual.id for individual in individuals])
        for row in queries.individuals_by_id(connection, batch)
    }
    fresh = []
    for individual in individuals:
        if individual.id != individual_id(run_id, individual.birth):
            raise UsageError(
                f"individual {individual.id!r} of birth {individual.birth!r} must have id individual_id(run, birth)."
            )
        if individual.id not in known:
            fresh.append(individual)
        elif not _is_same(known[individual.id], individual, run_id):
            raise UsageError(
                f"individual {individual.id} (birth {individual.birth}) is recorded already, as something else."
            )
    if not fresh:
        return 0
    payload = {"count": len(fresh), "generation": fresh[0].generation}
    seq, at = add_event(connection, run_id, "individuals.added", run_id, payload), now()
    rows = [
        {
            "id": individual.id,
            "run_id": run_id,
            "birth": individual.birth,
            "generation": individual.generation,
            "slot": individual.slot,
            "genome_envelope": _json(individual.genome_envelope),
            "genome_hash": individual.genome_hash,
            "operation": individual.operation,
            "details": _json(individual.details),
            "seed": _checked_seed(individual.seed),
            "created_seq": seq,
            "created_at": at,
        }
        for individual in fresh
    ]
    connection.execute(insert(individual_table), rows)
    arrows = [
        {"child_id": individual.id, "role": role, "parent_id": parent}
        for individual in fresh
        for role, parent in zip(_roles(individual), individual.parents, strict=True)
    ]
    if arrows:
        connection.execute(insert(parentage_table), arrows)
    sealed = {
        str(row["id"]): seals.digest(individual_table, row, zip(_roles(individual), individual.parents, strict=True))
        for row, individual in zip(rows, fresh, strict=True)
    }
    seals.put(connection, run_id, seals.INDIVIDUAL, sealed)
    return len(fresh)


def start_evaluation(
    connection: Connection, run_id: str, individual: str, fidelity: str, seed: int, resume: str | None = None
) -> int:
    """Record the start of an evaluation; an earlier attempt of this run in state ``running`` becomes stale.

    Args:
        connection: Connection with an open write transaction.
        run_id: Its run.
        individual: Id of the individual.
        fidelity: Fidelity of the evaluation.
        seed: Seed of the evaluation, in [0, 2**63).
        resume: Digest of the checkpoint from which it goes on.

    Returns:
        Number of the attempt, from 1.
    """
    same = {"of_individual": individual, "of_fidelity": fidelity, "of_seed": _checked_seed(seed)}
    for left in connection.execute(_RUNNING, {**same, "of_run": run_id}).scalars().all():
        change_evaluation(connection, run_id, left, {"state": "stale"})
    last = connection.execute(_LAST_ATTEMPT, same).scalar()
    attempt = 1 if last is None else int(last) + 1
    row = {
        "id": evaluation_id(individual, fidelity, seed, attempt),
        "run_id": run_id,
        "individual_id": individual,
        "fidelity": fidelity,
        "seed": seed,
        "attempt": attempt,
        "state": "running",
        "detail": "",
        "cost": "{}",
        "extra": "{}" if resume is None else _json({RESUMED: resume}),
        "seconds": 0.0,
        "started_at": now(),
    }
    connection.execute(_ADD_EVALUATION, row)
    seals.put(connection, run_id, seals.EVALUATION, {str(row["id"]): seals.digest(evaluation_table, row)})
    payload = {"fidelity": fidelity, "seed": seed, "attempt": attempt}
    add_event(connection, run_id, "evaluation.started", individual, payload)
    return attempt


def abandon_evaluations(connection: Connection, run_id: str) -> None:
    """Make all running evaluations of a run stale, with a detail: those of a coordinator that died have none."""
    running = select(evaluation_table.c.id).where(
        evaluation_table.c.run_id == run_id, evaluation_table.c.state == "running"
    )
    for left in connection.execute(running).scalars().all():
        change_evaluation(connection, run_id, left, {"state": "stale", "detail": "the run was stopped."})


def finish_evaluation(connection: Connection, pool: BlobPool, run_id: str, evaluation: Evaluation) -> bool:
    """Record the whole outcome.

    Returns:
        False, with nothing written, where this attempt has ended already or a later one has begun.
    """
    key = (evaluation.individual_id, evaluation.fidelity, _checked_seed(evaluation.seed))
    started = _beginning(connection, run_id, evaluation)
    if started is None:
        return False
    payload = {
        "fidelity": evaluation.fidelity,
        "seed": evaluation.seed,
        "attempt": evaluation.attempt,
        "state": evaluation.state,
        "reason": evaluation.reason,
    }
    seq = add_event(connection, run_id, "evaluation.finished", evaluation.individual_id, payload)
    outcome = {
        "state": evaluation.state,
        "reason": evaluation.reason,
        # Logs of other programs may hold lone surrogates, which SQLite refuses.
        "detail": evaluation.detail[-MAX_DETAIL:].encode("utf-8", "replace").decode("utf-8"),
        "cost": _json(evaluation.cost),
        "extra": _json(evaluation.extra),
        "seconds": float(evaluation.seconds),
        "finished_seq": seq,
        "finished_at": now(),
    }
    scores = [
        {"evaluation_id": evaluation.id, "objective": name, "value": score.value, "status": score.status}
        for name, score in evaluation.scores.items()
    ]
    if started:
        change_evaluation(connection, run_id, evaluation.id, outcome, scores)
    else:
        names = dict(zip(("individual_id", "fidelity", "seed"), key, strict=True))
        row = {"id": evaluation.id, "run_id": run_id, "attempt": evaluation.attempt, "started_at": now()}
        row |= {**names, **outcome}
        connection.execute(_ADD_EVALUATION, row)
        sealed = seals.digest(evaluation_table, row, map(_belonging, scores))
        seals.put(connection, run_id, seals.EVALUATION, {evaluation.id: sealed})
    refer(connection, pool, run_id, "evaluation", evaluation.id, evaluation.blobs)
    if scores:
        connection.execute(_ADD_SCORES, scores)
    curves = [
        {"evaluation_id": evaluation.id, "name": name, "points": b"".join(struct.pack("<dd", x, y) for x, y in points)}
        for name, points in evaluation.series.items()
    ]
    if curves:
        connection.execute(_ADD_SERIES, curves)
        sealed_curves = {f"{evaluation.id}/{row['name']}": seals.digest(series_table, row) for row in curves}
        seals.put(connection, run_id, seals.SERIES, sealed_curves)
    return True


def change_evaluation(
    connection: Connection,
    run_id: str,
    evaluation: str,
    values: Mapping[str, Any],
    added: Sequence[Mapping[str, Any]] = (),
    *,
    trusted: bool = True,
) -> None:
    """Change a row of an evaluation of a run, and seal it anew.

    Args:
        connection: Connection with an open write transaction.
        run_id: Its run.
        evaluation: Its id.
        values: Columns that change.
        added: Rows of scores that the caller adds.
        trusted: Whether the row must be the one that was written.

    Raises:
        StoreDamagedError: It is not.
    """
    row = dict(connection.execute(_ONE_EVALUATION, {"of_id": evaluation}).mappings().one())
    recorded = [dict(score) for score in connection.execute(_ITS_SCORES, {"of_id": evaluation}).mappings()]
    if trusted:
        before = seals.digest(evaluation_table, row, map(_belonging, recorded))
        seals.confirm(connection, seals.EVALUATION, {(run_id, evaluation): before})
    connection.execute(_CHANGE, {**values, "of_id": evaluation})
    after = seals.digest(evaluation_table, {**row, **values}, map(_belonging, [*recorded, *added]))
    seals.put(connection, run_id, seals.EVALUATION, {evaluation: after})


def _belonging(score: Mapping[Any, Any]) -> tuple[Any, ...]:
    return (score["objective"], score["value"], score["status"])


def refer(connection: Connection, pool: BlobPool, run_id: str, kind: str, owner: str, blobs: Mapping[str, str]) -> None:
    """Let an owner, which belongs to a run, hold blobs by role; a role that exists already gets the new blob.

    The files are looked up inside the transaction: ``gc`` deletes only under the same write lock, so that no row can
    refer to a blob that was deleted in the meantime.
    """
    # In one order, so that two transactions which write the same blobs wait for each other in it.
    for role, digest in sorted(blobs.items(), key=lambda item: str(item[1])):
        size = pool.size(checked(digest))
        if size is None:
            raise NotFoundError(f"blob {digest} ({role}) is not in the pool; put it before recording it.")
        blob = {"digest": digest, "bytes": size, "state": "present", "created_at": now()}
        # The row may exist already: a blob that was collected or lost before can be put again.
        connection.execute(upsert(connection, blob_table, ("state", "bytes")), blob)
        row = {"owner_kind": kind, "owner_id": owner, "role": role, "digest": digest, "released": 0}
        connection.execute(upsert(connection, blob_reference_table, ("digest", "released")), row)
        _seal_references(connection, run_id, [row])


def release_blobs(connection: Connection, run_id: str, evaluations: Sequence[str], roles: Sequence[str] | None) -> int:
    """Release blobs of evaluations of this run, so that ``gc`` may delete them; returns the number of references."""
    reference = blob_reference_table
    own = select(evaluation_table.c.id).where(evaluation_table.c.run_id == run_id)
    chosen = [] if roles is None else [reference.c.role.in_(list(roles))]
    return sum(
        release(
            connection,
            run_id,
            reference.c.owner_kind == "evaluation",
            reference.c.owner_id.in_(batch),
            reference.c.owner_id.in_(own),
            *chosen,
        )
        for batch in _batches(evaluations)
    )


def detach_blobs(connection: Connection, run_id: str, roles: Sequence[str]) -> int:
    """Release the blobs that the run itself holds under these roles; returns the number of references."""
    reference = blob_reference_table
    own = (reference.c.owner_kind == "run", reference.c.owner_id == run_id)
    return sum(release(connection, run_id, *own, reference.c.role.in_(batch)) for batch in _batches(roles))


def release(connection: Connection, run_id: str, *where: ColumnElement[bool]) -> int:
    """Release the held references of a run, its evaluations or components that fulfil all conditions.

    Returns:
        Number of references.
    """
    reference = blob_reference_table
    rows = [
        dict(row) for row in connection.execute(select(reference).where(*where, reference.c.released == 0)).mappings()
    ]
    for kind in (seals.BLOB, seals.WEIGHTS):
        digests = queries.sealed_references(rows, kind)
        seals.confirm(connection, kind, {(run_id, key): digest for key, digest in digests.items()})
    for row in rows:
        mine = [reference.c[column] == row[column] for column in ("owner_kind", "owner_id", "role")]
        connection.execute(update(reference).where(*mine).values(released=1))
    _seal_references(connection, run_id, [{**row, "released": 1} for row in rows])
    return len(rows)


def _seal_references(connection: Connection, run_id: str, rows: Sequence[Mapping[str, Any]]) -> None:
    for kind in (seals.BLOB, seals.WEIGHTS):
        seals.put(connection, run_id, kind, queries.sealed_references(rows, kind))


def _beginning(connection: Connection, run_id: str, evaluation: Evaluation) -> bool | None:
    """Whether the attempt has a row from its start; None where it has ended or was superseded by a later attempt."""
    same = {
        "of_individual": evaluation.individual_id,
        "of_fidelity": evaluation.fidelity,
        "of_seed": evaluation.seed,
        "of_attempt": evaluation.attempt,
    }
    rows = connection.execute(_ATTEMPTS_FROM, same).all()
    own = [row for row in rows if row.attempt == evaluation.attempt]
    if own and own[0].run_id != run_id:
        raise UsageError(f"attempt {evaluation.attempt} of {evaluation.individual_id} belongs to another run.")
    later = any(row.attempt > evaluation.attempt and row.run_id == run_id for row in rows)
    if later or (own and own[0].state != "running"):
        return None
    return bool(own)


def _is_same(row: IndividualRow, new: NewIndividual, run_id: str) -> bool:
    return row.run_id == run_id and all(
        (
            row.generation == new.generation,
            row.slot == new.slot,
            _json(row.genome_envelope) == _json(new.genome_envelope),
            row.genome_hash == new.genome_hash,
            row.operation == new.operation,
            _json(row.details) == _json(new.details),
            row.parents == tuple(new.parents),
            row.seed == new.seed,
        )
    )


def _roles(individual: NewIndividual) -> str:
    if len(individual.parents) > len(ROLES):
        raise UsageError(
            f"individual {individual.id} names {len(individual.parents)} parents; at most {len(ROLES)} are recorded."
        )
    return ROLES[: len(individual.parents)]


def _checked_seed(seed: int) -> int:
    if not (isinstance(seed, int) and 0 <= seed < 2**63):
        raise UsageError(f"a seed is a whole number from 0 to 2**63 - 1; got {seed!r}.")
    return seed


def _json(value: Any) -> str:
    return canonical.dumps(dict(value) if isinstance(value, Mapping) else value)


def _batches(names: Sequence[str]) -> Iterator[list[str]]:
    # SQLite limits the number of bound values in one statement.
    for start in range(0, len(names), BATCH):
        yield list(names[start : start + BATCH])
