"""Weights of a backbone after an edit, from those before it, and the origins of its parameters.

Legend: D width, O outputs of a map.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor

from evodevo.backbone.compiled import copies_of
from evodevo.backbone.inheritance import parts_of_matches
from evodevo.backbone.model import Backbone
from evodevo.errors import UsageError
from evodevo.operators.block import Block
from evodevo.training import checkpoints
from evodevo.training.surgery import Origin, Origins

READING = ("weight", "out", "subtract")
"""Last part of the names of maps (O, D), which read channels along their last axis."""
EMBEDDING = "embedding.weight"
DECAY = "_decay."
"""In names of a recurrence's decays; those of the gated delta rule have rows for all decays, then for all strengths."""
TOLERANCE = 1e-4
"""Largest change of an answer by an edit that preserves answers, as a share of the largest answer."""


@torch.no_grad()
def copy_parts(before: Backbone, after: Backbone, matches: Mapping[int, int]) -> Origins:
    """Copy the tensors of LIVs and of what is around them; parts without a counterpart stay as they were initialised.

    Args:
        before: The network before.
        after: The network after, changed in place.
        matches: Place of a LIV afterwards -> its place before.
    """
    own, theirs = checkpoints.parts_of(after), checkpoints.parts_of(before)
    origins: dict[str, Origin] = {}
    for part, source in parts_of_matches(after.plans, before.plans, after.bank, matches).items():
        for name, tensor in own.get(part, {}).items():
            tensor.copy_(theirs[source][name])
            origins[name_of(part, name)] = Origin(name_of(source, name))
    return origins


@torch.no_grad()
def silence(network: Backbone, place: int) -> None:
    """Make the output projection of a LIV 0."""
    for copy in copies_of(cast(Block, network.blocks[place])):
        copy.out.zero_()


@torch.no_grad()
def twin(before: Backbone, after: Backbone, noise: float, generator: torch.Generator) -> Origins:
    """Every channel twice: maps (O, D) that read the twins have (W / 2 + E, W / 2 - E), so that twins part.

    Where a class has one channel of its own more than twice as many (8 D / 3, rounded), it is new and read with 0;
    where it has one less, one channel has no twin.

    Args:
        before: The network before.
        after: One of twice its width, changed in place.
        noise: Spread of E, as a factor of that of W / 2.
        generator: Source of E.

    Raises:
        UsageError: A class of LIVs whose parameters do not double with the width.
    """
    origins = {}
    old = dict(before.named_parameters())
    for name, parameter in after.named_parameters():
        values = old[name].detach()
        axes = tuple(_places(name, parameter.shape[axis], values.shape[axis]) for axis in range(values.ndim))
        if DECAY in name and values.shape[0] == 2 * before.dims.heads:
            heads = tuple(range(before.dims.heads))
            axes = (heads * 2 + tuple(before.dims.heads + head for head in heads) * 2, *axes[1:])
        origins[name] = Origin(name, axes=axes)
        wide = origins[name].carry(values, fill=torch.nan)
        reads = values.ndim == 2 and _last(name) in READING and name != EMBEDDING
        if reads and wide.shape[1] != values.shape[1]:
            wide = _parted(wide, values, noise, generator)
        parameter.copy_(torch.where(wide.isnan(), parameter, wide))
    if after.head is None:
        # The head is the embedding, whose twins are both read: the final norm halves what they read.
        after.norm.weight.div_(2)
    return origins


def _parted(wide: Tensor, before: Tensor, noise: float, generator: torch.Generator) -> Tensor:
    """A map that reads twins: (W / 2 + E, W / 2 - E); a channel without a twin is read as before, a new one with 0.

    Args:
        wide: (O, C) with the columns of W at their places.
        before: W before, (O, B).
        noise, generator: See ``twin``.
    """
    channels = before.shape[1]
    pairs = min(wide.shape[1] - channels, channels)
    apart = noise * float(before.std()) / 2 * torch.randn(wide.shape[0], pairs, generator=generator).to(wide)
    wide = wide.clone()
    one, other = wide[:, :pairs], wide[:, channels : channels + pairs]
    one.div_(2).add_(apart)
    other.div_(2).sub_(apart)
    wide[:, channels + pairs :] = 0.0
    return wide


def _places(name: str, size: int, before: int) -> tuple[int | None, ...]:
    """Where each number along an axis was before; 8 D / 3, rounded, may have one more or less than twice as many."""
    own = tuple(range(before))
    if size == before:
        return own
    if abs(size - 2 * before) > 1:
        raise UsageError(f"{name} grows from {before} to {size} where the width doubles; it cannot be widened.")
    return (*own, *own, None)[:size]


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def name_of(part: str, name: str) -> str:
    """Name of a tensor in its network."""
    return f"{part}.{name}"


@torch.no_grad()
def check_answers(before: Backbone, after: Backbone, tokens: Tensor) -> None:
    """Refuse an edit after which the network answers otherwise.

    Args:
        before: The network before.
        after: The network after.
        tokens: (B, T) integers.

    Raises:
        UsageError: An answer differs by more than ``TOLERANCE`` of the largest.
    """
    theirs, ours = before.next_logits(tokens), after.next_logits(tokens)
    change, largest = float((ours - theirs).abs().max()), float(theirs.abs().max())
    if not change <= TOLERANCE * max(largest, 1e-6):
        raise UsageError(
            f"the edit changes answers by {change:.2g}, of {largest:.2g} at most: a class of this backbone has "
            "parameters that cannot be edited so."
        )
