"""``evodevo demo``: a complete small protocol in minutes, from random genomes to a model that generates text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evodevo.cli import output
from evodevo.cli.look.report import write_report
from evodevo.cli.options import BlobsAddress, Events, StoreFolder, Workers
from evodevo.cli.overrides import overrides
from evodevo.cli.protocols import show_composed
from evodevo.cli.running import carry_out, keep_blobs_at, store_option

RECIPE = "backbone.demo_protocol"
FOLDER = Path("demo")
PROMPT = "def "
TOKENS = 300


def demo(
    store: StoreFolder = FOLDER,
    blobs: BlobsAddress = None,
    workers: Workers = None,
    seed: Annotated[int, typer.Option(help="Seed of every random draw.")] = 0,
    json: Events = False,
) -> None:
    """Evolve small language models on the Python standard library, beside tuned baselines and random search; report on
    them, and generate text with the winner."""
    changes = overrides(None, [], {"execution.workers": workers, "study.seed": seed})
    from evodevo.runs.evolve import evolve as evolve_run

    if not json:
        output.words("Language models that design themselves: each candidate is a genome, trained on real text here.")
    keep_blobs_at(store, blobs)
    run = carry_out(
        lambda listener, begin: evolve_run(RECIPE, overrides=changes, store=store, listener=listener, on_start=begin),
        store=store,
        json=json,
    )
    with run.archive:
        from evodevo.backbone.protocol.record import read_protocol
        from evodevo.networks.sampling import SamplingSettings

        path = write_report(run, (store if isinstance(store, Path) else Path.cwd()) / "report.html")
        if json:
            return
        output.line()
        show_composed(run)
        output.line(f"\n{limits(run.settings.evaluation.training.budget.tokens, run.settings.protocol.final_tokens)}")
        winner = next(row for row in read_protocol(run).rows if row.role == "finalist")
        output.line(f"\n{winner.name} is {winner.individual} of the search, trained on. It writes:\n")
        sampling = SamplingSettings(temperature=0.7, top_p=0.9)
        trained = run.archive.individual(winner.trainings[0])
        output.line(PROMPT + trained.generate(PROMPT, TOKENS, sampling=sampling))
        where = store_option(store)
        output.line(f"\nreport: {path.as_uri()}")
        output.line(f"next:   evodevo show {winner.individual}{where}")
        output.line(f"        evodevo evolve backbone.cache --size full{where}")


def limits(searched: int, trained: int) -> str:
    """What so short a protocol can and cannot show."""
    return (
        f"What this shows: that search, control and test work here, on real text. What it cannot show: which "
        f"architecture is better. Candidates were judged after {searched:,} tokens and trained on for {trained:,}, one "
        "seed each; small differences are those of seeds, and what learns fast need not end best."
    )
