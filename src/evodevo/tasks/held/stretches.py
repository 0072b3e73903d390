"""A view of a task on one text with a fourth split ``architecture``: stretches that no training window overlaps.

For tasks whose training samples are windows that begin at any token (``SampleTask.overlapping``); a split of such
windows one by one would have nearly every token in both parts.

Shapes: B samples. Legend: L tokens of a window's input, which is followed by the token that is predicted last.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from evodevo import canonical
from evodevo.errors import DataError
from evodevo.tasks.base import SampleTask, Split
from evodevo.tasks.held.view import HeldView

SHARE = 0.1
STRETCHES = 16
"""Number of stretches, evenly spread, since a text changes from its beginning to its end."""
MOST_WINDOWS = 4096
"""Windows that are held back at most, however long the text is."""


class HeldStretchesTask(HeldView):
    """A view of another task; its windows of ``architecture`` share no token with each other but the predicted last.

    Args:
        task: Original task, without a split ``architecture``, whose training sample number i begins at token i.
        share: Fraction of its training windows without overlap that are held back, 0 to 1.

    Raises:
        DataError: The text is too short to hold anything back.
    """

    name: ClassVar[str] = "held_stretches"
    overlapping: ClassVar[bool] = True

    def __init__(self, task: SampleTask, share: float = SHARE) -> None:
        super().__init__(task, canonical.digest({"task": task.digest, "held stretches": share}))
        length = task.inputs[0].length
        self._held, begins, ends = _stretches(task.count("train"), length, share)
        # A training window is read up to the token after its last input.
        first = np.concatenate([[0], ends + 1])
        last = np.concatenate([begins - length - 1, [task.count("train") - 1]])
        sizes = np.maximum(last - first + 1, 0)
        self._first, self._before = first, np.concatenate([[0], np.cumsum(sizes)])
        if not self._before[-1]:
            raise DataError(
                f"the training text has {task.count('train') + length:,} tokens, too few to hold windows of {length:,} "
                "back for judging. Give more text, or a shorter context length."
            )

    def _place(self, split: Split, indices: NDArray[np.int64]) -> tuple[Split, NDArray[np.int64]]:
        if split == "architecture":
            return "train", self._held[indices]
        if split == "train":
            piece = np.searchsorted(self._before, indices, side="right") - 1
            return "train", self._first[piece] + indices - self._before[piece]
        return split, indices

    def count(self, split: Split) -> int:
        if split == "architecture":
            return len(self._held)
        return int(self._before[-1]) if split == "train" else self.whole.count(split)


def _stretches(
    starts: int, length: int, share: float
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """First tokens of the windows that are held back, and first and last tokens of the stretches that they lie in.

    Args:
        starts: Number of tokens at which a training window may begin.
        length: L.
        share: Fraction of windows without overlap that are held back.
    """
    windows = max(1, min(MOST_WINDOWS, round(share * starts / length)))
    count = min(STRETCHES, windows)
    each = np.diff(np.arange(count + 1) * windows // count)
    # In the middle of equal parts of the text.
    begins = (2 * np.arange(count) + 1) * starts // (2 * count) - each * length // 2
    begins = np.maximum(begins, 0)
    held = np.concatenate([begin + length * np.arange(size) for begin, size in zip(begins, each, strict=True)])
    return held.astype(np.int64), begins.astype(np.int64), (begins + each * length).astype(np.int64)
