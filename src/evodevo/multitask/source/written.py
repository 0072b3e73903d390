"""What a kind of path writes of one of its paths into a generated file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class WrittenPath:
    """A path in a generated file.

    Attributes:
        made: expression that makes its module: samples, as the task hands them out, to logits (B, C), or without a head
            to the representation (B, D).
        weights: tensors by the names that this module gives them; None where they are those of the path itself.
    """

    made: str
    weights: Mapping[str, Tensor] | None = None
