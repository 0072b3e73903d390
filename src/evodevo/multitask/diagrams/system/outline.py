"""A system in text: one line for a task, one letter or number for the agent that trained each component last."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from evodevo.multitask.diagrams.system.frame import Joined, OfferedPath, SystemFrame, mark_of, percent
from evodevo.report.charts.numbers import show
from evodevo.report.svg import whole


def outline(frame: SystemFrame, task: str | None = None) -> str:
    """Lines for a terminal: what the drawing shows, without a drawing; of one task where one is named."""
    offers = [route for route in frame.routes if not route.root]
    counts = f"{len(offers)} tasks answered, {len(frame.joined)} multipath models, {len(frame.parts)} components"
    lines = [
        f"{frame.system} at publication {frame.seq}" + (f" ({frame.label})" if frame.label else ""),
        f"{counts}, {show(frame.parameters, 'parameters')} parameters",
    ]
    for route in sorted(frame.routes, key=lambda item: (not item.root, frame.number(item.task))):
        if task in (None, route.task):
            lines += ["", *_route(frame, route)]
    for model in frame.joined:
        if task in (None, model.task):
            lines += ["", *model_outline(frame, model).splitlines()]
    if frame.withdrawn:
        lines += ["", "withdrawn: " + ", ".join(frame.withdrawn)]
    if offers:
        lines += ["", "components=N were trained last for task N; =R: for a root."]
    return "\n".join(_clean(line) for line in lines)


def model_outline(frame: SystemFrame, model: Joined) -> str:
    """One multipath model."""
    mark = "no router" if model.router is None else f"router={mark_of(frame, frame.parts[model.router])}"
    lines = [f"{frame.number(model.task)} {model.task}, multipath: {model.path}, {_score(model)}, {mark}"]
    for place, stream in enumerate(model.streams):
        weight = "" if stream.weight is None else f", mean weight {stream.weight:.3f}"
        kept = "" if stream.offered else ", no longer offered"
        lines.append(f"    {'support' if place else 'main'} {stream.path}{weight}{kept}")
    return "\n".join(_clean(line) for line in lines)


def parts_in_words(frame: SystemFrame, parts: Sequence[str]) -> str:
    """``embedding cls=R, encoderblock_0 head=2``: neighbours of one maker share a mark."""
    marks = [(frame.parts[part].role, mark_of(frame, frame.parts[part])) for part in parts if part in frame.parts]
    words = []
    for mark, group in groupby(marks, key=lambda pair: pair[1]):
        words.append(f"{' '.join(role for role, _ in group)}={mark}")
    return ", ".join(words)


def _route(frame: SystemFrame, route: OfferedPath) -> list[str]:
    mark = "R" if route.root else str(frame.number(route.task))
    score = "root" if route.root and route.accuracy is None else _score(route)
    return [f"{mark} {route.task}: {route.path}, {score}", f"    {parts_in_words(frame, route.parts)}"]


def _score(path: OfferedPath | Joined) -> str:
    test = "" if path.test is None else f", test {percent(path.test)} %"
    return f"validation {percent(path.accuracy)} %{test}"


def _clean(line: str) -> str:
    indent = len(line) - len(line.lstrip(" "))
    return " " * indent + whole(line)
