"""Gated convolutions (STAR 2, scaled Toeplitz C_i K_{i-j} B_j).

y_i = C_i * sum_{j <= i} h_{i-j} * (B_j * V_j), with an explicit filter of 3 taps (GConv-1) or an implicit one as long
as the sequence (GConv-2). See docs/spec/star.md#short-gated-convolution, docs/spec/star.md#long-gated-convolution.

Legend: B batch, T tokens, C channels, K taps, N modes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from evodevo.errors import UsageError
from evodevo.operators.base import Slab
from evodevo.operators.featurizer_spec import EXPLICIT
from evodevo.operators.featurizers import ImplicitFilter, ModalFilter
from evodevo.operators.fourier import convolve, convolve_after
from evodevo.operators.liv import LIV
from evodevo.operators.taps import causal_taps, taps_after


class GatedConvolution(LIV):
    """GConv: a gate, a convolution, a gate."""

    def mix(
        self, x: Tensor, mask: Tensor | None, shared: Mapping[str, Any], state: dict[str, Any] | None
    ) -> tuple[Tensor, dict[str, Any], dict[str, Any] | None]:
        after: dict[str, Any] | None = None if state is None else {}
        value, write, read = (self.features(role, x, mask, shared, state, after) for role in ("value", "write", "read"))
        source = shared["filter"] if "filter" in shared else self.groups["filter"]
        groups: dict[str, Any] = {"value": value, "write": write, "read": read, "filter": source}
        inputs = write * value
        if mask is not None:
            inputs = inputs * mask.unsqueeze(-1)
        before = self.incoming("inputs" if not self._modal else "modes", shared, state, groups)
        if self.spec.groups["filter"].parametrisation == EXPLICIT:
            mixed = self._short(inputs, source.taps, before, after)
        elif self.spec.banded:
            mixed = self._band(inputs, source, before, after)
        elif self._modal:
            mixed = self._modes(inputs, source, before, after)
        else:
            mixed = self._whole(inputs, source, before, after)
        return read * mixed, groups, after

    @property
    def _modal(self) -> bool:
        implicit = self.spec.groups["filter"].parametrisation != EXPLICIT
        return implicit and not self.spec.banded and self.dims.long_filter == "modal"

    def _short(self, inputs: Tensor, taps: Tensor, before: Tensor | None, after: dict[str, Any] | None) -> Tensor:
        if before is None:
            return causal_taps(inputs, taps)
        mixed, kept = taps_after(inputs, before, taps)
        if after is not None:
            after["inputs"] = kept
        return mixed

    def _band(
        self, inputs: Tensor, source: ModalFilter | ImplicitFilter, before: Tensor | None, after: dict[str, Any] | None
    ) -> Tensor:
        if before is None:
            return convolve(inputs, source.kernel(min(self.dims.band, inputs.shape[1])))
        extended = torch.cat([before.to(inputs.dtype), inputs], 1)
        if after is not None:
            after["inputs"] = extended[:, extended.shape[1] - (self.dims.band - 1) :]
        return convolve_after(inputs, before, source.kernel(self.dims.band))

    def _modes(
        self, inputs: Tensor, source: ModalFilter, before: Tensor | None, after: dict[str, Any] | None
    ) -> Tensor:
        if before is None:
            return convolve(inputs, source.kernel(inputs.shape[1]))
        mixed, end = source.advance(inputs, before)
        if after is not None:
            after["modes"] = end
        return mixed

    def _whole(
        self, inputs: Tensor, source: ImplicitFilter, before: Slab | Tensor | None, after: dict[str, Any] | None
    ) -> Tensor:
        if before is None:
            self._check_length(inputs.shape[1])
            return convolve(inputs, source.kernel(inputs.shape[1]))
        if isinstance(before, Slab):
            past_length = before.length
            self._check_length(past_length + inputs.shape[1])
            everything = before.append(inputs)
            if after is not None:
                after["inputs"] = before
        else:
            past_length = before.shape[1]
            self._check_length(past_length + inputs.shape[1])
            everything = torch.cat([before.to(inputs.dtype), inputs], 1)
        kernel = source.kernel(everything.shape[1])
        if inputs.shape[1] == 1:
            # One token needs one inner product, not a transform.
            return torch.einsum("bsc,cs->bc", everything, kernel.flip(1).to(inputs.dtype)).unsqueeze(1)
        return convolve(everything, kernel)[:, past_length:]

    def _check_length(self, length: int) -> None:
        if length > self.dims.max_length:
            raise UsageError(
                f"{length} tokens are more than the {self.dims.max_length} positions of this long filter (max_length). "
                "Build the model with a larger max_length, or with long_filter='modal', which has no end."
            )
