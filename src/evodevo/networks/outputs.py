"""From the representations of a network to answers and their loss: one output layer per answer of a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.errors import UsageError
from evodevo.networks.inputs import build_blocks
from evodevo.networks.routing.pools import masked_mean
from evodevo.operators.liv import NORM_EPSILON
from evodevo.tasks.base import NO_TARGET, OutputSpec

HEAD_STD = 0.02


class OutputHeads(nn.ModuleDict):
    """An output layer without blocks for each output, all on one pooled vector."""

    def __init__(self, specs: Sequence[OutputSpec], width: int) -> None:
        super().__init__({spec.name: OutputLayer(spec, width, 0, causal=False) for spec in specs})

    def forward(self, pooled: Tensor) -> dict[str, Tensor]:
        """(B, d) -> output -> logits (B, size)."""
        return {name: cast(OutputLayer, head).score(pooled) for name, head in self.items()}


class OutputLayer(nn.Module):
    """Blocks, a norm and a linear head: on the mean over real positions, or on each position for tokens.

    Source: docs/spec/h_model.md#outputs.
    """

    def __init__(self, spec: OutputSpec, width: int, blocks: int, *, causal: bool) -> None:
        super().__init__()
        self.spec = spec
        self.blocks = build_blocks(blocks, width, causal=causal)
        self.norm = nn.RMSNorm(width, eps=NORM_EPSILON)
        self.head = nn.Linear(width, spec.size)
        with torch.no_grad():
            # Small weights, so that the first answers are near uniform.
            self.head.weight.normal_(std=HEAD_STD)
            self.head.bias.zero_()

    def forward(self, y: Tensor, mask: Tensor | None, places: Mapping[str, tuple[int, int]]) -> Tensor:
        """Logits.

        Args:
            y: (B, S, d).
            mask: (B, S), or None.
            places: input -> first position and length on the canvas.

        Returns:
            class and labels: (B, size); tokens: (B, L, size) over the positions of the input that they continue.
        """
        y = self.run_blocks(y, mask)
        if self.spec.kind == "tokens":
            begin, length = places[self.spec.of]
            return self.score(y[:, begin : begin + length])
        return self.score(masked_mean(y, mask))

    def score(self, y: Tensor) -> Tensor:
        """(..., d) -> logits (..., size)."""
        logits: Tensor = self.head(self.norm(y.to(self.norm.weight.dtype)))  # autocast may have made it half
        return logits

    def run_blocks(self, y: Tensor, mask: Tensor | None, states: list[Any] | None = None) -> Tensor:
        """The blocks; with ``states`` they continue a sequence, and the states are brought up to date."""
        for number, block in enumerate(self.blocks):
            output = block(y, mask=mask, state=None if states is None else states[number])
            y = output.y
            if states is not None:
                states[number] = output.state
        return y


class Outputs(nn.Module):
    """All outputs of a network."""

    composite = True

    def __init__(self, specs: tuple[OutputSpec, ...], width: int, blocks: int, *, causal: bool = False) -> None:
        super().__init__()
        if not specs:
            raise UsageError("a network needs at least one output.")
        self.layers = nn.ModuleDict({spec.name: OutputLayer(spec, width, blocks, causal=causal) for spec in specs})

    def forward(self, y: Tensor, masks: Tensor | None, places: Mapping[str, tuple[int, int]]) -> dict[str, Tensor]:
        """(B, O, S, d) and masks (B, O, S) -> logits by output."""
        return {
            name: layer(y[:, number], None if masks is None else masks[:, number], places)
            for number, (name, layer) in enumerate(self.layers.items())
        }


def answer_loss(spec: OutputSpec, logits: Tensor, target: Tensor) -> Tensor:
    """Mean loss of one output in nats over the entries that have a target; 0 where none has.

    class and tokens: cross-entropy; labels: binary cross-entropy, mean over labels.
    """
    each = answer_losses(spec, logits, target)
    count = has_target(spec, target).sum().clamp(min=1)
    return each.sum() / count


def answer_losses(spec: OutputSpec, logits: Tensor, target: Tensor) -> Tensor:
    """The loss of each entry, 0 where it has no target: class (B,), tokens (B, L), labels (B, size)."""
    precise = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if spec.kind == "labels":
        known = has_target(spec, target)
        # Replaced and not only masked: NaN times 0 is NaN, also in the gradient.
        wanted = torch.where(known, target, torch.zeros_like(target)).to(precise.dtype)
        return F.binary_cross_entropy_with_logits(precise, wanted, reduction="none") * known
    flat = F.cross_entropy(precise.flatten(0, -2), target.flatten().long(), ignore_index=NO_TARGET, reduction="none")
    return flat.view(target.shape)


def has_target(spec: OutputSpec, target: Tensor) -> Tensor:
    """True at the entries that have one: class (B,), tokens (B, L), labels (B, size)."""
    return ~target.isnan() if spec.kind == "labels" else target != NO_TARGET
