"""A learned number for each channel as a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, Self

from evodevo.module_zoo.modules.nodes.base import NodeSpec
from evodevo.module_zoo.modules.nodes.inheritance import Map, Match
from evodevo.operators.cost import Work
from evodevo.report.charts.numbers import show

if TYPE_CHECKING:
    from evodevo.operators.base import Operator
    from evodevo.operators.source.sheet import SourceSheet


class GateNode(NodeSpec):
    """Each channel times a learned number that starts at ``start``: 0 makes the output of what was inserted 0.

    w parameters, L w FLOPs.
    """

    type: Literal["gate"] = "gate"
    start: float = 0.0

    opaque: ClassVar[bool] = False
    computes: ClassVar[bool] = False

    def parameters(self, width: int) -> int:
        """See ``NodeSpec``."""
        return width

    def work(self, width: int, length: int) -> Work:
        """See ``NodeSpec``."""
        return Work(0, length * width)

    @property
    def position_wise(self) -> bool:
        """True."""
        return True

    def build(self, width: int) -> Operator:
        """See ``NodeSpec``."""
        from evodevo.module_zoo.modules.nodes.channels_model import GateModule

        return GateModule(width, self.start)

    def source(self, sheet: SourceSheet, width: int) -> str:
        """See ``NodeSpec``."""
        from evodevo.module_zoo.source.nodes import GATE

        return f"{sheet.add(GATE)}({width})"

    def tensor_matches(self, parent: Self, read: Map, widths: tuple[int, int]) -> dict[str, Match]:
        """See ``NodeSpec``."""
        return {"weight": Match("weight", (read,), (False,))}

    @property
    def detail(self) -> str:
        """See ``NodeSpec``."""
        return f"from {show(self.start)}"
