"""Layer norm as a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, Self

from evodevo.module_zoo.modules.nodes.base import NodeSpec
from evodevo.module_zoo.modules.nodes.inheritance import Map, Match
from evodevo.operators.cost import Work

if TYPE_CHECKING:
    from evodevo.operators.base import Operator
    from evodevo.operators.source.sheet import SourceSheet


class NormNode(NodeSpec):
    """Layer norm over channels: 2 w parameters; its FLOPs are left out, as everywhere."""

    type: Literal["norm"] = "norm"

    opaque: ClassVar[bool] = False
    computes: ClassVar[bool] = False

    def parameters(self, width: int) -> int:
        """See ``NodeSpec``."""
        return 2 * width

    def work(self, width: int, length: int) -> Work:
        """See ``NodeSpec``."""
        return Work()

    @property
    def position_wise(self) -> bool:
        """True."""
        return True

    def build(self, width: int) -> Operator:
        """See ``NodeSpec``."""
        from evodevo.module_zoo.modules.nodes.channels_model import Norm

        return Norm(width)

    def source(self, sheet: SourceSheet, width: int) -> str:
        """See ``NodeSpec``."""
        from evodevo.module_zoo.source.nodes import NORM

        return f"{sheet.add(NORM)}({width})"

    def tensor_matches(self, parent: Self, read: Map, widths: tuple[int, int]) -> dict[str, Match]:
        """See ``NodeSpec``."""
        return {f"norm.{name}": Match(f"norm.{name}", (read,), (False,)) for name in ("weight", "bias")}
