"""A linear map to another number of channels as a node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field

from evodevo.module_zoo.modules.attributes import Kind
from evodevo.module_zoo.modules.nodes.base import SIZE, NodeSpec
from evodevo.module_zoo.modules.nodes.inheritance import Map, Match, affine_matches, leading
from evodevo.operators.cost import Work

if TYPE_CHECKING:
    from evodevo.operators.base import Operator
    from evodevo.operators.source.sheet import SourceSheet


class ProjectionNode(NodeSpec):
    """A linear map to w' = ``width`` channels: w w' + w' parameters, 2 L w w' FLOPs."""

    type: Literal["projection"] = "projection"
    width: int = Field(default=64, ge=1, le=1 << 16)

    mutations: ClassVar[Mapping[str, Kind]] = {"width": SIZE}
    size: ClassVar[str] = "width"
    reads_more: ClassVar[bool] = True
    keeps_channels: ClassVar[bool] = False
    opaque: ClassVar[bool] = False

    def answer_width(self, widths: Sequence[int]) -> int:
        """See ``NodeSpec``."""
        return self.width

    def parameters(self, width: int) -> int:
        """See ``NodeSpec``."""
        return width * self.width + self.width

    def work(self, width: int, length: int) -> Work:
        """See ``NodeSpec``."""
        return Work(2 * length * width * self.width)

    @property
    def position_wise(self) -> bool:
        """True."""
        return True

    def build(self, width: int) -> Operator:
        """See ``NodeSpec``."""
        from evodevo.module_zoo.modules.nodes.channels_model import ProjectionModule

        return ProjectionModule(width, self.width)

    def source(self, sheet: SourceSheet, width: int) -> str:
        """See ``NodeSpec``."""
        from evodevo.module_zoo.source.nodes import PROJECTION

        return f"{sheet.add(PROJECTION)}({width}, {self.width})"

    def tensor_matches(self, parent: Self, read: Map, widths: tuple[int, int]) -> dict[str, Match]:
        """See ``NodeSpec``."""
        return affine_matches("map", leading(self.width, parent.width), read)

    @property
    def detail(self) -> str:
        """See ``NodeSpec``."""
        return f"{self.width} wide"

    @property
    def family(self) -> str:
        """See ``NodeSpec``."""
        return "memoryless"
