"""``evodevo status``: list the runs, and show the state of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evodevo.cli import output
from evodevo.cli.options import DEFAULT_STORE, Json, StoreFolder
from evodevo.cli.protocols import show_composed
from evodevo.cli.running import store_option

if TYPE_CHECKING:
    from evodevo.runs.archive import Run
    from evodevo.storage.addresses import Place


def status(
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="A beginning of its id, or last; all runs if left out.")
    ] = None,
    store: StoreFolder = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Show the state of all runs of a store, or of one run, generation by generation."""
    from evodevo.runs.archive import Archive

    with Archive(store) as archive:
        if run is None:
            every = [_facts(each_run) for each_run in archive.runs()]
            if json:
                output.document("evodevo.status/1", {"store": str(store), "runs": every})
            else:
                _print_runs(every)
            return
        opened = archive.run(run)
        facts, closed = _facts(opened), opened.generations()
        if json:
            output.document("evodevo.status/1", {**facts, "course": closed})
        else:
            _print_run(facts, closed, store)
            if opened.is_composed:
                show_composed(opened)


def _facts(run: Run) -> dict[str, Any]:
    owner = run.archive.store.owner(run.id)
    return {**run.facts(), "owner": None if owner is None else str(owner)}


def _failed(facts: Mapping[str, Any]) -> str:
    reasons = facts["failed"]
    return f"{sum(reasons.values())}" + (f" ({', '.join(f'{n} {r}' for r, n in reasons.items())})" if reasons else "")


def _generations(facts: Mapping[str, Any]) -> str:
    wanted = facts["generations_wanted"]
    return str(facts["generations"]) + ("" if wanted is None else f" of {wanted}")


def _volume(value: float | None) -> str:
    return "–" if value is None else f"{value:.5g}"


def _print_runs(every: list[dict[str, Any]]) -> None:
    rows = [
        (
            facts["run"],
            facts["kind"],
            facts["recipe"],
            facts["state"],
            _generations(facts),
            facts["scored"],
            _failed(facts),
            facts["front"],
            _volume(facts["hypervolume"]),
            facts["created"][:19],
        )
        for facts in every
    ]
    names = ["run", "kind", "recipe", "state", "generations", "scored", "failed", "front", "hypervolume", "created"]
    output.table(names, rows, right=("scored", "front", "hypervolume"))
    if not rows:
        output.words("no run yet. Begin one with: evodevo evolve backbone.demo")


def _print_run(facts: dict[str, Any], closed: list[dict[str, Any]], store: Place) -> None:
    held = f", held by {facts['owner']}" if facts["owner"] else ""
    output.line(f"run {facts['run']}: {facts['kind']} {facts['recipe']}, {facts['state']}{held}")
    output.line(
        f"generations {_generations(facts)}, individuals {facts['individuals']}, scored {facts['scored']}, "
        f"failed {_failed(facts)}, front {facts['front']}"
    )
    if closed:
        rows = [
            (row["generation"], row["evaluated"], row["failed"], len(row["front"]), _volume(row["hypervolume"]))
            for row in closed
        ]
        names = ("generation", "evaluated", "failed", "front", "hypervolume")
        output.table(names, rows, right=names)
    if facts["state"] == "interrupted":
        output.words(f"go on with: evodevo resume {facts['run']}{store_option(store)}")
