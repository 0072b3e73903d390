"""Memoryless operators: T_ii = σ(C_i), nothing between tokens (STAR 2, diagonal). GMemless is SwiGLU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from evodevo.operators.featurizers import activate
from evodevo.operators.liv import LIV


class Memoryless(LIV):
    """y = W_o (σ(W_g u) * W_u u)."""

    def mix(
        self, x: Tensor, mask: Tensor | None, shared: Mapping[str, Any], state: dict[str, Any] | None
    ) -> tuple[Tensor, dict[str, Any], dict[str, Any] | None]:
        after: dict[str, Any] | None = None if state is None else {}
        gate = self.features("gate", x, mask, shared, state, after)
        up = self.features("up", x, mask, shared, state, after)
        return activate(gate, self.spec.nonlinearity) * up, {"gate": gate, "up": up}, after
