"""Whether the training images of a new task are moved by chance: where a child passes them often.

What it is worth by the number of samples: docs/results.md#images-that-are-moved-in-training-2026-11-30.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evodevo.multitask.hyperparameters import SHIFT
from evodevo.multitask.paths.convolution.kind import SHIFTS
from evodevo.settings import merge

MOST_SAMPLES = 8000
"""Most training samples of a task whose images are moved; gains were measured up to 7,200, losses from 18,000 on."""


def moved_by_size(options: Mapping[str, Any], samples: int | None) -> dict[str, Any]:
    """Options that an agent takes over from its root, with the movement that so many training samples ask for.

    Args:
        options: Options of the root; movement that a user has set for it stays.
        samples: Number of training samples; None where it is not known.
    """
    usual = options.get("hyperparameters", {}).get(SHIFT) == SHIFTS
    if not usual or samples is None or samples <= MOST_SAMPLES:
        return dict(options)
    return merge(dict(options), {"hyperparameters": {SHIFT: {"default": 0.0}}})
