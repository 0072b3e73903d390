"""The nodes that read several values: their sum, and their channels side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from evodevo.module_zoo.modules.nodes.base import JoinNode

if TYPE_CHECKING:
    from torch import Tensor


class SumNode(JoinNode):
    """The sum of all that comes in; all of one width."""

    type: Literal["sum"] = "sum"

    zero_is_neutral: ClassVar[bool] = True

    def join(self, values: list[Tensor]) -> Tensor:
        """See ``NodeSpec``."""
        return sum(values[1:], start=values[0])

    def join_source(self, values: Sequence[str]) -> str:
        """See ``NodeSpec``."""
        return " + ".join(values)


class ConcatNode(JoinNode):
    """Channels of all that comes in, side by side, in the order of the edges."""

    type: Literal["concat"] = "concat"

    side_by_side: ClassVar[bool] = True
    ordered: ClassVar[bool] = True
    keeps_channels: ClassVar[bool] = False

    def join(self, values: list[Tensor]) -> Tensor:
        """See ``NodeSpec``."""
        import torch

        return torch.cat(values, -1)

    def join_source(self, values: Sequence[str]) -> str:
        """See ``NodeSpec``."""
        return f"torch.cat([{', '.join(values)}], -1)"
