"""Batch sizes, validation intervals and the order of training samples for the children of multitask agents.

Source: docs/spec/munet.md#batches. Every pass over the training samples has a shuffle of its own; no state is kept
between steps.
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
    """Number of samples in a training batch: small sets get small batches, so that a child makes more than a few steps.

    Args:
        train: Number of samples in the training split.
        largest: Largest batch size, from the agent's table.
    """
    return min(largest, max(SMALLEST_BATCH, train // STEPS_PER_PASS))


@dataclass(frozen=True)
class BatchPlan:
    """The training schedule of one child.

    Attributes:
        batch: Number of training samples in a step.
        between: Number of steps between two validations.
        validation_batch: Number of samples in a validation batch.
        validation_batches: Number of batches in a validation; samples beyond their product are left out.
    """

    batch: int
    between: int
    validation_batch: int
    validation_batches: int

    @property
    def validation_samples(self) -> int:
        """Number of validation samples, the first ones of the split, which are the same for every path."""
        return self.validation_batch * self.validation_batches


def plan_batches(
    train: int, validation: int, *, batch: int, most_between: int, validation_cap: int, least_between: int = 1
) -> BatchPlan:
    """The training schedule for a task.

    Args:
        train: Number of training samples.
        validation: Number of validation samples.
        batch: Number of training samples in a step.
        most_between: Largest number of training samples between two validations; a smaller split is passed once.
        validation_cap: Largest number of samples in a validation.
        least_between: Least number of training samples between two validations, up to the largest; a smaller split is
            passed more than once.

    Raises:
        UsageError: A number is below 1.
    """
    given = {
        "train": train,
        "validation": validation,
        "batch": batch,
        "between": min(most_between, least_between),
        "cap": validation_cap,
    }
    for name, number in given.items():
        if number < 1:
            raise UsageError(f"batches need 1 sample at least; {name} is {number}.")
    between = -(-min(max(train, least_between), most_between) // batch)
    if validation_cap <= validation:
        size = min(batch, validation_cap)
        return BatchPlan(batch, between, size, validation_cap // size)
    count = -(-validation // batch)
    return BatchPlan(batch, between, validation // count, count)


def training_places(count: int, seed: int, step: int, size: int) -> NDArray[np.int64]:
    """Indices of the training samples of a step, (size,): the split is passed again and again, shuffled each time.

    A function of its arguments alone, so that a resumed training gets the same batches.

    Args:
        count: Number of samples in the split.
        seed: Seed of the child.
        step: Number of the step, from 0.
        size: Number of samples in a step.
    """
    first, last = step * size, (step + 1) * size
    passes = [_order(count, seed, number) for number in range(first // count, (last - 1) // count + 1)]
    start = first - first // count * count
    return np.concatenate(passes)[start : start + size].astype(np.int64)


@lru_cache(maxsize=4)  # every step of a pass needs the same order
def _order(count: int, seed: int, number: int) -> NDArray[np.int64]:
    """All samples of a split, shuffled for one pass."""
    order = generator(seed, number, "order of training samples").permutation(count)
    order.flags.writeable = False
    return order
