"""The cost of a backbone, summed over the shapes that its operators declare."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

from evodevo.backbone.genome import LIVPlan
from evodevo.errors import UsageError
from evodevo.operators.classes import LIVClass
from evodevo.operators.cost import Convention, Cost, Mode
from evodevo.operators.spec import Dimensions, OperatorSpec

STAR_BYTES = 2
FULL_PRECISION_BYTES = 4
MOST_LIVS = 4096
"""LIVs whose costs are remembered at one setting."""


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
    table = _table(dims, length, mode == "decode", star, bytes_each)
    costs = [table.alone(plan.row) if plan.alone else table[plan.spec, plan.owned] for plan in plans]
    embedding = vocabulary * dims.width * (1 if tied else 2)
    state = read_state = causal_flops = executed_flops = weights_used = 0
    for plan, cost in zip(plans, costs, strict=True):
        state += cost.state_bytes if plan.alone else _state_bytes(plan, cost)
        read_state += cost.read_bytes
        causal_flops += cost.causal_flops
        executed_flops += cost.executed_flops
        weights_used += cost.weights_used
    head = 2 * vocabulary * dims.width * (1 if mode == "decode" else length)
    executed = batch * (executed_flops + head)
    flops = batch * (causal_flops + head) if causal else executed
    passes = 3 if mode == "train" else 1
    return Cost(
        parameters=_parameters(plans, costs, dims, norms=not star),
        embedding_parameters=embedding,
        cache_bytes=batch * state,
        flops=passes * flops,
        executed_flops=passes * executed,
        bytes_read=bytes_each * (weights_used + vocabulary * dims.width) + batch * read_state,
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


@dataclass(frozen=True)
class _LIVCost:
    """Cost of one LIV, for one sequence.

    Attributes:
        own: Parameters that are never shared, without norms.
        norm: Parameters of the norm behind the mixing.
        groups: Role -> parameters of the group's featurizer, of those that it computes itself.
        weights_used: Weights that a pass reads.
        group_parameters: Parameters of all these groups.
        state: Name of each state tensor -> its bytes; 0 where the convention does not count it.
        state_bytes: Bytes of all of them.
        read_bytes: Bytes of state that a step reads, borrowed or not.
        causal_flops: FLOPs with the visible half of attention scores.
        executed_flops: FLOPs with all attention scores.
    """

    own: int
    norm: int
    groups: dict[str, int]
    group_parameters: int
    weights_used: int
    state: dict[str, int]
    state_bytes: int
    read_bytes: int
    causal_flops: int
    executed_flops: int


class _CostTable(dict[tuple[OperatorSpec, frozenset[str]], _LIVCost]):
    """(operator, groups that it computes itself) -> cost at these sizes, made when it is asked for.

    A search asks for the cost of some hundred backbones per proposal, which consist of few LIVs that differ.
    """

    def __init__(self, dims: Dimensions, length: int, decode: bool, star: bool, bytes_each: int) -> None:
        super().__init__()
        self._dims, self._length, self._decode = dims, length, decode
        self._star, self._bytes_each = star, bytes_each
        self._alone: dict[int, tuple[LIVClass, _LIVCost]] = {}

    def alone(self, row: LIVClass) -> _LIVCost:
        """The cost of a LIV that computes all its groups itself, as most do: found by the number of its class."""
        found = self._alone.get(row.number)
        if found is None or found[0] is not row:
            if len(self._alone) > MOST_LIVS:
                self._alone.clear()
            found = self._alone[row.number] = (row, self[row.spec, frozenset(row.spec.groups)])
        return found[1]

    def __missing__(self, key: tuple[OperatorSpec, frozenset[str]]) -> _LIVCost:
        (spec, owned), dims = key, self._dims
        own = {name: spec.copies * prod(shape) for name, shape in spec.own_parameters(dims).items()}
        groups = {role: spec.copies * _group_size(spec, role, dims) for role in spec.groups if role in owned}
        if len(self) > MOST_LIVS:
            self.clear()
        state = self._state(spec, owned)
        found = self[key] = _LIVCost(
            own=sum(own.values()) - own.get("norm", 0),
            norm=own.get("norm", 0),
            groups=groups,
            group_parameters=sum(groups.values()),
            weights_used=sum(own.values()) + sum(groups.values()),
            state=state,
            state_bytes=sum(state.values()),
            read_bytes=self._read_bytes(spec, owned),
            causal_flops=self._flops(spec, owned, causal=True),
            executed_flops=self._flops(spec, owned, causal=False),
        )
        return found

    def _state(self, spec: OperatorSpec, owned: frozenset[str]) -> dict[str, int]:
        total = {}
        for name, tensor in spec.state(owned, self._dims).items():
            size = FULL_PRECISION_BYTES if tensor.full_precision and not self._star else self._bytes_each
            counted = tensor.in_star or not self._star
            total[name] = spec.copies * max(size, self._bytes_each) * tensor.entries(self._length) if counted else 0
        return total

    def _read_bytes(self, spec: OperatorSpec, owned: frozenset[str]) -> int:
        total = 0
        for name, tensor in spec.state(frozenset(spec.groups), self._dims).items():
            if name.endswith("_taps") and name.removesuffix("_taps") not in owned:
                continue
            size = max(FULL_PRECISION_BYTES, self._bytes_each) if tensor.full_precision else self._bytes_each
            total += size * tensor.entries(self._length)
        return spec.copies * total

    def _flops(self, spec: OperatorSpec, owned: frozenset[str], *, causal: bool) -> int:
        products = spec.matmul_flops(owned, self._dims, self._length, decode=self._decode, causal=causal)
        return spec.copies * (products + spec.other_flops(owned, self._dims, self._length, decode=self._decode))


@lru_cache(maxsize=64)
def _table(dims: Dimensions, length: int, decode: bool, star: bool, bytes_each: int) -> _CostTable:
    return _CostTable(dims, length, decode, star, bytes_each)


def _group_size(spec: OperatorSpec, role: str, dims: Dimensions) -> int:
    return sum(prod(shape) for shape in spec.group_parameters(role, dims).values())


def _parameters(plans: tuple[LIVPlan, ...], costs: list[_LIVCost], dims: Dimensions, *, norms: bool) -> int:
    total = dims.width if norms else 0  # the norm before the head
    whole: set[int] = set()  # positions whose weights are all counted
    seen: set[tuple[int, str]] = set()
    for plan, cost in zip(plans, costs, strict=True):
        total += cost.own
        if norms:
            total += cost.norm + (dims.width if plan.reads_input else 0)
        if plan.alone:
            whole.add(plan.position)
            total += cost.group_parameters
            continue
        for role, source in plan.weights.items():
            if source not in whole and (source, role) not in seen:
                seen.add((source, role))
                total += cost.groups[role]
    return total


def _state_bytes(plan: LIVPlan, cost: _LIVCost) -> int:
    """State that this LIV keeps; another one may keep an equal tensor for both."""
    owners = plan.state_owner
    return sum(size for name, size in cost.state.items() if owners.get(name, plan.position) == plan.position)
