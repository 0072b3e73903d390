"""A multitask system as a graph (µ4Net, 2302.02721, Fig. 2): tasks at the bottom, one box for each component in the
colour of the task that it was last trained on, one coloured line for each task's path, heads with their validation
accuracy, and multipath models on top.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from evodevo.multitask.diagrams.system.frame import Joined, PartMark, SystemFrame, mark_of, percent
from evodevo.multitask.diagrams.system.layout import (
    NODE_HEIGHT,
    FrameLayout,
    Line,
    Measures,
    Point,
    columns_of,
    lines_of,
    plan,
    role_rows,
    row_words,
)
from evodevo.report.charts.captions import LINE, MARGIN, draw_headline, headline_height, wrapped
from evodevo.report.charts.numbers import show
from evodevo.report.palette import TASK_COLOURS, task_role
from evodevo.report.svg import Drawing, empty, number, one_line, polyline, text_width
from evodevo.report.wrapping import least_width, wrap

_DASHES = ("", "7 3", "2 2", "10 3 2 3")
_BOLD_AT_MOST = 2
"""Largest number of multipath models whose paths are all drawn strong; of more, only the joints."""
_NAME_SPACE, _ROLE_SPACE = 106.0, 110.0
"""Usual largest length of a turned name, and usual width of the words on a row, in pixels; long ones take more."""
_UPPER = 50.0
_NAME_LINE, _TURNED_LINE, _ROLE_LINE = 12.0, 12.0, 11.5


def system_graph(
    frame: SystemFrame, *, within: Sequence[SystemFrame] = (), task: str = "", title: str = "", subtitle: str = ""
) -> str:
    """The graph of a system at one moment.

    Args:
        frame: state of the system that is drawn.
        within: frames with which it shares its columns and rows, so that they can be leafed through.
        task: only its path and its multipath model are drawn strong; empty draws all alike.
        title, subtitle: text above the graph.
    """
    if not frame.routes:
        return empty("The system offers no path yet.")
    frames = [*within] if any(other is frame for other in within) else [frame, *within]
    names = columns_of(frames)
    pitch = min(max(1120 / len(names), 30.0), 92.0)
    rows = role_rows([other.parts[part].role for part in line.parts] for other in frames for line in lines_of(other))
    gap = 16.0 if len(rows) > 14 else 30.0 if len(names) <= 12 else 36.0 if len(names) <= 40 else 46.0
    upper = _UPPER * 2 if any(other.joined for other in frames) else 0.0
    # As wide as it needs to be for all words of a row to fit between it and the next.
    words = row_words(rows).values()
    left = MARGIN + 14 + least_width(list(words), int((NODE_HEIGHT + gap) / _ROLE_LINE), 10.5, _ROLE_SPACE)
    head = headline_height(title, subtitle, left + pitch * len(names))
    sizes = Measures(pitch, gap, left, head + 18 + upper)
    layout = plan(frame, frames, sizes)
    return _Graph(frame, layout, sizes, task, head + 14).draw(title, subtitle)


class _Graph:
    """One drawing; ``y`` is the height of its uppermost row's upper edge."""

    def __init__(self, frame: SystemFrame, layout: FrameLayout, sizes: Measures, task: str, y: float) -> None:
        self.frame, self.plan, self.sizes, self.task = frame, layout, sizes, task
        self.level = {"router": y + NODE_HEIGHT / 2, "connectors": y + NODE_HEIGHT / 2 + _UPPER}
        self.bold = {model.path for model in frame.joined if model.task == task} if task else set()
        if not task and len(frame.joined) <= _BOLD_AT_MOST:
            self.bold = {model.path for model in frame.joined}
        self.flat = sizes.pitch >= 72
        self.thick = 4.2 if len(layout.lines) <= 12 else 2.2 if len(layout.lines) <= 40 else 1.6
        self.heads = {route.parts[-1]: route for route in frame.routes if route.parts and not route.root}

    def draw(self, title: str, subtitle: str) -> str:
        frame, layout = self.frame, self.plan
        names = {name: self._name(name) for name in layout.columns}
        self.feet = self._name_lines(names)
        room = 14 + max(text_width(line, 10.5) for lines in self.feet.values() for line in lines)
        if self.flat:
            room = 22.0 + _NAME_LINE * max(map(len, self.feet.values()))
        width = max(layout.width + MARGIN, 480)
        facts = wrapped(self._facts(), width - 2 * MARGIN, 10.5)
        height = layout.foot + room + LINE * len(facts) + 14
        answered = [route for route in frame.routes if not route.root]
        summary = ", ".join(f"{route.task} {percent(route.accuracy)} %" for route in answered[:40])
        words = f"{title or frame.system}: {len(answered)} tasks, {len(frame.parts)} components"
        self.drawing = Drawing(width, height, f"{words}. Validation accuracy: {summary}")
        draw_headline(self.drawing, title, subtitle, self.sizes.left + self.sizes.pitch * len(names))
        self._rows()
        for line in layout.lines:
            self._line(line)
        for model in frame.joined:
            self._streams(model)
        for part in layout.nodes:
            self._node(frame.parts[part])
        for model in frame.joined:
            self._ends(model)
        for name, x in layout.columns.items():
            self._foot(name, names[name], x)
        for place, text in enumerate(facts):
            self.drawing.text(MARGIN, layout.foot + room + 4 + LINE * (place + 0.5), text, "fill-muted", 10.5)
        return self.drawing.svg()

    # Parts of it

    def _rows(self) -> None:
        rows = {**self.plan.rows, **(self.level if self.frame.joined else {})}
        for words, y in rows.items():
            left = self.sizes.left
            self.drawing.line(left, y, self.drawing.width - MARGIN, y, "stroke-faint")
            lines = wrap(words, left - MARGIN - 14, 10.5)
            first = y + 4 - _ROLE_LINE * (len(lines) - 1) / 2
            look = "fill-muted"
            self.drawing.lines(left - 10, first, lines, look, 10.5, "end", title=words, step=_ROLE_LINE)

    def _line(self, line: Line) -> None:
        route, look = line.route, self._look(line.column)
        if route is None:
            words = f"{line.key}\nno longer offered; a multipath model runs through it"
        else:
            score = "" if route.accuracy is None else f"\nvalidation {percent(route.accuracy)} %"
            score += "" if route.test is None else f", test {percent(route.test)} %"
            words = f"{self._name(line.column)}\n{route.path}{score}"
        if self.task and line.column != self.task:
            look["stroke_opacity"] = "0.25"
        with self.drawing.group("route", words, data_task=one_line(line.column)):
            self.drawing.path(
                curve(self.plan.stops[line.key]),
                f"hollow stroke-{self._role(line.column)}",
                "",
                stroke_linejoin="round",
                **look,
            )

    def _look(self, column: str) -> dict[str, str | float]:
        place = self.frame.number(column) - 1
        if place < 0:
            return {"stroke_width": 1.2}
        dash = _DASHES[place // TASK_COLOURS % len(_DASHES)]
        return {"stroke_width": self.thick, **({"stroke_dasharray": dash} if dash else {})}

    def _streams(self, model: Joined) -> None:
        """The paths of a multipath model as lines of ink, and from their ends to connectors and router."""
        bold, faded = model.path in self.bold, bool(self.task) and model.task != self.task
        look: dict[str, str | float] = {
            "stroke_width": 1.7 if bold else 1.0,
            "stroke_opacity": "0.2" if faded else "0.95" if bold else "0.6",
        }
        end = (self.plan.ends[model.path], self.level["router"] + NODE_HEIGHT / 2)
        for place, stream in enumerate(model.streams):
            stops = self.plan.stops[stream.path]
            head = self.sizes.top + NODE_HEIGHT
            whole = place == 0 or stream.root
            inside = stops if whole else tuple(point for point in stops if point[1] > head + 1) or stops[:1]
            weight = "" if stream.weight is None else f"\nmean weight {stream.weight:.3f}"
            words = f"{'main path' if place == 0 else 'support'} of {model.path}\n{stream.path}{weight}"
            with self.drawing.group("stream", words, data_model=one_line(model.path)):
                points = list(inside if bold else inside[-1:])
                last = self.plan.nodes[stream.parts[-1]]
                if len(stops) > len(inside):  # past its own head, not behind it
                    x = last.x + last.width / 2 + 4
                    points += [(x, head), (x, head - NODE_HEIGHT)]
                if stream.connector in self.plan.ends:
                    x, y = self.plan.ends[stream.connector or ""], self.level["connectors"]
                    points += [(x, y + NODE_HEIGHT / 2), (x, y - NODE_HEIGHT / 2)]
                self.drawing.path(curve([*points, end]), "hollow stroke-ink", "", **look)

    def _node(self, part: PartMark) -> None:
        node = self.plan.nodes[part.id]
        head = self.heads.get(part.id)
        label = mark_of(self.frame, part) if head is None else percent(head.accuracy)
        users = [self._name(line.column) for line in self.plan.lines if line.key in node.lanes and line.route]
        self._box(part, node.x, node.y, node.width, label, square=head is not None, users=users)

    def _ends(self, model: Joined) -> None:
        """The boxes of a multipath model: connectors with their mean weights, the router with the model's accuracy."""
        for place, stream in enumerate(model.streams):
            if stream.connector in self.plan.ends:
                label = f"c{place}" if stream.weight is None else f"{stream.weight:.2f}"
                part = self.frame.parts[stream.connector or ""]
                self._box(
                    part, self.plan.ends[part.id], self.level["connectors"], self.sizes.box, label, users=(model.task,)
                )
        role, x, y = self._role(model.task), self.plan.ends[model.path], self.level["router"]
        test = "" if model.test is None else f", test {percent(model.test)} %"
        kind = "router" if model.router else "sum, no router"
        words = f"{model.path}\nmultipath model of {model.task}: validation {percent(model.accuracy)} %{test}\n{kind}"
        with self.drawing.group("node multipath", words, data_model=one_line(model.path)):
            self._shape(x, y, self.sizes.box, f"fill-{role} stroke-ink", True)
            self._label(x, y, percent(model.accuracy), self.sizes.box)

    def _box(
        self,
        part: PartMark,
        x: float,
        y: float,
        width: float,
        label: str,
        *,
        square: bool = False,
        users: Sequence[str],
    ) -> None:
        role = "memoryless" if part.root else task_role(self.frame.number(part.task) - 1)
        passed = ", ".join(users[:12]) + (f" and {len(users) - 12} more" if len(users) > 12 else "")
        words = f"{part.role}  {part.id}\n{show(part.parameters, 'parameters')} parameters\n"
        words += f"trained last for {part.task if part.root else self._name(part.task)}\n"
        words += f"passed by {passed or 'multipath models only'}"
        with self.drawing.group("node", words, data_part=one_line(part.id)):
            self._shape(x, y, width, f"fill-{role} stroke-{role}", square)
            self._label(x, y, label, width)

    def _shape(self, x: float, y: float, width: float, classes: str, square: bool) -> None:
        place = (x - width / 2, y - NODE_HEIGHT / 2, width, NODE_HEIGHT)
        radius = 2.0 if square else NODE_HEIGHT / 2
        self.drawing.rect(*place, "fill-paper", rx=radius)
        self.drawing.rect(*place, classes, rx=radius, fill_opacity="0.22", stroke_width=1.8)

    def _label(self, x: float, y: float, text: str, width: float) -> None:
        size = 9.0 if width >= 30 else 8.0
        if text_width(text, size) <= width:
            self.drawing.text(x, y + 3.3, text, "fill-ink strong", size, "middle")

    def _foot(self, name: str, words: str, x: float) -> None:
        role, y = self._role(name), self.plan.foot
        with self.drawing.group("foot", words, data_task=one_line(name)):
            self.drawing.element("circle", f"fill-{role}", cx=x, cy=y, r=4)
            lines = self.feet[name]
            if self.flat:
                self.drawing.text(x, y + 17, words.partition(" ")[0], f"fill-{role} strong", 11, "middle")
                self.drawing.lines(x, y + 30, lines, "fill-ink", 10.5, "middle", step=_NAME_LINE)
            else:
                at = x + 3.5 - _TURNED_LINE * (len(lines) - 1) / 2
                self.drawing.lines(at, y + 9, lines, "fill-ink", 10.5, "end", turned=True, step=_TURNED_LINE)

    def _name_lines(self, names: Mapping[str, str]) -> dict[str, list[str]]:
        """Lines of each task's name below its number; or, where columns are narrow, of both turned, in as many lines
        as a column has room for.

        Args:
            names: task -> its number and name.
        """
        if self.flat:
            width = self.sizes.pitch - 4
            return {name: wrap(words.partition(" ")[2], width, 10.5) for name, words in names.items()}
        every = list(names.values())
        usual = all(text_width(words, 10.5) <= _NAME_SPACE for words in every)
        lines = 1 if usual else int((self.sizes.pitch - 4) / _TURNED_LINE)
        width = least_width(every, lines, 10.5, _NAME_SPACE)
        return {name: wrap(words, width, 10.5) for name, words in names.items()}

    def _facts(self) -> list[str]:
        frame = self.frame
        facts = [
            f"{len(frame.parts)} components, {show(frame.parameters, 'parameters')} distinct parameters",
            "number and colour of a box: the task that it was last trained on",
            "grey R: from a root",
            "coloured line: the path of one task",
            "square box: a head, with its validation accuracy in %",
        ]
        if frame.joined:
            facts.append("lines without a colour: multipath models, from their paths through connectors to the router")
        if frame.heads:
            facts.append(f"not drawn: heads of joint roots that no path uses, {frame.heads}")
        if frame.withdrawn:
            more = f" and {len(frame.withdrawn) - 20} more" if len(frame.withdrawn) > 20 else ""
            facts.append("withdrawn: " + ", ".join(frame.withdrawn[:20]) + more)
        return facts

    def _role(self, column: str) -> str:
        place = self.frame.number(column)
        return task_role(place - 1) if place else "memoryless"

    def _name(self, column: str) -> str:
        place = self.frame.number(column)
        return f"{place} {column}" if place else "R " + column.rpartition("~")[2]


def curve(points: Sequence[Point]) -> str:
    """A line upwards through points, in bows where it changes its lane."""
    data = polyline([*points[:1]])
    for (x, y), (to_x, to_y) in pairwise(points):
        if abs(x - to_x) < 0.05:
            data += f"L{number(to_x)},{number(to_y)}"
        else:
            middle = number((y + to_y) / 2)
            data += f"C{number(x)},{middle} {number(to_x)},{middle} {number(to_x)},{number(to_y)}"
    return data
