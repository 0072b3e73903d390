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
    """

    structure: Any
    read: Callable[[Tensor], Tensor]
    name: str
    words: str
