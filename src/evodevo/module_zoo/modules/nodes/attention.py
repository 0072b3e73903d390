"""Multi-head self-attention as a node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field

from evodevo.errors import GenomeError
from evodevo.module_zoo.modules.attributes import Grid, Kind
from evodevo.module_zoo.modules.nodes.base import DROPOUT, NodeSpec
from evodevo.module_zoo.modules.nodes.inheritance import Map, Match, affine_matches, repeated
from evodevo.operators.cost import Work

if TYPE_CHECKING:
    from evodevo.operators.base import Operator
    from evodevo.operators.source.sheet import SourceSheet


class AttentionNode(NodeSpec):
    """Multi-head self-attention over all real positions; ``heads`` divide the width.

    Queries, keys, values and the answer are linear maps w -> w with biases: 4 w^2 + 4 w parameters, 8 L w^2 FLOPs, and
    4 L^2 w for scores and mixed values.
    """

    type: Literal["attention"] = "attention"
    heads: int = Field(default=4, ge=1, le=64)
    dropout: float = Field(default=0.0, ge=0, le=0.5)

    mutations: ClassVar[Mapping[str, Kind]] = {"heads": Grid((1, 2, 4, 8, 16, 32, 64), 4), "dropout": DROPOUT}
    opaque: ClassVar[bool] = False

    def answer_width(self, widths: Sequence[int]) -> int:
        """See ``NodeSpec``."""
        width = widths[0]
        if width % self.heads:
            raise GenomeError(f"node {self.id!r} has {self.heads} heads, which do not divide its {width} channels.")
        return width

    def fitted(self, width: int) -> Self:
        """With the largest number of heads, no larger than its own, that divides w."""
        if width % self.heads == 0:
            return self
        heads = next(heads for heads in range(min(self.heads, width), 0, -1) if width % heads == 0)
        return self.model_copy(update={"heads": heads})

    def parameters(self, width: int) -> int:
        """See ``NodeSpec``."""
        return 4 * width * width + 4 * width

    def work(self, width: int, length: int) -> Work:
        """See ``NodeSpec``."""
        return Work(8 * length * width * width + 4 * length * length * width)

    def build(self, width: int) -> Operator:
        """See ``NodeSpec``."""
        from evodevo.operators.self_attention import SelfAttention

        return SelfAttention(width, self.heads, causal=False, dropout=self.dropout)

    def source(self, sheet: SourceSheet, width: int) -> str:
        """See ``NodeSpec``."""
        from evodevo.operators.source.layers import ATTENTION

        return f"{sheet.add(ATTENTION)}({width}, {self.heads})"

    def tensor_matches(self, parent: Self, read: Map, widths: tuple[int, int]) -> dict[str, Match]:
        """See ``NodeSpec``."""
        return affine_matches("project", repeated(read, 3, widths[1], 3), read) | affine_matches("out", read, read)

    @property
    def silencing_tensors(self) -> tuple[str, ...]:
        """See ``NodeSpec``."""
        return ("out.weight", "out.bias")

    @property
    def detail(self) -> str:
        """See ``NodeSpec``."""
        return f"{self.heads} heads"

    @property
    def family(self) -> str:
        """See ``NodeSpec``."""
        return "attention"
