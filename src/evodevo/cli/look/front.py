"""``evodevo front``: the best trade-offs of a run, with the baselines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evodevo.cli import output
from evodevo.cli.listing import goal_records, print_individuals, record, say_seeds
from evodevo.cli.options import DEFAULT_STORE, Json, RunName, StoreFolder

if TYPE_CHECKING:
    from evodevo.runs.archive import Run


def front(run: RunName = "last", store: StoreFolder = DEFAULT_STORE, json: Json = False) -> None:
    """List the best trade-offs of a run (none is better in one goal without being worse in another) and baselines."""
    from evodevo.runs.archive import Archive

    with Archive(store) as archive:
        opened = archive.run(run).searched()
        if not json:
            show_front(opened)
            return
        closed = opened.generations()
        data = {
            "run": opened.id,
            "state": opened.state,
            "goals": goal_records(opened),
            "front": [record(individual) for individual in opened.front()],
            "baselines": [record(individual) for individual in opened.baselines()],
            "hypervolume": closed[-1]["hypervolume"] if closed else None,
            "reference": closed[-1]["reference"] if closed else None,
        }
        output.document("evodevo.front/1", data)


def show_front(run: Run) -> None:
    """Print the table for people."""
    members = [*run.front(), *run.baselines()]
    if not run.front():
        output.words(f"nobody of run {run.id} has scores yet. See: evodevo status {run.id}")
    print_individuals(members, run.goals)
    say_seeds(members, run.goals)
