"""An export that does not answer as its network does is none.

AutoKeras's users got exports that scored differently from the search: so what was written is
loaded again in a fresh process, and its logits are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evodevo.errors import VerificationError
from evodevo.export.base import Exporter, ImageInput, Images, Subject
from evodevo.randomness import generator

TOLERANCE = 1e-4
"""Of the largest difference of a logit, as a share of the largest logit, or of 1 where all are smaller."""
SIZES = (1, 2, 5)
"""Samples of the probes: a graph that holds for one size alone would be found out."""


@dataclass(frozen=True)
class Verified:
    """How an export passed.

    Attributes:
        difference: the largest one of a logit.
        scale: the largest logit, at least 1; the difference is at most ``TOLERANCE`` times this.
        samples: that were compared.
    """

    difference: float
    scale: float
    samples: int

    def to_json(self) -> dict[str, Any]:
        """As the manifest holds it."""
        limit = TOLERANCE * self.scale
        return {"fresh_process": True, "samples": self.samples, "difference": self.difference, "limit": limit}


def probes(image: ImageInput, sizes: Sequence[int] = SIZES) -> list[Images]:
    """Batches that are the same everywhere: noise, and slopes of brightness between black and white."""
    shape = (image.height, image.width, image.channels)
    slope = np.linspace(0, 255, image.height * image.width).reshape(image.height, image.width, 1)
    found = []
    for size in sizes:
        batch = generator(0, size, "probe").integers(0, 256, (size, *shape), dtype=np.uint8)
        batch[size // 2] = np.broadcast_to(slope, shape).astype(np.uint8)
        found.append(batch)
    return found


def verify(exporter: Exporter, subject: Subject, folder: Path) -> Verified:
    """Compare what lies in a folder with its network.

    Raises:
        VerificationError: it cannot be read, or answers otherwise.
    """
    asked = probes(subject.image)
    answers = exporter.ask(folder, asked)
    worst, scale = 0.0, 1.0
    for batch, answer in zip(asked, answers, strict=True):
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
            " is allowed. Nothing was written. Please report this, with the versions that evodevo doctor says."
        )
    return Verified(worst, scale, sum(map(len, asked)))
