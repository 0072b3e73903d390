"""The domains task: one of many functions, each a table that only weights can hold, applied k times.

A sample is a domain, a value and a number of steps k; the answer is f_d(f_d(... v)), k times, with a random permutation
f_d of the n values for each domain d. Nothing in the sample tells the table: a network needs weights for D n facts, of
which each sample uses at most k.

Shapes: B samples, D domains, n values; the input is a vector of n + D + K entries for k up to K, three one-hot codes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from evodevo import canonical
from evodevo.randomness import generator
from evodevo.settings import Settings
from evodevo.tasks.base import SPLITS, OutputSpec, SampleTask, Split, check_key
from evodevo.tasks.generated import SplitSizes
from evodevo.tasks.inputs import Batch, InputSpec
from evodevo.tasks.reasoning.pointer import walk

_VERSION = 1


class DomainsSettings(Settings):
    """Sizes of the tables, numbers of steps, numbers of samples."""

    domains: int = Field(default=32, ge=1, le=4096, description="number of domains, each with a table of its own")
    values: int = Field(default=16, ge=2, le=256, description="number of values in a table")
    steps_min: int = Field(default=1, ge=0, le=64, description="number of steps in the easiest samples")
    steps_max: int = Field(default=2, ge=1, le=64, description="number of steps in the hardest samples")
    samples: SplitSizes = SplitSizes(train=100_000, validation=2_000, test=2_000)
    seed: int = Field(default=0, ge=0, lt=2**63, description="seed of the tables and of the samples")

    @model_validator(mode="after")
    def _a_range(self) -> Self:
        if self.steps_min > self.steps_max:
            raise ValueError(f"steps_min is {self.steps_min} and steps_max {self.steps_max}; the smaller comes first")
        return self


class DomainsTask(SampleTask):
    """Tables of many domains, applied one or more times.

    All splits ask the same D n K questions: this is a task of memory, not of generalisation, and a network that knows
    all tables answers all of them. Only the draw of the samples differs.

    Args:
        settings: Settings of the task.
    """

    name: ClassVar[str] = "domains"
    settings_class: ClassVar[type[Settings]] = DomainsSettings

    def __init__(self, settings: DomainsSettings) -> None:
        self.settings = settings
        self.key = canonical.digest({"task": self.name, "version": _VERSION, "settings": settings.model_dump()})
        self.digest = self.key
        self.steps = tuple(range(settings.steps_min, settings.steps_max + 1))
        size = settings.values + settings.domains + len(self.steps)
        self.inputs = (InputSpec("question", "vector", size=size),)
        names = tuple(str(value) for value in range(settings.values))
        self.outputs = (OutputSpec("answer", "class", settings.values, names=names),)
        self.group_names = {
            "steps": tuple(str(count) for count in self.steps),
            "domain": tuple(str(domain) for domain in range(settings.domains)),
        }
        tables = generator(settings.seed, "domains", "tables")
        self._tables = np.stack([tables.permutation(settings.values) for _ in range(settings.domains)])
        self._samples = {split: self._draw(split) for split in SPLITS}

    @classmethod
    def open(cls, settings: DomainsSettings, cache_folder: Path | None = None, key: str | None = None) -> DomainsTask:
        task = cls(settings)
        check_key(task.key, key, "the generator of the domains task")
        return task

    def count(self, split: Split) -> int:
        return self.settings.samples.of(split)

    def fetch(self, split: Split, indices: NDArray[np.int64]) -> Batch:
        settings = self.settings
        domain, value, steps = (part[indices].astype(np.int64) for part in self._samples[split])
        question = np.zeros((len(indices), self.inputs[0].size), np.float32)
        rows = np.arange(len(indices))
        question[rows, value] = 1.0
        question[rows, settings.values + domain] = 1.0
        question[rows, settings.values + settings.domains + steps - self.steps[0]] = 1.0
        return {"question": question, "answer/target": walk(self._tables[domain], value, steps)}

    def groups(self, split: Split, indices: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        domain, _, steps = (part[indices].astype(np.int64) for part in self._samples[split])
        return {"steps": steps - self.steps[0], "domain": domain}

    def show(self, split: Split, index: int) -> dict[str, str]:
        domain, value, steps = (int(part[index]) for part in self._samples[split])
        target = int(self.fetch(split, np.asarray([index]))["answer/target"][0])
        times = "once" if steps == 1 else f"{steps} times"
        return {"question": f"table {domain}, value {value}, {times}", "answer": str(target)}

    def baselines(self, split: Split) -> dict[str, float]:
        """Accuracy of shortcuts: the commonest answer, and the value as it is given."""
        domain, value, steps = (part.astype(np.int64) for part in self._samples[split])
        answers = walk(self._tables[domain], value, steps)
        return {
            "majority": float(np.bincount(answers).max() / len(answers)),
            "the value itself": float((answers == value).mean()),
        }

    def describe(self) -> dict[str, Any]:
        return {
            "task": self.name,
            "digest": self.digest,
            "key": self.key,
            "source": "generated",
            "samples": {split: self.count(split) for split in SPLITS},
            "split_rule": "splits draw the same questions: a task of memory",
            "encoding": "one-hot codes of the value, the domain and the number of steps in one vector",
            "size": self.inputs[0].size,
        }

    def _draw(self, split: Split) -> tuple[NDArray[np.int32], ...]:
        """Domain, value and number of steps, (count,) each."""
        settings, count = self.settings, self.count(split)
        rng = generator(settings.seed, split, "domains")
        domain = rng.integers(0, settings.domains, count, dtype=np.int32)
        value = rng.integers(0, settings.values, count, dtype=np.int32)
        steps = rng.integers(self.steps[0], self.steps[-1] + 1, count, dtype=np.int32)
        return domain, value, steps
