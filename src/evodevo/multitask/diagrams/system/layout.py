"""The layout of a system's graph: a column for each task, a row for each place in a path.

A component is in the row of its role, as near as it may to the columns of the tasks that pass it; one that many
pass is as wide as their lines together, so that every line keeps its lane.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from evodevo.multitask.diagrams.system.frame import OfferedPath, SystemFrame

NODE_HEIGHT = 18.0
_LANE, _WIDEST, _GAP, _PASS = 5.0, 150.0, 8.0, 6.0
Point = tuple[float, float]


@dataclass(frozen=True)
class Line:
    """A path as a line through the rows.

    Attributes:
        key: key of the path.
        column: column of the task, or the root, at whose foot it begins.
        parts: components that it passes.
        route: the offered path; None where only a multipath model still runs through it.
    """

    key: str
    column: str
    parts: tuple[str, ...]
    route: OfferedPath | None


@dataclass(frozen=True)
class ComponentBox:
    """The box of a component: its middle, its width, and the lane of each line that passes it."""

    x: float
    y: float
    width: float
    lanes: Mapping[str, float]


@dataclass(frozen=True)
class FrameLayout:
    """The geometry of one frame.

    Attributes:
        lines: lines of the paths, roots' too.
        columns: task or root -> its middle.
        nodes: component of a path -> box.
        stops: line -> points from bottom to top: where it enters and leaves each row.
        ends: multipath path -> middle of its router; component of a connector -> middle.
        rows: text of a row -> its vertical position.
        width: width of the whole graph.
        foot: height where the columns begin.
    """

    lines: tuple[Line, ...]
    columns: Mapping[str, float]
    nodes: Mapping[str, ComponentBox]
    stops: Mapping[str, tuple[Point, ...]]
    ends: Mapping[str, float]
    rows: Mapping[str, float]
    width: float
    foot: float


@dataclass(frozen=True)
class Measures:
    """Sizes that a drawing chooses: distance of columns, free height between rows, left and upper edge, least width
    of a box."""

    pitch: float
    row_gap: float
    left: float
    top: float

    @property
    def box(self) -> float:
        return min(max(self.pitch - _GAP, 22.0), 44.0)

    def level(self, row: int, last: int) -> float:
        """Height of the middle of a row, counted from the bottom."""
        return self.top + NODE_HEIGHT / 2 + (last - row) * (NODE_HEIGHT + self.row_gap)


def lines_of(frame: SystemFrame) -> tuple[Line, ...]:
    """Paths that are offered, and older ones that multipath models keep, by column."""
    lines = {
        route.path: Line(route.path, route.agent if route.root else route.task, route.parts, route)
        for route in frame.routes
    }
    for model in frame.joined:
        for stream in model.streams:
            if stream.path not in lines:
                lines[stream.path] = Line(stream.path, stream.agent if stream.root else stream.task, stream.parts, None)
    order = {name: place for place, name in enumerate(columns_of([frame]))}
    return tuple(sorted((line for line in lines.values() if line.column in order), key=lambda line: order[line.column]))


def columns_of(frames: Sequence[SystemFrame]) -> tuple[str, ...]:
    """Roots by agent, then the tasks that any of the frames shows, in the order of the system."""
    shown = [route for frame in frames for route in frame.routes]
    inside = [stream for frame in frames for model in frame.joined for stream in model.streams]
    roots = dict.fromkeys(
        [*(route.agent for route in shown if route.root), *(route.agent for route in inside if route.root)]
    )
    seen = {route.task for route in shown} | {route.task for route in inside}
    seen |= {model.task for frame in frames for model in frame.joined}
    return (*roots, *dict.fromkeys(task for frame in frames for task in frame.tasks if task in seen))


def role_rows(paths: Iterable[Sequence[str]]) -> dict[str, int]:
    """Role -> row from the bottom: above every role that some path passes before it; where paths end is the top row.

    Roles that two paths have in different orders are ordered as in the first.
    """
    above: dict[str, set[str]] = {}
    for path in paths:
        once = list(dict.fromkeys(path))
        for role in once:
            above.setdefault(role, set())
        for low, high in pairwise(once):
            if high not in above[low] and not _reaches(above, high, low):
                above[low].add(high)
    below = {role: sum(role in lower for lower in above.values()) for role in above}
    rows, free = dict.fromkeys(above, 0), [role for role, count in below.items() if not count]
    while free:
        low = free.pop(0)
        for high in above[low]:
            rows[high] = max(rows[high], rows[low] + 1)
            below[high] -= 1
            if not below[high]:
                free.append(high)
    top = max(rows.values(), default=0)
    return {role: row if above[role] else top for role, row in rows.items()}


def row_words(rows: Mapping[str, int]) -> dict[int, str]:
    """Row -> its roles, with commas between; from the bottom upwards."""
    words: dict[int, list[str]] = defaultdict(list)
    for role, row in rows.items():
        words[row].append(role)
    return {row: ", ".join(names) for row, names in sorted(words.items())}


def spread(wanted: Sequence[float], widths: Sequence[float], gap: float = _GAP) -> list[float]:
    """Middles of boxes in this order, at least ``gap`` apart, with the least squares of distances from those wanted."""
    offsets, total = [], 0.0
    for place, width in enumerate(widths):
        total += (widths[place - 1] + width) / 2 + gap if place else 0.0
        offsets.append(total)
    blocks: list[tuple[float, int]] = []  # sum and count of neighbours that touch
    for goal, offset in zip(wanted, offsets, strict=True):
        blocks.append((goal - offset, 1))
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] > blocks[-1][0] / blocks[-1][1]:
            (low, few), (high, more) = blocks[-2:]
            blocks[-2:] = [(low + high, few + more)]
    level = [block / count for block, count in blocks for _ in range(count)]
    return [place + offset for place, offset in zip(level, offsets, strict=True)]


def plan(frame: SystemFrame, within: Sequence[SystemFrame], sizes: Measures) -> FrameLayout:
    """The geometry of a frame.

    Args:
        frame: the frame that is drawn.
        within: frames whose columns and rows it shares, itself among them.
        sizes: sizes of the drawing.
    """
    lines = lines_of(frame)
    columns = {name: sizes.pitch * (place + 0.5) for place, name in enumerate(columns_of(within))}
    rows = role_rows(
        [frame_within.parts[part].role for part in line.parts]
        for frame_within in within
        for line in lines_of(frame_within)
    )
    last = max(rows.values(), default=0)
    row_of = {part: rows[frame.parts[part].role] for line in lines for part in line.parts}
    nodes, passing = _nodes(lines, row_of, columns, sizes, last)
    ends = _ends(frame, columns, sizes.box)
    foot = sizes.level(0, last) + NODE_HEIGHT / 2 + sizes.row_gap
    edges = [x + side * node.width / 2 for node in nodes.values() for x in (node.x,) for side in (-1, 1)]
    edges += [x + side * sizes.pitch / 2 for x in columns.values() for side in (-1, 1)]
    edges += [x + side * sizes.box / 2 for x in ends.values() for side in (-1, 1)]
    shift = sizes.left - min(edges, default=0.0)
    stops = {}
    for line in lines:
        points = [(columns[line.column] + shift, foot)]
        for row, x in sorted(
            [*((row_of[part], nodes[part].lanes[line.key]) for part in line.parts), *passing[line.key]]
        ):
            y = sizes.level(row, last)
            points += [(x + shift, y + NODE_HEIGHT / 2), (x + shift, y - NODE_HEIGHT / 2)]
        stops[line.key] = tuple(points)
    return FrameLayout(
        lines,
        {name: x + shift for name, x in columns.items()},
        {name: _moved(box, shift) for name, box in nodes.items()},
        stops,
        {name: x + shift for name, x in ends.items()},
        {words: sizes.level(row, last) for row, words in row_words(rows).items()},
        max(edges, default=sizes.pitch) + shift,
        foot,
    )


def _nodes(
    lines: Sequence[Line], row_of: Mapping[str, int], columns: Mapping[str, float], sizes: Measures, last: int
) -> tuple[dict[str, ComponentBox], dict[str, list[tuple[int, float]]]]:
    """Boxes of components, and of each line the (row, place) where it passes a row without one."""
    users: dict[str, list[Line]] = defaultdict(list)
    rows: dict[int, list[tuple[float, float, str, str]]] = defaultdict(list)  # wanted, width, component, line
    for line in lines:
        for part in line.parts:
            users[part].append(line)
        for low, high in pairwise(row_of[part] for part in line.parts):
            for row in range(low + 1, high):
                rows[row].append((columns[line.column], _PASS, "", line.key))
    for part, crossing in users.items():
        wanted = sum(columns[item.column] for item in crossing) / len(crossing)
        width = max(sizes.box, min(_LANE * len(crossing) + 8, _WIDEST))
        rows[row_of[part]].append((wanted, width, part, ""))
    nodes: dict[str, ComponentBox] = {}
    passing: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for row, items in rows.items():
        items.sort(key=lambda item: item[0])
        for (_, width, part, key), x in zip(items, spread([i[0] for i in items], [i[1] for i in items]), strict=True):
            if part:
                lane = min(_LANE, (width - 8) / len(users[part]))
                middle = (len(users[part]) - 1) / 2
                lanes = {line.key: x + (place - middle) * lane for place, line in enumerate(users[part])}
                nodes[part] = ComponentBox(x, sizes.level(row, last), width, lanes)
            else:
                passing[key].append((row, x))
    return nodes, passing


def _moved(node: ComponentBox, shift: float) -> ComponentBox:
    return ComponentBox(node.x + shift, node.y, node.width, {line: x + shift for line, x in node.lanes.items()})


def _ends(frame: SystemFrame, columns: Mapping[str, float], box: float) -> dict[str, float]:
    """Routers in one row and connectors in another, near the columns of their tasks."""
    models = sorted((model for model in frame.joined if model.task in columns), key=lambda model: columns[model.task])
    routers = [(model.path, columns[model.task]) for model in models]
    connectors = []
    for model in models:
        names = [stream.connector for stream in model.streams if stream.connector is not None]
        connectors += [(name, columns[model.task] + (place + 1) * (box + _GAP)) for place, name in enumerate(names)]
    ends = {}
    for row in (routers, connectors):
        places = spread([x for _, x in row], [box] * len(row))
        ends.update({name: x for (name, _), x in zip(row, places, strict=True)})
    return ends


def _reaches(above: Mapping[str, set[str]], start: str, goal: str) -> bool:
    waiting, seen = [start], set[str]()
    while waiting:
        part = waiting.pop()
        if part == goal:
            return True
        if part not in seen:
            seen.add(part)
            waiting += above.get(part, ())
    return False
