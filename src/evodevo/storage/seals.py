"""Seals: digests by which a reader notices that rows are not those that were written, or not all of them.

Every run, individual, evaluation, event, curve, and reference to a blob has a digest of its columns, and of the rows
that belong to it alone (parents, scores), in a table of its own; so has every row of a multitask system
(``systems/sealing.py``). Readers compute the digests of what they read again. Where they read all rows of a run, the
keys of both tables must be the same, so that a lost row is noticed, too. A store of a schema before seals is read
without them until it is written.

Seals find damage and changes by other programs; they are no signatures, and whoever can write the file can seal anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, Table, select

from evodevo.errors import StoreDamagedError
from evodevo.storage.dialects.upsert import upsert
from evodevo.storage.engine import UNSEALED
from evodevo.storage.schema import seal_table

RUN, INDIVIDUAL, EVALUATION, EVENT, SERIES, BLOB = "run", "individual", "evaluation", "event", "series", "blob"
"""Kinds of rows of every run that have seals; ``blob`` is a reference to one."""
SYSTEM, AGENT, CYCLE, PATH, SUBPATHS = "system", "agent", "cycle", "path", "subpaths"
COMPONENT, USES, PUBLICATION, WEIGHTS = "component", "uses", "publication", "weights"
OF_SYSTEMS = frozenset((SYSTEM, AGENT, CYCLE, PATH, SUBPATHS, COMPONENT, USES, PUBLICATION, WEIGHTS))
"""Kinds of rows of multitask systems that have seals; ``weights`` is a component's reference to its blob."""
KINDS = frozenset((RUN, INDIVIDUAL, EVALUATION, EVENT, SERIES, BLOB)) | OF_SYSTEMS
STORE = ""
"""In place of a run's id: seals of runs, and of events without a run."""
BATCH = 500
NEXT = "Next: evodevo store check; backups lie in backups/."


def digest(table: Table, row: Mapping[Any, Any], belonging: Iterable[Sequence[Any]] = ()) -> str:
    """The digest of a row.

    Args:
        table: Table of the row; the order of its columns counts.
        row: Values by column; columns that are left out are None. Damaged values of a wrong type have a digest, too.
        belonging: Rows of another table that belong to it, each beginning with its name, in any order.

    Returns:
        64 hexadecimal digits of BLAKE2b.
    """
    return digest_of_values(table, [row.get(name) for name in _names(table)], belonging)


def digest_of_values(table: Table, row: Sequence[Any], belonging: Iterable[Sequence[Any]] = ()) -> str:
    """As ``digest``, of all values of a row, in the order of the table's columns."""
    own = [list(values) for values in belonging]
    if len(own) > 1:
        own.sort(key=lambda values: str(values[0]))
    text = _ENCODER.encode([table.name, list(row), own])
    return hashlib.blake2b(text.encode(), digest_size=32).hexdigest()


@cache
def _names(table: Table) -> tuple[str, ...]:
    return tuple(column.name for column in table.columns)


def _text(value: Any) -> str:
    return f"{type(value).__name__}:{bytes(value).hex() if isinstance(value, bytes) else value!r}"


# Made once: readers digest tens of thousands of rows.
_ENCODER = json.JSONEncoder(separators=(",", ":"), default=_text, check_circular=False)


def put(connection: Connection, run_id: str, kind: str, digests: Mapping[str, str]) -> None:
    """Write the seals of new or changed rows of a run: key -> digest."""
    if digests:
        rows = [{"run_id": run_id, "kind": kind, "key": key, "digest": value} for key, value in digests.items()]
        connection.execute(upsert(connection, seal_table, ("digest",)), rows)


def confirm_all(connection: Connection, run_id: str, kind: str, digests: Mapping[str, str], begin: str = "") -> None:
    """Refuse rows that are not exactly those that were written.

    Args:
        connection: Connection with an open transaction.
        run_id: Run of the rows, or ``STORE``.
        kind: Kind of the rows.
        digests: Key -> digest of every row of the kind that was read, computed now.
        begin: Beginning of the keys that count; empty for all.

    Raises:
        StoreDamagedError: A row has another digest, is missing, or was never written.
    """
    table = seal_table
    query = select(table.c.key, table.c.digest).where(table.c.run_id == run_id, table.c.kind == kind)
    if begin:
        query = query.where(table.c.key >= begin, table.c.key < begin + "\U0010ffff")
    confirm_written(connection, query, kind, digests)


def confirm_written(connection: Connection, written: Select[Any], kind: str, digests: Mapping[str, str]) -> None:
    """As ``confirm_all`` for the rows whose seals a query chooses; its rows are keys and digests."""
    if kind not in connection.info.get(UNSEALED, ()):
        _confirm(dict(connection.execute(written).all()), digests, kind)


def confirm(connection: Connection, kind: str, digests: Mapping[tuple[str, str], str]) -> None:
    """As ``confirm_all`` for some of the rows, of any runs: those that were not read are not missing.

    Args:
        connection: Connection with an open transaction.
        kind: Kind of the rows.
        digests: (run, key) -> digest.

    Raises:
        StoreDamagedError: A row has another digest, or was never written.
    """
    if kind in connection.info.get(UNSEALED, ()):
        return
    table, keys = seal_table, sorted(digests, key=str)
    written: dict[tuple[str, str], str] = {}
    for start in range(0, len(keys), BATCH):
        batch = keys[start : start + BATCH]
        query = select(table.c.run_id, table.c.key, table.c.digest).where(
            table.c.run_id.in_({run for run, _ in batch}),
            table.c.kind == kind,
            table.c.key.in_({key for _, key in batch}),
        )
        written.update({(run, key): found for run, key, found in connection.execute(query)})
    found = {key: digest for (_, key), digest in digests.items()}
    _confirm({key: written[run, key] for run, key in digests if (run, key) in written}, found, kind)


def _confirm(written: Mapping[str, str], found: Mapping[str, str], kind: str) -> None:
    if written == found:
        return
    changed = [key for key in found if key in written and found[key] != written[key]]
    missing, foreign = written.keys() - found.keys(), found.keys() - written.keys()
    if changed:
        raise StoreDamagedError(f"{kind} {changed[0]} is not what evodevo wrote: its digest is another. {NEXT}")
    if missing:
        raise StoreDamagedError(f"{kind} {min(missing)} was written and is not there. {NEXT}")
    raise StoreDamagedError(f"{kind} {min(foreign, key=str)} was not written by evodevo. {NEXT}")
