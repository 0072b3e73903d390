"""A closed span of an evolved backbone: LIVs that borrow no feature from outside, so that they can stand alone."""

from __future__ import annotations

from evodevo.backbone.genome import LIVPlan
from evodevo.backbone.space import BackboneSettings, BackboneSpace
from evodevo.errors import UsageError
from evodevo.operators.layers.spec import SpanLayer
from evodevo.operators.spec import Dimensions
from evodevo.settings import validate


def span_plans(spec: SpanLayer, width: int) -> tuple[tuple[LIVPlan, ...], Dimensions]:
    """The LIVs of a span with their connections, positions as in the whole backbone, and their sizes.

    Featurizer weights that a LIV shares with one before the span go with it; features and residuals cannot.

    Raises:
        UsageError: settings or genome that cannot be read, a span beyond the backbone, another width, or a LIV that
            borrows from outside; the message names borrower and owner, counted from 1.
    """
    space = BackboneSpace(validate(BackboneSettings, spec.space, what="the space of a span"))
    plans = space.plan(space.from_json(spec.genome))
    dims = space.settings.dimensions
    if not spec.first <= spec.last < len(plans):
        raise UsageError(
            f"a span from LIV {spec.first + 1} to {spec.last + 1}: the backbone has {len(plans)} LIVs, and the first "
            "is not after the last."
        )
    if dims.width != width:
        raise UsageError(
            f"a span of a backbone of width {dims.width} among channels of width {width}: set the layer's width to "
            f"{dims.width}, and adapters are put around it."
        )
    span = plans[spec.first : spec.last + 1]
    for plan in span:
        outside = [source for source in plan.origin.values() if source < spec.first]
        if plan.residual is not None and plan.residual < spec.first:
            outside.append(plan.residual)
        if outside:
            raise UsageError(
                f"the span is not closed: LIV {plan.position + 1} borrows from LIV {min(outside) + 1}, which is before "
                f"its first, {spec.first + 1}. Begin the span there or earlier, or take another one."
            )
    return span, dims


def closed_spans(plans: tuple[LIVPlan, ...]) -> list[tuple[int, int]]:
    """Every closed span (first, last) of a backbone, shorter ones first."""
    found = []
    for first in range(len(plans)):
        for last in range(first, len(plans)):
            plan = plans[last]
            sources = [*plan.origin.values(), last if plan.residual is None else plan.residual]
            if min(sources) < first:
                break
            found.append((first, last))
    return sorted(found, key=lambda span: (span[1] - span[0], span))
