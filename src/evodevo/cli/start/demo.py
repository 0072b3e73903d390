"""``evodevo demo``: a complete small search in minutes, from random genomes to a model that generates text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evodevo.cli import output
from evodevo.cli.look.front import show_front
from evodevo.cli.look.report import write_report
from evodevo.cli.options import Events, StoreFolder, Workers
from evodevo.cli.overrides import overrides
from evodevo.cli.running import carry_out, store_option

RECIPE = "backbone.demo"
FOLDER = Path("demo")
PROMPT = "def "
TOKENS = 300


def demo(
    store: StoreFolder = FOLDER,
    workers: Workers = None,
    seed: Annotated[int, typer.Option(help="Seed of every random draw.")] = 0,
    json: Events = False,
) -> None:
    """Evolve small language models on the Python standard library, report on them, and generate text with the best."""
    changes = overrides(None, [], {"execution.workers": workers, "study.seed": seed})
    from evodevo.runs.evolve import evolve as evolve_run

    if not json:
        output.words("Language models that design themselves: each candidate is a genome, trained on real text here.")
    run = carry_out(
        lambda listener, begin: evolve_run(RECIPE, overrides=changes, store=store, listener=listener, on_start=begin),
        store=store,
        json=json,
    )
    with run.archive:
        from evodevo.networks.sampling import SamplingSettings
        from evodevo.runs.pick import pick

        path = write_report(run, store / "report.html")
        if json:
            return
        output.line()
        show_front(run)
        chosen = pick(run)
        output.line(f"\npicked {chosen.individual.id}: {chosen.reason}. It writes:\n")
        sampling = SamplingSettings(temperature=0.7, top_p=0.9)
        output.line(PROMPT + chosen.individual.generate(PROMPT, TOKENS, sampling=sampling))
        where = store_option(store)
        output.line(f"\nreport: {path.as_uri()}")
        output.line(f"next:   evodevo show {chosen.individual.id}{where}")
        output.line(f"        evodevo train {chosen.individual.id}{where} --tokens 5M")
