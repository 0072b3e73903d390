"""``evodevo replay``: repeat the edits of a network that grew from their log, and compare the results."""

from __future__ import annotations

from evodevo.cli import output
from evodevo.cli.options import DEFAULT_STORE, IndividualName, Json, StoreFolder


def replay(individual: IndividualName, store: StoreFolder = DEFAULT_STORE, json: Json = False) -> None:
    """Repeat all edits of a network that grew, from its log and the weights that the log names.

    Every blob is hashed, every genotype and every newborn's first weights are rebuilt, and the final modules compared
    with those of the kept network.
    """
    from evodevo.growth.replay_run import replay as make_again
    from evodevo.runs.archive import Archive

    with Archive(store) as archive:
        record = archive.individual(individual)
        done = make_again(record)
        if json:
            output.document("evodevo.replay/1", {"individual": record.id, **done.to_json()})
            return
        output.line(f"{record.id}   {record.title}")
        output.line(f"started with {', '.join(done.start)}")
        columns = ("event", "step", "operation", "parents", "module", "parameters", "note")
        rows = [
            (
                edit.event,
                "–" if edit.step is None else f"{edit.step:,}",
                edit.operation,
                ", ".join(edit.parents) if edit.weights and edit.parents else "–",
                edit.child or "refused",
                f"{edit.parameters:+,}" if edit.parameters else "–",
                edit.note,
            )
            for edit in done.edits
        ]
        if rows:
            output.table(columns, rows, right=("event", "step", "parameters"))
        output.line(f"ended with {', '.join(done.modules)}")
        born = sum(edit.weights is not None for edit in done.edits)
        end = ", and lead to the kept network" if done.is_compared else "; no network is kept to compare them with"
        output.words(
            f"{done.blobs} blobs are what was written; edits ({len(done.edits)}) and the weights of births and edits "
            f"in place ({born}) are made again{end}."
        )
