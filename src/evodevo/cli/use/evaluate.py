"""``evodevo evaluate``: a trained language model on text and on questions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evodevo.cli import output
from evodevo.cli.options import DEFAULT_STORE, Json, StoreFolder, count_option

if TYPE_CHECKING:
    from evodevo.experiments.downstream.results import Gap, Result
    from evodevo.runs.archive import Individual

Row = tuple[str, str, list[str], str, str]
"""Data, metric, one cell per individual, chance, amount."""


def evaluate(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="INDIVIDUAL...", help="Beginnings of ids; of a run its best network. The first is compared."
        ),
    ],
    tasks: Annotated[
        list[Path] | None,
        typer.Option(help="Questions: a .jsonl(.gz, .xz) file, or a folder of them; repeatable.", metavar="PATH"),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Text: a file or a folder (text, jsonl, parquet).", metavar="PATH")
    ] = None,
    recall: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TASK", help="mqar, noisy_recall, induction, selective_copying: the architecture, trained on it."
        ),
    ] = None,
    field: Annotated[str, typer.Option(help="JSON key or parquet column of the text.")] = "text",
    limit: Annotated[int | None, count_option("Number of questions of each set.")] = None,
    max_bytes: Annotated[int | None, count_option("Bytes of text.")] = None,
    context: Annotated[
        int | None, count_option("Tokens that are read at once.  [default: as many as in training]")
    ] = None,
    stride: Annotated[
        int | None, count_option("Tokens by which a window over a text goes on.  [default: half of what is read]")
    ] = None,
    engine: Annotated[str, typer.Option(help="evodevo, or lm-eval: EleutherAI's harness, if installed.")] = "evodevo",
    again: Annotated[bool, typer.Option("--again", help="Measure also what the store holds already.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N.")] = "cpu",
    store: StoreFolder = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Measure trained language models: bits per byte of a text, accuracy on questions. The store keeps the results."""
    from evodevo.cli.use.evaluate_progress import choose
    from evodevo.errors import UsageError
    from evodevo.experiments.downstream.individuals import evaluate as evaluate_individual
    from evodevo.experiments.downstream.results import gap
    from evodevo.runs.archive import Archive
    from evodevo.runs.predict import best_trained

    with Archive(store) as archive:
        individuals = [best_trained(archive, name) for name in names]
        if len({individual.id for individual in individuals}) < len(individuals):
            raise UsageError(f"the same individual is named twice ({', '.join(names)}); name each once.")
        found: list[list[Result]] = []
        with choose() as view:
            for individual in individuals:
                view.next(individual.name)
                found.append(
                    evaluate_individual(
                        individual,
                        tasks=tasks or (),
                        data=data,
                        recall=recall or (),
                        field=field,
                        limit=limit,
                        max_bytes=max_bytes,
                        context_length=context,
                        stride=stride,
                        engine=engine,
                        device=device,
                        again=again,
                        listener=view.handle,
                    )
                )
        gaps = [[gap(first, other) for first, other in zip(found[0], others, strict=True)] for others in found[1:]]
        if json:
            output.document("evodevo.evaluate/1", _document(individuals, found, gaps))
        else:
            _show(individuals, found, gaps)


def _document(
    individuals: Sequence[Individual], found: Sequence[Sequence[Result]], gaps: Sequence[Sequence[Gap | None]]
) -> dict[str, Any]:
    def plain(result: Result) -> dict[str, Any]:
        return {name: value for name, value in result.to_json().items() if name not in ("credits", "each")}

    first = individuals[0].id
    return {
        "individuals": [
            {"id": one.id, "name": one.name, "run": one.run.id, "results": [plain(result) for result in results]}
            for one, results in zip(individuals, found, strict=True)
        ],
        "differences": [
            {
                "first": first,
                "other": other.id,
                "results": [
                    None if between is None else {"name": result.name, **between.to_json()}
                    for result, between in zip(found[0], row, strict=True)
                ],
            }
            for other, row in zip(individuals[1:], gaps, strict=True)
        ],
    }


def _show(
    individuals: Sequence[Individual], found: Sequence[Sequence[Result]], gaps: Sequence[Sequence[Gap | None]]
) -> None:
    names = [one.name for one in individuals]
    rows = []
    for place, results in enumerate(zip(*found, strict=True)):
        for data, metric, cells, chance, amount in _rows(results):
            differences = [_interval(row[place]) if metric in _compared(results[0]) else "" for row in gaps]
            rows.append((data, metric, *cells, *differences, chance, amount))
    headings = [f"{names[0]} - {other}" for other in names[1:]]
    output.table(("data", "metric", *names, *headings, "chance", "of"), rows, right=(*names, *headings, "chance", "of"))
    _say(found)


def _compared(result: Result) -> tuple[str, ...]:
    from evodevo.experiments.downstream.results import TextResult

    return ("bits/byte",) if isinstance(result, TextResult) else (result.main,)


def _rows(results: Sequence[Result]) -> list[Row]:
    """The rows of one set or text, one cell per individual."""
    from evodevo.experiments.downstream.results import QuestionsResult, TextResult

    first = results[0]
    if isinstance(first, TextResult):
        texts = [result for result in results if isinstance(result, TextResult)]
        amount = f"{first.bytes:,} bytes"
        bits = [_number(text.bits_per_byte, text.low, text.high) for text in texts]
        # Bytes that are drawn uniformly have 8 bits each.
        return [
            (first.name, "bits/byte", bits, "8.000", amount),
            ("", "perplexity", [f"{text.perplexity:.3f}" for text in texts], "", f"{first.tokens:,} tokens"),
        ]
    asked = [result for result in results if isinstance(result, QuestionsResult)]
    count = f"{first.score.count:,} questions"
    metrics = [first.main, *(name for name in first.metrics if name != first.main)]
    rows: list[Row] = [
        (
            first.name if name == first.main else "",
            name,
            [_number(one.metrics[name].value, one.metrics[name].low, one.metrics[name].high) for one in asked],
            f"{first.chance:.3f}",
            count if name == first.main else "",
        )
        for name in metrics
    ]
    if first.perplexity is not None:
        cells = ["" if one.perplexity is None else f"{one.perplexity:.3f}" for one in asked]
        rows.append(("", "perplexity", cells, "", ""))
    return rows


def _number(value: float, low: float | None, high: float | None) -> str:
    return f"{value:.3f}" if low is None or high is None else f"{value:.3f} ({low:.3f} to {high:.3f})"


def _interval(between: Gap | None) -> str:
    return "" if between is None else f"{between.value:+.3f} ({between.low:+.3f} to {between.high:+.3f})"


def _say(found: Sequence[Sequence[Result]]) -> None:
    """Print the notes to the table."""
    from evodevo.experiments.downstream.results import QuestionsResult, TextResult

    output.words("in brackets: 95 % interval; acc_norm: log-likelihood per byte of the option.")
    shortened = {one.name: one.shortened for one in found[0] if isinstance(one, QuestionsResult) and one.shortened}
    if shortened:
        counts = ", ".join(f"{name} {count:,}" for name, count in shortened.items())
        output.words(
            f"contexts that lost their beginning, since they are longer than what the model reads at once: {counts}. "
            "--context N reads more, beyond the length of training."
        )
    for result in found[0]:
        if isinstance(result, TextResult) and not result.lossless:
            output.words(f"{result.name}: the tokenizer changes this text, so bits per byte are too low to compare.")
