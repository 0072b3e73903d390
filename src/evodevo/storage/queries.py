"""Read queries: functions from an open transaction to rows, each with a fixed number of SQL statements."""

from __future__ import annotations

import json
import re
import struct
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, Row, Select, Table, and_, literal, or_, select

from evodevo.errors import NotFoundError, StoreDamagedError, UsageError, quoted_list
from evodevo.storage import seals
from evodevo.storage.base import EvaluationRow, EventRow, IndividualRow, Parent, PrefixMatch, RunRow, Score
from evodevo.storage.schema import (
    blob_reference_table,
    evaluation_table,
    event_table,
    individual_table,
    parentage_table,
    run_table,
    score_table,
    seal_table,
    series_table,
)

MAX_NAMED = 8


def _places(table: Table, *names: str) -> Callable[[Row[Any]], tuple[Any, ...]]:
    """Reader of two or more columns by their places in a row of the whole table.

    Readers make objects of tens of thousands of rows, and by name a row's values take longer to find than to fetch.
    """
    columns = list(table.columns.keys())
    return itemgetter(*(columns.index(name) for name in names))


_OWNER = _places(evaluation_table, "id", "run_id")
_EVENT = _places(event_table, "seq", "run_id", "at", "type", "subject", "payload")
_INDIVIDUAL = _places(
    individual_table,
    *("id", "run_id", "birth", "generation", "slot", "genome_hash", "operation", "seed", "created_seq", "created_at"),
)
_TEXTS = _places(individual_table, "genome_envelope", "details")
_EVALUATION = _places(
    evaluation_table,
    *("id", "run_id", "individual_id", "fidelity", "seed", "attempt", "state", "reason", "detail"),
    *("cost", "extra", "seconds", "finished_seq", "started_at", "finished_at"),
)


def runs(connection: Connection) -> list[RunRow]:
    """All runs, oldest first."""
    rows = connection.execute(select(run_table).order_by(run_table.c.created_seq)).all()
    seals.confirm_all(connection, seals.STORE, seals.RUN, _sealed(run_table, rows, "id"))
    return [_run(row) for row in rows]


def run(connection: Connection, run_id: str) -> RunRow:
    """One run by its full id."""
    row = connection.execute(select(run_table).where(run_table.c.id == run_id)).first()
    if row is None:
        raise NotFoundError(f"no run {run_id!r} in this store. List them with: evodevo status.")
    seals.confirm(connection, seals.RUN, {(seals.STORE, row.id): seals.digest(run_table, row._mapping)})
    return _run(row)


def events(
    connection: Connection, run_id: str | None, since_seq: int, limit: int | None, type: str | None = None
) -> list[EventRow]:
    """Events with a number above ``since_seq``, in order; of one run, or of the whole store; of one type, or of all.

    The seals of all are compared: a changed type would hide an event.
    """
    query = select(event_table).where(event_table.c.seq > since_seq).order_by(event_table.c.seq).limit(limit)
    if run_id is not None:
        query = query.where(event_table.c.run_id == run_id)
    rows = connection.execute(query).all()
    if run_id is not None and since_seq == 0 and limit is None:
        seals.confirm_all(connection, run_id, seals.EVENT, _sealed(event_table, rows, "seq"))
    else:
        digests = _sealed(event_table, rows, "seq")
        some = {(row.run_id or seals.STORE, str(row.seq)): digests[str(row.seq)] for row in rows}
        seals.confirm(connection, seals.EVENT, some)
    return _events(rows, type)


def events_of(connection: Connection, run_ids: Collection[str], type: str) -> list[EventRow]:
    """Events of one type of a few hundred runs at most, in order. The seals of all their events are compared."""
    names = list(run_ids)
    query = select(event_table).where(event_table.c.run_id.in_(names)).order_by(event_table.c.seq)
    rows = connection.execute(query).all()
    table = seal_table
    written = select(table.c.key, table.c.digest).where(table.c.run_id.in_(names), table.c.kind == seals.EVENT)
    seals.confirm_written(connection, written, seals.EVENT, _sealed(event_table, rows, "seq"))
    return _events(rows, type)


def _events(rows: Sequence[Row[Any]], type: str | None) -> list[EventRow]:
    return [
        EventRow(seq, run, at, kind, subject, read_object(payload, f"the payload of event {seq}"))
        for seq, run, at, kind, subject, payload in map(_EVENT, rows)
        if type is None or kind == type
    ]


def individuals(connection: Connection, run_id: str, generation: int | None, since_seq: int) -> list[IndividualRow]:
    """Individuals of a run, in order of birth."""
    table = individual_table
    query = select(table).where(table.c.run_id == run_id, table.c.created_seq > since_seq)
    if generation is not None:
        query = query.where(table.c.generation == generation)
    order = query.order_by(table.c.created_seq, table.c.generation, table.c.slot)
    return _individuals(connection, order, all_of=run_id if generation is None and since_seq == 0 else None)


def individual(connection: Connection, individual_id: str) -> IndividualRow:
    """One individual by its full id."""
    rows = _individuals(connection, select(individual_table).where(individual_table.c.id == individual_id))
    if not rows:
        raise NotFoundError(f"no individual {individual_id!r} in this store.")
    return rows[0]


def individuals_by_id(connection: Connection, ids: list[str]) -> list[IndividualRow]:
    """The recorded individuals among the given ids, in no order; at most a few hundred ids."""
    return _individuals(connection, select(individual_table).where(individual_table.c.id.in_(ids)))


def evaluations(
    connection: Connection,
    *,
    run_id: str | None = None,
    individual_id: str | None = None,
    state: str | None = None,
    individual_ids: list[str] | None = None,
    id: str | None = None,
) -> list[EvaluationRow]:
    """Evaluations in order of completion, unfinished ones last; ``individual_ids`` has at most a few hundred ids."""
    table = evaluation_table
    chosen = select(table.c.id)
    if run_id is not None:
        chosen = chosen.where(table.c.run_id == run_id)
    if individual_id is not None:
        chosen = chosen.where(table.c.individual_id == individual_id)
    if individual_ids is not None:
        chosen = chosen.where(table.c.individual_id.in_(individual_ids))
    if state is not None:
        chosen = chosen.where(table.c.state == state)
    if id is not None:
        chosen = chosen.where(table.c.id == id)
    # Scores and blobs are statements of their own: a join would repeat each evaluation for every pair of them.
    scores: dict[str, dict[str, Score]] = defaultdict(dict)
    belonging: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    columns = (score_table.c.evaluation_id, score_table.c.objective, score_table.c.value, score_table.c.status)
    of_these = select(*columns).where(score_table.c.evaluation_id.in_(chosen)).order_by(score_table.c.objective)
    for evaluation, *score in connection.execute(of_these).all():
        belonging[evaluation].append(tuple(score))
    reference = blob_reference_table
    references = connection.execute(
        select(reference)
        .where(reference.c.owner_kind == "evaluation", reference.c.owner_id.in_(chosen))
        .order_by(reference.c.role)
    ).all()
    order = (table.c.finished_seq.is_(None), table.c.finished_seq, table.c.started_at, table.c.id)
    rows = connection.execute(select(table).where(table.c.id.in_(chosen)).order_by(*order)).all()
    some = any(value is not None for value in (individual_id, individual_ids, state, id))
    whole = None if some else run_id
    _confirm_evaluations(connection, rows, belonging, references, whole)
    for evaluation, values in belonging.items():
        scores[evaluation] = {objective: _score(evaluation, value, status) for objective, value, status in values}
    blobs: dict[str, dict[str, str]] = defaultdict(dict)
    for row in references:
        if not row.released:
            blobs[row.owner_id][row.role] = row.digest
    return [
        _evaluation(row, scores.get(key, {}), blobs.get(key, {}))
        for (key, _), row in zip(map(_OWNER, rows), rows, strict=True)
    ]


def _confirm_evaluations(
    connection: Connection,
    rows: Sequence[Row[Any]],
    belonging: Mapping[str, list[tuple[Any, ...]]],
    references: Sequence[Row[Any]],
    whole: str | None,
) -> None:
    """Compare the seals of evaluations, with their scores, and of their references to blobs.

    Args:
        connection: Connection with an open transaction.
        rows: Evaluations, of any runs.
        belonging: Evaluation -> its scores.
        references: References of these evaluations.
        whole: Run of which these are all evaluations; None where they are some.
    """
    owners = list(map(_OWNER, rows))
    digests = {
        key: seals.digest_of_values(evaluation_table, row, belonging.get(key, ()))
        for (key, _), row in zip(owners, rows, strict=True)
    }
    held = sealed_references([row._mapping for row in references])
    if whole is not None:
        seals.confirm_all(connection, whole, seals.EVALUATION, digests)
        seals.confirm_all(connection, whole, seals.BLOB, held, "evaluation/")
        return
    runs_of = dict(owners)
    seals.confirm(connection, seals.EVALUATION, {(runs_of[key], key): digest for key, digest in digests.items()})
    some = {(runs_of[key.split("/")[1]], key): digest for key, digest in held.items()}
    seals.confirm(connection, seals.BLOB, some)


def confirm_evaluations(connection: Connection, runs: Select[Any]) -> None:
    """Compare the seals of all evaluations of some runs with what is there; ``runs`` is a query for their ids."""
    table, score = evaluation_table, score_table
    belonging: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    own = select(table.c.id).where(table.c.run_id.in_(runs))
    for row in connection.execute(select(score).where(score.c.evaluation_id.in_(own))):
        belonging[row.evaluation_id].append((row.objective, row.value, row.status))
    digests = {
        row.id: seals.digest(table, row._mapping, belonging.get(row.id, ()))
        for row in connection.execute(select(table).where(table.c.run_id.in_(runs)))
    }
    written = select(seal_table.c.key, seal_table.c.digest).where(
        seal_table.c.run_id.in_(runs), seal_table.c.kind == seals.EVALUATION
    )
    seals.confirm_written(connection, written, seals.EVALUATION, digests)


def sealed_references(rows: Iterable[Mapping[Any, Any]], kind: str = seals.BLOB) -> dict[str, str]:
    """Key of the seal -> digest of references to blobs.

    Args:
        rows: References of any owners.
        kind: ``WEIGHTS`` for those of the components of multitask systems, ``BLOB`` for all others.
    """
    return {
        f"{row['owner_kind']}/{row['owner_id']}/{row['role']}": seals.digest(blob_reference_table, row)
        for row in rows
        if (row["owner_kind"] == "component") == (kind == seals.WEIGHTS)
    }


def parents(connection: Connection, individual_id: str) -> list[Parent]:
    """The edges from an individual to its parents, in role order."""
    table = parentage_table
    query = select(table).where(table.c.child_id == individual_id).order_by(table.c.role)
    individuals_by_id(connection, [individual_id])  # its seal covers its parents
    return [Parent(row.child_id, row.parent_id, row.role) for row in connection.execute(query)]


def children(connection: Connection, individual_id: str) -> list[Parent]:
    """The edges from an individual to its children, in order of birth."""
    table, child = parentage_table, individual_table
    query = (
        select(table)
        .join(child, child.c.id == table.c.child_id)
        .where(table.c.parent_id == individual_id)
        .order_by(child.c.created_seq, child.c.slot, table.c.role)
    )
    edges = [Parent(row.child_id, row.parent_id, row.role) for row in connection.execute(query)]
    _confirm_parents(connection, edges)
    return edges


def lineage(connection: Connection, individual_id: str, depth: int | None) -> list[Parent]:
    """All edges of the ancestry graph above an individual, latest birth first; across runs too.

    Args:
        connection: Connection with an open transaction.
        individual_id: Id of the individual.
        depth: Largest number of generations of edges; None = all.
    """
    table = parentage_table
    itself = individual_table.c.id == individual_id
    if depth is None:
        # UNION drops duplicates: each ancestor is expanded once, however many paths lead to it.
        line = select(individual_table.c.id).where(itself).cte("line", recursive=True)
        line = line.union(select(table.c.parent_id).join(line, table.c.child_id == line.c.id))
    else:
        start = select(individual_table.c.id, literal(0).label("depth")).where(itself)
        line = start.cte("line", recursive=True)
        step = select(table.c.parent_id, line.c.depth + 1).join(line, table.c.child_id == line.c.id)
        line = line.union(step.where(line.c.depth < depth - 1))
    child = individual_table
    query = (
        select(table, child.c.created_seq, child.c.slot)
        .join(child, child.c.id == table.c.child_id)
        .where(table.c.child_id.in_(select(line.c.id)))
        .order_by(child.c.created_seq.desc(), child.c.slot.desc(), table.c.child_id, table.c.role)
    )
    edges = [Parent(row.child_id, row.parent_id, row.role) for row in connection.execute(query)]
    _confirm_parents(connection, edges)
    return edges


def series(connection: Connection, evaluation_id: str) -> dict[str, list[tuple[float, float]]]:
    """The curves of an evaluation by name; y may be non-finite."""
    table = series_table
    query = select(table).where(table.c.evaluation_id == evaluation_id).order_by(table.c.name)
    rows = connection.execute(query).all()
    owner = connection.execute(select(evaluation_table.c.run_id).where(evaluation_table.c.id == evaluation_id)).scalar()
    if owner is not None:
        digests = {f"{evaluation_id}/{row.name}": seals.digest(table, row._mapping) for row in rows}
        seals.confirm_all(connection, owner, seals.SERIES, digests, f"{evaluation_id}/")
    return {row.name: list(struct.iter_unpack("<dd", row.points)) for row in rows}


def all_series(connection: Connection, run_id: str) -> int:
    """Number of curves of a run, all of which are compared with their seals."""
    table = series_table
    query = select(table).join(evaluation_table, evaluation_table.c.id == table.c.evaluation_id)
    digests = {
        f"{row.evaluation_id}/{row.name}": seals.digest(table, row._mapping)
        for row in connection.execute(query.where(evaluation_table.c.run_id == run_id))
    }
    seals.confirm_all(connection, run_id, seals.SERIES, digests)
    return len(digests)


def references(connection: Connection, run_id: str) -> int:
    """Number of references to blobs of a run and its evaluations, all of which are compared with their seals."""
    table = blob_reference_table
    own = select(evaluation_table.c.id).where(evaluation_table.c.run_id == run_id)
    query = select(table).where(
        or_(
            and_(table.c.owner_kind == "run", table.c.owner_id == run_id),
            and_(table.c.owner_kind == "evaluation", table.c.owner_id.in_(own)),
        )
    )
    digests = sealed_references(connection.execute(query).mappings())
    seals.confirm_all(connection, run_id, seals.BLOB, digests)
    return len(digests)


def run_blobs(connection: Connection, run_id: str) -> dict[str, str]:
    """Role -> digest of the blobs that a run itself holds."""
    table = blob_reference_table
    query = select(table).where(table.c.owner_kind == "run", table.c.owner_id == run_id).order_by(table.c.role)
    rows = connection.execute(query).all()
    digests = sealed_references([row._mapping for row in rows])
    seals.confirm_all(connection, run_id, seals.BLOB, digests, f"run/{run_id}/")
    return {row.role: row.digest for row in rows if not row.released}


def find(connection: Connection, prefix: str) -> PrefixMatch:
    """The run or individual with a unique prefix of its id.

    Raises:
        UsageError: The prefix is empty, or several ids begin with it; the message lists them.
        NotFoundError: No id begins with it; the message has the nearest ones.
    """
    if not prefix:
        raise UsageError("an id is needed: any unique prefix of a run's or an individual's id.")
    if not re.fullmatch(r"[0-9a-z]{1,64}", prefix):
        raise NotFoundError(f"nothing is called {prefix[:40]!a}: ids are made of the digits 0-9 and letters a-z.")
    matches = _begin_with(connection, prefix, MAX_NAMED + 1)
    if len(matches) == 1 or (matches and matches[0].id == prefix):
        return matches[0]
    if matches:
        more = ", ..." if len(matches) > MAX_NAMED else ""
        names = quoted_list(f"{match.id} ({match.kind})" for match in matches[:MAX_NAMED])
        raise UsageError(f"{prefix!r} is ambiguous: {names}{more}. Give more digits.")
    shown = prefix[:40]
    for length in range(min(len(prefix) - 1, 15), 0, -1):
        near = _begin_with(connection, prefix[:length], 3)
        if near:
            raise NotFoundError(f"nothing is called {shown!r}. Nearest: {quoted_list(match.id for match in near)}.")
    newest = connection.execute(select(run_table.c.id).order_by(run_table.c.created_seq.desc()).limit(3)).scalars()
    raise NotFoundError(f"nothing is called {shown!r}. Newest runs: {quoted_list(newest) or 'none'}.")


def read_json(text: str, what: str) -> Any:
    """The value of a JSON column.

    Raises:
        StoreDamagedError: The text is not JSON.
    """
    if text == "{}":  # most texts of most rows
        return {}
    try:
        return _DECODER.decode(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreDamagedError(f"{what} does not hold JSON ({error}). Next: evodevo repair.") from None


def read_object(text: str, what: str) -> dict[str, Any]:
    """The value of a JSON column that holds an object.

    Raises:
        StoreDamagedError: It holds something else: somebody changed it, and perhaps sealed it anew.
    """
    value = read_json(text, what)
    if not isinstance(value, dict):
        raise StoreDamagedError(f"{what} holds {type(value).__name__} where an object was written. {seals.NEXT}")
    return value


def read_names(text: str, what: str) -> tuple[str, ...]:
    """The value of a JSON column that holds a list of names; otherwise as ``read_object``."""
    value = read_json(text, what)
    if not (isinstance(value, list) and all(isinstance(name, str) for name in value)):
        raise StoreDamagedError(f"{what} holds something else than the list of names that was written. {seals.NEXT}")
    return tuple(value)


def _score(evaluation: str, value: Any, status: Any) -> Score:
    try:
        return Score(value, status)
    except (UsageError, TypeError, ValueError) as error:
        raise StoreDamagedError(f"evaluation {evaluation} has a score that is none ({error}). {seals.NEXT}") from None


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)  # made once: readers decode tens of thousands of texts


def _begin_with(connection: Connection, prefix: str, limit: int) -> list[PrefixMatch]:
    # A range uses the index, which LIKE would not; the tilde sorts after every letter and digit.
    end = prefix + "~"
    matches: list[PrefixMatch] = []
    for kind, table in (("run", run_table), ("individual", individual_table)):
        query = select(table.c.id).where(table.c.id >= prefix, table.c.id < end).order_by(table.c.id).limit(limit)
        matches.extend(PrefixMatch(kind, name) for name in connection.execute(query).scalars())  # type: ignore[arg-type]
    return matches[:limit]


def _run(row: Row[Any]) -> RunRow:
    what = f"run {row.id}"
    return RunRow(
        id=row.id,
        kind=row.kind,
        recipe=row.recipe,
        settings=read_object(row.settings, f"the settings of {what}"),
        seed=row.seed,
        space=read_json(row.space, what),
        versions=read_object(row.versions, f"the record of versions of {what}"),
        state=row.state,
        created_seq=row.created_seq,
        created_at=row.created_at,
        finished_at=row.finished_at,
    )


def _sealed(table: Table, rows: Sequence[Row[Any]], key: str) -> dict[str, str]:
    """Key of the seal -> digest of rows to which no others belong."""
    place = list(table.columns.keys()).index(key)
    return {str(row[place]): seals.digest_of_values(table, row) for row in rows}


def _confirm_parents(connection: Connection, edges: Sequence[Parent]) -> None:
    """Compare the seals of the children of edges, which cover all their parents."""
    children_of_all = sorted({edge.child_id for edge in edges})
    for start in range(0, len(children_of_all), seals.BATCH):
        individuals_by_id(connection, children_of_all[start : start + seals.BATCH])


def _individuals(connection: Connection, query: Select[Any], *, all_of: str | None = None) -> list[IndividualRow]:
    """Individuals of a query; ``all_of`` names the run of which they are all."""
    parents_of: dict[str, list[tuple[str, str]]] = defaultdict(list)
    table = parentage_table
    chosen = query.order_by(None).with_only_columns(individual_table.c.id)
    arrows = select(table.c.child_id, table.c.role, table.c.parent_id)
    for child, role, parent in connection.execute(
        arrows.where(table.c.child_id.in_(chosen)).order_by(table.c.role)
    ).all():
        parents_of[child].append((role, parent))
    rows = connection.execute(query).all()
    values = list(map(_INDIVIDUAL, rows))
    digests = {
        key: seals.digest_of_values(individual_table, row, parents_of.get(key, ()))
        for (key, *_), row in zip(values, rows, strict=True)
    }
    if all_of is not None:
        seals.confirm_all(connection, all_of, seals.INDIVIDUAL, digests)
    else:
        runs_of = {key: run for key, run, *_ in values}
        seals.confirm(connection, seals.INDIVIDUAL, {(runs_of[key], key): digest for key, digest in digests.items()})
    found = []
    for (key, run, birth, generation, slot, hashed, operation, seed, seq, at), (genome, details) in zip(
        values, map(_TEXTS, rows), strict=True
    ):
        found.append(
            IndividualRow(
                id=key,
                run_id=run,
                birth=birth,
                generation=generation,
                slot=slot,
                genome_envelope=read_object(genome, f"the genome of individual {key}"),
                genome_hash=hashed,
                operation=operation,
                details=read_object(details, f"the record of making individual {key}"),
                parents=tuple(parent for _, parent in parents_of.get(key, ())),
                seed=seed,
                created_seq=seq,
                created_at=at,
            )
        )
    return found


def _evaluation(row: Row[Any], scores: dict[str, Score], blobs: dict[str, str]) -> EvaluationRow:
    key, run, individual, fidelity, seed, attempt, state, reason, detail, cost, extra, seconds, *ends = _EVALUATION(row)
    finished_seq, started_at, finished_at = ends
    return EvaluationRow(
        id=key,
        run_id=run,
        individual_id=individual,
        fidelity=fidelity,
        seed=seed,
        attempt=attempt,
        state=state,
        reason=reason,
        detail=detail,
        scores=scores,
        cost=read_object(cost, f"the cost of evaluation {key}"),
        extra=read_object(extra, f"the facts of evaluation {key}"),
        seconds=seconds,
        blobs=blobs,
        finished_seq=finished_seq,
        started_at=started_at,
        finished_at=finished_at,
    )
