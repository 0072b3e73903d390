"""The modules of a path over bags of hashed n-grams, and how its components come about.

Legend: B samples, L bytes of the longest text, D width.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.errors import UsageError
from evodevo.multitask.paths.blocks import Head
from evodevo.multitask.paths.blocks_spec import EMBEDDING, HEAD, NORM
from evodevo.multitask.paths.dense import DenseInput, dense_texts
from evodevo.multitask.paths.mlp.model import MLPBlock
from evodevo.multitask.paths.model import ComponentPath, seeded
from evodevo.multitask.paths.ngrams.spec import KIND, NgramStructure, role_parameters
from evodevo.multitask.paths.text.model import MASK, TOKENS
from evodevo.networks.base import Representation

PRIME, FACTOR, SPREAD = 2**31 - 1, 1_000_003, 2_654_435_761
"""Of the hash of an n-gram: h = h * FACTOR + byte + 1 modulo PRIME, byte by byte; then h * SPREAD modulo PRIME, modulo
the number of buckets. All products stay below 2^63."""
SPACE, CAPITALS = 32, (65, 90)
_STD = 0.01
"""Of new vectors: below what they learn, so that n-grams that no training text has weigh little."""
WORDS = "(B, L) bytes, -1 behind the end of a text, as encoded() makes them"


class NgramBag(nn.Module):
    """Bytes (B, L) with a mask -> (B, D): the sum of the vectors of a text's n-grams over the root of their number.

    Capital letters of ASCII are read as small ones; a text has a space before and behind it.

    Args:
        structure: sizes.
    """

    def __init__(self, structure: NgramStructure) -> None:
        super().__init__()
        self.sizes = structure.shortest, structure.longest
        self.table = nn.Parameter(torch.empty(structure.buckets, structure.width))
        nn.init.normal_(self.table, std=_STD)

    def hashed(self, ids: Tensor, mask: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Buckets (B, n) of the n-grams of each size, and which of them are there, (B, n)."""
        begun = F.pad(mask, (1, 0), value=True)
        there = F.pad(begun, (0, 1), value=False) | F.pad(begun, (1, 0), value=False)  # the space behind the end, too
        small = torch.where((ids >= CAPITALS[0]) & (ids <= CAPITALS[1]), ids + SPACE, ids)
        text = F.pad(torch.where(mask, small, SPACE), (1, 1), value=SPACE) + 1
        longest = min(self.sizes[1], text.shape[1])
        code, whole = text, there
        for size in range(1, longest + 1):
            if size > 1:
                code = (code[:, :-1] * FACTOR + text[:, size - 1 :]) % PRIME
                whole = whole[:, :-1] & there[:, size - 1 :]
            if size >= self.sizes[0]:
                yield code * SPREAD % PRIME % self.table.shape[0], whole

    def forward(self, batch: Mapping[str, Tensor]) -> Tensor:
        """``TOKENS`` and ``MASK`` -> (B, D)."""
        ids, mask = batch[TOKENS], batch[MASK]
        total = self.table.new_zeros(ids.shape[0], self.table.shape[1])
        count = self.table.new_zeros(ids.shape[0], 1)
        for buckets, there in self.hashed(ids, mask):
            weights = there.to(self.table.dtype)
            total = total + F.embedding_bag(buckets, self.table, mode="sum", per_sample_weights=weights)
            count = count + weights.sum(1, keepdim=True)
        return total / count.clamp(min=1).sqrt()


class NgramPath(ComponentPath[NgramStructure]):
    """A path that reads texts as bags of n-grams."""

    kind = KIND

    @staticmethod
    def sizes(structure: NgramStructure) -> dict[str, int]:
        return role_parameters(structure)

    @staticmethod
    def component(structure: NgramStructure, role: str, seed: int, *, identity: bool = False) -> nn.Module:
        return build_component(structure, role, seed, identity=identity)

    def dense_inputs(self) -> dict[str, DenseInput]:
        """Its one entry of a batch, the whole; see ``Multipath.dense_inputs``."""
        read = partial(dense_texts, length=self.structure.length, tokens=TOKENS, mask=MASK)
        return {"": DenseInput(self.structure, read, "texts", WORDS, self.structure.length)}

    def forward(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Logits (B, classes), or representations (B, D) without a head; see ``represent``."""
        return self._answer(self.represent(batch).pooled)

    def represent(self, batch: Mapping[str, Tensor]) -> Representation:
        """The representation (B, D) of each text, which is its one token (B, 1, D), too.

        Args:
            batch: ``TOKENS`` (B, L) bytes and ``MASK`` (B, L), true where a text has one.

        Raises:
            UsageError: texts of more bytes than the path reads.
        """
        ids, mask = batch[TOKENS], batch[MASK]
        if ids.ndim != 2 or ids.shape != mask.shape or ids.shape[1] > self.structure.length:
            raise UsageError(
                f"this path reads texts of {self.structure.length} bytes at most, with a mask of the same shape; "
                f"{tuple(ids.shape)} and {tuple(mask.shape)} were given."
            )
        x: Tensor = self.parts[EMBEDDING](batch)
        for role, part in self.parts.items():
            if role not in (EMBEDDING, HEAD):
                x = part(x)
        return Representation(x.unsqueeze(1), None, x)


def build_component(structure: NgramStructure, role: str, seed: int, *, identity: bool = False) -> nn.Module:
    """A new component, on the CPU in float32; see ``paths.model.new_component``.

    Raises:
        UsageError: no such role.
    """
    structure.signature(role)

    def made() -> nn.Module:
        if role == EMBEDDING:
            return NgramBag(structure)
        if role == NORM:
            return nn.LayerNorm(structure.width, structure.norm_epsilon)
        return Head(structure) if role == HEAD else MLPBlock(structure.behind, identity=identity)

    return seeded(role, seed, made)
