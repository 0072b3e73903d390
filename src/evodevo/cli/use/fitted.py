"""``evodevo predict`` and ``evodevo export`` with a folder that ``evodevo fit`` has written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from evodevo.cli import output
from evodevo.cli.files import write_text
from evodevo.cli.options import parse_given
from evodevo.cli.use.row_names import FILE, names_of_rows

if TYPE_CHECKING:
    from evodevo.export.folder import Export

MOST_SHOWN = 20


def is_fitted(what: str) -> bool:
    """Whether it is the folder of a fitted model."""
    if not Path(what).is_dir():  # a name of a run or a system shall not wait for scikit-learn
        return False
    from evodevo.estimators.automatic.keeping import ABOUT

    return (Path(what) / ABOUT).is_file()


def predict_fitted(folder: Path, *, given: list[str], data: Path | None, out: Path | None, json: bool) -> None:
    """Predict rows of a table, or one row with ``--input COLUMN=VALUE``; see ``predict``."""
    from evodevo.errors import UsageError
    from evodevo.estimators.automatic.model import FittedModel
    from evodevo.tasks.rows import sources

    values = parse_given(given)
    if bool(values) == (data is not None):
        raise UsageError("give a row with --input COLUMN=VALUE, or a table with --data FILE; one of both.")
    if out is not None and (data is None or out.suffix.lower() != ".csv"):
        raise UsageError(f"--output {out} takes the answers to --data; name a .csv file.")
    model = FittedModel.load(folder)
    rows_given: Any = data if data is not None else {name: [value] for name, value in values.items()}
    read = sources.read(rows_given, model.targets.columns)
    for sentence in model.reading.unreadable(read):
        output.words(f"note: {sentence}")
    chances = model.answers(read)
    answers = model.named(model.decided(chances))
    if not model.classes:
        chances = chances[:, :0]  # the answers say it all
    head, names = ("row", ["1"]) if data is None else names_of_rows(data, read.count)
    heads = [head, *model.targets.columns[:1], *(f"probability of {name}" for name in model.classes)]
    table = [
        [name, "|".join(answer) if isinstance(answer, list) else answer, *(f"{value:.6f}" for value in row)]
        for name, answer, row in zip(names, answers, chances.tolist(), strict=True)
    ]
    if out is not None:
        from evodevo.report.comma_separated import comma_separated

        write_text(out, comma_separated(heads, table))
    if json:
        rows: list[dict[str, Any]] = [
            ({head: name} if head == FILE else {})
            | {"answer": answer}
            | ({"probabilities": dict(zip(model.classes, row, strict=True))} if row else {})
            for name, answer, row in zip(names, answers, chances.tolist(), strict=True)
        ]
        where = None if out is None else str(out.absolute())
        shown = [] if out is not None else rows
        about = {"model": model.name, "folder": str(folder.absolute())}
        output.document("evodevo.predict/1", {**about, "count": len(rows), "rows": shown, "file": where})
    elif out is None:
        short = [
            (name, answer if row else f"{answer:.6g}", *([f"{max(row):.3f}"] if row else []))
            for (name, answer, *_), row in zip(table[:MOST_SHOWN], chances.tolist(), strict=False)
        ]
        columns = (head, "answer", "probability") if model.classes else (head, "answer")
        output.table(columns, short, right=("row", "probability"))
        if len(table) > MOST_SHOWN:
            output.words(f"{len(table):,} rows in all; --output FILE.csv takes all of them, with every probability.")


def export_folder(folder: Path, to: str, target: Path) -> Export:
    """Export the model of a folder; it is verified on rows that are drawn."""
    from evodevo.estimators.automatic.model import FittedModel
    from evodevo.estimators.automatic.source.export import check, export_fitted

    check(to, target)  # before the model is read
    return export_fitted(FittedModel.load(folder), to, target)
