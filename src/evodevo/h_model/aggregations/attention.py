"""The aggregation ``attention``: sources have identities, and targets queries.

Source: docs/spec/h_model.md#attention-aggregation.

Legend: S positions, d width, K sources, N targets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from evodevo.h_model.aggregations.base import AggregationSizes, AggregationSpec

if TYPE_CHECKING:
    from evodevo.h_model.aggregations.attention_model import SourceAttention
    from evodevo.operators.source.sheet import SourceSheet


class AttentionAggregation(AggregationSpec):
    """w_ij = softmax_i(q_j (K h_i + src_i) / sqrt(d) + log c_ij) min(1, a_j), X_j = sum_i w_ij (h_i + src_i)."""

    kind: Literal["attention"] = "attention"

    def parameters(self, sizes: AggregationSizes) -> int:
        """A query d for each target, an identity d for each source, and the map of keys d²."""
        return (sizes.targets + sizes.inputs + sizes.hidden) * sizes.width + sizes.width**2

    def products(self, width: int, length: int, sources: int, targets: int, *, per_position: bool) -> int:
        """K N S d multiply-adds of the sum, and of each key d² for its map and N d for the scores."""
        keys = sources * (length if per_position else 1)
        return 2 * sources * targets * length * width + 2 * keys * width * (width + targets)

    def source(self, sheet: SourceSheet, sizes: AggregationSizes) -> str:
        """See ``AggregationSpec``."""
        from evodevo.h_model.source.aggregations import attention

        name = sheet.add(attention(per_position=sizes.per_position))
        return f"{name}({sizes.width}, {sizes.inputs}, {sizes.hidden}, {sizes.targets})"

    def build(self, sizes: AggregationSizes) -> SourceAttention:
        """See ``AggregationSpec``."""
        from evodevo.h_model.aggregations.attention_model import SourceAttention

        return SourceAttention(sizes)
