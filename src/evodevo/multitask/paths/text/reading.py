"""The ids that the first component of a text path reads of a task's bytes.

Legend: B samples, L bytes of the longest text.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evodevo.errors import UsageError
from evodevo.multitask.paths.built import PathSamples
from evodevo.multitask.paths.text.model import MASK, TOKENS, TokenEmbedding
from evodevo.multitask.paths.text.spec import BYTES, TextStructure
from evodevo.tasks.inputs import Batch, InputSpec
from evodevo.tasks.text.tokenizers import Tokenizer, from_bytes


def read_samples(structure: TextStructure, tokenizer: Tokenizer | None, samples: PathSamples) -> dict[str, Tensor]:
    """The batch of a path from samples; see ``read_texts``."""
    return read_texts(structure, tokenizer, *bytes_of(samples.batch, bytes_input(samples.inputs)))


def bytes_of(batch: Batch, name: str) -> tuple[NDArray[np.integer], NDArray[np.bool_]]:
    """Bytes (B, L) of an input, and which of them are there, (B, L)."""
    data = batch[name]
    mask = batch.get(f"{name}/mask")
    real = np.ones(data.shape, np.bool_) if mask is None else mask.astype(np.bool_)
    present = batch.get(f"{name}/present")
    return data, real if present is None else real & present.astype(np.bool_)[:, None]


def bytes_input(inputs: tuple[InputSpec, ...]) -> str:
    """The name of the one input of bytes.

    Raises:
        UsageError: there is none, or more than one.
    """
    names = [spec.name for spec in inputs if spec.modality == "tokens" and spec.vocabulary == BYTES]
    if len(names) != 1:
        given = ", ".join(f"{spec.name} ({spec.modality})" for spec in inputs)
        raise UsageError(f"a text path reads one text per sample, as bytes; the samples of this task hold {given}.")
    return names[0]


def byte_texts(length: int, samples: PathSamples) -> dict[str, Tensor]:
    """The batch of a path that reads at most so many bytes of each text; see ``read_texts``."""
    data, real = bytes_of(samples.batch, bytes_input(samples.inputs))
    return _checked_bytes(length, data, real)


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
    cut = _checked_bytes(structure.length, data, mask)
    if tokenizer is None:
        return cut
    rows = [tokenizer.encode(text)[: structure.length] for text in texts_of(data, mask)]
    ids = np.zeros((len(rows), structure.length), np.int64)
    real = np.zeros(ids.shape, np.bool_)
    for place, row in enumerate(rows):
        ids[place, : len(row)] = row
        real[place, : len(row)] = True
    return _entry(ids, real)


def _checked_bytes(length: int, data: NDArray[np.integer], mask: NDArray[np.bool_]) -> dict[str, Tensor]:
    if data.ndim != 2 or data.shape != mask.shape or (data.size and not 0 <= data.min() <= data.max() < BYTES):
        raise UsageError("a text path reads bytes of shape (samples, bytes) with a mask of the same shape.")
    return _entry(data[:, :length], mask[:, :length])


def _entry(ids: NDArray[np.integer], real: NDArray[np.bool_]) -> dict[str, Tensor]:
    return {
        TOKENS: torch.from_numpy(np.ascontiguousarray(ids, np.int64)),
        MASK: torch.from_numpy(np.ascontiguousarray(real)),
    }
