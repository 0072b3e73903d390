"""Squeeze and excitation as a node: channels weighed by what a whole sample holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from evodevo.module_zoo.modules.attributes import Category, Grid, Kind
from evodevo.module_zoo.modules.families import Archetype, Dimension
from evodevo.module_zoo.modules.nodes.base import ACTIVATION, NodeSpec
from evodevo.module_zoo.modules.nodes.inheritance import Map, Match, affine_matches, leading
from evodevo.module_zoo.modules.spec import INPUT, OUTPUT, ModuleGraph
from evodevo.operators.cost import Work
from evodevo.operators.spec import Activation

if TYPE_CHECKING:
    from evodevo.operators.base import Operator
    from evodevo.operators.source.sheet import SourceSheet


class SqueezeExciteNode(NodeSpec):
    """z sigmoid(W2 phi(W1 mean(z))): channels weighed by the mean over real positions (eq. 49).

    With u = max(1, w // reduction) units between the maps 2 w u + u + w parameters, 4 w u FLOPs, and L w to weigh.
    """

    type: Literal["squeeze_excite"] = "squeeze_excite"
    reduction: Literal[2, 4, 8, 16] = 4
    activation: Activation = "relu"

    mutations: ClassVar[Mapping[str, Kind]] = {"reduction": Grid((2, 4, 8, 16), 4), "activation": ACTIVATION}
    size: ClassVar[str] = "reduction"
    fewer_is_wider: ClassVar[bool] = True
    opaque: ClassVar[bool] = False

    def units(self, width: int) -> int:
        """Units between squeezing and exciting."""
        return max(1, width // self.reduction)

    def parameters(self, width: int) -> int:
        """See ``NodeSpec``."""
        return 2 * width * self.units(width) + self.units(width) + width

    def work(self, width: int, length: int) -> Work:
        """See ``NodeSpec``."""
        return Work(4 * width * self.units(width), length * width)

    def build(self, width: int) -> Operator:
        """See ``NodeSpec``."""
        from evodevo.module_zoo.modules.nodes.squeeze_excite_model import SqueezeExcite

        return SqueezeExcite(width, self.units(width), self.activation)

    def source(self, sheet: SourceSheet, width: int) -> str:
        """See ``NodeSpec``."""
        from evodevo.module_zoo.source.nodes import SQUEEZE_EXCITE

        return f"{sheet.add(SQUEEZE_EXCITE)}({width}, {self.units(width)}, F.{self.activation})"

    def tensor_matches(self, parent: Self, read: Map, widths: tuple[int, int]) -> dict[str, Match]:
        """See ``NodeSpec``."""
        units = leading(self.units(widths[0]), parent.units(widths[1]))
        return affine_matches("squeeze", units, read) | affine_matches("excite", read, units)

    @property
    def detail(self) -> str:
        """See ``NodeSpec``."""
        return f"1/{self.reduction}, {self.activation}"


def _graph(width: int, given: Mapping[str, Any]) -> ModuleGraph:
    """The node alone (eq. 49)."""
    node = SqueezeExciteNode(id="squeeze_excite", reduction=given["reduction"], activation=given["activation"])
    return ModuleGraph(nodes=(node,), edges=((INPUT, node.id), (node.id, OUTPUT)))


SQUEEZE_EXCITE = Archetype(
    "squeeze-excite",
    {"reduction": Grid((2, 4, 8, 16), 4), "activation": Category(("relu", "gelu", "silu"), "relu")},
    _graph,
    "other",
    width=Dimension("reduction", fewer=True),
    depth=Dimension(without="it is one node"),
)
"""The family of modules that are one such node."""
