"""The components that paths of every modality have, one ``nn.Module`` each (docs/spec/munet.md#architecture).

Legend: B samples, n tokens (the class token first), h width, H heads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.errors import UsageError
from evodevo.h_model.nested import NestedHModel
from evodevo.multitask.paths.blocks_spec import (
    BLOCK,
    CLASS_TOKEN,
    HEAD,
    NORM,
    POSITIONS,
    BlockStructure,
    PathActivation,
    PathBlock,
)
from evodevo.multitask.paths.kinds import PathStructure
from evodevo.operators.layers.base import Layer
from evodevo.operators.layers.build import build_layer

ACTIVATIONS: dict[PathActivation, Callable[[Tensor], Tensor]] = {
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "gelu": F.gelu,
    "relu": F.relu,
    "silu": F.silu,
}
POSITION_STD = 0.02
BIAS_STD = 1e-6


def build_part(structure: BlockStructure, role: str, *, identity: bool = False) -> nn.Module:
    """A new component, of any role but the embedding, with weights from the global random stream.

    Args:
        structure: structure of the path that needs it.
        role: role of the component.
        identity: whether a block begins as one that changes nothing.

    Raises:
        UsageError: a block that cannot be built.
    """
    if role.startswith(BLOCK):
        block = structure.block(role)
        if isinstance(block, PathBlock):
            return AttentionBlock(block, structure, identity=identity)
        return LayerBlock(block, structure, identity=identity)
    if role == NORM:
        return nn.LayerNorm(structure.width, structure.norm_epsilon)
    simple = {CLASS_TOKEN: ClassToken, POSITIONS: Positions, HEAD: Head}
    return simple[role](structure)


class ClassToken(nn.Module):
    """Puts the class token before the others: (B, n - 1, h) -> (B, n, h)."""

    def __init__(self, structure: BlockStructure) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.zeros(structure.width))

    def forward(self, x: Tensor) -> Tensor:
        """See the class."""
        return torch.cat([self.token.expand(x.shape[0], 1, -1), x], 1)


class Positions(nn.Module):
    """Adds the position embedding of each token: (B, n, h), n at most as many as the path reads, -> the same."""

    def __init__(self, structure: BlockStructure) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(structure.tokens, structure.width))
        nn.init.normal_(self.table, std=POSITION_STD)

    def forward(self, x: Tensor) -> Tensor:
        """See the class."""
        return x + self.table[: x.shape[1]]


class AttentionBlock(nn.Module):
    """x + attention(norm(x)), then x + W_2 phi(W_1 norm(x)).

    Args:
        block: sizes.
        structure: width, activation, norm.
        identity: the last map of both begins at zero, so that the block changes nothing at first (4.1, expansion 6).
    """

    def __init__(self, block: PathBlock, structure: BlockStructure, *, identity: bool = False) -> None:
        super().__init__()
        width, epsilon = structure.width, structure.norm_epsilon
        self.heads = block.heads
        self.activation = ACTIVATIONS[structure.activation]
        self.attention_norm = nn.LayerNorm(width, epsilon)
        self.query = _dense(width, block.heads * block.key_width)
        self.key = _dense(width, block.heads * block.key_width)
        self.value = _dense(width, block.heads * block.value_width)
        self.out = _dense(block.heads * block.value_width, width)
        self.hidden_norm = nn.LayerNorm(width, epsilon)
        self.inner = _dense(width, block.hidden, BIAS_STD)
        self.outer = _dense(block.hidden, width, BIAS_STD)
        for last in (self.out, self.outer) if identity else ():
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, n, h) -> the same; tokens (B, n) at which the mask is false are not read."""
        y = self.attention_norm(x)
        query, key, value = (self._by_head(part(y)) for part in (self.query, self.key, self.value))
        attended = None if mask is None else mask[:, None, None]
        mixed = F.scaled_dot_product_attention(query, key, value, attended)  # (B, H, n, value width)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        hidden = self.inner(self.hidden_norm(x))
        result: Tensor = x + self.outer(self.activation(hidden))
        return result

    def _by_head(self, y: Tensor) -> Tensor:
        """(B, n, H c) -> (B, H, n, c)."""
        return y.view(*y.shape[:2], self.heads, y.shape[2] // self.heads).transpose(1, 2)


class LayerBlock(nn.Module):
    """Any layer of the library as a block: x + g (layer(x) - x), with a gate g for each channel.

    A layer is a whole block with its own norm and residual; it reads all tokens, in both directions. With the gate at
    one it is the layer itself, at zero it changes nothing, whatever the layer is.

    Args:
        layer: its description.
        structure: width.
        identity: whether the gate begins at zero.

    Raises:
        UsageError: the layer does not exist at this width, or holds a causal H-Model.
    """

    def __init__(self, layer: Layer, structure: BlockStructure, *, identity: bool = False) -> None:
        super().__init__()
        self.layer = build_layer(layer, structure.width, causal=False)
        if any(isinstance(module, NestedHModel) and module.causal for module in self.layer.modules()):
            raise UsageError(
                "the class token is first and would read nothing in a causal H-Model; set causal = false in the "
                "structure of this layer."
            )
        self.gate = nn.Parameter(torch.full((structure.width,), 0.0 if identity else 1.0))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, n, h) -> the same; the tokens (B, n) at which the mask is false have no influence on others."""
        y: Tensor = self.layer(x, mask=mask).y
        return torch.lerp(x, y.to(x.dtype), self.gate.to(x.dtype))


class Head(nn.Module):
    """Representations (B, h) -> logits (B, classes); all zero at first, so that every class is equally likely."""

    def __init__(self, structure: PathStructure) -> None:
        super().__init__()
        self.project = nn.Linear(structure.width, structure.classes)
        nn.init.zeros_(self.project.weight)
        nn.init.zeros_(self.project.bias)

    def forward(self, x: Tensor) -> Tensor:
        """See the class."""
        y: Tensor = self.project(x)
        return y


def _dense(inputs: int, outputs: int, bias_std: float = 0.0) -> nn.Linear:
    dense = nn.Linear(inputs, outputs)
    nn.init.xavier_uniform_(dense.weight)
    nn.init.normal_(dense.bias, std=bias_std)
    return dense
