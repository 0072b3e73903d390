"""The benefit of a module: by how much accuracy falls without it, as the upper end of an interval.

Legend: S samples, G groups of them (the classes of every output).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import stdtrit
from torch import Tensor

from evodevo.networks.outputs import has_target
from evodevo.tasks.base import OutputSpec

CONFIDENCE = 0.95
"""Of the one-sided interval."""
POINTS = 100.0
"""Points of accuracy in 1; no benefit is above them."""


class ClassMembers:
    """The classes of samples, of all outputs: a class of ``classes``, a label that is true of ``labels``.

    Args:
        specs: Outputs of the kinds classes and labels.
    """

    def __init__(self, specs: Sequence[OutputSpec]) -> None:
        self.specs = tuple(specs)
        self._members: list[NDArray[np.bool_]] = []

    def add(self, batch: Mapping[str, Tensor]) -> None:
        """Add a batch with targets; samples without any target are left out, as ``Tally.right`` leaves them out."""
        columns, answerable = [], None
        for spec in self.specs:
            target = batch[f"{spec.name}/target"]
            known = has_target(spec, target)
            if spec.kind == "labels":
                columns.append(target > 0.5)  # NaN, no target, is false
                known = known.any(-1)
            else:
                columns.append(target.unsqueeze(-1) == torch.arange(spec.size, device=target.device))
            answerable = known if answerable is None else answerable | known
        assert answerable is not None, "a network has an output"
        self._members.append(torch.cat(columns, -1)[answerable].cpu().numpy())

    def members(self) -> NDArray[np.bool_]:
        """(S, G), true where a sample is of a class."""
        return np.concatenate(self._members)


def benefit_bound(right: NDArray[np.bool_], without: NDArray[np.bool_], members: NDArray[np.bool_]) -> float:
    """Points of accuracy that a module brings at most, of all samples and of the class that needs it most.

    The upper end of the one-sided interval of a paired mean (Student's t) of right - right without it. Where no answer
    changes there is no spread, and 0 is what these samples saw, not a bound: the exact one for none of S (Clopper and
    Pearson) is ``POINTS`` * (1 - .05^(1/S)), 1.2 points at 256 samples. A change in a class of a single sample has no
    interval, and counts as ``POINTS``.

    Args:
        right, without: (S,) whether the answer is right with the module, and without it.
        members: (S, G), see ``ClassMembers``; classes without a sample do not count.
    """
    change = right.astype(np.float64) - without
    return max(_upper(change), *(_upper(change[of]) for of in members.T), 0.0)


def _upper(change: NDArray[np.float64]) -> float:
    count = len(change)
    if not change.any():
        return 0.0
    if count < 2:
        return POINTS
    error = change.std(ddof=1) / np.sqrt(count)
    return min(POINTS, POINTS * float(change.mean() + stdtrit(count - 1, CONFIDENCE) * error))
