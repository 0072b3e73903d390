"""Verification of an export: one whose outputs differ from its network's is refused.

Users of AutoKeras got exports that scored differently from the search. Therefore the written file is loaded again in a
fresh process, and its logits are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evodevo.errors import VerificationError
from evodevo.export.base import Exporter, ExportSubject, SampleInput, Samples

TOLERANCE = 1e-4
"""Largest difference of a logit, as a share of the largest logit, or of 1 where all are smaller."""
SIZES = (1, 2, 5)
"""Numbers of samples of the probes: a graph that works for one size only would be detected."""


@dataclass(frozen=True)
class Verified:
    """Result of a passed verification.

    Attributes:
        difference: Largest difference of a logit.
        scale: Largest logit, at least 1; the difference is at most ``TOLERANCE`` times this.
        samples: Number of samples that were compared.
    """

    difference: float
    scale: float
    samples: int

    def to_json(self) -> dict[str, Any]:
        """The entry of the manifest."""
        limit = TOLERANCE * self.scale
        return {"fresh_process": True, "samples": self.samples, "difference": self.difference, "limit": limit}


def probes(given: SampleInput, sizes: Sequence[int] = SIZES) -> list[Samples]:
    """Batches that are the same everywhere."""
    return [given.probe(size) for size in sizes]


def verify(exporter: Exporter, subject: ExportSubject, folder: Path) -> Verified:
    """Compare the outputs of an export in a folder with those of its network.

    Raises:
        VerificationError: It cannot be read, or its outputs differ.
    """
    batches = probes(subject.input)
    answers = exporter.ask(folder, batches)
    worst, scale = 0.0, 1.0
    for batch, answer in zip(batches, answers, strict=True):
        wanted = subject.answer(batch)
        if answer.shape != wanted.shape or wanted.shape != (len(batch), len(subject.classes)):
            raise VerificationError(
                f"{exporter.file} answers {answer.shape} to {len(batch)} samples; {wanted.shape} was expected."
            )
        if not (np.isfinite(wanted).all() and np.isfinite(answer).all()):
            raise VerificationError(f"{subject.provenance.path} answers with numbers that are not finite.")
        worst = max(worst, float(np.abs(answer - wanted).max()))
        scale = max(scale, float(np.abs(wanted).max()))
    if worst > TOLERANCE * scale:
        raise VerificationError(
            f"{exporter.file} differs from {subject.provenance.path} by {worst:.3g}; at most {TOLERANCE * scale:.3g}"
            " is allowed. Nothing was written. Please report this, with the versions that evodevo doctor shows."
        )
    return Verified(worst, scale, sum(map(len, batches)))
