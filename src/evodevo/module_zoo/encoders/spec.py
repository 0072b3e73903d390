"""The assignment of inputs to the sides of a fusion, on which the encoders of a network and their cost must agree.

The first side is the query and the second holds keys and values (eqs. 3, 39): images ask texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeVar

from evodevo.module_zoo.spec import FusionStructure, StatisticsStructure
from evodevo.networks.canvas import InputSizes

BUCKETS = 32
"""Number of buckets of relative positions in a fusion."""
FARTHEST = 128
"""Positions from which on all distances share a bucket."""

Spec = TypeVar("Spec", bound=InputSizes)
Read = Literal["tokens", "vector"]
"""Representations of a side that a network may read: its tokens Z, and the vector s that summarises the whole side."""
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

    Features belong to the side of the input that they were made from, if their sizes determine it. Several texts
    without an image are a question and its context: the first text asks the others. What is neither image nor text
    takes an empty side, else the second. A side of vectors alone does not ask a longer one, since all modules would see
    a single position: the two are swapped.
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
    """Kind of an input, or of the input that its features were made from."""
    if spec.modality == "image" or (spec.modality == "features" and spec.channels):
        return "image"
    if spec.modality == "tokens" or (spec.modality == "features" and spec.vocabulary):
        return "tokens"
    return "other"


def read_inputs(without: Sequence[Literal["image", "text"]], inputs: Sequence[Spec]) -> tuple[Spec, ...]:
    """The inputs that a network reads, in order.

    Args:
        without: kinds of input that are left out, with features made from them.
        inputs: inputs of the task.
    """
    left_out = {"text": "tokens", "image": "image"}
    return tuple(spec for spec in inputs if origin(spec) not in {left_out[side] for side in without})


def statistics_rank(structure: StatisticsStructure, channels: int, length: int) -> int:
    """k of the covariance of features: at most their channels; 0 where there is none, as at a single position."""
    return min(structure.rank, channels) if structure.kind == "mean_covariance" and length > 1 else 0


def fused_length(structure: FusionStructure, first: int, second: int | None) -> int:
    """Positions of the fused sequence F.

    Args:
        structure: structure of the fusion.
        first, second: positions of the two sides; None where there is one side.
    """
    if second is None:
        return first
    asking, answering = (first, second) if structure.query == "image" else (second, first)
    fused = asking + answering if structure.kind in ("symmetric", "concat") else asking
    return fused + (asking if structure.concat_query else 0)


def _single(inputs: Sequence[InputSizes], places: Sequence[int]) -> bool:
    return all(inputs[place].modality == "vector" for place in places)
