"""The common part of all LIV operators: parameters, feature groups, borrowing and state by the specification."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.operators.base import Operator, Output, Slab
from evodevo.operators.featurizers import FeatureGroup, build_group
from evodevo.operators.spec import Dimensions, OperatorSpec

NORM_EPSILON = 1e-6
STATE = "state:"


class LIV(Operator):
    """y = W_o T(u) u, with T of the structure that the subclass holds.

    Args:
        spec: the compiled operator.
        dims: sizes.
        groups: role -> module of each group that it computes itself. They belong to a bank elsewhere and are not
            registered here, so that shared weights occur once in a state dict. Left out, it owns all of them.
        kept: names of the state tensors that it keeps; all if left out. The others come from the LIV whose state is
            identical.
    """

    out: nn.Parameter
    norm: nn.Parameter
    subtract: nn.Parameter

    def __init__(
        self,
        spec: OperatorSpec,
        dims: Dimensions,
        groups: Mapping[str, FeatureGroup] | None = None,
        kept: frozenset[str] | None = None,
    ) -> None:
        super().__init__()
        spec.check(dims)
        self.spec = spec
        self.dims = dims
        if groups is None:
            self.bank = nn.ModuleDict({role: build_group(spec, role, dims) for role in spec.groups})
            groups = {role: self.bank[role] for role in spec.groups}  # type: ignore[misc]
        self.groups: dict[str, Any] = dict(groups)
        tensors = spec.state(frozenset(self.groups), dims)
        self.state_tensors = {name: tensor for name, tensor in tensors.items() if kept is None or name in kept}
        for name, shape in spec.own_parameters(dims).items():
            self.register_parameter(name, nn.Parameter(torch.empty(shape)))
        with torch.no_grad():
            self.out.normal_(std=spec.inner(dims) ** -0.5)
            if spec.normalised:
                self.norm.fill_(1.0)
            if spec.differential == "v2":
                self.subtract.zero_()
                self.subtract.no_weight_decay = True  # type: ignore[attr-defined]

    @property
    def closed(self) -> bool:
        """Whether it borrows nothing."""
        return set(self.groups) == set(self.spec.groups)

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        shared: Mapping[str, Any] | None = None,
        state: dict[str, Any] | None = None,
    ) -> Output:
        """See ``Operator``. x (B, T, D) is the normalised input u."""
        if mask is not None:
            x = x * mask.unsqueeze(-1)
        mixed, groups, after = self.mix(x, mask, shared or {}, state)
        if after is not None:
            after = {name: value for name, value in after.items() if name in self.state_tensors or name in self.extra}
        return Output(F.linear(mixed, self.out), groups, after)

    extra: frozenset[str] = frozenset()
    """Bookkeeping in the state beside the tensors that the specification names."""

    @abstractmethod
    def mix(
        self, x: Tensor, mask: Tensor | None, shared: Mapping[str, Any], state: dict[str, Any] | None
    ) -> tuple[Tensor, dict[str, Any], dict[str, Any] | None]:
        """T(u) u, before the output projection.

        Returns:
            mixed values (B, T, inner), the groups to lend, the state after the call.
        """

    def features(
        self,
        role: str,
        x: Tensor,
        mask: Tensor | None,
        shared: Mapping[str, Any],
        state: dict[str, Any] | None,
        after: dict[str, Any] | None,
    ) -> Any:
        """A projected group's features: borrowed, or computed here with its convolution's state."""
        if role in shared:
            return shared[role]
        name = f"{role}_taps"
        past = state[name] if state is not None and name in self.state_tensors else None
        value, past = self.groups[role](x, past, mask)
        if after is not None and name in self.state_tensors:
            after[name] = past
        return value

    def incoming(
        self, name: str, shared: Mapping[str, Any], state: dict[str, Any] | None, groups: dict[str, Any]
    ) -> Any:
        """The state tensor before this call: the operator's own, or that of the LIV whose state is identical."""
        if state is None:
            return None
        before = state[name] if name in self.state_tensors else shared[STATE + name]
        # A slab is written in place by its owner; what is lent is how it was.
        groups[STATE + name] = before.view() if isinstance(before, Slab) else before
        return before

    def initial_state(self, batch: int, max_length: int, dtype: torch.dtype, device: torch.device) -> dict[str, Any]:
        """See ``Operator``."""
        state: dict[str, Any] = {}
        for name, tensor in self.state_tensors.items():
            kind = torch.promote_types(dtype, torch.float32) if tensor.full_precision else dtype
            if tensor.grows:
                room = max_length if tensor.window is None else min(max_length, tensor.window + 1)
                state[name] = self.slab(batch, tensor.shape, room, kind, device)
            else:
                state[name] = torch.zeros((batch, *tensor.shape), dtype=kind, device=device)
        return state

    def slab(self, batch: int, shape: tuple[int, ...], room: int, dtype: torch.dtype, device: torch.device) -> Slab:
        """Room for entries per token; tokens come right after the batch axis."""
        return Slab((batch, 0, *shape), 1, room, dtype, device)


def rms_normalise(x: Tensor, gain: Tensor) -> Tensor:
    """RMSNorm over channels, in float32 or better."""
    precise = torch.promote_types(x.dtype, torch.float32)
    return F.rms_norm(x.to(precise), (x.shape[-1],), gain.to(precise), NORM_EPSILON).to(x.dtype)
