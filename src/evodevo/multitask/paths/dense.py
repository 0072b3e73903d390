"""What an exported path reads: samples as its task hands them out, and how the path itself reads those."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class DenseInput:
    """One entry of a batch of a path, or of a multipath model.

    Attributes:
        structure: structure of the paths that read it.
        read: function from samples, as the task hands them out, to the entry.
        name: name of the samples in a generated file, in the plural.
        words: description of the samples in the docstring of that file.
        length: largest number of tokens that are read of a text, 1 or more; 0 where the samples are no texts.
        tokenizer: tokenizer of the texts, in the form of ``tasks.text.tokenizers.from_bytes``; empty where the tokens
            of a text are its bytes, and where the samples are no texts.
    """

    structure: Any
    read: Callable[[Tensor], Tensor | dict[str, Tensor]]
    name: str
    words: str
    length: int = 0
    tokenizer: bytes = b""


DENSE_WORDS = "(B, L) ids of tokens, -1 behind the end of a text, as encoded() makes them"


def dense_texts(texts: Tensor, *, length: int, tokens: str, mask: str) -> dict[str, Tensor]:
    """The entry of a batch from texts as an exported path takes them: one tensor, so that the mask is part of it.

    Args:
        texts: (B, L) ids of tokens, -1 behind the end of a text.
        length: largest number of tokens that are read.
        tokens, mask: names of the ids and of their mask in the entry.
    """
    read = texts[:, :length]
    return {tokens: read.clamp(min=0), mask: read >= 0}
