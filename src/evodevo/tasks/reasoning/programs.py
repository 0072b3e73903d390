"""The programs task: operations applied one after the other, tested on programs that no training sample has.

A sample is a value v and a program of 1 to L operations; the answer is f_L(... f_2(f_1(v))), with a random permutation
of the n values as f for each operation. Shorter programs are filled up with "nop", which changes nothing. Some of the
longest programs are held out of training, so that a network has to know each operation by itself and apply any one
after any other: a table of whole programs does not answer them.

Shapes: B samples, F operations, n values, L slots; the input is a vector of n + L (F + 1) entries: one-hot codes of the
value and of the operation in each slot, of which the last one is nop.
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
from evodevo.tasks.base import ALL_SPLITS, OutputSpec, SampleTask, Split, check_key
from evodevo.tasks.generated import SplitSizes
from evodevo.tasks.inputs import Batch, InputSpec

_VERSION = 1
_PARTS = 4
"""Of the programs that are held out: one part is of the split architecture, one of validation, the others of test."""
_MOST_PROGRAMS = 1 << 20


class ProgramsSettings(Settings):
    """Numbers of values, operations and slots, the share of programs that is held out, numbers of samples."""

    operations: int = Field(default=8, ge=2, le=1024, description="number of operations, each a random permutation")
    values: int = Field(default=8, ge=2, le=256, description="number of values")
    length: int = Field(default=3, ge=2, le=16, description="number of operations in the longest programs")
    held_out: float = Field(
        default=0.25, gt=0, le=0.5, description="share of the longest programs that no training sample has"
    )
    samples: SplitSizes = SplitSizes(train=100_000, validation=2_000, test=2_000)
    seed: int = Field(default=0, ge=0, lt=2**63, description="seed of the operations and of the samples")

    @property
    def beginnings(self) -> int:
        """Number of the longest programs with the same last operation."""
        return int(self.operations ** (self.length - 1))

    @model_validator(mode="after")
    def _enough_programs(self) -> Self:
        if self.beginnings * self.operations > _MOST_PROGRAMS:
            raise ValueError(
                f"{self.operations} operations make {self.operations}**{self.length} programs; at most "
                f"{_MOST_PROGRAMS} are listed. Take fewer operations or shorter programs"
            )
        if round(self.held_out * self.beginnings) < _PARTS:
            raise ValueError(
                f"held_out = {self.held_out:g} leaves {round(self.held_out * self.beginnings)} programs with the same "
                f"last operation out of training; {_PARTS} are needed for three splits. Take a larger share, more "
                "operations or longer programs"
            )
        return self


class ProgramsTask(SampleTask):
    """Programs of operations on values.

    In training every length is equally frequent; the other splits have the longest programs only, each program in one
    split. Of every last operation equally many programs are held out, at most half, so that training shows every
    operation in every slot.

    Args:
        settings: Settings of the task.
    """

    name: ClassVar[str] = "programs"
    settings_class: ClassVar[type[Settings]] = ProgramsSettings
    splits = ALL_SPLITS

    def __init__(self, settings: ProgramsSettings) -> None:
        self.settings = settings
        self.key = canonical.digest({"task": self.name, "version": _VERSION, "settings": settings.model_dump()})
        self.digest = self.key
        size = settings.values + settings.length * (settings.operations + 1)
        self.inputs = (InputSpec("program", "vector", size=size),)
        names = tuple(str(value) for value in range(settings.values))
        self.outputs = (OutputSpec("answer", "class", settings.values, names=names),)
        self.group_names = {"length": tuple(str(count) for count in range(1, settings.length + 1))}
        tables = generator(settings.seed, "programs", "operations")
        drawn = [tables.permutation(settings.values) for _ in range(settings.operations)]
        self._tables = np.stack([*drawn, np.arange(settings.values)])
        self._longest = self._divide()
        self._samples = {split: self._draw(split) for split in self.splits}

    @classmethod
    def open(cls, settings: ProgramsSettings, cache_folder: Path | None = None, key: str | None = None) -> ProgramsTask:
        task = cls(settings)
        check_key(task.key, key, "the generator of the programs task")
        return task

    @property
    def nop(self) -> int:
        """The code of a slot without an operation, F."""
        return self.settings.operations

    def count(self, split: Split) -> int:
        return self.settings.samples.of("validation" if split == "architecture" else split)

    def fetch(self, split: Split, indices: NDArray[np.int64]) -> Batch:
        value, program = (part[indices].astype(np.int64) for part in self._samples[split])
        codes = np.eye(self.settings.operations + 1, dtype=np.float32)[program]
        first = np.eye(self.settings.values, dtype=np.float32)[value]
        question = np.concatenate([first, codes.reshape(len(indices), -1)], axis=1)
        return {"program": question, "answer/target": self._run(value, program)}

    def groups(self, split: Split, indices: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        return {"length": (self._samples[split][1][indices] != self.nop).sum(axis=1) - 1}

    def show(self, split: Split, index: int) -> dict[str, str]:
        value, program = (part[index] for part in self._samples[split])
        target = int(self.fetch(split, np.asarray([index]))["answer/target"][0])
        words = ", then ".join(f"operation {code}" for code in program if code != self.nop)
        return {"program": f"value {value}, {words}", "answer": str(target)}

    def baselines(self, split: Split) -> dict[str, float]:
        """Accuracy of shortcuts: the commonest answer, the value as it is given, and single operations on it."""
        value, program = (part.astype(np.int64) for part in self._samples[split])
        answers = self._run(value, program)
        lengths = (program != self.nop).sum(axis=1)
        last = np.take_along_axis(program, lengths[:, None] - 1, axis=1)[:, 0]
        return {
            "majority": float(np.bincount(answers).max() / len(answers)),
            "the value itself": float((answers == value).mean()),
            "the first operation alone": float((answers == self._tables[program[:, 0], value]).mean()),
            "the last operation alone": float((answers == self._tables[last, value]).mean()),
        }

    def describe(self) -> dict[str, Any]:
        return {
            "task": self.name,
            "digest": self.digest,
            "key": self.key,
            "source": "generated",
            "samples": {split: self.count(split) for split in self.splits},
            "programs": {split: len(self._longest[split]) for split in self.splits},
            "split_rule": "by program: some of the longest are held out, each for one of the other splits",
            "encoding": "one-hot codes of the value and of the operation in each slot, in one vector",
            "size": self.inputs[0].size,
        }

    def _run(self, value: NDArray[np.int64], program: NDArray[np.int64]) -> NDArray[np.int64]:
        """Values (B,) after their programs (B, L)."""
        for slot in range(program.shape[1]):
            value = self._tables[program[:, slot], value]
        return value

    def _divide(self) -> dict[Split, NDArray[np.int64]]:
        """The longest programs of each split, (programs, L)."""
        settings = self.settings
        rng = generator(settings.seed, "programs", "held out")
        held = round(settings.held_out * settings.beginnings)
        part = held // _PARTS
        places: dict[Split, slice] = {
            "architecture": slice(0, part),
            "validation": slice(part, 2 * part),
            "test": slice(2 * part, held),
            "train": slice(held, None),
        }
        orders = [rng.permutation(settings.beginnings) for _ in range(settings.operations)]
        divided: dict[Split, NDArray[np.int64]] = {}
        for split, place in places.items():
            chosen = [
                np.column_stack([self._beginning(order[place]), np.full(len(order[place]), last)])
                for last, order in enumerate(orders)
            ]
            divided[split] = np.concatenate(chosen)
        return divided

    def _beginning(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Numbers (count,) of all but the last operation -> these operations, (count, L - 1)."""
        each = [numbers // self.settings.operations**slot for slot in range(self.settings.length - 1)]
        return np.stack(each, axis=1) % self.settings.operations

    def _draw(self, split: Split) -> tuple[NDArray[np.int32], ...]:
        """Values (count,) and programs (count, L)."""
        settings, count = self.settings, self.count(split)
        rng = generator(settings.seed, split, "programs")
        value = rng.integers(0, settings.values, count, dtype=np.int32)
        program = self._longest[split][rng.integers(0, len(self._longest[split]), count)]
        if split == "train":
            length = rng.integers(1, settings.length + 1, count)
            # Shorter programs are any; the beginning of a longest one would be rarer where that is held out.
            shorter = rng.integers(0, settings.operations, program.shape)
            program = np.where((length == settings.length)[:, None], program, shorter)
            program = np.where(np.arange(settings.length) < length[:, None], program, self.nop)
        return value, program.astype(np.int32)
