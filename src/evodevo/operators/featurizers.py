"""Feature groups, computed from the input: projections, short convolutions, explicit and implicit filters.

Every module here creates exactly the parameters that ``OperatorSpec.group_parameters`` names. One module is one entry
of a backbone's bank; LIVs that share a featurizer hold the same key.

Legend: B batch, T tokens, D model width, C channels of the group, K taps, N modes.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.operators import featurizer_spec as genes
from evodevo.operators.base import full_precision, is_free
from evodevo.operators.fourier import convolve
from evodevo.operators.spec import RECURRENT, Dimensions, OperatorSpec
from evodevo.operators.taps import causal_taps, taps_after

LOWEST_LOG_DECAY = -20.0
DECAY_STEP_RANGE = (1e-3, 0.1)
DECAY_RATE_RANGE = (1.0, 16.0)
MODE_RATE_RANGE = (1e-3, 2.0)
FILTER_FREQUENCY = 8.0


class FeatureGroup(nn.Module):
    """One feature group: its parameters, by name, with the shapes that the specification gives."""

    def __init__(self, spec: OperatorSpec, role: str, dims: Dimensions) -> None:
        super().__init__()
        self.role = role
        for name, shape in spec.group_parameters(role, dims).items():
            self.register_parameter(name, nn.Parameter(torch.empty(shape)))


class Projection(FeatureGroup):
    """A dense map or one gain per channel, a short convolution, a non-linearity: each where the genes ask for it."""

    weight: nn.Parameter
    gain: nn.Parameter
    taps: nn.Parameter
    direct: nn.Parameter

    def __init__(self, spec: OperatorSpec, role: str, dims: Dimensions) -> None:
        super().__init__(spec, role, dims)
        self.dense = hasattr(self, "weight")
        self.convolved = hasattr(self, "taps")
        self.activation = spec.groups[role].nonlinearity
        if spec.structure in RECURRENT and self.convolved and self.activation == genes.LINEAR:
            # The structure's own rule: values, writes and reads pass SiLU after their convolution
            # (docs/spec/star.md#recurrence).
            self.activation = genes.SWISH
        with torch.no_grad():
            if self.dense:
                self.weight.normal_(std=dims.width**-0.5)
            if self.convolved:
                self.taps.normal_(std=self.taps.shape[0] ** -0.5)
                self.taps.no_weight_decay = True  # type: ignore[attr-defined]
            if hasattr(self, "gain"):
                self.gain.fill_(1.0)
            if hasattr(self, "direct"):
                self.direct.fill_(1.0)

    def forward(
        self, x: Tensor, past: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Features of x.

        Args:
            x: (B, T, D).
            past: (B, K-1, C), what the convolution saw before, if the group has one and the call continues a sequence.
            mask: (B, T), true at real tokens.

        Returns:
            features (B, T, C) and the new past.
        """
        if self.dense:
            x = F.linear(x, self.weight)
        elif not self.convolved:
            x = x * self.gain
        if self.convolved:
            if past is None:
                x = causal_taps(x, self.taps)
            else:
                x, past = taps_after(x, past, self.taps)
            if mask is not None:
                x = x * mask.unsqueeze(-1)
        return activate(x, self.activation), past


class Decay(FeatureGroup):
    """Rec's group A: step size Δ = softplus(W u + b) and log α = -exp(log_rate) Δ, one of each per head."""

    weight: nn.Parameter
    bias: nn.Parameter
    log_rate: nn.Parameter

    def __init__(self, spec: OperatorSpec, role: str, dims: Dimensions) -> None:
        super().__init__(spec, role, dims)
        with torch.no_grad():
            self.weight.uniform_(-(dims.width**-0.5), dims.width**-0.5)
            low, high = (math.log(value) for value in DECAY_STEP_RANGE)
            step = torch.exp(torch.empty_like(self.bias).uniform_(low, high))
            self.bias.copy_(step + torch.log(-torch.expm1(-step)))  # the inverse of softplus
            self.log_rate.copy_(torch.empty_like(self.log_rate).uniform_(*DECAY_RATE_RANGE).log())
        self.weight.no_weight_decay = True  # type: ignore[attr-defined]

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(log α, Δ), each (B, T, H), in float32 or better; 0 and 0 at padding, which leaves a state as it is."""
        return self.decays(F.linear(x, self.weight), mask)

    def decays(self, logits: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """(log α, Δ) of their projections (B, T, H)."""
        precise = torch.promote_types(logits.dtype, torch.float32)
        step = F.softplus(logits.to(precise) + self.bias)
        if mask is not None:
            step = step * mask.unsqueeze(-1)
        # exp(-20) is nothing beside 1 in float32: the bound changes no result and keeps sums of logs exact.
        log_decay = (-torch.exp(self.log_rate.to(precise)) * step).clamp_min(LOWEST_LOG_DECAY)
        return log_decay, step


class DecayAndStrength(Decay):
    """The gated delta rule's group A: log α as in ``Decay``, and β = sigmoid of a projection, one of each per head."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(log α, β), each (B, T, H), in float32 or better; 0 and 0 at padding, which leaves a state as it is."""
        rates, strengths = F.linear(x, self.weight).chunk(2, -1)
        log_decay, _ = self.decays(rates, mask)
        strength = torch.sigmoid(strengths.to(log_decay.dtype))
        return log_decay, strength if mask is None else strength * mask.unsqueeze(-1)


class ExplicitFilter(FeatureGroup):
    """The taps (K, D) of a short filter."""

    taps: nn.Parameter

    def __init__(self, spec: OperatorSpec, role: str, dims: Dimensions) -> None:
        super().__init__(spec, role, dims)
        with torch.no_grad():
            self.taps.normal_(std=self.taps.shape[0] ** -0.5)
        self.taps.no_weight_decay = True  # type: ignore[attr-defined]


class ModalFilter(FeatureGroup):
    """h_t = Σ_n r_n λ_n^t + D [t = 0], λ = exp(-exp(log_rate)): unbounded length, constant state.

    Source: docs/spec/star.md#long-gated-convolution.
    """

    residues: nn.Parameter
    log_rates: nn.Parameter
    direct: nn.Parameter

    def __init__(self, spec: OperatorSpec, role: str, dims: Dimensions) -> None:
        super().__init__(spec, role, dims)
        self.block = dims.chunk
        with torch.no_grad():
            low, high = (math.log(value) for value in MODE_RATE_RANGE)
            self.log_rates.uniform_(low, high)
            # Each mode's energy Σ_t λ^2t is 1 / (1 - λ²); together the modes have energy one.
            energy = -torch.expm1(-2 * self.log_rates.exp())
            self.residues.normal_().mul_((energy / dims.modes).sqrt())
            self.direct.fill_(1.0)
        self.log_rates.no_weight_decay = True  # type: ignore[attr-defined]
        self.residues.no_weight_decay = True  # type: ignore[attr-defined]

    def powers(self, steps: Tensor) -> Tensor:
        """λ^steps: (D, N, len(steps)), in float32 or better."""
        rates = self.log_rates.to(torch.promote_types(self.log_rates.dtype, torch.float32)).exp()
        return torch.exp(-rates.unsqueeze(-1) * steps.to(rates))

    def kernel(self, length: int) -> Tensor:
        """h_0 … h_{length-1}: (D, length).

        λ^(block q + r) = λ^(block q) λ^r turns most exponentials into one matrix product.
        """
        with full_precision(self.log_rates.device):
            return self._kernel(length)

    def _kernel(self, length: int) -> Tensor:
        device = self.log_rates.device
        if is_free(length):  # blocks need a number
            kernel = (self.powers(torch.arange(length, device=device)) * self.residues.unsqueeze(-1)).sum(1)
            return _with_direct(kernel, self.direct)
        block = max(1, min(self.block, length))
        coarse = self.powers(torch.arange(0, length, block, device=device)) * self.residues.unsqueeze(-1)
        fine = self.powers(torch.arange(block, device=device))
        kernel = (coarse.transpose(1, 2) @ fine).flatten(1)[:, :length]
        return _with_direct(kernel, self.direct)

    def advance(self, x: Tensor, modes: Tensor) -> tuple[Tensor, Tensor]:
        """Continue a sequence.

        Args:
            x: (B, T, D).
            modes: (B, D, N), s_{-1} of s_t = λ s_{t-1} + x_t.

        Returns:
            y (B, T, D) and the modes after the last token.
        """
        tokens = x.shape[1]
        if tokens == 0:
            return x, modes
        inputs = x.to(modes.dtype)
        if tokens == 1:
            now = modes * self.powers(torch.ones(1, device=x.device)).squeeze(-1) + inputs.transpose(1, 2)
            y = (now * self.residues).sum(-1) + self.direct * inputs[:, 0]
            return y.unsqueeze(1).to(x.dtype), now
        powers = self.powers(torch.arange(tokens + 1, device=x.device))
        with full_precision(x.device):
            carried = torch.einsum("bdn,dn,dnt->btd", modes, self.residues, powers[..., 1:])
            end = modes * powers[..., tokens] + torch.einsum("btd,dnt->bdn", inputs, powers[..., :tokens].flip(-1))
        return (convolve(inputs, self.kernel(tokens)) + carried).to(x.dtype), end


class ImplicitFilter(FeatureGroup):
    """A sine network over positions times an exponential window (Hyena): ends at ``max_length``, its state grows."""

    first: nn.Parameter
    first_bias: nn.Parameter
    second: nn.Parameter
    second_bias: nn.Parameter
    third: nn.Parameter
    direct: nn.Parameter

    def __init__(self, spec: OperatorSpec, role: str, dims: Dimensions) -> None:
        super().__init__(spec, role, dims)
        self.max_length = dims.max_length
        with torch.no_grad():
            for weight in (self.first, self.second, self.third):
                weight.normal_(std=weight.shape[1] ** -0.5)
            self.first_bias.normal_()
            self.second_bias.normal_()
            self.direct.fill_(1.0)

    def kernel(self, length: int) -> Tensor:
        """h_0 … h_{length-1}: (D, length)."""
        with full_precision(self.first.device):
            return self._kernel(length)

    def _kernel(self, length: int) -> Tensor:
        precise = torch.promote_types(self.first.dtype, torch.float32)
        time = torch.arange(length, device=self.first.device, dtype=precise)
        phase = 2 * math.pi * time / self.max_length
        positions = torch.stack([time / self.max_length, torch.cos(phase), torch.sin(phase)], 1)
        hidden = torch.sin(FILTER_FREQUENCY * F.linear(positions, self.first.to(precise), self.first_bias.to(precise)))
        hidden = torch.sin(F.linear(hidden, self.second.to(precise), self.second_bias.to(precise)))
        shape = F.linear(hidden, self.third.to(precise)).t()
        window = self._window(shape.shape[0], time)
        kernel = shape * window
        return _with_direct(kernel, self.direct)

    def _window(self, channels: int, time: Tensor) -> Tensor:
        # From fast to slow decay over the channels; scaled so that each channel's filter has about unit energy.
        rates = torch.logspace(-3, 0, channels, dtype=time.dtype, device=time.device).unsqueeze(1)
        return torch.exp(-rates * time) * (-torch.expm1(-2 * rates)).sqrt()


def _with_direct(kernel: Tensor, direct: Tensor) -> Tensor:
    """The kernel (D, length) with the direct term (D,) at its first place."""
    if is_free(kernel.shape[1]):  # a slice may have one column, and graphs fix what may be one
        return kernel + F.pad(direct.unsqueeze(1), (0, kernel.shape[1] - 1))
    return torch.cat([kernel[:, :1] + direct.unsqueeze(1), kernel[:, 1:]], 1)


def activate(x: Tensor, code: int) -> Tensor:
    """The non-linearity of that code: none, ReLU or Swish."""
    if code == genes.RELU:
        return F.relu(x)
    return F.silu(x) if code == genes.SWISH else x


def build_group(spec: OperatorSpec, role: str, dims: Dimensions) -> FeatureGroup:
    """The module of one feature group."""
    group = spec.groups[role]
    if group.parametrisation == genes.EXPLICIT:
        return ExplicitFilter(spec, role, dims)
    if group.parametrisation == genes.IMPLICIT:
        return (ModalFilter if dims.long_filter == "modal" else ImplicitFilter)(spec, role, dims)
    if role == "decay":
        return (DecayAndStrength if spec.structure == "delta" else Decay)(spec, role, dims)
    return Projection(spec, role, dims)
