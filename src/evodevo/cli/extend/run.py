"""``evodevo extend run``: run agents until each has finished a number of cycles."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evodevo.cli import output
from evodevo.cli.drive.evolve import RecipeSize
from evodevo.cli.extend.live import WORDS, AgentsView, choose, number
from evodevo.cli.extend.options import words_of
from evodevo.cli.extend.recipe import is_recipe, run_recipe
from evodevo.cli.failures import TerminatedError
from evodevo.cli.options import (
    DEFAULT_STORE,
    Assignments,
    ClusterAddress,
    ConfigFile,
    Events,
    ExecutorName,
    StoreFolder,
    execution_flags,
)
from evodevo.cli.overrides import overrides
from evodevo.cli.running import store_option
from evodevo.cli.stopping import Stopping
from evodevo.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from evodevo.multitask.run.run import RunSummary


def run(
    system: Annotated[
        str,
        typer.Argument(metavar="SYSTEM|RECIPE", help="A system: its name, or any unique beginning; or a recipe."),
    ],
    agents: Annotated[
        str | None,
        typer.Option(
            metavar="A,B", help="single, multi (added where missing), classes, or names of agents.  [default: single]"
        ),
    ] = None,
    tasks: Annotated[str | None, typer.Option(metavar="A,B", help="Tasks whose agents run.  [default: all]")] = None,
    cycles: Annotated[
        int | None, typer.Option(help="Cycles that each agent shall have finished.  [default: 1]")
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(metavar="TIME|STEPS", help="For all agents and cycles together: 90s, 10m, 1h, or 5000steps."),
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Children trained at a time.  [default: 1]")] = None,
    executor: ExecutorName = None,
    address: ClusterAddress = None,
    free: Annotated[
        bool, typer.Option("--free", help="Start each agent's next cycle at once, with the paths published by then.")
    ] = False,
    test: Annotated[
        bool, typer.Option("--test", help="Measure the best path of each cycle on the test split, once.")
    ] = False,
    size: Annotated[RecipeSize | None, typer.Option(help="Size of a recipe's run.  [default: quick]")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder with the data of a recipe's tasks.")] = None,
    out: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="File for a recipe's results: .csv, .html or .json."),
    ] = None,
    store: StoreFolder = DEFAULT_STORE,
    config: ConfigFile = None,
    set: Assignments = None,
    json: Events = False,
) -> None:
    """Run agents: first the root, then agents with one path, then agents that combine paths.

    The same command goes on with what was stopped or killed, a larger --cycles with what is finished. A --budget is
    shared over agents and cycles by a schedule that is printed first. Test accuracies are shown and never used. Ctrl-C
    stops safely. A recipe makes its own systems and compares them. Of a system, --set changes execution.* alone.
    """
    of_system = {
        "agents": agents,
        "tasks": tasks,
        "cycles": cycles,
        "budget": budget,
        "free": free or None,
        "test": test or None,
    }
    of_recipe = {
        "size": None if size is None else size.value,
        "data": data,
        "output": out,
        "config": config,
    }
    where = {"workers": workers, "executor": executor, "address": address}
    again = f"evodevo extend run {shlex.quote(system)}{_spelled({**of_system, **of_recipe, **where})}"
    again += "".join(f" --set {shlex.quote(item)}" for item in set or []) + store_option(store)
    if is_recipe(system):
        _refuse(of_system, f"{system} is a recipe", "a system")
        flags = {"data": None if data is None else str(data), **execution_flags(None, executor, address)}
        changes = overrides(config, set or [], flags)
        run_recipe(
            system,
            size=(size or RecipeSize.quick).value,
            store=store,
            workers=workers,
            changes=changes,
            out=out,
            json=json,
            again=again,
        )
        return
    _refuse(of_recipe, f"{system} is no recipe", "a recipe")
    changes = overrides(None, set or [], execution_flags(workers, executor, address))
    execution = changes.pop("execution", {})
    if changes:
        raise UsageError(
            f"{system} is no recipe; of a system, --set changes execution.* alone, not {', '.join(changes)}."
        )
    from evodevo.multitask.run.run import run_system

    with choose(json=json) as view, Stopping(view, WORDS) as stopping:
        try:
            ended = run_system(
                system,
                agents=words_of(agents or "single"),
                tasks=words_of(tasks or ""),
                cycles=cycles,
                budget=budget,
                execution=execution,
                schedule="free" if free else "rounds",
                test=test,
                store=store,
                listener=view.handle,
                on_start=stopping.begin,
            )
        except (KeyboardInterrupt, TerminatedError):
            view.end()
            _say_how_to_go_on(again)
            raise
    if ended.state == "interrupted":
        _say_how_to_go_on(again)
        raise typer.Exit(ExitCode.TERMINATED if stopping.terminated else ExitCode.INTERRUPTED)
    present(ended, view, json=json)
    short = sum(summary.cycles < ended.wanted for summary in ended.agents)
    if budget is not None and short and not json:
        output.words(
            f"The budget of {budget} is used up before {short} of {len(ended.agents)} agents ended their cycles; the "
            "same command goes on with as much again."
        )


def present(ended: RunSummary, view: AgentsView, *, json: bool) -> None:
    """Print the final results of the agents."""
    if json:
        view.show("finished", {"system": ended.system, "agents": [vars(summary) for summary in ended.agents]})
        return
    tested = any(summary.test is not None for summary in ended.agents)
    columns = ("agent", "task", "cycles", "validation", *(["test"] if tested else []), "parameters")
    table = [
        (
            summary.agent,
            summary.task,
            summary.cycles,
            number(summary.validation),
            *([number(summary.test)] if tested else []),
            "–" if summary.parameters is None else f"{summary.parameters:,.0f}",
        )
        for summary in ended.agents
    ]
    output.table(columns, table, right=("cycles", "validation", "test", "parameters"))


def _spelled(options: dict[str, Any]) -> str:
    """Options as text of a command line."""
    words = [
        word
        for name, value in options.items()
        if value is not None
        for word in ([f"--{name}"] if value is True else [f"--{name}", str(value)])
    ]
    return f" {shlex.join(words)}" if words else ""


def _refuse(options: dict[str, Any], why: str, whose: str) -> None:
    given = [f"--{name}" for name, value in options.items() if value is not None]
    if given:
        raise UsageError(f"{why}; {', '.join(given)} is of {whose}.")


def _say_how_to_go_on(command: str) -> None:
    output.words(f"what was finished is safe. Go on with: {command}")
