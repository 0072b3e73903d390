"""From what a task hands out to messages: one input layer per modality, and the canvas on which they meet.

Legend: B samples, L positions of one input, S positions of the canvas, d width, I inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.networks.canvas import Canvas, fitting_heads, input_length, patch_size
from evodevo.operators.layers.build import build_layer
from evodevo.operators.layers.mlp import MLPLayer
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.tasks.inputs import InputSpec

POSITION_STD = 0.02


def build_blocks(count: int, width: int, *, causal: bool, self_attention: bool = True) -> nn.ModuleList:
    """Transformer blocks of an input or output layer; without attention only their feed-forward part is left."""
    spec = TransformerLayer(heads=fitting_heads(width)) if self_attention else MLPLayer()
    return nn.ModuleList(build_layer(spec, width, causal=causal) for _ in range(count))


class InputLayer(nn.Module):
    """Reads one input: embedding of tokens, patches, features or a vector, learned positions, blocks.

    Args:
        spec: specification of the input.
        width: d.
        blocks: transformer blocks inside.
        causal: no position of the blocks depends on later ones.
        missing: a learned token replaces the input in samples that lack it.
        normalise: pixels become numbers in [-1, 1]; false leaves them as they are, from 0 to 255.
        positions: false takes the learned positions away.
        activation: function after the embedding of patches.
        frozen: the embedding stays at its random start.
        self_attention: false makes the blocks token-wise; see ``build_blocks``.
    """

    def __init__(
        self,
        spec: InputSpec,
        width: int,
        blocks: int,
        *,
        causal: bool,
        missing: bool,
        normalise: bool = True,
        positions: bool = True,
        activation: Literal["none", "relu"] = "none",
        frozen: bool = False,
        self_attention: bool = True,
    ) -> None:
        super().__init__()
        self.spec = spec
        self.width = width
        self.normalise = normalise
        self.length = input_length(spec)
        self.patch = patch_size(spec) if spec.modality == "image" else 0
        self.activation = activation
        self.embedding: nn.Module
        if spec.modality == "tokens":
            self.embedding = nn.Embedding(spec.vocabulary, width)
        else:
            pixels = self.patch * self.patch * spec.channels
            self.embedding = nn.Linear(pixels if spec.modality == "image" else spec.size, width)
        self.embedding.requires_grad_(not frozen)
        self.positions = nn.Parameter(torch.randn(self.length, width) * POSITION_STD) if positions else None
        self.missing = nn.Parameter(torch.randn(width) * POSITION_STD) if missing else None
        self.blocks = build_blocks(blocks, width, causal=causal, self_attention=self_attention)

    def forward(self, batch: Mapping[str, Tensor], rows: int) -> tuple[Tensor, Tensor | None]:
        """Messages (B, L, d) and their mask (B, L), or None where every position is real.

        Raises:
            UsageError: the input is missing and the model has no token for that, or is of the wrong shape.
        """
        name = self.spec.name
        present = batch.get(f"{name}/present")
        if name not in batch:
            lone, first = lone_token(rows, self.length, self._need_missing())
            return self.run_blocks(lone, first), first
        x = self._embed(batch[name])
        mask = batch.get(f"{name}/mask")
        if present is not None and not bool(present.all()):
            x, mask = stand_in(x, mask, present, self._need_missing())
        return self.run_blocks(x, mask), mask

    def run_blocks(self, x: Tensor, mask: Tensor | None, states: list[Any] | None = None) -> Tensor:
        """The blocks; with ``states`` they continue a sequence, and the states are brought up to date."""
        for number, block in enumerate(self.blocks):
            output = block(x, mask=mask, state=None if states is None else states[number])
            x = output.y
            if states is not None:
                states[number] = output.state
        return x

    def embed_tokens(self, tokens: Tensor, begin: int = 0) -> Tensor:
        """Embeddings of (B, L) ids at the positions ``begin`` and following."""
        if begin + tokens.shape[1] > self.length:
            raise UsageError(
                f"input {self.spec.name!r} has {self.length} positions; {begin + tokens.shape[1]} were given."
            )
        return self._placed(self.embedding(tokens), begin)

    def _embed(self, raw: Tensor) -> Tensor:
        if self.spec.modality == "tokens":
            return self.embed_tokens(raw)
        if self.spec.modality == "vector":
            self._check(raw, (self.spec.size,))
            return self._placed(self.embedding(raw.to(self._dtype)).unsqueeze(1))
        if self.spec.modality == "features":
            self._check(raw, (min(raw.shape[1], self.length), self.spec.size))
            return self._placed(self.embedding(raw.to(self._dtype)))
        self._check(raw, (self.spec.height, self.spec.width, self.spec.channels))
        patches = self.embedding(self._patches(raw))
        return self._placed(patches.relu() if self.activation == "relu" else patches)

    def _placed(self, x: Tensor, begin: int = 0) -> Tensor:
        return x if self.positions is None else x + self.positions[begin : begin + x.shape[1]]

    @property
    def _dtype(self) -> torch.dtype:
        return next(self.embedding.parameters()).dtype

    def _patches(self, raw: Tensor) -> Tensor:
        """Images (B, height, width, channels) of bytes -> (B, patches, numbers in [-1, 1], or as they are)."""
        side = self.patch
        pixels = raw.to(self._dtype)
        if self.normalise:
            pixels = pixels / 127.5 - 1
        # Zeros at the bottom and at the right complete the last patches.
        down, right = (-raw.shape[1]) % side, (-raw.shape[2]) % side
        pixels = nn.functional.pad(pixels, (0, 0, 0, right, 0, down))
        batch, height, width, channels = pixels.shape
        grid = pixels.view(batch, height // side, side, width // side, side, channels)
        return grid.permute(0, 1, 3, 2, 4, 5).reshape(batch, -1, side * side * channels)

    def _check(self, raw: Tensor, shape: tuple[int, ...]) -> None:
        check_shape(self.spec.name, raw, shape)

    def _need_missing(self) -> Tensor:
        return need_token(self.spec.name, self.missing)


def check_shape(name: str, raw: Tensor, shape: tuple[int, ...]) -> None:
    """
    Raises:
        UsageError: samples of another shape.
    """
    if tuple(raw.shape[1:]) != shape:
        raise UsageError(f"input {name!r} has shape {tuple(raw.shape[1:])}; {shape} is wanted.")


def need_token(name: str, token: Tensor | None) -> Tensor:
    """The token that replaces a missing input.

    Raises:
        UsageError: there is none.
    """
    if token is None:
        raise UsageError(
            f"the input {name!r} is missing, and this model was built without a token for that. "
            "Give the input, or build the model with missing = true."
        )
    return token


def stand_in(x: Tensor, mask: Tensor | None, present: Tensor, token: Tensor) -> tuple[Tensor, Tensor]:
    """Messages (B, L, d) and their mask (B, L), where the token is all there is of samples that are not present."""
    lone = torch.zeros_like(x[0])
    lone[0] = token
    whole = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if mask is None else mask
    first = torch.arange(x.shape[1], device=x.device) == 0
    return torch.where(present[:, None, None], x, lone), torch.where(present[:, None], whole, first)


def lone_token(rows: int, length: int, token: Tensor) -> tuple[Tensor, Tensor]:
    """Messages (B, L, d) and their mask (B, L) of an input that no sample has."""
    x = torch.zeros(rows, length, token.shape[0], dtype=token.dtype, device=token.device)
    x[:, 0] = token
    mask = torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)
    mask[:, 0] = True
    return x, mask


class LatentReader(nn.Module):
    """Reads a sequence of any length into a fixed number of slots by cross-attention (docs/spec/h_model.md#canvas)."""

    def __init__(self, width: int, slots: int) -> None:
        super().__init__()
        self.slots = nn.Parameter(torch.randn(slots, width) * width**-0.5)
        self.attention = nn.MultiheadAttention(width, fitting_heads(width), batch_first=True, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """(B, L, d) -> (B, slots, d)."""
        queries = self.slots.expand(x.shape[0], -1, -1)
        padding = None if mask is None else ~mask
        read: Tensor = self.attention(queries, x, x, key_padding_mask=padding, need_weights=False)[0]
        return queries + read


@dataclass(frozen=True)
class Messages:
    """The messages of the inputs, on one canvas.

    Attributes:
        values: (B, I, S, d), zero where an input has no position.
        masks: (B, I, S), or None where every input has every position.
        places: input -> its first position and its length.
    """

    values: Tensor
    masks: Tensor | None
    places: Mapping[str, tuple[int, int]]


class Inputs(nn.Module):
    """All inputs of a network (docs/spec/h_model.md#canvas).

    Args:
        specs: specifications of the inputs.
        width: d.
        blocks: transformer blocks in each input layer.
        canvas: ``segments`` side by side, with a learned embedding of the input; ``latents`` and ``pad`` on the same
            positions.
        slots: number of positions of ``latents``.
        causal, missing: as in ``InputLayer``.
    """

    composite = True

    def __init__(
        self,
        specs: tuple[InputSpec, ...],
        width: int,
        blocks: int,
        *,
        canvas: Canvas = "segments",
        slots: int = 16,
        causal: bool = False,
        missing: bool = False,
    ) -> None:
        super().__init__()
        self.canvas = canvas
        self.layers = nn.ModuleDict(
            {spec.name: InputLayer(spec, width, blocks, causal=causal, missing=missing) for spec in specs}
        )
        several = canvas == "segments" and len(specs) > 1
        self.segment = nn.Parameter(torch.randn(len(specs), width) * POSITION_STD) if several else None
        self.readers = nn.ModuleDict(
            {spec.name: LatentReader(width, slots) for spec in specs} if canvas == "latents" else {}
        )

    def forward(self, batch: Mapping[str, Tensor]) -> Messages:
        """Read a batch."""
        rows = batch_rows(batch)
        values: list[Tensor] = []
        masks: list[Tensor | None] = []
        for number, (name, layer) in enumerate(self.layers.items()):
            x, mask = layer(batch, rows)
            if self.segment is not None:
                x = x + self.segment[number]
            if self.canvas == "latents":
                x, mask = self.readers[name](x, mask), None
            values.append(x)
            masks.append(mask)
        if len(values) == 1:
            x, mask = values[0], masks[0]
            whole = None if mask is None else mask.unsqueeze(1)
            x = x if mask is None else x * mask.unsqueeze(-1)
            return Messages(x.unsqueeze(1), whole, {next(iter(self.layers)): (0, x.shape[1])})
        return self._together(values, masks)

    def _together(self, values: list[Tensor], masks: list[Tensor | None]) -> Messages:
        lengths = [x.shape[1] for x in values]
        beside = self.canvas == "segments"
        size = sum(lengths) if beside else max(lengths)
        canvases, whole, places, begin = [], [], {}, 0
        for name, x, mask in zip(self.layers, values, masks, strict=True):
            length = x.shape[1]
            real = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if mask is None else mask
            around = (begin, size - begin - length)
            canvases.append(nn.functional.pad(x * real.unsqueeze(-1), (0, 0, *around)))
            whole.append(nn.functional.pad(real, around))
            places[name] = (begin, length)
            begin += length if beside else 0
        every = all(mask is None for mask in masks) and not beside and len(set(lengths)) == 1
        return Messages(torch.stack(canvases, 1), None if every else torch.stack(whole, 1), places)


def batch_rows(batch: Mapping[str, Tensor]) -> int:
    """Samples of a batch.

    Raises:
        UsageError: it is empty.
    """
    for tensor in batch.values():
        rows: int = tensor.shape[0]  # in a graph it may be a symbol, which ``int`` would fix
        return rows
    raise UsageError("the batch is empty; give at least one input.")
