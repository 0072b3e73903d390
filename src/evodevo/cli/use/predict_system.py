"""``evodevo predict SYSTEM --task NAME``: predictions of a multitask system's best path for a user's own samples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evodevo.cli import output
from evodevo.cli.files import write_text

if TYPE_CHECKING:
    from evodevo.multitask.run.predict import PathPredictor, SystemAnswer
    from evodevo.multitask.run.samples import Sample, SampleReader
    from evodevo.storage.addresses import Place

MOST_SHOWN = 20
"""Largest number of samples that are printed where no file is written."""
MOST_CLASSES = 10
"""Largest number of classes that are printed for one sample, the likeliest first."""


def is_system(folder: Place, name: str) -> bool:
    """Whether a name is that of a system in a store, and not of a run or an individual."""
    from evodevo.multitask.run.predict import find_system
    from evodevo.storage import Store

    with Store.open(folder, "ro", create=False) as store:
        return find_system(store, name) is not None


def predict_system(
    folder: Place,
    name: str,
    *,
    task: str | None,
    agent: str | None,
    given: Sequence[str],
    data: Path | None,
    out: Path | None,
    device: str,
    json: bool,
    top: int | None = None,
) -> None:
    """Compute predictions, and print or write them.

    Args:
        folder: Folder of the store.
        name: Name of the system.
        task: Name of the task; None is refused, with the names of the tasks.
        agent: Name of an agent whose path is used instead of the best one; None for the best.
        given: Samples, each as ``FILE``, a text, or ``NAME=VALUE``.
        data: Folder of images, .csv file, or table in any form that replaces ``given``; None for none.
        out: A .csv file for the predictions; None for none.
        device: Device of the computation.
        json: Whether one JSON document is printed instead of tables.
        top: Number of classes that are printed for each sample, the likeliest first; None for ten of a single sample,
            else one.
    """
    from evodevo.errors import UsageError
    from evodevo.multitask.run.predict import open_answerer
    from evodevo.storage import Store

    if task is not None and bool(given) == (data is not None):
        raise UsageError("give samples with --input FILE, repeatable, or a folder or table with --data; one of both.")
    if out is not None and out.suffix.lower() != ".csv":
        raise UsageError(f"--output {out} takes the answers as a table; name a .csv file.")
    with Store.open(folder, "ro", create=False) as store:
        answerer = open_answerer(store, name, task, agent, device)
        named = list(answerer.samples.rows(data)) if data is not None else _given(given, answerer.samples)
        answers = answerer.predict([sample for _, sample in named])
        names = [sample for sample, _ in named]
        if out is not None:
            write_text(out, _csv(names, answers))
        if json:
            _document(answerer, names, answers, out)
        elif out is None:
            _show(answerer, names, answers, top)


def _given(given: Sequence[str], reader: SampleReader) -> list[tuple[str, Sample]]:
    """(name, sample) from the values of ``--input``: one sample each, or one of all where it has several
    inputs or columns."""
    from evodevo.cli.options import parse_given

    if reader.only is None or reader.table is not None:
        return [("1", parse_given(list(given)))]
    begin = f"{reader.only.name}="
    values = [value.removeprefix(begin) for value in given]
    return [
        (value if reader.only.modality == "image" else str(number), value)
        for number, value in enumerate(values, start=1)
    ]


def _document(answerer: PathPredictor, names: Sequence[str], answers: Sequence[SystemAnswer], out: Path | None) -> None:
    rows = (
        []
        if out is not None
        else [{"sample": name, **answer.to_json()} for name, answer in zip(names, answers, strict=True)]
    )
    about: dict[str, Any] = {
        "system": answerer.system.row.name,
        "task": answerer.task,
        "agent": answerer.agent,
        "path": answerer.known.path.id,
        "validation": answerer.known.quality,
        "classes": list(answerer.classes),
        "named": answerer.named,
    }
    where = None if out is None else str(out.absolute())
    output.document("evodevo.predict_system/1", {**about, "count": len(answers), "rows": rows, "file": where})


def _show(
    answerer: PathPredictor, names: Sequence[str], answers: Sequence[SystemAnswer], top: int | None = None
) -> None:
    quality = answerer.known.quality
    known = "" if quality is None else f", validation accuracy {quality:.4f}"
    output.words(f"{answerer.system.row.name}: task {answerer.task}, path {answerer.known.path.id}{known}")
    if not answerer.named:
        output.words("classes are called by their numbers: nobody recorded their names, and the data are gone.")
    if len(answers) == 1:
        _show_one(answers[0], top or MOST_CLASSES)
        return
    count = min(top or 1, len(answerer.classes))
    rows = [
        (
            name,
            *(cell for label, value in answer.likeliest(count) for cell in (label, f"{value:.3f}")),
            *([_weights_words(answer)] if answer.paths else []),
        )
        for name, answer in zip(names[:MOST_SHOWN], answers, strict=False)
    ]
    more = ["paths used"] if answers and answers[0].paths else []
    ranks = [""] if count == 1 else [f" {rank}" for rank in range(1, count + 1)]
    columns = [word for rank in ranks for word in (f"class{rank}", f"probability{rank}")]
    output.table(("sample", *columns, *more), rows, right=columns[1::2])
    if len(answers) > MOST_SHOWN:
        output.words(f"{len(answers):,} samples in all; --output FILE.csv takes all of them, with every probability.")


def _show_one(answer: SystemAnswer, top: int) -> None:
    output.line(answer.chosen)
    rows = [(name, f"{value:.3f}") for name, value in answer.likeliest(top)]
    output.table(("class", "probability"), rows, right=("probability",))
    if (more := len(answer.probabilities) - len(rows)) > 0:
        output.words(f"{more:,} more classes; --json has all of them.")
    if answer.paths:
        output.line()
        inside = [
            (path.path, "-" if path.weight is None else f"{path.weight:.3f}", "yes" if path.run else "no")
            for path in answer.paths
        ]
        output.table(("path", "weight", "asked"), inside, right=("weight",))


def _weights_words(answer: SystemAnswer) -> str:
    """The paths that ran, each with its weight."""
    ran = (path for path in answer.paths if path.run)
    return " ".join(path.path if path.weight is None else f"{path.path}={path.weight:.2f}" for path in ran)


def _csv(names: Sequence[str], answers: Iterable[SystemAnswer]) -> str:
    """One line per sample, in order."""
    from evodevo.report.comma_separated import comma_separated

    header: list[str] = []
    rows = []
    for name, answer in zip(names, answers, strict=True):
        paths = [f"path {path.path}" for path in answer.paths]
        header = header or ["sample", "class", *(f"p {label}" for label in answer.probabilities), *paths]
        weights = [None if path.weight is None else f"{path.weight:.6f}" for path in answer.paths]
        rows.append([name, answer.chosen, *(f"{value:.6f}" for value in answer.probabilities.values()), *weights])
    return comma_separated(header, rows) if rows else ""
