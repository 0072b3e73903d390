"""Which inputs stand on which side of a fusion: what the senses of a network and their cost must agree on.

The first side asks and the second answers (eqs. 3, 39): images ask texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeVar

from evodevo.module_zoo.spec import FusionStructure, StatisticsStructure
from evodevo.networks.canvas import InputSizes

BUCKETS = 32
"""Of relative positions in a fusion."""
FARTHEST = 128
"""Positions from which on all distances share a bucket."""

Spec = TypeVar("Spec", bound=InputSizes)
Read = Literal["tokens", "vector"]
"""What a network may read of a side: its tokens Z, and the vector s that stands for it as a whole."""
EVERYTHING: frozenset[Read] = frozenset({"tokens", "vector"})


class Sides(NamedTuple):
    """Places of inputs among all inputs, in order.

    Attributes:
        first: those of the image side, which asks.
        second: those of the text side. A network of one side has the other empty.
    """

    first: tuple[int, ...]
    second: tuple[int, ...]


def sides(inputs: Sequence[InputSizes]) -> Sides:
    """Images on the first side, texts on the second.

    Features stand where that would stand which they were made from, if their sizes tell it. Several texts without an
    image are a question and what it is asked of: the first text asks the others. What is neither image nor text takes
    an empty side, else the second. A side of vectors alone does not ask a longer one, since all modules would see a
    single position: the two are swapped.
    """
    origins = [origin(spec) for spec in inputs]
    first = [place for place, kind in enumerate(origins) if kind == "image"]
    second = [place for place, kind in enumerate(origins) if kind == "tokens"]
    if not first and len(second) > 1:
        first, second = second[:1], second[1:]
    for place, kind in enumerate(origins):
        if kind == "other":
            (second if first else first).append(place)
    if first and second and _single(inputs, first) and not _single(inputs, second):
        first, second = second, first
    return Sides(tuple(first), tuple(second))


def origin(spec: InputSizes) -> Literal["image", "tokens", "other"]:
    """What an input is, or what its features were made from."""
    if spec.modality == "image" or (spec.modality == "features" and spec.channels):
        return "image"
    if spec.modality == "tokens" or (spec.modality == "features" and spec.vocabulary):
        return "tokens"
    return "other"


def read_inputs(without: Sequence[Literal["image", "text"]], inputs: Sequence[Spec]) -> tuple[Spec, ...]:
    """The inputs that a network reads, in order.

    Args:
        without: of these it reads none, nor features made from them.
        inputs: of the task.
    """
    left_out = {"text": "tokens", "image": "image"}
    return tuple(spec for spec in inputs if origin(spec) not in {left_out[one] for one in without})


def statistics_rank(structure: StatisticsStructure, channels: int, length: int) -> int:
    """k of the covariance of features: at most their channels; 0 where there is none, as at a single position."""
    return min(structure.rank, channels) if structure.kind == "mean_covariance" and length > 1 else 0


def fused_length(structure: FusionStructure, first: int, second: int | None) -> int:
    """Positions of the fused sequence F.

    Args:
        structure: of the fusion.
        first, second: positions of the two sides; None where there is one side.
    """
    if second is None:
        return first
    asking, answering = (first, second) if structure.query == "image" else (second, first)
    fused = asking + answering if structure.kind in ("symmetric", "concat") else asking
    return fused + (asking if structure.concat_query else 0)


def _single(inputs: Sequence[InputSizes], places: Sequence[int]) -> bool:
    return all(inputs[place].modality == "vector" for place in places)
