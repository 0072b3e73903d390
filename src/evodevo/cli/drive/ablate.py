"""``evodevo ablate``: the effect of each part of a zoo, row by row; or the table of such a run."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evodevo.cli import output
from evodevo.cli.drive.evolve import RecipeSize
from evodevo.cli.drive.train import experiment_flags
from evodevo.cli.files import write_text
from evodevo.cli.options import (
    DEFAULT_STORE,
    Assignments,
    BlobsAddress,
    ClusterAddress,
    ConfigFile,
    Events,
    ExecutorName,
    GivenBudget,
    StoreFolder,
    Workers,
    execution_flags,
    parse_budget,
)
from evodevo.cli.overrides import overrides
from evodevo.cli.running import carry_out, keep_blobs_at, store_option

if TYPE_CHECKING:
    from evodevo.runs.archive import Run
    from evodevo.storage.addresses import Place


def ablate(
    what: Annotated[
        str, typer.Argument(metavar="RECIPE|RUN", help="A recipe for ablate, or a run of it, whose table is shown.")
    ],
    rows: Annotated[
        str | None,
        typer.Option(help="table_3, all, A, B, C, D, more, or names of rows; several with commas.  [default: table_3]"),
    ] = None,
    size: Annotated[RecipeSize | None, typer.Option(help="Minutes on two cores, or all.  [default: quick]")] = None,
    task: Annotated[str | None, typer.Option(help="Task to use.  [default: the recipe's]")] = None,
    data: Annotated[Path | None, typer.Option(help="Your data, a file or a folder.")] = None,
    budget: Annotated[
        GivenBudget | None,
        typer.Option(parser=parse_budget, metavar="BUDGET", help="Budget of each training: 800steps, 2Tflops, 60s."),
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="Trainings of each row.  [default: the recipe's]")] = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the table there, one line per row.")] = None,
    workers: Workers = None,
    executor: ExecutorName = None,
    address: ClusterAddress = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda, cuda:N.")] = None,
    store: StoreFolder = DEFAULT_STORE,
    blobs: BlobsAddress = None,
    config: ConfigFile = None,
    set: Assignments = None,
    json: Events = False,
) -> None:
    """Train a zoo without one part after another: the 43 rows of Table 3 of Architect Thyself, and further ones.

    Each row is compared with the base of its block on the same samples and seeds. Ctrl-C stops safely, and resume goes
    on; ablate RUN shows the table of a run again.
    """
    from evodevo.runs.recipe import RECIPES

    if what not in RECIPES and "." not in what:
        given = {"--rows": rows, "--size": size, "--task": task, "--data": data, "--budget": budget, "--seeds": seeds,
                 "--workers": workers, "--device": device, "--config": config, "--set": set,
                 "--executor": executor, "--address": address}  # fmt: skip
        for option, value in given.items():
            if value is not None:
                raise typer.BadParameter(f"{option} is for a recipe; {what!r} is a run. Go on with it: evodevo resume.")
        _show(what, store, csv, json)
        return
    flags: dict[str, Any] = {
        **experiment_flags({} if budget is None else asdict(budget), task, data, seeds),
        **execution_flags(workers, executor, address),
        "evaluation.training.device": device,
    }
    changes = overrides(config, set or [], flags)
    from evodevo.growth.ablation.run import DEFAULT_ROWS
    from evodevo.growth.ablation.run import ablate as begin_ablation

    keep_blobs_at(store, blobs)
    run = carry_out(
        lambda listener, begin: begin_ablation(
            what,
            rows=DEFAULT_ROWS if rows is None else rows,
            size=(size or RecipeSize.quick).value,
            overrides=changes,
            store=store,
            listener=listener,
            on_start=begin,
        ),
        store=store,
        json=json,
    )
    with run.archive:
        if csv is not None:
            _write(run, csv)
        if not json:
            _print(run, store)


def _show(name: str, store: Place, csv: Path | None, json: bool) -> None:
    """Print the table of a recorded run."""
    from evodevo.growth.ablation.table import ablation_record
    from evodevo.runs.archive import Archive

    with Archive(store) as archive:
        run = archive.run(name)
        record = ablation_record(run)
        if csv is not None:
            _write(run, csv)
        if json:
            output.document("evodevo.ablation/1", record)
        else:
            _print(run, store)


def _write(run: Run, path: Path) -> None:
    from evodevo.experiments.comparison import compare_arms
    from evodevo.growth.ablation.table import ablation_lines, to_csv

    write_text(path, to_csv(ablation_lines(run, compare_arms(run))))


def _print(run: Run, store: Place) -> None:
    from evodevo.experiments.comparison import compare_arms
    from evodevo.growth.ablation.report import ablation_blocks

    table = compare_arms(run)
    for title, words in ablation_blocks(run, table).items():
        output.line(f"\n{title}")
        output.table(words.columns, words.rows, right=words.columns[2:])
    output.words(
        "points: test samples answered rightly more than the base of the block, on the same samples and seeds."
    )
    for caveat in run.settings.experiment.caveats:
        output.words(f"note: {caveat}")
    for row in table.rows:
        for sentence in row.missing:
            output.words(f"missing: {sentence}")
    where = store_option(store)
    output.words(f"next: evodevo report {run.id}{where}   evodevo ablate {run.id}{where} --csv rows.csv")
