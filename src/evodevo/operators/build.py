"""From a compiled genome to an operator: one dispatch table."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from evodevo.operators.attention import Attention
from evodevo.operators.base import Operator
from evodevo.operators.convolution import GatedConvolution
from evodevo.operators.delta import GatedDelta
from evodevo.operators.differential import Differential
from evodevo.operators.featurizers import FeatureGroup, build_group
from evodevo.operators.liv import LIV
from evodevo.operators.memoryless import Memoryless
from evodevo.operators.recurrence import Recurrence
from evodevo.operators.spec import Dimensions, OperatorSpec, Structure

STRUCTURES: dict[Structure, type[LIV]] = {
    "diagonal": Memoryless,
    "low_rank": Attention,
    "toeplitz": GatedConvolution,
    "semi_separable": Recurrence,
    "delta": GatedDelta,
}
COPIES = ("first", "second")


def build_operator(
    spec: OperatorSpec,
    dims: Dimensions,
    lend: Callable[[str, str], FeatureGroup] | None = None,
    owned: frozenset[str] | None = None,
    kept: frozenset[str] | None = None,
) -> Operator:
    """The operator of a specification.

    Args:
        spec: the compiled operator.
        dims: sizes.
        lend: (role, copy) -> the module of a group, from a bank; left out, the operator owns its groups.
        owned: the groups that it computes itself; all if left out.
        kept: the state tensors that it keeps; all if left out.
    """
    roles = frozenset(spec.groups) if owned is None else owned

    def copy(name: str) -> LIV:
        groups: Mapping[str, FeatureGroup] | None = None
        if lend is not None:
            groups = {role: lend(role, name) for role in spec.groups if role in roles}
        return STRUCTURES[spec.structure](spec, dims, groups, kept)

    if spec.copies == 2:
        return Differential(copy(COPIES[0]), copy(COPIES[1]))
    return copy(COPIES[0])


__all__ = ["COPIES", "STRUCTURES", "build_group", "build_operator"]
