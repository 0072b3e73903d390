"""The trained parts of a fit, as they are kept: JSON and safetensors, each part whole or not there.

Legend: n held out samples, C classes or labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from evodevo.estimators.automatic.candidates.base import ProbabilityModel


@dataclass(frozen=True)
class KeptPart:
    """A model with what its training came to.

    Attributes:
        name: Name of the candidate.
        seconds: Seconds of its training.
        model: The model.
        chances: Probabilities of held out samples, (n, C); (0, 0) where it was judged on none.
        note: Remark.
    """

    name: str
    seconds: float
    model: ProbabilityModel = field(repr=False)
    chances: NDArray[np.float64] = field(repr=False, default_factory=lambda: np.zeros((0, 0)))
    note: str = ""


class FitRecord:
    """Keeps nothing, for fits without a folder; ``unfinished.folder`` has the other.

    Attributes:
        used: Seconds that earlier processes of this fit have used.
        count: Number of keys with parts of earlier processes.
        damaged: Keys whose parts cannot be read.
    """

    used: float = 0.0
    count: int = 0
    damaged: Sequence[str] = ()

    def get(self, key: str) -> Sequence[KeptPart] | None:
        """The parts that were put under a key; None where there are none."""
        return None

    def put(self, key: str, parts: Sequence[KeptPart]) -> None:
        """Keep parts that belong together.

        Raises:
            DiskFullError: No space left.
        """

    def end(self) -> None:
        """Forget all parts: the fit has ended."""


def networks_key(fold: int) -> str:
    """Key of the networks of a fold."""
    return f"networks of fold {fold}"
