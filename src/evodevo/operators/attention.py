"""Low-rank operators: T_ij = σ(C_i B_j) (STAR 2). Softmax attention, pointwise attention, linear attention, windows,
and rotary position embedding (Su et al. 2021) in the half-split layout.

Legend: B batch, T tokens of this call, S tokens seen with them, H query heads, G key and value heads, P head size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from evodevo.operators.base import Slab
from evodevo.operators.featurizer_spec import SOFTMAX
from evodevo.operators.featurizers import FeatureGroup, activate
from evodevo.operators.kernels.choice import kernel_for, may_serve
from evodevo.operators.liv import LIV, rms_normalise
from evodevo.operators.recurrence import scan
from evodevo.operators.spec import Dimensions, OperatorSpec


def attend(
    query: Tensor, key: Tensor, value: Tensor, *, valid: Tensor | None, band: int | None, nonlinearity: int
) -> Tensor:
    """Causal attention of the last T of S tokens.

    Args:
        query: (B, H, T, P).
        key, value: (B, G, S, P); each serves H / G query heads in a row.
        valid: (B, S), false at padding; None if all are real.
        band: number of visible tokens, the own one included; None for all.
        nonlinearity: code of σ; softmax, or pointwise on the scores.

    Returns:
        (B, H, T, P).
    """
    batch, heads, tokens, size = query.shape
    groups, length = key.shape[1:3]
    past = length - tokens
    if band is not None and band >= length:
        band = None
    plain = valid is None and band is None
    if nonlinearity == SOFTMAX and plain and tokens == 1:
        # One token attends to all: the query heads of a group become rows of one product
        # (docs/spec/star.md#attention).
        packed = query.view(batch, groups, heads // groups, size)
        # Fused kernels of CUDA give heads after tokens in memory, which no view can join.
        return F.scaled_dot_product_attention(packed, key, value).reshape(batch, heads, 1, size)
    if nonlinearity == SOFTMAX and band is not None and valid is None and past == 0:
        kernel = _band_kernel(query, band)
        if kernel is not None:
            return kernel(query, key, value, band)
    causal = nonlinearity == SOFTMAX and plain and past == 0
    grouped = heads != groups
    if grouped and not (nonlinearity == SOFTMAX and reads_groups(query.device.type, query.dtype, masked=not causal)):
        key, value = (x.repeat_interleave(heads // groups, 1) for x in (key, value))
        grouped = False
    if causal:
        return F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=grouped)
    visible = visibility(tokens, length, band, valid, query.device)
    if nonlinearity == SOFTMAX:
        return F.scaled_dot_product_attention(query, key, value, attn_mask=visible, enable_gqa=grouped)
    scores = activate(query @ key.mT * size**-0.5, nonlinearity)
    return (scores * visible) @ value


def _band_kernel(query: Tensor, band: int) -> Callable[..., Tensor] | None:
    """A kernel for attention in a band, where there is one on this device."""
    if not may_serve("band", query):
        return None
    tokens, size = query.shape[2:]

    def example(device: torch.device, kind: torch.dtype) -> list[Any]:
        source = torch.Generator().manual_seed(0)
        drawn = [torch.randn(1, heads, 256, size, generator=source) for heads in (2, 1, 1)]
        return [*(x.to(device, kind).requires_grad_() for x in drawn), band]

    def own(query: Tensor, key: Tensor, value: Tensor, band: int) -> Tensor:
        visible = visibility(query.shape[2], key.shape[2], band, None, query.device)
        key, value = (x.float().repeat_interleave(query.shape[1] // key.shape[1], 1) for x in (key, value))
        return F.scaled_dot_product_attention(query.float(), key, value, attn_mask=visible)

    return kernel_for("band", query, {"tokens": tokens, "band": band, "head": size}, own, example)


def reads_groups(device: str, kind: torch.dtype, *, masked: bool) -> bool:
    """Whether torch's attention reads keys that several heads share as they are, without a slower path.

    On CUDA its fused kernels do so for half precision without a mask alone; elsewhere it would fall back to the whole
    matrix of scores, and repeated keys are faster (docs/spec/star.md#attention). Exported graphs repeat keys, since
    what runs them may not know groups.
    """
    if torch.compiler.is_exporting():
        return False
    return device != "cuda" or (kind in (torch.float16, torch.bfloat16) and not masked)


def visibility(tokens: int, length: int, band: int | None, valid: Tensor | None, device: torch.device) -> Tensor:
    """(1 or B, 1, T, S): whether the i-th of the last T tokens attends to token j; always to itself: no empty row."""
    i = torch.arange(length - tokens, length, device=device).unsqueeze(1)
    j = torch.arange(length, device=device)
    visible = j <= i
    if band is not None:
        visible = visible & (i - j < band)
    if valid is None:
        return visible[None, None]
    return ((visible & valid[:, None, :]) | (i == j)).unsqueeze(1)


class Attention(LIV):
    """SA: queries, keys and values with rotary positions.

    What is lent is what was used: rotated keys and values of all tokens so far. Borrowers therefore agree with the
    owner on positions, with and without a state.
    """

    extra = frozenset(["seen", "valid"])

    def __init__(
        self,
        spec: OperatorSpec,
        dims: Dimensions,
        groups: Mapping[str, FeatureGroup] | None = None,
        kept: frozenset[str] | None = None,
    ) -> None:
        super().__init__(spec, dims, groups, kept)
        self.rotary = Rotary(dims.head)

    def mix(
        self, x: Tensor, mask: Tensor | None, shared: Mapping[str, Any], state: dict[str, Any] | None
    ) -> tuple[Tensor, dict[str, Any], dict[str, Any] | None]:
        after: dict[str, Any] | None = None if state is None else {}
        positions, valid, end = self._positions(x, mask, state, after)
        groups: dict[str, Any] = {}
        for role in ("query", "key", "value"):
            if role in shared:
                groups[role] = shared[role]
                continue
            heads = self.features(role, x, mask, shared, state, after)
            heads = heads.unflatten(-1, (-1, self.dims.head)).transpose(1, 2)
            groups[role] = heads if role == "value" else self.rotary(heads, positions, end)
            if role != "query" and state is not None and after is not None and self.spec.keeps_scores:
                groups[role] = self._remember(role, groups[role], state, after)
        if self.spec.keeps_scores:
            band = self.dims.band if self.spec.banded else None
            heads = attend(
                groups["query"],
                groups["key"],
                groups["value"],
                valid=valid,
                band=band,
                nonlinearity=self.spec.nonlinearity,
            )
        else:
            heads = self._linear(groups, shared, state, after)
        if self.spec.differential == "v2":
            heads = self._subtract(heads, x)
        mixed = heads.transpose(1, 2).flatten(2)
        return (rms_normalise(mixed, self.norm) if self.spec.normalised else mixed), groups, after

    def _positions(
        self, x: Tensor, mask: Tensor | None, state: dict[str, Any] | None, after: dict[str, Any] | None
    ) -> tuple[Tensor | slice, Tensor | None, int | None]:
        """Positions of the new tokens, counting real ones only; which of all tokens are real; and a number that no
        position reaches, where one is known without asking the device."""
        tokens = x.shape[1]
        seen: int | Tensor = 0 if state is None else state["seen"]
        if mask is None and isinstance(seen, int):
            if after is not None:
                after |= {"seen": seen + tokens, "valid": None}
            return slice(seen, seen + tokens), None, seen + tokens
        real = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if mask is None else mask
        counted = real.long().cumsum(1) + seen
        positions = (counted - 1).clamp_min(0)
        end = seen + tokens if isinstance(seen, int) else None
        if state is None or after is None:
            return positions, real, end
        slab = state["valid"]
        if slab is None:
            slab = self.slab(x.shape[0], (), 0, torch.bool, x.device)
            slab.append(torch.ones(x.shape[0], int(seen), dtype=torch.bool, device=x.device))
            if self.spec.banded:
                slab.keep_last(self.dims.band - 1)
        valid = slab.append(real)
        if self.spec.banded:
            slab.keep_last(self.dims.band - 1)
        after |= {"seen": counted[:, -1:] if tokens else seen, "valid": slab}
        return positions, valid, end

    def _remember(self, role: str, new: Tensor, state: dict[str, Any], after: dict[str, Any]) -> Tensor:
        """Append to the cache (kept as (B, S, G, P)); returns all entries as (B, G, S, P)."""
        slab: Slab = state[role]
        everything = slab.append(new.transpose(1, 2)).transpose(1, 2)
        if self.spec.banded:
            slab.keep_last(self.dims.band - 1)
        after[role] = slab
        return everything

    def _linear(
        self,
        groups: dict[str, Any],
        shared: Mapping[str, Any],
        state: dict[str, Any] | None,
        after: dict[str, Any] | None,
    ) -> Tensor:
        """Linear attention is the recurrence without decay: S_t = S_{t-1} + k_t ⊗ v_t."""
        repeat = self.spec.repeat
        query, key, value = (groups[role].transpose(1, 2) for role in ("query", "key", "value"))
        if repeat > 1:
            key, value = (x.repeat_interleave(repeat, 2) for x in (key, value))
        initial = self.incoming("matrix", shared, state, groups)
        wide = initial if initial is None or repeat == 1 else initial.repeat_interleave(repeat, 1)
        y, end = scan(
            value, key, query * self.dims.head**-0.5, None, wide, chunk=self.dims.chunk, final=state is not None
        )
        if after is not None and end is not None:
            after["matrix"] = end[:, ::repeat]
        return y.transpose(1, 2)

    def _subtract(self, heads: Tensor, x: Tensor) -> Tensor:
        """DIFF V2: of each pair of heads the second is subtracted, weighted per token.

        Source: docs/spec/star.md#differential-forms.
        """
        weight = torch.sigmoid(F.linear(x, self.subtract)).transpose(1, 2).unsqueeze(-1)
        return heads[:, 0::2] - weight * heads[:, 1::2]

    def initial_state(self, batch: int, max_length: int, dtype: torch.dtype, device: torch.device) -> dict[str, Any]:
        """See ``Operator``; ``seen`` counts tokens, ``valid`` appears with the first mask."""
        return super().initial_state(batch, max_length, dtype, device) | {"seen": 0, "valid": None}


BASE = 10000.0


class Rotary:
    """Cosines and sines of positions (the first half of the sines negative), made once and kept.

    A plain object, neither parameter nor buffer: it is a cache of constants that any device and precision can rebuild.
    """

    def __init__(self, head_size: int) -> None:
        self.head_size = head_size
        self._table: tuple[Tensor, Tensor] | None = None

    def __call__(self, x: Tensor, positions: Tensor | slice, end: int | None = None) -> Tensor:
        """Rotate.

        Args:
            x: (B, H, T, P).
            positions: (B, T) integers, or a slice of consecutive ones for all rows.
            end: a number above all positions; None has the largest fetched from the device.
        """
        if torch.compiler.is_compiling():
            cos, sin = self._traced(x, positions)
        else:
            cos, sin = self._kept(x, positions, end)
        # (-x2, x1) sin = (x2, x1) (-sin, sin): the table holds the sign. Slices would be undone one by one in backward.
        return torch.addcmul(x * cos, x.roll(self.head_size // 2, -1), sin)

    def _kept(self, x: Tensor, positions: Tensor | slice, end: int | None) -> tuple[Tensor, Tensor]:
        if isinstance(positions, slice):
            cos, sin = self._tables(positions.stop, x)
            return cos[positions], sin[positions]
        if end is None:
            end = int(positions.max()) + 1 if positions.numel() else 0
        cos, sin = self._tables(end, x)
        return cos[positions].unsqueeze(1), sin[positions].unsqueeze(1)

    def _traced(self, x: Tensor, positions: Tensor | slice) -> tuple[Tensor, Tensor]:
        """The same numbers as part of a graph: its tensors are symbols, which must not stay here, and its length may be
        free, so that it must not be compared with a table's."""
        if isinstance(positions, slice):
            return self._angles(torch.arange(positions.start, positions.stop, device=x.device), x)
        cos, sin = self._angles(positions, x)
        return cos.unsqueeze(1), sin.unsqueeze(1)

    def _angles(self, positions: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and signed sines of integer positions (...): (..., P) each, computed in float64."""
        even = torch.arange(0, self.head_size, 2, device=like.device, dtype=torch.float64)
        angles = positions.to(torch.float64).unsqueeze(-1) * BASE ** -(even / self.head_size)
        cos, sin = angles.cos().to(like.dtype), angles.sin().to(like.dtype)
        return torch.cat([cos, cos], -1), torch.cat([-sin, sin], -1)

    def _tables(self, stop: int, like: Tensor) -> tuple[Tensor, Tensor]:
        table = self._table
        if table is None or table[0].shape[0] < stop or table[0].dtype != like.dtype or table[0].device != like.device:
            size = max(128, 1 << (stop - 1).bit_length() if stop > 1 else 1)
            with torch.inference_mode(False):  # a table made while generating must serve training later
                table = self._angles(torch.arange(size, device=like.device), like)
            if type(table[0]) is Tensor:  # not a tracer's
                self._table = table
        return table
