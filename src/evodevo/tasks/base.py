"""What a task is: real data in three splits, handed out as numpy arrays, and the numbers that judge a model on them.

A task holds no torch and no model, so that the coordinator, the workers and the command line read the same one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from evodevo.registry import Registry, table
from evodevo.settings import Settings

TASKS: Registry[Any] = table("task", "evodevo.tasks")
TASKS.add("language", "evodevo.tasks.language:LanguageTask")

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)


class Task(ABC):
    """One problem. Reading methods may be called from any process and never change the task.

    Laws: a batch is a function of (split, seed, step, size) alone, so that a resumed run reads what the uninterrupted
    one would have read; no document stands in two splits; equal ``digest`` means equal data.
    """

    name: ClassVar[str]
    settings_class: ClassVar[type[Settings]]

    digest: str
    """64 hexadecimal digits over everything that decides which numbers a model sees."""

    @classmethod
    @abstractmethod
    def open(cls, settings: Any, cache_folder: Path | None = None, key: str | None = None) -> Task:
        """Read the data, or find it prepared in the cache.

        Args:
            settings: an instance of ``settings_class``.
            cache_folder: where prepared data lies; None is ``$XDG_CACHE_HOME/evodevo`` or ``~/.cache/evodevo``.
            key: the ``key`` of a task that was opened before with these settings; a worker passes it to find the
                prepared data without reading the sources again.

        Raises:
            DataError: nothing there, nothing readable, or too little; the message says where and what to do.
        """

    @abstractmethod
    def batch(self, split: Split, seed: int, step: int, size: int) -> NDArray[np.int64]:
        """The samples of one training step; the first axis has length ``size``."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """What a report says about the data: sources, sizes, digests, the split's rule. JSON."""
