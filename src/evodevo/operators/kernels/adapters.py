"""Adapters: each takes what the library's own form takes, in its conventions, and calls a package in that one's.

Conventions, and which of them were ever run: docs/gpu.md#kernels. Before a kernel is used it is compared with the own
form (``choice``).

Legend: B batch, T tokens, H heads, P head size, N state size, G 1 or H, C channels, K taps.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

_SLOWEST = 1e-6
"""Smallest step of mamba_ssm's decay, whose values are divided by it; a smaller one would divide by zero at padding."""


def fla_scan(
    value: Tensor, write: Tensor, read: Tensor, log_decay: Tensor, initial: Tensor | None, final: bool
) -> tuple[Tensor, Tensor | None]:
    """``recurrence.scan`` by flash-linear-attention: all (B, T, H, ·), logs of decays, states (B, H, N, P); its default
    scale is N^-1/2, and ours 1."""
    from fla.ops.simple_gla import chunk_simple_gla

    heads = value.shape[2]
    key, query = (x.to(value.dtype).expand(-1, -1, heads, -1).contiguous() for x in (write, read))
    y, end = chunk_simple_gla(
        q=query,
        k=key,
        v=value.contiguous(),
        g=log_decay.float(),
        scale=1.0,
        initial_state=None if initial is None else initial.float().contiguous(),
        output_final_state=final,
    )
    return y, end


def mamba_scan(
    value: Tensor, write: Tensor, read: Tensor, log_decay: Tensor, initial: Tensor | None, final: bool
) -> tuple[Tensor, Tensor | None]:
    """``recurrence.scan`` by mamba_ssm: decays e^(A dt), values times dt, states (B, H, P, N). With A = -1 and
    dt = -log α, values are divided by dt before."""
    from mamba_ssm.ops.triton.ssd_combined import mamba_chunk_scan_combined

    step = (-log_decay.float()).clamp_min(_SLOWEST)
    y, end = mamba_chunk_scan_combined(
        (value / step.unsqueeze(-1).to(value.dtype)).contiguous(),
        step,
        -torch.ones(value.shape[2], device=value.device),
        write.to(value.dtype).contiguous(),
        read.to(value.dtype).contiguous(),
        chunk_size=64,
        initial_states=None if initial is None else initial.float().mT.contiguous(),
        return_final_states=True,
    )
    return y, end.mT if final else None


def fla_delta(
    value: Tensor,
    key: Tensor,
    query: Tensor,
    log_decay: Tensor,
    strength: Tensor,
    initial: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """``delta.delta_scan`` by flash-linear-attention: keys are of length one already, queries scaled already."""
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule

    y, end = chunk_gated_delta_rule(
        q=query.to(value.dtype).contiguous(),
        k=key.to(value.dtype).contiguous(),
        v=value.contiguous(),
        g=log_decay.float(),
        beta=strength.float(),
        scale=1.0,
        initial_state=None if initial is None else initial.float().contiguous(),
        output_final_state=True,
    )
    return y, end


def conv1d_taps(x: Tensor, taps: Tensor) -> Tensor:
    """``taps.causal_taps`` by causal-conv1d: (B, C, T), channels last in memory; its last tap is on the token."""
    from causal_conv1d import causal_conv1d_fn

    weight = taps.flip(0).t().contiguous().to(x.dtype)
    y: Tensor = causal_conv1d_fn(x.contiguous().transpose(1, 2), weight, None, activation=None).transpose(1, 2)
    return y.to(torch.promote_types(x.dtype, taps.dtype))


def flex_band(query: Tensor, key: Tensor, value: Tensor, band: int) -> Tensor:
    """Softmax attention to the last ``band`` tokens: only blocks in the band are computed."""
    attend: Any = _compiled()
    y: Tensor = attend(
        query,
        key,
        value,
        block_mask=_band_mask(query.shape[2], band, str(query.device)),
        enable_gqa=query.shape[1] != key.shape[1],
    )
    return y


@lru_cache(maxsize=1)
def _compiled() -> Any:
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention)


@lru_cache(maxsize=16)
def _band_mask(tokens: int, band: int, device: str) -> Any:
    from torch.nn.attention.flex_attention import create_block_mask

    def near(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (key <= query) & (query - key < band)

    return create_block_mask(near, None, None, tokens, tokens, device=device)
