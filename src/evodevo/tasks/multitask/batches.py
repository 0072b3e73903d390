"""How many samples make a batch, and how many batches lie between two looks at the validation split.

Source: docs/spec/munet.md#batches. The order of training samples is here too: a whole
shuffle for each pass, and no state between steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import UsageError
from evodevo.randomness import generator

SMALLEST_BATCH = 16
STEPS_PER_PASS = 32


def batch_size(train: int, largest: int) -> int:
    """Samples of a training batch: small sets get small batches, so that a child makes more than a few steps.

    Args:
        train: samples of the training split.
        largest: what the agent's table says.
    """
    return min(largest, max(SMALLEST_BATCH, train // STEPS_PER_PASS))


@dataclass(frozen=True)
class BatchPlan:
    """One child's course.

    Attributes:
        batch: training samples of a step.
        between: steps between two looks at the validation split.
        validation_batch, validation_batches: how it is looked at; samples beyond their product are left out.
    """

    batch: int
    between: int
    validation_batch: int
    validation_batches: int

    @property
    def validation_samples(self) -> int:
        """The first so many samples of the validation split, the same for every path."""
        return self.validation_batch * self.validation_batches


def plan_batches(train: int, validation: int, *, batch: int, most_between: int, validation_cap: int) -> BatchPlan:
    """The course for a task.

    Args:
        train, validation: samples of these splits.
        batch: training samples of a step.
        most_between: training samples between two looks, at most; a smaller split is passed once.
        validation_cap: validation samples that are looked at, at most.

    Raises:
        UsageError: a number below 1.
    """
    given = {"train": train, "validation": validation, "batch": batch, "between": most_between, "cap": validation_cap}
    for name, number in given.items():
        if number < 1:
            raise UsageError(f"batches want 1 sample at least; {name} is {number}.")
    between = -(-min(train, most_between) // batch)
    if validation_cap <= validation:
        size = min(batch, validation_cap)
        return BatchPlan(batch, between, size, validation_cap // size)
    count = -(-validation // batch)
    return BatchPlan(batch, between, validation // count, count)


def training_places(count: int, seed: int, step: int, size: int) -> NDArray[np.int64]:
    """Which training samples a step sees (size,): the split is passed again and again, shuffled anew each time.

    A function of its arguments alone, so that whoever resumes sees what would have come.

    Args:
        count: samples of the split.
        seed: of the child.
        step: from 0.
        size: samples of a step.
    """
    first, last = step * size, (step + 1) * size
    passes = [_order(count, seed, number) for number in range(first // count, (last - 1) // count + 1)]
    start = first - first // count * count
    return np.concatenate(passes)[start : start + size].astype(np.int64)


@lru_cache(maxsize=4)  # all steps of a pass ask for it
def _order(count: int, seed: int, number: int) -> NDArray[np.int64]:
    """All samples of a split, shuffled for one pass."""
    order = generator(seed, number, "order of training samples").permutation(count)
    order.flags.writeable = False
    return order
