"""A text path from its components: blocks as those of a vision path, over the tokens of a text.

Source: docs/spec/munet.md#tasks; ``multitask/paths/text/spec.py`` describes the structure.

Legend: B samples, L tokens of the longest text, n = L + 1 with the class token, h width, V ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.errors import UsageError
from evodevo.multitask.paths.blocks_spec import EMBEDDING
from evodevo.multitask.paths.dense import DENSE_WORDS, DenseInput, dense_texts
from evodevo.multitask.paths.model import BlockPath, new_component
from evodevo.multitask.paths.text.spec import KIND, TextStructure, role_parameters
from evodevo.networks.base import Representation

TOKENS, MASK = "tokens", "mask"
"""Entries of a batch: ids (B, L), and (B, L) true where a text has a token."""
_EMBEDDING_STD = 0.02


class TokenEmbedding(nn.Module):
    """Ids (B, L) -> tokens (B, L, h).

    Args:
        structure: width and vocabulary.
        tokenizer: bytes from ``Tokenizer.to_bytes``; it is kept with the weights, which mean nothing without it.
            Empty for bytes.
    """

    tokenizer: Tensor

    def __init__(self, structure: TextStructure, *, tokenizer: bytes = b"") -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(structure.vocabulary, structure.width))
        nn.init.normal_(self.table, std=_EMBEDDING_STD)
        if tokenizer:
            self.register_buffer("tokenizer", torch.frombuffer(bytearray(tokenizer), dtype=torch.uint8))

    def forward(self, ids: Tensor) -> Tensor:
        """See the class."""
        return F.embedding(ids, self.table)


def build_component(
    structure: TextStructure, role: str, seed: int, *, identity: bool = False, tokenizer: bytes = b""
) -> nn.Module:
    """A new component, on the CPU in float32; see ``paths.model.new_component``.

    Args:
        structure, role, seed, identity: see there.
        tokenizer: tokenizer of an embedding of subwords; see ``TokenEmbedding``.

    Raises:
        UsageError: also an embedding of subwords without a tokenizer.
    """
    if role == EMBEDDING and (structure.tokenizer != "bytes") != bool(tokenizer):
        raise UsageError(f"an embedding for the tokenizer {structure.tokenizer!r} is made with it, and no other.")
    return new_component(structure, role, seed, partial(TokenEmbedding, tokenizer=tokenizer), identity=identity)


def resize_positions(state: Mapping[str, Tensor], length: int) -> dict[str, Tensor]:
    """Weights of ``posembed_input`` for texts of another length.

    Positions that both lengths have keep their rows, so that a text that fits in both is answered as before. New
    positions begin with the rows of the old ones in turn (as in Longformer, 2004.05150, section 5).

    Args:
        state: weights for any length; the class token's row is the first.
        length: new number of positions of a text.
    """
    table = state["table"]
    rows = torch.arange(length) % (table.shape[0] - 1)
    return {"table": torch.cat([table[:1], table[1:][rows]])}


class TextPath(BlockPath[TextStructure]):
    """A path that reads texts; see ``BlockPath``."""

    kind = KIND

    @staticmethod
    def sizes(structure: TextStructure) -> dict[str, int]:
        return role_parameters(structure)

    @staticmethod
    def component(structure: TextStructure, role: str, seed: int, *, identity: bool = False) -> nn.Module:
        return build_component(structure, role, seed, identity=identity)

    def dense_inputs(self) -> dict[str, DenseInput]:
        """Its one entry of a batch, the whole; see ``Multipath.dense_inputs``."""
        kept, length = self.parts[EMBEDDING].state_dict().get("tokenizer"), self.structure.length
        read = partial(dense_texts, length=length, tokens=TOKENS, mask=MASK)
        tokenizer = b"" if kept is None else bytes(kept.cpu().numpy())
        return {"": DenseInput(self.structure, read, "texts", DENSE_WORDS, length, tokenizer)}

    def forward(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Logits (B, classes), or class tokens (B, h) without a head; see ``represent``."""
        return self._answer(self.represent(batch).pooled)

    def represent(self, batch: Mapping[str, Tensor]) -> Representation:
        """All tokens (B, n, h) after the last norm; a text is represented by its class token.

        Args:
            batch: ``TOKENS`` (B, L) ids and ``MASK`` (B, L); ids at which the mask is false are ignored.

        Raises:
            UsageError: texts of more tokens than the path reads.
        """
        ids, real = batch[TOKENS], batch[MASK]
        if ids.ndim != 2 or ids.shape != real.shape or ids.shape[1] > self.structure.length:
            raise UsageError(
                f"this path reads texts of {self.structure.length} tokens at most, with a mask of the same shape; "
                f"{tuple(ids.shape)} and {tuple(real.shape)} were given."
            )
        return self._through(ids, F.pad(real, (1, 0), value=True))
