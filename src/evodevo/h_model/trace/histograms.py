"""What a linear probe can read from the inputs alone: the control of every probe of routes.

Source: docs/spec/h_model.md#analysis-of-routes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from evodevo.tasks.base import Batch, InputSpec

BINS = 16
"""Shades of a pixel."""


def input_histograms(specs: Sequence[InputSpec], batch: Batch) -> NDArray[np.float64]:
    """How often each token, or each shade of a pixel, occurs in the inputs; vectors and features as they are.

    Args:
        specs: of the inputs.
        batch: samples, B of them.

    Returns:
        (B, V), the inputs side by side.
    """
    parts = []
    for spec in specs:
        values = np.asarray(batch[spec.name])
        if spec.modality in ("vector", "features"):
            parts.append(values.reshape(len(values), -1).astype(np.float64))
            continue
        bins = spec.vocabulary if spec.modality == "tokens" else BINS
        ids = values if spec.modality == "tokens" else values.astype(np.int64) * BINS // 256
        real = np.asarray(batch.get(f"{spec.name}/mask", np.ones(ids.shape, np.bool_)))
        rows = [np.bincount(row[kept], minlength=bins) for row, kept in zip(ids, real, strict=True)]
        parts.append(np.stack(rows).astype(np.float64))
    return np.concatenate(parts, axis=1)
