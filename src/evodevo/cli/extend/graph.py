"""``evodevo extend graph``: draw a system, as SVG or text, now or at an earlier publication."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evodevo.cli import output
from evodevo.cli.extend.options import Document, SystemName
from evodevo.cli.options import DEFAULT_STORE, StoreFolder

if TYPE_CHECKING:
    from evodevo.multitask.diagrams.system.frame import Joined, SystemFrame
    from evodevo.multitask.report.picture import SystemFrames


def graph(
    system: SystemName,
    out: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Draw it into this SVG; without it, in text.")
    ] = None,
    at: Annotated[int | None, typer.Option(metavar="SEQ", help="As it was after this publication.")] = None,
    cycle: Annotated[
        int | None, typer.Option(metavar="N", help="The last state in which no agent had ended more than N cycles.")
    ] = None,
    task: Annotated[
        str | None, typer.Option(metavar="TASK", help="Draw this task strong, and the others faint.")
    ] = None,
    model: Annotated[bool, typer.Option("--model", help="Draw the multipath model of --task alone.")] = False,
    store: StoreFolder = DEFAULT_STORE,
    json: Document = False,
) -> None:
    """Draw a system: tasks, components in the colour of the task that they were last trained on, paths as lines."""
    from evodevo.errors import UsageError
    from evodevo.multitask.report.picture import SystemFrames
    from evodevo.multitask.system import System
    from evodevo.storage import Store

    if at is not None and cycle is not None:
        raise UsageError("--at and --cycle both choose a moment; give one of them.")
    if model and task is None:
        raise UsageError("--model draws the multipath model of one task. Name it: --task TASK")
    if out is not None and out.suffix.lower() != ".svg":
        raise UsageError(f"drawings are SVG; {out.name!r} does not end with .svg. Name a file such as system.svg.")
    with Store.open(store, "ro", create=False) as opened:
        picture = SystemFrames(System.open(opened, system))
        frame = picture.frame(at) if cycle is None else picture.at_cycle(cycle)
    _check(picture, frame, task)
    chosen = picture.joined(frame, task) if model and task is not None else None
    if out is not None:
        from evodevo.cli.files import write_text

        write_text(out, _drawn(frame, task, chosen))
    if json:
        output.document("evodevo.extend.graph/1", {**_record(frame, task), "file": None if out is None else str(out)})
    elif out is None:
        from evodevo.multitask.diagrams.system.outline import model_outline, outline

        output.line(outline(frame, task) if chosen is None else model_outline(frame, chosen))
    else:
        output.line(str(out.absolute()))


def _check(picture: SystemFrames, frame: SystemFrame, task: str | None) -> None:
    from evodevo.errors import NotFoundError, UsageError, unknown_name

    if task is None:
        return
    answered = [route.task for route in frame.routes if not route.root]
    if task in picture.tasks and task not in answered:
        raise NotFoundError(f"nobody offers a path for task {task!r} at publication {frame.seq}.")
    if task not in answered:
        try:
            raise unknown_name("task", task, answered)
        except UsageError as error:
            raise NotFoundError(f"system {frame.system!r}: {error}") from None


def _drawn(frame: SystemFrame, task: str | None, chosen: Joined | None) -> str:
    from evodevo.multitask.diagrams.multipath_model import multipath_model
    from evodevo.multitask.diagrams.system.graph import system_graph

    subtitle = f"publication {frame.seq}" + (f", {frame.label}" if frame.label else "")
    if chosen is not None:
        return multipath_model(frame, chosen, title=f"{frame.system}: {chosen.path}", subtitle=subtitle)
    return system_graph(frame, task=task or "", title=frame.system, subtitle=subtitle)


def _record(frame: SystemFrame, task: str | None) -> dict[str, Any]:
    from dataclasses import asdict

    routes = [route for route in frame.routes if task in (None, route.task)]
    models = [model for model in frame.joined if task in (None, model.task)]
    return {
        "system": frame.system,
        "publication": frame.seq,
        "label": frame.label,
        "tasks": list(frame.tasks),
        "parameters": frame.parameters,
        "paths": [asdict(route) for route in routes],
        "multipath": [asdict(model) for model in models],
        "components": [asdict(part) for part in frame.parts.values()],
        "withdrawn": list(frame.withdrawn),
    }
