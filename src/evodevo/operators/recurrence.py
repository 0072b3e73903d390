"""Gated linear recurrences: semi-separable T_ij = C_i A_{i-1} … A_{j+1} B_j (STAR 2), with one decay per head.

S_t = α_t S_{t-1} + B_t ⊗ V_t,  y_t = C_tᵀ S_t. The scan works on chunks of tokens: inside a chunk it is a masked matrix
product (the SSD form of Mamba-2), and so is the pass of states from chunk to chunk (``chunk_states``). Why this form:
docs/spec/star.md#recurrence.

Legend: B batch, T tokens, H heads, P head size, N state size, G 1 or H, c chunk, K chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from evodevo.operators.base import full_precision, is_free
from evodevo.operators.chunk_states import states_before_chunks
from evodevo.operators.kernels.choice import kernel_for, may_serve
from evodevo.operators.liv import LIV, rms_normalise


def scan(
    value: Tensor,
    write: Tensor,
    read: Tensor,
    log_decay: Tensor | None,
    initial: Tensor | None = None,
    *,
    chunk: int = 32,
    final: bool = True,
) -> tuple[Tensor, Tensor | None]:
    """The recurrence over all tokens at once.

    Args:
        value: V, (B, T, H, P).
        write: B, (B, T, G, N).
        read: C, (B, T, G, N).
        log_decay: log α <= 0, (B, T, H); None for no decay.
        initial: S before the first token, (B, H, N, P); None for zeros.
        chunk: tokens per chunk.
        final: whether the last state is wanted.

    Returns:
        y (B, T, H, P), and S after the last token (B, H, N, P) or None.

    Decays and states are float32 or better, and so are the products, except under autocast to bfloat16: there the
    products over chunks have bfloat16 factors (relative error of y below 1 %), while states are added up in float32.
    Differences of cumulated logs are masked before they are exponentiated: nothing overflows, whatever the decays
    (docs/spec/star.md#recurrence).
    """
    kind, precise = value.dtype, torch.promote_types(value.dtype, torch.float32)
    factors = _factors(value.device, precise)
    with full_precision(value.device):
        log_decay = None if log_decay is None else log_decay.to(precise)
        if value.shape[1] == 0:
            return value, initial
        if value.shape[1] == 1:
            y, now = _step(value.to(precise), write.to(precise), read.to(precise), log_decay, initial)
            end: Tensor | None = now
        else:
            kernel = _kernel(value.to(factors), write.shape[-1]) if log_decay is not None else None
            if kernel is not None:
                y, end = kernel(value.to(factors), write, read, log_decay, initial, final)
            else:
                y, end = _chunked(value, write.to(precise), read.to(precise), log_decay, initial, chunk, final, factors)
    return y.to(kind), end if final else None


def _kernel(value: Tensor, states: int) -> Callable[..., tuple[Tensor, Tensor | None]] | None:
    """A kernel for these values and N, where there is one on this device."""
    if not may_serve("scan", value):
        return None
    tokens, size = value.shape[1], value.shape[3]

    def example(device: torch.device, kind: torch.dtype) -> list[Any]:
        source = torch.Generator().manual_seed(0)
        shapes = (1, 96, 2, size), (1, 96, 1, states), (1, 96, 1, states), (1, 96, 2), (1, 2, states, size)
        tensors = [torch.randn(shape, generator=source).to(device) for shape in shapes]
        tensors[0], tensors[3] = tensors[0].to(kind), -0.2 * tensors[3].abs()
        return [*(tensor.requires_grad_() for tensor in tensors), True]

    def own(value: Tensor, write: Tensor, read: Tensor, decay: Tensor, initial: Tensor, final: bool) -> Any:
        return _chunked(value.float(), write, read, decay, initial, 32, final, torch.float32)

    return kernel_for("scan", value, {"tokens": tokens, "state": states, "head": size}, own, example)


def _factors(device: torch.device, precise: torch.dtype) -> torch.dtype:
    """The number format of the factors of large products. Half precision is not taken: its states would overflow."""
    if precise != torch.float32 or not torch.amp.is_autocast_available(device.type):
        return precise
    half = torch.is_autocast_enabled(device.type) and torch.get_autocast_dtype(device.type) == torch.bfloat16
    return torch.bfloat16 if half else precise


def _step(
    value: Tensor, write: Tensor, read: Tensor, log_decay: Tensor | None, initial: Tensor | None
) -> tuple[Tensor, Tensor]:
    state = write[:, 0].unsqueeze(-1) * value[:, 0].unsqueeze(-2)  # (B, H, N, P)
    if initial is not None:
        state = state + (initial if log_decay is None else initial * log_decay[:, 0].exp()[..., None, None])
    y = read[:, 0].unsqueeze(-2) @ state  # (B, H, 1, P)
    return y.transpose(1, 2), state


def _chunked(
    value: Tensor,
    write: Tensor,
    read: Tensor,
    log_decay: Tensor | None,
    initial: Tensor | None,
    chunk: int,
    final: bool,
    factors: torch.dtype,
) -> tuple[Tensor, Tensor | None]:
    batch, tokens, heads, size = value.shape
    if is_free(tokens):  # the number of chunks would be a symbol too: a graph takes the whole text as one
        chunk, chunks = tokens, 1
    else:
        chunk = min(chunk, tokens)
        chunks = -(-tokens // chunk)
    extra = chunks * chunk - tokens

    def split(x: Tensor) -> Tensor:  # (B, T, H or G, …) -> (B, H or G, K, c, …)
        if not is_free(extra) and extra:  # Padding: no decay (log 0) and no write (0), so the last state is right.
            x = F.pad(x, (0, 0) * (x.ndim - 2) + (0, extra))
        return x.reshape(batch, chunks, chunk, *x.shape[2:]).movedim(3, 1)

    v, b, c = split(value.to(factors)).contiguous(), split(write), split(read)
    scores = c.to(factors) @ b.to(factors).mT  # (B, G, K, c, c)
    carried = None
    if log_decay is None:
        scores = scores.tril()
    else:
        total = split(log_decay).contiguous().cumsum(-1)  # (B, H, K, c)
        never = torch.full((chunk, chunk), float("-inf"), dtype=total.dtype, device=total.device).triu(1)
        scores = scores * (total.unsqueeze(-1) + (never - total.unsqueeze(-2))).exp().to(factors)
        b = b * (total[..., -1:] - total).exp().unsqueeze(-1)
        c = c * total.exp().unsqueeze(-1)
        carried = total[..., -1].flatten(0, 1)
    made = (b.to(factors).mT @ v).to(write.dtype)  # (B, H, K, N, P)
    before, end = states_before_chunks(
        made.flatten(3).flatten(0, 1),
        carried,
        None if initial is None else initial.to(made.dtype).flatten(2).flatten(0, 1),
        final=final,
    )
    scores = scores.expand(-1, heads, -1, -1, -1).flatten(0, 2)
    seen = c.to(factors).expand(-1, heads, -1, -1, -1).flatten(0, 2)
    # One product per head and chunk: what came before the chunk, plus what happens inside it.
    earlier = torch.bmm(seen, before.to(factors).reshape(-1, *made.shape[3:]))
    y = torch.baddbmm(earlier, scores, v.flatten(0, 2))
    y = y.view(batch, heads, chunks * chunk, size).transpose(1, 2)[:, :tokens]
    return y, None if end is None else end.reshape(batch, heads, *made.shape[3:])


class Recurrence(LIV):
    """Rec: values V, output gate Z, decay A, write B and read C; y = W_o (RMSNorm(scan + D V) * SiLU(Z))."""

    def mix(
        self, x: Tensor, mask: Tensor | None, shared: Mapping[str, Any], state: dict[str, Any] | None
    ) -> tuple[Tensor, dict[str, Any], dict[str, Any] | None]:
        after: dict[str, Any] | None = None if state is None else {}
        value, gate, write = (self.features(role, x, mask, shared, state, after) for role in ("value", "gate", "write"))
        decay = shared["decay"] if "decay" in shared else self.groups["decay"](x, mask)
        read = (
            shared["read"]
            if "read" in shared
            else (self.features("read", x, mask, shared, state, after), self.groups["read"].direct)
        )
        groups: dict[str, Any] = {"value": value, "gate": gate, "decay": decay, "write": write, "read": read}
        initial = self.incoming("matrix", shared, state, groups)
        log_decay, step = decay
        heads = value.unflatten(-1, (self.dims.heads, self.dims.head))
        y, end = scan(
            heads * step.unsqueeze(-1).to(heads.dtype),
            write.unsqueeze(2),
            read[0].unsqueeze(2),
            log_decay,
            initial,
            chunk=self.dims.chunk,
            final=state is not None,
        )
        if after is not None:
            after["matrix"] = end
        mixed = y.flatten(2) + read[1] * value
        return rms_normalise(mixed, self.norm) * F.silu(gate), groups, after
