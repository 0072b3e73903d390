"""``evodevo predict``: predictions of a trained network for a user's own samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evodevo.cli import output
from evodevo.cli.files import write_text
from evodevo.cli.options import DEFAULT_STORE, Json, StoreFolder, parse_given
from evodevo.cli.use.row_names import FILE, names_of_rows

if TYPE_CHECKING:
    from evodevo.runs.answers import Prediction

MOST_SHOWN = 20
"""Largest number of rows that are printed where no file is written."""


def predict(
    what: Annotated[
        str,
        typer.Argument(
            metavar="RUN|INDIVIDUAL|SYSTEM|DIR",
            help="A beginning of an id, or last; of a run its best network. Or a multitask system, or a folder that "
            "evodevo fit has written.",
        ),
    ] = "last",
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--input", metavar="NAME=VALUE", help="An input of your own: a file, a text or numbers. Of a system FILE."
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DATA", help="A table with the columns of the training data, or a folder of files."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="A .csv file for the predictions of --data.")
    ] = None,
    task: Annotated[str | None, typer.Option(metavar="NAME", help="Task of a system.")] = None,
    agent: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Agent of a system whose path is used.  [default: the task's best]"),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="K",
            help="Likeliest classes printed for each sample of a system.  [default: 10 for one sample, else 1]",
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N.")] = "cpu",
    store: StoreFolder = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Classify your own samples: classes with probabilities, and the weights of modules or paths."""
    from evodevo.cli.use.fitted import is_fitted, predict_fitted
    from evodevo.cli.use.predict_system import is_system, predict_system
    from evodevo.errors import UsageError

    if is_fitted(what):
        predict_fitted(Path(what), given=given or [], data=data, out=out, json=json)
        return
    if task is not None or agent is not None or is_system(store, what):
        predict_system(
            store,
            what,
            task=task,
            agent=agent,
            given=given or [],
            data=data,
            out=out,
            device=device,
            json=json,
            top=top,
        )
        return
    if top is not None:
        raise UsageError(f"--top is an option of systems, and {what} is none; every probability is printed.")

    from evodevo.runs.archive import Archive
    from evodevo.runs.predict import best_trained

    values = parse_given(given or [])
    if bool(values) == (data is not None):
        raise UsageError("give a sample with --input NAME=VALUE, or a table with --data FILE; one of both.")
    if out is not None and (data is None or out.suffix.lower() != ".csv"):
        raise UsageError(f"--output {out} takes the answers to --data; name a .csv file.")
    with Archive(store) as archive:
        best = best_trained(archive, what)
        predictor = best.run.slice.predictor(best, device=device)
        about = {"run": best.run.id, "individual": best.id}
        if data is None:
            prediction = predictor.sample(values)
            if json:
                output.document("evodevo.predict/1", {**about, **prediction.to_json()})
            else:
                _show(prediction, best.title)
            return
        predictions = list(predictor.rows(data))
        head, names = names_of_rows(data, len(predictions))
    if out is not None:
        write_text(out, _csv(predictions, head, names))
    if json:
        named = [{head: name} if head == FILE else {} for name in names]
        every = [{**one, **row.to_json()} for one, row in zip(named, predictions, strict=True)]
        rows = [] if out is not None else every
        where = None if out is None else str(out.absolute())
        output.document("evodevo.predict/1", {**about, "count": len(predictions), "rows": rows, "file": where})
    elif out is None:
        _show_rows(predictions, head, names)


def _show(prediction: Prediction, title: str) -> None:
    output.words(title)
    if prediction.absent:
        output.words(
            f"without {', '.join(prediction.absent)}: a token replaces it, learned as far as training samples lacked "
            "it (zoo.modality_dropout makes them)."
        )
    for name, answered in prediction.answers.items():
        output.line(f"{name}: {', '.join(answered.chosen) or 'none'}")
        ordered = sorted(answered.probabilities.items(), key=lambda pair: -pair[1])
        output.table((name, "probability"), [(key, f"{value:.3f}") for key, value in ordered], right=("probability",))
    if prediction.weights:
        rows = [
            (name, f"{weight:.3f}", "yes" if name in prediction.executed else "no")
            for name, weight in sorted(prediction.weights.items(), key=lambda pair: -pair[1])
        ]
        output.line()
        output.table(("module", "weight", "run"), rows, right=("weight",))


def _show_rows(predictions: Sequence[Prediction], head: str, named: Sequence[str]) -> None:
    if not predictions:
        return
    names = list(predictions[0].answers)
    rows = []
    for row_name, prediction in zip(named, predictions[:MOST_SHOWN], strict=False):
        largest = max(prediction.weights, key=lambda name: prediction.weights[name], default="")
        answers = [
            f"{', '.join(prediction.answers[name].chosen) or 'none'} {_certainty(prediction, name):.2f}"
            for name in names
        ]
        rows.append((row_name, *answers, *([largest] if prediction.weights else [])))
    output.table((head, *names, *(["most weight"] if predictions[0].weights else [])), rows, right=("row",))
    if len(predictions) > MOST_SHOWN:
        output.words(f"{len(predictions):,} rows in all; --output FILE.csv takes all of them, with every probability.")


def _certainty(prediction: Prediction, name: str) -> float:
    """Probability of the chosen class; of several labels the lowest, for no label that none is right."""
    answered = prediction.answers[name]
    chosen = [answered.probabilities[key] for key in answered.chosen]
    return min(chosen) if chosen else 1 - max(answered.probabilities.values())


def _csv(predictions: Sequence[Prediction], head: str, named: Sequence[str]) -> str:
    """One line per row of the data, in order."""
    from evodevo.report.comma_separated import comma_separated

    rows = [dict(_cells(prediction)) for prediction in predictions]
    lines = ([name, *cells.values()] for name, cells in zip(named, rows, strict=True))
    return comma_separated([head, *rows[0]], lines) if rows else ""


def _cells(prediction: Prediction) -> Iterator[tuple[str, Any]]:
    for name, answered in prediction.answers.items():
        yield name, "|".join(answered.chosen)
        for key, value in answered.probabilities.items():
            yield f"{name}: {key}", f"{value:.6f}"
    yield "missing", "|".join(prediction.absent)
    for name, weight in prediction.weights.items():
        yield f"module {name}", f"{weight:.6f}"
