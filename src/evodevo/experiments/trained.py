"""What a procedure hands over when a network has been trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evodevo.networks.base import Network
from evodevo.training.loop import TrainingResult


@dataclass(frozen=True)
class Trained:
    """What a procedure answers.

    Attributes:
        network: trained; measured by whoever called.
        result: of the last stage; a state other than "finished" is a failure of the arm.
        extra: facts, JSON.
        series: name -> points.
        blobs: role -> bytes to keep.
    """

    network: Network
    result: TrainingResult
    extra: Mapping[str, Any] = field(default_factory=dict)
    series: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    blobs: Mapping[str, bytes] = field(default_factory=dict)
