"""Sums of loss and correct answers over several batches, as one batch of all samples would have them.

Legend: B samples of a batch, S of all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evodevo.errors import DataError, UsageError
from evodevo.networks.outputs import answer_losses, has_target
from evodevo.tasks.base import OutputSpec


class Tally:
    """Running loss and accuracy of one network.

    Args:
        specs: Outputs of the kinds classes and labels.
    """

    def __init__(self, specs: Sequence[OutputSpec]) -> None:
        self.specs = tuple(specs)
        # Sums stay on the device: a probe has many tallies, and waits once.
        self._sums = {spec.name: torch.zeros((), dtype=torch.float64) for spec in specs}
        self._counts = {spec.name: torch.zeros((), dtype=torch.int64) for spec in specs}
        self._right: list[tuple[Tensor, Tensor]] = []

    def add(self, answers: Mapping[str, Tensor], batch: Mapping[str, Tensor]) -> Tensor:
        """Add the outputs for one batch.

        Args:
            answers: Logits by output, (B, size).
            batch: Batch with targets.

        Returns:
            (B,) loss of each sample in nats, the mean over its outputs; 0 where it has no target.

        Raises:
            UsageError: The batch has no target of an output.
        """
        total: Tensor | None = None
        right: Tensor | None = None
        answerable: Tensor | None = None
        for spec in self.specs:
            target = batch.get(f"{spec.name}/target")
            if target is None:
                raise UsageError(f"the batch has no target of the output {spec.name!r}; it has {sorted(batch)}.")
            logits, known = answers[spec.name], has_target(spec, target)
            losses = answer_losses(spec, logits, target).double()
            self._sums[spec.name] = self._sums[spec.name] + losses.sum()
            self._counts[spec.name] = self._counts[spec.name] + known.sum()
            if spec.kind == "labels":
                losses = losses.sum(-1) / known.sum(-1).clamp(min=1)
                correct = (((logits > 0) == (target > 0.5)) | ~known).all(-1)
                known = known.any(-1)
            else:
                correct = (logits.argmax(-1) == target) | ~known
            total = losses if total is None else total + losses
            right = correct if right is None else right & correct
            answerable = known if answerable is None else answerable | known
        assert total is not None, "a network has an output"
        assert right is not None
        assert answerable is not None
        self._right.append((right, answerable))
        return total / len(self.specs)

    def loss(self) -> float:
        """Mean over outputs of the mean over entries that have a target, in nats; outputs without any count 0."""
        each = [float(self._sums[spec.name] / self._counts[spec.name].clamp(min=1)) for spec in self.specs]
        return sum(each) / len(each)

    def right(self) -> NDArray[np.bool_]:
        """(S,) over samples with a target: whether every output is right, and every label of it.

        Raises:
            DataError: No sample had a target.
        """
        parts = [right[answerable].cpu().numpy() for right, answerable in self._right]
        right = np.concatenate(parts) if parts else np.zeros(0, np.bool_)
        if not len(right):
            raise DataError("no sample has a target: no accuracy can be computed.")
        return right
