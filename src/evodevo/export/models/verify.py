"""Verification of a model's export: one whose outputs differ from its network's is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from evodevo.errors import VerificationError
from evodevo.export.models.base import ModelExporter, ModelSubject, Written
from evodevo.export.verify import TOLERANCE, Verified


def verify(exporter: ModelExporter, subject: ModelSubject, written: Written, folder: Path) -> Verified:
    """Compare the outputs of an export in a folder with those of its network, in every way that it computes them.

    Raises:
        VerificationError: It cannot be read, or its outputs differ.
    """
    probes = subject.probes(written.lengths, written.samples)
    worst, scale, samples = 0.0, 1.0, 0
    for probe, ways in zip(probes, exporter.ask(folder, probes), strict=True):
        wanted = subject.answer(probe)
        samples += len(probe[0])
        for way in ways:
            shapes = [one.shape for one in wanted]
            if [one.shape for one in way] != shapes:
                raise VerificationError(
                    f"{exporter.name} answers with shapes {[one.shape for one in way]}; {shapes} was expected."
                )
            for got, known in zip(way, wanted, strict=True):
                if not (np.isfinite(known).all() and np.isfinite(got).all()):
                    raise VerificationError(f"{subject.name} answers with numbers that are not finite.")
                worst = max(worst, float(np.abs(got - known).max(initial=0.0)))
                scale = max(scale, float(np.abs(known).max(initial=0.0)))
    if worst > TOLERANCE * scale:
        raise VerificationError(
            f"the {exporter.name} export differs from {subject.name} by {worst:.3g}; at most {TOLERANCE * scale:.3g} is"
            " allowed. Nothing was written. Please report this, with the versions that evodevo doctor shows."
        )
    return Verified(worst, scale, samples)
