"""The positions of the parts of a routing diagram, and the parts that are left out of it."""

from __future__ import annotations

from dataclasses import dataclass

from evodevo.errors import UsageError
from evodevo.h_model.diagrams.flow import DrawnConnections, RoutingGraph
from evodevo.report.svg import one_line, shorten, text_width

_HIDDEN_AT_MOST, _ITERATIONS_AT_MOST = 40, 32


@dataclass(frozen=True)
class Limits:
    """The limits beyond which connections are left out of a drawing; a note below it counts them.

    Attributes:
        threshold: least weight of a drawn connection, 0 to 1.
        strongest: largest number of drawn connections.
    """

    threshold: float = 0.05
    strongest: int = 240

    @classmethod
    def none(cls) -> Limits:
        """Limits that leave nothing out."""
        return cls(0.0, 2**31)

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1 or self.strongest < 1:
            raise UsageError(
                f"a drawing leaves out connections below a threshold in [0, 1] and beyond at least 1; got "
                f"{self.threshold} and {self.strongest}"
            )


@dataclass(frozen=True)
class Sheet:
    """The positions of the parts.

    Attributes:
        rows: row of the flow -> its vertical position; layers that are left out are missing.
        left: position of column 0; ``pitch`` between columns; ``columns`` drawn, of which the last holds outputs only.
        layers: hidden layers that have a row.
        radius: radius of a node.
        top, bottom: vertical limits of the nodes.
    """

    rows: dict[int, float]
    left: float
    pitch: float
    columns: int
    layers: tuple[int, ...]
    radius: float
    top: float
    bottom: float

    def x(self, column: float) -> float:
        """The horizontal place of a column; halves lie between two."""
        return self.left + column * self.pitch


def sheet_for(flow: RoutingGraph, compact: bool, titled: bool, captioned: bool) -> Sheet:
    """The places of all rows and columns; the busiest layers and the first iterations where there are too many."""
    inputs, hidden, outputs = len(flow.inputs), len(flow.hidden), len(flow.outputs)
    busy = sorted(range(hidden), key=lambda layer: (-_traffic(flow, layer), layer))
    kept = sorted(busy[:_HIDDEN_AT_MOST])
    count = inputs + len(kept) + outputs
    pitch = (22.0 if compact else 30.0) if count <= 14 else 24.0 if count <= 24 and not compact else 18.0
    top = 34.0 + 18 * titled + 17 * captioned
    y = top + pitch * 0.5
    places: dict[int, float] = {}
    for group in (range(inputs), [inputs + layer for layer in kept], range(inputs + hidden, inputs + hidden + outputs)):
        for row in group:
            places[row] = y
            y += pitch
        y += pitch * 0.35
    columns = min(flow.iterations, _ITERATIONS_AT_MOST) + 2
    names = [*flow.inputs, *flow.hidden, *flow.outputs]
    labels = max(text_width(row_name(names[row]), 11) for row in places)
    across = 330.0 if compact else 780.0
    spread = min(70.0 if compact else 130.0, max(40.0 if compact else 52.0, across / max(columns - 1, 1)))
    return Sheet(places, 12 + labels + 22, spread, columns, tuple(kept), min(pitch * 0.24, 6.5), top, y - pitch * 0.85)


def _traffic(flow: RoutingGraph, layer: int) -> float:
    """Sum of the absolute weights into and out of a layer."""
    incoming = abs(flow.first[:, layer]).sum() + abs(flow.connections[:, :, layer]).sum()
    return float(incoming + abs(flow.connections[:, layer]).sum())


def row_name(name: str) -> str:
    """A node's name as it fits beside its row."""
    return shorten(one_line(name, 80), 150, 11)


def left_out(flow: RoutingGraph, sheet: Sheet, limits: Limits, routes: DrawnConnections) -> list[str]:
    """Sentences on the samples of the drawing and on the parts that it leaves out."""
    words = ["One sample." if flow.samples == 1 else f"{flow.samples:,} samples."]
    drawn, every = len(routes.drawn), routes.every
    if drawn < routes.strong:
        words.append(f"The strongest {drawn:,} of {every:,} connections.")
    elif not drawn:
        words.append(f"None of {every:,} connections reaches {limits.threshold:g}.")
    elif routes.strong < every:
        words.append(f"{drawn:,} of {every:,} connections; those below {limits.threshold:g} are left out.")
    if routes.strong < every or drawn < routes.strong:
        words.append("evodevo trace --all -o FILE.svg draws every connection.")
    hidden = len(sheet.layers)
    if hidden < len(flow.hidden):
        words.append(f"The busiest {hidden} of {len(flow.hidden):,} layers.")
    if sheet.columns < flow.iterations + 2:
        words.append(f"The first {sheet.columns - 2} of {flow.iterations} iterations.")
    return words
