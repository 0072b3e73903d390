"""The gated delta rule (Yang et al. 2024, "Gated Delta Networks", section 3): a recurrence whose write first takes away
what the state holds under the same key.

S_t = α_t (I - β_t k_t k_tᵀ) S_{t-1} + β_t k_t v_tᵀ,  y_t = S_tᵀ q_t. With u_t = β_t (v_t - α_t S_{t-1}ᵀ k_t) this is
S_t = α_t S_{t-1} + k_t u_tᵀ, so that all u of a chunk are one triangular system and the rest are matrix products.
Why: docs/spec/star.md#gated-delta-rule.

Legend: B batch, T tokens, H heads, P head size, c chunk, K chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from evodevo.operators.base import full_precision, is_free
from evodevo.operators.kernels.choice import kernel_for, may_serve
from evodevo.operators.liv import LIV, rms_normalise

UNIT_EPSILON = 1e-6


def delta_scan(
    value: Tensor,
    key: Tensor,
    query: Tensor,
    log_decay: Tensor,
    strength: Tensor,
    initial: Tensor | None = None,
    *,
    chunk: int = 32,
) -> tuple[Tensor, Tensor | None]:
    """The recurrence over all tokens at once.

    Args:
        value: v, (B, T, H, P).
        key: k, (B, T, H, P), of norm at most one: the state then stays bounded.
        query: q, (B, T, H, P).
        log_decay: log α <= 0, (B, T, H).
        strength: β in [0, 1], (B, T, H).
        initial: S before the first token, (B, H, P, P), keys first; None for zeros.
        chunk: Tokens per chunk.

    Returns:
        y (B, T, H, P), and S after the last token (B, H, P, P); None where there are no tokens and no initial state.

    Computed in float32 or better; differences of cumulated logs are masked before they are exponentiated.
    """
    kind, precise = value.dtype, torch.promote_types(value.dtype, torch.float32)
    if value.shape[1] == 0:
        return value, initial
    with full_precision(value.device):
        kernel = _kernel(value) if value.shape[1] > 1 else None
        if kernel is not None:
            y, end = kernel(value, key, query, log_decay, strength, initial)
            return y.to(kind), end
        value, key, query, log_decay, strength = (x.to(precise) for x in (value, key, query, log_decay, strength))
        if value.shape[1] == 1:
            y, end = _step(value, key, query, log_decay, strength, initial)
        else:
            # A graph with a free length has no loop over chunks.
            size = value.shape[1] if is_free(value.shape[1]) else min(chunk, value.shape[1])
            y, end = _chunked(value, key, query, log_decay, strength, initial, size)
    return y.to(kind), end


def _kernel(value: Tensor) -> Callable[..., tuple[Tensor, Tensor]] | None:
    """A kernel for these values, where there is one on this device."""
    if not may_serve("delta", value):
        return None
    size = value.shape[3]

    def example(device: torch.device, kind: torch.dtype) -> list[Any]:
        source = torch.Generator().manual_seed(0)
        value, key, query = torch.randn(3, 1, 96, 2, size, generator=source).unbind(0)
        decay, strength = -0.2 * torch.rand(1, 96, 2, generator=source), torch.rand(1, 96, 2, generator=source)
        initial = torch.randn(1, 2, size, size, generator=source)
        tensors = [value.to(kind), F.normalize(key, dim=-1), query * size**-0.5, decay, strength, initial]
        return [tensor.to(device).requires_grad_() for tensor in tensors]

    def own(value: Tensor, key: Tensor, query: Tensor, decay: Tensor, strength: Tensor, initial: Tensor) -> Any:
        return _chunked(value.float(), key, query, decay, strength, initial, 32)

    return kernel_for("delta", value, {"tokens": value.shape[1], "head": size}, own, example)


def _step(
    value: Tensor, key: Tensor, query: Tensor, log_decay: Tensor, strength: Tensor, initial: Tensor | None
) -> tuple[Tensor, Tensor]:
    v, k, q = (x.transpose(1, 2) for x in (value, key, query))  # (B, H, 1, P)
    beta = strength[:, 0, :, None, None]
    if initial is None:
        state = k.mT @ (beta * v)
    else:
        kept = initial * log_decay[:, 0].exp()[..., None, None]
        state = kept + k.mT @ (beta * (v - k @ kept))
    return (q @ state).transpose(1, 2), state


def _chunked(
    value: Tensor,
    key: Tensor,
    query: Tensor,
    log_decay: Tensor,
    strength: Tensor,
    initial: Tensor | None,
    chunk: int,
) -> tuple[Tensor, Tensor]:
    batch, tokens, heads, size = value.shape
    chunks = -(-tokens // chunk)
    extra = chunks * chunk - tokens

    def split(x: Tensor) -> Tensor:  # (B, T, H, …) -> (B, K, H, c, …)
        if extra:  # Padding: no decay (log 0) and no write (β = 0), so the last state is right.
            x = F.pad(x, (0, 0) * (x.ndim - 2) + (0, extra))
        return x.reshape(batch, chunks, chunk, *x.shape[2:]).transpose(2, 3)

    v, k, q = split(value), split(key), split(query)
    beta = split(strength).unsqueeze(-1)
    total = split(log_decay).cumsum(-1)  # log of the decay from the chunk's beginning, (B, K, H, c)
    never = torch.full((chunk, chunk), float("-inf"), dtype=total.dtype, device=total.device).triu(1)
    decay = (total.unsqueeze(-1) + (never - total.unsqueeze(-2))).exp()  # decay from j to i, 0 above the diagonal
    since = total.exp().unsqueeze(-1)
    until = (total[..., -1:] - total).exp().unsqueeze(-1)
    # (I + L) u = β (v - since (k S)), L strictly lower triangular.
    lower = (beta * (k @ k.mT) * decay).tril(-1)
    solved = torch.linalg.solve_triangular(
        lower, torch.cat([beta * v, beta * since * k], -1), upper=False, unitriangular=True
    )
    news, reads = solved.split([size, size], -1)
    scores = (q @ k.mT) * decay
    inner = scores @ news  # what the chunk adds to its own outputs, without a state before it
    outer = since * q - scores @ reads  # what a state before it is read with
    made = (until * k).mT @ news
    taken = (until * k).mT @ reads
    passed = total[..., -1, None, None].exp()
    state = value.new_zeros(batch, heads, size, size) if initial is None else initial.to(value.dtype)
    # Indexing inside the loop would make the backward pass quadratic; unbind does not.
    ys = []
    for add, part, made_n, taken_n, passed_n in zip(
        *(x.unbind(1) for x in (inner, outer, made, taken, passed)), strict=True
    ):
        ys.append(add + part @ state)
        state = passed_n * state + made_n - taken_n @ state
    y = torch.stack(ys, 1)  # (B, K, H, c, P)
    return y.transpose(2, 3).flatten(1, 2)[:, :tokens], state


class GatedDelta(LIV):
    """Delta: values V, output gate Z, decay and strength A, keys B and queries C;
    y = W_o (RMSNorm(delta_scan) * SiLU(Z)), keys and queries normalised to length one per head."""

    def mix(
        self, x: Tensor, mask: Tensor | None, shared: Mapping[str, Any], state: dict[str, Any] | None
    ) -> tuple[Tensor, dict[str, Any], dict[str, Any] | None]:
        after: dict[str, Any] | None = None if state is None else {}
        groups: dict[str, Any] = {
            role: self.features(role, x, mask, shared, state, after) for role in ("value", "gate", "write", "read")
        }
        groups["decay"] = shared["decay"] if "decay" in shared else self.groups["decay"](x, mask)
        initial = self.incoming("matrix", shared, state, groups)
        value, key, query = (self._heads(groups[role]) for role in ("value", "write", "read"))
        log_decay, strength = groups["decay"]
        y, end = delta_scan(
            value,
            _unit(key),
            _unit(query) * self.dims.head**-0.5,
            log_decay,
            strength,
            initial,
            chunk=self.dims.chunk,
        )
        if after is not None:
            after["matrix"] = end
        return rms_normalise(y.flatten(2), self.norm) * F.silu(groups["gate"]), groups, after

    def _heads(self, x: Tensor) -> Tensor:
        return x.reshape(*x.shape[:-1], self.dims.heads, self.dims.head)


def _unit(x: Tensor) -> Tensor:
    """Vectors of length one, zero where they are zero, in float32 or better."""
    x = x.to(torch.promote_types(x.dtype, torch.float32))
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + UNIT_EPSILON)
