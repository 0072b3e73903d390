"""The layer of kind ``span``: a closed span of an evolved backbone.

LIVs that borrow no feature from outside can be used alone, so that a span that evolution found becomes a layer of a
network.

Legend: S positions, D width of the backbone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from evodevo.backbone.cost import backbone_cost
from evodevo.backbone.genome import LIVPlan
from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.errors import UsageError
from evodevo.operators.cost import Work, total_work
from evodevo.operators.layers.base import LayerSpec
from evodevo.operators.spec import Dimensions
from evodevo.settings import validate

if TYPE_CHECKING:
    from evodevo.operators.base import Operator


class SpanLayer(LayerSpec):
    """A closed span of an evolved backbone: LIVs first to last, whose borrowed features all lie in the span.

    LIVs are causal; where the model is not, two copies of the span run both ways and are added.

    Attributes:
        genome: envelope of the backbone genome.
        space: settings of its space (``BackboneSettings`` as plain data).
        first, last: positions of the span, both included.
    """

    kind: Literal["span"] = "span"
    genome: dict[str, Any]
    space: dict[str, Any]
    first: int = Field(ge=0, le=100_000)
    last: int = Field(ge=0, le=100_000)

    def plans(self, width: int) -> tuple[tuple[LIVPlan, ...], Dimensions]:
        """The LIVs of a span with their connections, positions as in the whole backbone, and their sizes.

        Featurizer weights that a LIV shares with one before the span go with it; features and residuals cannot.

        Raises:
            UsageError: settings or genome that cannot be read, a span beyond the backbone, another width, or a LIV that
                borrows from outside; the message names borrower and owner, counted from 1.
        """
        space = BackboneSpace(validate(BackboneSettings, self.space, what="the space of a span"))
        plans = space.plan(space.from_json(self.genome))
        dims = space.settings.dimensions
        if not self.first <= self.last < len(plans):
            raise UsageError(
                f"a span from LIV {self.first + 1} to {self.last + 1}: the backbone has {len(plans)} LIVs, and the "
                "first is not after the last."
            )
        if dims.width != width:
            raise UsageError(
                f"a span of a backbone of width {dims.width} among channels of width {width}: set the layer's width to "
                f"{dims.width}, and adapters are put around it."
            )
        span = plans[self.first : self.last + 1]
        for plan in span:
            outside = [source for source in plan.origin.values() if source < self.first]
            if plan.residual is not None and plan.residual < self.first:
                outside.append(plan.residual)
            if outside:
                raise UsageError(
                    f"the span is not closed: LIV {plan.position + 1} borrows from LIV {min(outside) + 1}, which is "
                    f"before its first, {self.first + 1}. Begin the span there or earlier, or take another one."
                )
        return span, dims

    def own_parameters(self, width: int, causal: bool) -> int:
        """As of the backbone's LIVs, once for each way; a whole backbone ends with a norm, a span does not."""
        plans, dims = self.plans(width)
        one_way = backbone_cost(plans, dims, length=1, convention="actual").parameters - width
        return (1 if causal else 2) * one_way

    def own_work(self, width: int, length: int, *, causal: bool, visible: bool) -> Work:
        """As the LIVs' specifications state it, for each copy and each way."""
        plans, dims = self.plans(width)
        one_way = total_work(
            Work(
                plan.spec.matmul_flops(plan.owned, dims, length, decode=False, causal=visible),
                plan.spec.other_flops(plan.owned, dims, length, decode=False),
            ).times(plan.spec.copies)
            for plan in plans
        )
        return one_way.times(1 if causal else 2)

    def own_state_bytes(self, width: int, length: int) -> int:
        """As of the backbone's LIVs."""
        plans, dims = self.plans(width)
        return backbone_cost(plans, dims, length=length, convention="actual").cache_bytes

    def build(self, width: int, *, causal: bool, residual: bool) -> Operator:
        """See ``LayerSpec``."""
        from evodevo.backbone.span import BackboneSpan
        from evodevo.operators.both_ways import BothWays

        plans, dims = self.plans(width)
        span = BackboneSpan(plans, dims, residual=residual)
        return span if causal else BothWays(span, BackboneSpan(plans, dims, residual=residual), stream=residual)

    def sizes(self, width: int) -> str:
        """The LIVs, from 1."""
        return f"LIVs {self.first + 1} to {self.last + 1}"


def closed_spans(plans: tuple[LIVPlan, ...]) -> list[tuple[int, int]]:
    """Every closed span (first, last) of a backbone, shorter ones first."""
    spans = []
    for first in range(len(plans)):
        for last in range(first, len(plans)):
            plan = plans[last]
            sources = [*plan.origin.values(), last if plan.residual is None else plan.residual]
            if min(sources) < first:
                break
            spans.append((first, last))
    return sorted(spans, key=lambda span: (span[1] - span[0], span))
