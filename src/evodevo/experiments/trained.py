"""The result of a procedure: the trained network and the records of its training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evodevo.networks.base import Network
    from evodevo.training.loop import TrainingResult


@dataclass(frozen=True)
class Trained:
    """The result of a procedure.

    Attributes:
        network: the trained network; the caller measures it.
        result: result of the last stage; a state other than "finished" is a failure of the arm.
        extra: further facts, JSON.
        series: name -> points.
        blobs: role -> bytes to keep.
    """

    network: Network
    result: TrainingResult
    extra: Mapping[str, Any] = field(default_factory=dict)
    series: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    blobs: Mapping[str, bytes] = field(default_factory=dict)
