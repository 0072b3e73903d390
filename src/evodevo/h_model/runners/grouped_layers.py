"""Layers of equal shape as one: the same computation on stacked parameters.

``group(layers, stack)`` gives a callable that runs G equal layers at once; every product is one batched product. The
parameters stay those of the layers: stacking is an operation that gradients go back through.

Legend: G layers, B samples, S positions, d width, C channels out, h heads, p = d / h.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.operators.adapters import Adapted
from evodevo.operators.attention import attend
from evodevo.operators.block import Block
from evodevo.operators.featurizer_spec import SOFTMAX
from evodevo.operators.feed_forward import FeedForward
from evodevo.operators.local_convolution import LocalConvolution
from evodevo.operators.self_attention import SelfAttention, visible_keys
from evodevo.operators.taps import causal_taps
from evodevo.operators.transformer import TransformerBlock

Signature = tuple[Hashable, ...]
Stack = Callable[[list[Tensor]], Tensor]
"""Stacks tensors of G layers, all of one shape, to (G, ...)."""


@dataclass(frozen=True)
class Grouped(ABC):
    """G equal operators as one."""

    @abstractmethod
    def __call__(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """(G, B, S, d) and (G, B, S) or None -> (G, B, S, d)."""

    def pick(self, places: Tensor) -> Self:
        """Some of the operators, with copies of their parameters."""
        return replace(self, **{field.name: _picked(getattr(self, field.name), places) for field in fields(self)})


def _picked(value: Any, places: Tensor) -> Any:
    if isinstance(value, Tensor):
        return value.index_select(0, places)
    return value.pick(places) if isinstance(value, Grouped) else value


def signature(module: nn.Module) -> Signature | None:
    """The properties that equal layers share; None for a layer that cannot be grouped.

    Types are compared exactly: a linear map with a parametrisation, or one that another library has put in its place,
    is not known here. Nor is a layer with hooks, which wait for calls that would never come.
    """
    if module._forward_hooks or module._forward_pre_hooks:
        return None
    entry = _KINDS.get(type(module))
    return None if entry is None else entry[0](module)


def group(modules: Sequence[nn.Module], stack: Stack) -> Grouped:
    """Modules of one signature as one."""
    return _KINDS[type(modules[0])][1](modules, stack)


@dataclass(frozen=True)
class _Affine(Grouped):
    """x W^T + b."""

    weight: Tensor  # (G, d, C)
    bias: Tensor | None  # (G, 1, C)

    @classmethod
    def of(cls, modules: Sequence[nn.Module], stack: Stack) -> _Affine:
        layers = cast("Sequence[nn.Linear]", modules)
        bias = None if layers[0].bias is None else stack([layer.bias for layer in layers]).unsqueeze(1)
        return cls(stack([layer.weight for layer in layers]).mT, bias)

    def __call__(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        rows = x.flatten(1, -2)
        y = torch.bmm(rows, self.weight) if self.bias is None else torch.baddbmm(self.bias, rows, self.weight)
        return y.view(*x.shape[:-1], -1)


def _of_affine(module: nn.Module) -> Signature:
    layer = cast(nn.Linear, module)
    return ("affine", *layer.weight.shape, layer.bias is None)


@dataclass(frozen=True)
class _Norm(Grouped):
    """RMSNorm."""

    gain: Tensor  # (G, 1, 1, d)
    epsilon: float | None

    @classmethod
    def of(cls, modules: Sequence[nn.Module], stack: Stack) -> _Norm:
        layers = cast("Sequence[nn.RMSNorm]", modules)
        return cls(stack([layer.weight for layer in layers])[:, None, None], layers[0].eps)

    def __call__(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return F.rms_norm(x, x.shape[-1:], None, self.epsilon) * self.gain


def _of_norm(module: nn.Module) -> Signature | None:
    layer = cast(nn.RMSNorm, module)
    return ("norm", *layer.weight.shape, layer.eps) if layer.elementwise_affine else None


@dataclass(frozen=True)
class _Attention(Grouped):
    """Heads and layers are both folded into the batch of one attention."""

    project: _Affine
    out: _Affine
    heads: int
    causal: bool
    dropout: float

    @classmethod
    def of(cls, modules: Sequence[nn.Module], stack: Stack) -> _Attention:
        layers = cast("Sequence[SelfAttention]", modules)
        project = _Affine.of([layer.project for layer in layers], stack)
        out = _Affine.of([layer.out for layer in layers], stack)
        return cls(project, out, layers[0].heads, layers[0].causal, _dropout(layers[0]))

    def __call__(self, x: Tensor, mask: Tensor | None) -> Tensor:
        layers, batch, length, _ = x.shape
        packed = self.project(x).view(layers * batch, length, 3, self.heads, -1)
        query, key, value = packed.permute(2, 0, 3, 1, 4).unbind(0)  # (G B, h, S, p)
        valid = None if mask is None else mask.flatten(0, 1)
        if self.causal:
            mixed = attend(query, key, value, valid=valid, band=None, nonlinearity=SOFTMAX)
        else:
            mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=visible_keys(valid))
        y = self.out(mixed.transpose(1, 2).reshape(x.shape))
        return F.dropout(y, self.dropout) if self.dropout else y


def _of_attention(module: nn.Module) -> Signature | None:
    layer = cast(SelfAttention, module)
    maps = signature(layer.project), signature(layer.out)
    return _together("attention", *maps, layer.heads, layer.causal, _dropout(layer))


@dataclass(frozen=True)
class _FeedForward(Grouped):
    inner: _Affine
    outer: _Affine
    dropout: float

    @classmethod
    def of(cls, modules: Sequence[nn.Module], stack: Stack) -> _FeedForward:
        layers = cast("Sequence[FeedForward]", modules)
        inner = _Affine.of([layer.inner for layer in layers], stack)
        return cls(inner, _Affine.of([layer.outer for layer in layers], stack), _dropout(layers[0]))

    def __call__(self, x: Tensor, mask: Tensor | None) -> Tensor:
        y = self.outer(F.gelu(self.inner(x)))
        return F.dropout(y, self.dropout) if self.dropout else y


def _of_feed_forward(module: nn.Module) -> Signature | None:
    layer = cast(FeedForward, module)
    return _together("feedforward", signature(layer.inner), signature(layer.outer), _dropout(layer))


@dataclass(frozen=True)
class _Convolution(Grouped):
    """Layers become channels of one depthwise convolution; the dense map is batched."""

    taps: Tensor  # (G, K, d)
    dense: _Affine
    causal: bool

    @classmethod
    def of(cls, modules: Sequence[nn.Module], stack: Stack) -> _Convolution:
        layers = cast("Sequence[LocalConvolution]", modules)
        dense = _Affine(stack([layer.weight for layer in layers]).mT, None)
        return cls(stack([layer.taps for layer in layers]), dense, layers[0].causal)

    def __call__(self, x: Tensor, mask: Tensor | None) -> Tensor:
        if mask is not None:
            x = x * mask.unsqueeze(-1)
        layers, batch, length, width = x.shape
        channels, taps = x.permute(1, 2, 0, 3).flatten(2), self.taps.transpose(0, 1).flatten(1)
        if self.causal:
            mixed = causal_taps(channels, taps)
        else:
            reach = taps.shape[0] // 2
            mixed = causal_taps(F.pad(channels, (0, 0, 0, reach)), taps)[:, reach:].contiguous()
        return self.dense(F.gelu(mixed.view(batch, length, layers, width).permute(2, 0, 1, 3)))


def _of_convolution(module: nn.Module) -> Signature:
    layer = cast(LocalConvolution, module)
    return ("convolution", *layer.taps.shape, layer.causal)


@dataclass(frozen=True)
class _Block(Grouped):
    norm: Grouped
    operator: Grouped
    residual: bool

    @classmethod
    def of(cls, modules: Sequence[nn.Module], stack: Stack) -> _Block:
        layers = cast("Sequence[Block]", modules)
        norm = group([layer.norm for layer in layers], stack)
        return cls(norm, group([layer.operator for layer in layers], stack), layers[0].residual)

    def __call__(self, x: Tensor, mask: Tensor | None) -> Tensor:
        y = self.operator(self.norm(x, None), mask)
        return x + y if self.residual else y


def _of_block(module: nn.Module) -> Signature | None:
    layer = cast(Block, module)
    return _together("block", layer.residual, signature(layer.norm), signature(layer.operator))


@dataclass(frozen=True)
class _Transformer(Grouped):
    attention: Grouped
    feedforward: Grouped

    @classmethod
    def of(cls, modules: Sequence[nn.Module], stack: Stack) -> _Transformer:
        layers = cast("Sequence[TransformerBlock]", modules)
        attention = group([layer.attention for layer in layers], stack)
        return cls(attention, group([layer.feedforward for layer in layers], stack))

    def __call__(self, x: Tensor, mask: Tensor | None) -> Tensor:
        return self.feedforward(self.attention(x, mask), mask)


def _of_transformer(module: nn.Module) -> Signature | None:
    layer = cast(TransformerBlock, module)
    return _together("transformer", signature(layer.attention), signature(layer.feedforward))


@dataclass(frozen=True)
class _Adapted(Grouped):
    enter: _Affine
    operator: Grouped
    leave: _Affine

    @classmethod
    def of(cls, modules: Sequence[nn.Module], stack: Stack) -> _Adapted:
        layers = cast("Sequence[Adapted]", modules)
        enter = _Affine.of([layer.enter for layer in layers], stack)
        leave = _Affine.of([layer.leave for layer in layers], stack)
        return cls(enter, group([layer.operator for layer in layers], stack), leave)

    def __call__(self, x: Tensor, mask: Tensor | None) -> Tensor:
        return self.leave(self.operator(self.enter(x), mask))


def _of_adapted(module: nn.Module) -> Signature | None:
    layer = cast(Adapted, module)
    return _together("adapted", signature(layer.enter), signature(layer.operator), signature(layer.leave))


def _together(*parts: Hashable) -> Signature | None:
    """A signature of parts, unless one of them has none."""
    return None if any(part is None for part in parts) else parts


def _dropout(layer: SelfAttention | FeedForward) -> float:
    return layer.dropout if layer.training else 0.0


_KINDS: dict[
    type[nn.Module],
    tuple[Callable[[nn.Module], Signature | None], Callable[[Sequence[nn.Module], Stack], Grouped]],
] = {
    nn.Linear: (_of_affine, _Affine.of),
    nn.RMSNorm: (_of_norm, _Norm.of),
    SelfAttention: (_of_attention, _Attention.of),
    FeedForward: (_of_feed_forward, _FeedForward.of),
    LocalConvolution: (_of_convolution, _Convolution.of),
    Block: (_of_block, _Block.of),
    TransformerBlock: (_of_transformer, _Transformer.of),
    Adapted: (_of_adapted, _Adapted.of),
}
