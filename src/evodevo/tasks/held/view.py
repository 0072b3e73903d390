"""A view of a task with a fourth split ``architecture``, made of training samples of the task."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import UsageError
from evodevo.settings import Settings
from evodevo.tasks.base import ALL_SPLITS, SampleTask, Split
from evodevo.tasks.inputs import Batch


class HeldView(SampleTask):
    """The samples of another task in other splits; a subclass has the rule.

    Args:
        task: Original task, without a split ``architecture``.
        digest: Digest of the view.
    """

    settings_class: ClassVar[type[Settings]] = Settings
    splits = ALL_SPLITS

    def __init__(self, task: SampleTask, digest: str) -> None:
        self.whole = task
        self.inputs, self.outputs, self.group_names = task.inputs, task.outputs, task.group_names
        self.digest = digest
        self.key = task.key

    @classmethod
    def open(cls, settings: Any, cache_folder: Path | None = None, key: str | None = None) -> Self:
        raise UsageError("a split is held back from a task in code; such a task is not opened by itself.")

    @abstractmethod
    def _place(self, split: Split, indices: NDArray[np.int64]) -> tuple[Split, NDArray[np.int64]]:
        """Split and indices of these samples in the original task."""

    def fetch(self, split: Split, indices: NDArray[np.int64]) -> Batch:
        return self.whole.fetch(*self._place(split, indices))

    def groups(self, split: Split, indices: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        return self.whole.groups(*self._place(split, indices))

    def show(self, split: Split, index: int) -> dict[str, str]:
        origin, indices = self._place(split, np.asarray([index]))
        return self.whole.show(origin, int(indices[0]))

    def describe(self) -> dict[str, Any]:
        return {**self.whole.describe(), "digest": self.digest}
