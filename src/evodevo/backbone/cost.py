"""The cost of a backbone, summed over the shapes that its operators declare."""

from __future__ import annotations

from math import prod

from evodevo.backbone.genome import LIVPlan
from evodevo.errors import UsageError
from evodevo.operators.cost import Convention, Cost, Mode
from evodevo.operators.spec import Dimensions

STAR_BYTES = 2
FULL_PRECISION_BYTES = 4


def backbone_cost(
    plans: tuple[LIVPlan, ...],
    dims: Dimensions,
    *,
    length: int,
    batch: int = 1,
    mode: Mode = "prefill",
    causal: bool = True,
    convention: Convention = "star",
    vocabulary: int = 0,
    tied: bool = True,
    element_bytes: int | None = None,
) -> Cost:
    """Cost of a planned backbone.

    Args:
        plans: from ``BackboneSpace.plan``.
        dims: sizes.
        length: tokens in the context.
        batch: sequences.
        mode: the pass that FLOPs and read bytes refer to.
        causal: count the visible half of attention scores only.
        convention: see ``Cost.cache_bytes``.
        vocabulary: tokens; 0 leaves embedding and head out of every number.
        tied: the head is the embedding.
        element_bytes: bytes of a weight and of an activation; 2 in ``star``, 4 in ``actual`` if left out.

    Raises:
        UsageError: length, batch or vocabulary is out of range.
    """
    _check(length, batch, vocabulary, element_bytes)
    if length > dims.max_length and any(plan.spec.ends(dims) for plan in plans):
        raise UsageError(f"length {length} is beyond the {dims.max_length} positions of the long filters (max_length).")
    star = convention == "star"
    bytes_each = element_bytes or (STAR_BYTES if star else 4)
    parameters = _parameters(plans, dims, norms=not star)
    embedding = vocabulary * dims.width * (1 if tied else 2)
    cache = batch * sum(_state_bytes(plan, plans, dims, length, star, bytes_each) for plan in plans)
    read_state = batch * sum(_read_bytes(plan, dims, length, bytes_each) for plan in plans)
    decode = mode == "decode"
    head = 2 * vocabulary * dims.width * (1 if decode else length)
    flops, executed = (batch * (_flops(plans, dims, length, decode, half) + head) for half in (causal, False))
    passes = 3 if mode == "train" else 1
    return Cost(
        parameters=parameters,
        embedding_parameters=embedding,
        cache_bytes=cache,
        flops=passes * flops,
        executed_flops=passes * executed,
        bytes_read=bytes_each * (_weights_used(plans, dims) + vocabulary * dims.width) + read_state,
    )


def _check(length: int, batch: int, vocabulary: int, element_bytes: int | None) -> None:
    for name, value, low, high in (
        ("length", length, 1, 1 << 24),
        ("batch", batch, 1, 1 << 20),
        ("vocabulary", vocabulary, 0, 1 << 24),
        ("element_bytes", element_bytes or 4, 1, 8),
    ):
        if not low <= value <= high:
            raise UsageError(f"{name} is {value}; it must be {low} to {high}.")


def _parameters(plans: tuple[LIVPlan, ...], dims: Dimensions, *, norms: bool) -> int:
    total = dims.width if norms else 0  # the norm before the head
    seen: set[tuple[int, str]] = set()
    for plan in plans:
        spec = plan.spec
        own = spec.own_parameters(dims)
        if not norms:
            own.pop("norm", None)
        total += spec.copies * sum(prod(shape) for shape in own.values())
        if norms and plan.reads_input:
            total += dims.width
        for role, source in plan.weights.items():
            if (source, role) not in seen:
                seen.add((source, role))
                total += spec.copies * _group_size(plan, role, dims)
    return total


def _weights_used(plans: tuple[LIVPlan, ...], dims: Dimensions) -> int:
    """Numbers of weights that one pass reads: shared ones once per use."""
    return sum(
        plan.spec.copies
        * (
            sum(prod(shape) for shape in plan.spec.own_parameters(dims).values())
            + sum(_group_size(plan, role, dims) for role in plan.weights)
        )
        for plan in plans
    )


def _group_size(plan: LIVPlan, role: str, dims: Dimensions) -> int:
    return sum(prod(shape) for shape in plan.spec.group_parameters(role, dims).values())


def _state_bytes(
    plan: LIVPlan, plans: tuple[LIVPlan, ...], dims: Dimensions, length: int, star: bool, bytes_each: int
) -> int:
    total = 0
    for name, tensor in plan.spec.state(plan.owned, dims).items():
        if plan.state_owner.get(name, plan.position) != plan.position or (star and not tensor.in_star):
            continue
        size = FULL_PRECISION_BYTES if tensor.full_precision and not star else bytes_each
        total += max(size, bytes_each) * tensor.entries(length)
    return plan.spec.copies * total


def _read_bytes(plan: LIVPlan, dims: Dimensions, length: int, bytes_each: int) -> int:
    """State that one step reads, borrowed or not."""
    every = plan.spec.state(frozenset(plan.spec.groups), dims)
    total = 0
    for name, tensor in every.items():
        if name.endswith("_taps") and name.removesuffix("_taps") not in plan.owned:
            continue
        size = max(FULL_PRECISION_BYTES, bytes_each) if tensor.full_precision else bytes_each
        total += size * tensor.entries(length)
    return plan.spec.copies * total


def _flops(plans: tuple[LIVPlan, ...], dims: Dimensions, length: int, decode: bool, causal: bool) -> int:
    return sum(
        plan.spec.copies
        * (
            plan.spec.matmul_flops(plan.owned, dims, length, decode=decode, causal=causal)
            + plan.spec.other_flops(plan.owned, dims, length, decode=decode)
        )
        for plan in plans
    )
