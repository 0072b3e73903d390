"""The aggregation ``sum``: the weighted sum of messages over a normaliser (equations 1-3).

Legend: S positions, d width, K sources, N targets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from evodevo.h_model.aggregations.base import AggregationSizes, AggregationSpec

if TYPE_CHECKING:
    from evodevo.h_model.aggregations.sum_model import NormalisedSum
    from evodevo.operators.source.sheet import SourceSheet


class SumAggregation(AggregationSpec):
    """sum_i c_ij h_i divided by the structure's ``normaliser``, as in the paper."""

    kind: Literal["sum"] = "sum"

    def products(self, width: int, length: int, sources: int, targets: int, *, per_position: bool) -> int:
        """K N S d multiply-adds."""
        return 2 * sources * targets * length * width

    def source(self, sheet: SourceSheet, sizes: AggregationSizes) -> str:
        """See ``AggregationSpec``."""
        from evodevo.h_model.source.aggregations import summed

        return f"{sheet.add(summed(sizes.normaliser))}()"

    def build(self, sizes: AggregationSizes) -> NormalisedSum:
        """See ``AggregationSpec``."""
        from evodevo.h_model.aggregations.sum_model import NormalisedSum

        return NormalisedSum(sizes.normaliser)
