"""A system in text: one line for a task, one letter or number for who trained each component last."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from evodevo.diagrams.base import one_line
from evodevo.diagrams.numbers import show
from evodevo.diagrams.system_frame import Joined, Route, SystemFrame, mark_of, percent


def outline(frame: SystemFrame) -> str:
    """Lines for a terminal; what the drawing shows, without a drawing."""
    offers = [one for one in frame.routes if not one.root]
    counts = f"{len(offers)} tasks answered, {len(frame.joined)} multipath models, {len(frame.parts)} components"
    lines = [
        f"{frame.system} at publication {frame.seq}" + (f" ({frame.label})" if frame.label else ""),
        f"{counts}, {show(frame.parameters, 'parameters')} parameters",
        "",
    ]
    lines += [
        _route(frame, one) for one in sorted(frame.routes, key=lambda one: (not one.root, frame.number(one.task)))
    ]
    if frame.joined:
        lines += ["", *(_joined(frame, one) for one in frame.joined)]
    if frame.withdrawn:
        lines += ["", "withdrawn: " + ", ".join(frame.withdrawn)]
    if offers:
        lines += ["", "role=N: trained last for task N; R: for a root. A component that several tasks name is shared."]
    return "\n".join(one_line(line, 4000) if line else "" for line in lines)


def parts_in_words(frame: SystemFrame, parts: Sequence[str]) -> str:
    """``embedding cls=R encoderblock_0 head=2``: neighbours of one maker share a mark."""
    marks = [(frame.parts[one].role, mark_of(frame, frame.parts[one])) for one in parts if one in frame.parts]
    found = []
    for mark, group in groupby(marks, key=lambda pair: pair[1]):
        found.append(f"{' '.join(role for role, _ in group)}={mark}")
    return ", ".join(found)


def _route(frame: SystemFrame, one: Route) -> str:
    mark = "R" if one.root else str(frame.number(one.task))
    score = "root" if one.root and one.accuracy is None else f"validation {percent(one.accuracy)} %"
    if one.test is not None:
        score += f", test {percent(one.test)} %"
    return f"{mark:>3}  {one.task}  {one.path}  {score}  {parts_in_words(frame, one.parts)}"


def _joined(frame: SystemFrame, one: Joined) -> str:
    def weight(value: float | None) -> str:
        return "" if value is None else f" {value:.2f}"

    main, *supports = one.streams
    words = ", ".join(f"{support.path}{weight(support.weight)}" for support in supports) or "no support"
    score = f"validation {percent(one.accuracy)} %" + (f", test {percent(one.test)} %" if one.test is not None else "")
    router = "no router" if one.router is None else f"router={mark_of(frame, frame.parts[one.router])}"
    return f"  +  {one.task}  {one.path}  {score}  main {main.path}{weight(main.weight)}, with {words}, {router}"
