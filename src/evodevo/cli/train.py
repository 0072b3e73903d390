"""``evodevo train``: one individual again, for longer and with several seeds."""

from __future__ import annotations

from typing import Annotated

import typer

from evodevo.cli import output
from evodevo.cli.listing import print_individuals, say_seeds
from evodevo.cli.options import (
    DEFAULT_STORE,
    Assignments,
    Events,
    IndividualName,
    StoreFolder,
    Workers,
    count_option,
)
from evodevo.cli.overrides import overrides
from evodevo.cli.running import carry_out, store_option


def train(
    individual: IndividualName,
    tokens: Annotated[int | None, count_option("Tokens of each training, for example 5M.")] = None,
    steps: Annotated[int | None, count_option("Optimiser steps of each training.")] = None,
    seconds: Annotated[float | None, typer.Option(help="Wall-clock seconds of each training.")] = None,
    seeds: Annotated[int, typer.Option(help="How many trainings.")] = 1,
    baselines: Annotated[bool, typer.Option("--baselines", help="Train the baselines under the same budget.")] = False,
    workers: Workers = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda, cuda:N.")] = None,
    store: StoreFolder = DEFAULT_STORE,
    set: Assignments = None,
    json: Events = False,
) -> None:
    """Train an individual from scratch; the search trains briefly by design.

    The budget is that of the search if none is given. Ctrl-C stops safely; resume goes on from the last checkpoint.
    """
    changes = overrides(None, set or [], {"execution.workers": workers, "evaluation.training.device": device})
    from evodevo import runs

    run = carry_out(
        lambda listener, begin: runs.train(
            individual,
            tokens=tokens,
            steps=steps,
            seconds=seconds,
            seeds=seeds,
            baselines=baselines,
            overrides=changes,
            store=store,
            listener=listener,
            on_start=begin,
        ),
        store=store,
        json=json,
    )
    with run.archive:
        if not json:
            trained = [*run.individuals(), *run.baselines()]
            print_individuals(trained, run.goals)
            say_seeds(trained, run.goals)
            output.words(f"next: evodevo generate {run.individuals()[0].id}{store_option(store)} --prompt 'def '")
