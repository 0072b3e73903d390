"""The layer of kind ``liv``: any linear input-varying operator, by the name of its class or by its operator genome.

Legend: S positions, d width.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field, ValidationError

from evodevo.errors import UsageError
from evodevo.operators.classes import OPERATORS
from evodevo.operators.compile import compile_operator
from evodevo.operators.cost import STATE_BYTES, Work
from evodevo.operators.genome_text import parse_segments
from evodevo.operators.layers.base import LayerSpec
from evodevo.operators.spec import Dimensions, OperatorSpec

if TYPE_CHECKING:
    from evodevo.operators.base import Operator
    from evodevo.operators.source.sheet import SourceSheet


class LIVLayer(LayerSpec):
    """A linear input-varying operator in a pre-norm residual block; two copies that run both ways unless causal.

    Attributes:
        operator: name of a LIV class ("SA-1", "Rec-2", "GConv-1", "GMemless", "Mamba", ...) or the operator genome as
            five integers joined by dots ("3.2.1.2.1").
        head_size, band: see ``operators.spec.Dimensions``.
    """

    kind: Literal["liv"] = "liv"
    operator: str = Field(default="Rec-1", pattern=r"^[A-Za-z0-9.\-]{1,40}$")
    head_size: int | None = Field(default=None, ge=2, le=512)
    band: int = Field(default=64, ge=2, le=65536)

    def compiled(self, width: int) -> tuple[OperatorSpec, Dimensions]:
        """The compiled operator and its sizes.

        Raises:
            UsageError: no such class, a genome that does not compile, or a width without heads.
        """
        dims = Dimensions(width=width, head_size=self.head_size, band=self.band)
        operator = _compiled(self.operator)
        operator.check(dims)
        return operator, dims

    def own_parameters(self, width: int, causal: bool) -> int:
        """A norm d, and all parameters of the operator for each way."""
        return width + (1 if causal else 2) * operator_parameters(*self.compiled(width))

    def own_work(self, width: int, length: int, *, causal: bool, visible: bool) -> Work:
        """As the operator's specification states it, for each copy and each way."""
        operator, dims = self.compiled(width)
        every = frozenset(operator.groups)
        copy = Work(
            operator.matmul_flops(every, dims, length, decode=False, causal=visible),
            operator.other_flops(every, dims, length, decode=False),
        )
        return copy.times(operator.copies * (1 if causal else 2))

    def own_state_bytes(self, width: int, length: int) -> int:
        """All tensors of the operator's state."""
        operator, dims = self.compiled(width)
        tensors = operator.state(frozenset(operator.groups), dims).values()
        return STATE_BYTES * operator.copies * sum(tensor.entries(length) for tensor in tensors)

    def build(self, width: int, *, causal: bool, residual: bool) -> Operator:
        """LIVs are causal; where the model is not, two copies run both ways and are added."""
        from evodevo.operators.block import Block
        from evodevo.operators.both_ways import BothWays
        from evodevo.operators.build import build_operator

        operator, dims = self.compiled(width)
        if causal:
            return Block(build_operator(operator, dims), width, residual=residual)
        both = BothWays(build_operator(operator, dims), build_operator(operator, dims))
        return Block(both, width, residual=residual)

    def source(self, sheet: SourceSheet, width: int, *, causal: bool, residual: bool) -> str:
        """See ``LayerSpec``."""
        from evodevo.operators.source.livs import closed_liv
        from evodevo.operators.source.rows import block, both_ways

        made = closed_liv(sheet, self.operator, *self.compiled(width))
        return block(sheet, made if causal else both_ways(sheet, made), width, residual=residual)

    @property
    def type_name(self) -> str:
        """The operator."""
        return self.operator

    def family(self, width: int) -> str:
        """Family of the operator, such as ``attention``."""
        return self.compiled(width)[0].family

    def mutated(self, width: int, rng: np.random.Generator, chance: float) -> LayerSpec:
        """Another LIV class of those that the width allows."""
        if rng.random() >= chance:
            return self
        names = fitting_classes(width)
        if not names:
            return self
        other = fitting_liv(names[int(rng.integers(len(names)))], width)
        return other.model_copy(update={"width": self.width, "router": self.router})


def fitting_liv(operator: str, width: int) -> LIVLayer:
    """The layer of an operator with heads that fit the width d.

    Raises:
        UsageError: no such operator, or none of this width.
    """
    try:
        layer = LIVLayer(operator=operator, head_size=fitting_head_size(width))
        layer.compiled(width)
    except ValidationError as error:
        raise UsageError(f"no LIV {operator[:40]!r} at width {width}: {error.errors()[0]['msg']}.") from None
    return layer


@lru_cache(maxsize=64)
def fitting_classes(width: int) -> tuple[str, ...]:
    """LIV classes that a width allows."""
    names = []
    for name in OPERATORS:
        try:
            fitting_liv(name, width)
        except UsageError:
            continue
        names.append(name)
    return tuple(names)


def fitting_head_size(width: int) -> int | None:
    """None where ``Dimensions`` finds one; else an even one that gives at least two heads, four if there is."""
    if width % 16 == 0 and width >= 64:
        return None
    for fewest in (4, 2, 1):
        for size in (16, 8, 4, 2):
            if width % size == 0 and width // size >= fewest:
                return size
    return None


def operator_parameters(operator: OperatorSpec, dims: Dimensions) -> int:
    """Parameters of an operator that owns all its groups."""
    own = sum(prod(shape) for shape in operator.own_parameters(dims).values())
    groups = sum(prod(shape) for role in operator.groups for shape in operator.group_parameters(role, dims).values())
    return operator.copies * (own + groups)


@lru_cache(maxsize=256)
def _compiled(text: str) -> OperatorSpec:
    if text[:1].isdigit():
        (genes,) = parse_segments(text, 5, what="operator genome", most=1)
        return compile_operator(genes, None, "none")
    return OPERATORS.get(text).spec
