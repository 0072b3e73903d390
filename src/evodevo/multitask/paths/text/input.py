"""The input specification of a text path at work: from a task's bytes to the ids that the first component reads.

Legend: B samples, L bytes of the longest text.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evodevo.errors import UsageError
from evodevo.multitask.paths.text.model import MASK, TOKENS, TokenEmbedding
from evodevo.multitask.paths.text.spec import BYTES, TextStructure
from evodevo.tasks.text.tokenizers import Tokenizer, from_bytes


def tokenizer_of(embedding: TokenEmbedding) -> Tokenizer | None:
    """The tokenizer that is stored with an embedding; None where bytes are the ids.

    Raises:
        DataError: the stored bytes are none.
    """
    kept = embedding.state_dict().get("tokenizer")
    return None if kept is None else from_bytes(bytes(kept.cpu().numpy()))


def texts_of(data: NDArray[np.integer], mask: NDArray[np.bool_]) -> list[str]:
    """Rows of bytes as texts; a character that a task cut in two is left out."""
    whole = data.astype(np.uint8)
    return [whole[row][mask[row]].tobytes().decode("utf-8", "ignore") for row in range(len(whole))]


def read_texts(
    structure: TextStructure, tokenizer: Tokenizer | None, data: NDArray[np.integer], mask: NDArray[np.bool_]
) -> dict[str, Tensor]:
    """The batch of a path from texts.

    Args:
        structure: structure of the path, with its length.
        tokenizer: tokenizer of the path, or None for bytes.
        data: bytes (B, L).
        mask: (B, L), true where a text has one.

    Returns:
        ``TOKENS`` and ``MASK``, at most ``length`` columns each.

    Raises:
        UsageError: no bytes.
    """
    if data.ndim != 2 or data.shape != mask.shape or (data.size and not 0 <= data.min() <= data.max() < BYTES):
        raise UsageError("a text path reads bytes of shape (samples, bytes) with a mask of the same shape.")
    if tokenizer is None:
        ids, real = data[:, : structure.length], mask[:, : structure.length]
    else:
        rows = [tokenizer.encode(text)[: structure.length] for text in texts_of(data, mask)]
        ids = np.zeros((len(rows), structure.length), np.int64)
        real = np.zeros(ids.shape, np.bool_)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = row
            real[place, : len(row)] = True
    return {
        TOKENS: torch.from_numpy(np.ascontiguousarray(ids, np.int64)),
        MASK: torch.from_numpy(np.ascontiguousarray(real)),
    }
