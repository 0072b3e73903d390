"""A task over arrays in memory; nothing is read from a file and nothing is cached."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import DataError, UsageError, quoted_list
from evodevo.settings import Settings
from evodevo.tasks.base import ALL_SPLITS, OutputSpec, SampleTask, Split
from evodevo.tasks.inputs import Batch, InputSpec


class InMemoryTask(SampleTask):
    """A task over arrays. It is not in the table of tasks, because another process could not open it.

    Args:
        inputs: Inputs of a sample.
        outputs: Outputs to predict.
        parts: Split -> its samples, as ``tasks.base.Batch``; any subset of the splits.

    Raises:
        DataError: An array is missing or has another shape than its input states, or a split has no samples.
    """

    name: ClassVar[str] = "in_memory"
    settings_class: ClassVar[type[Settings]] = Settings

    def __init__(
        self, inputs: Sequence[InputSpec], outputs: Sequence[OutputSpec], parts: Mapping[Split, Batch]
    ) -> None:
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.group_names = {}
        self.splits = tuple(split for split in ALL_SPLITS if split in parts)
        self._parts = {split: dict(parts[split]) for split in self.splits}
        for split in self.splits:
            self._check(split)
        self.digest = self.key = self._digest()

    @classmethod
    def open(cls, settings: Any, cache_folder: Path | None = None, key: str | None = None) -> NoReturn:
        raise UsageError("samples in memory are in one process alone; a run needs files: see the task 'table'.")

    def count(self, split: Split) -> int:
        return len(self._part(split)[self.inputs[0].name])

    def fetch(self, split: Split, indices: NDArray[np.int64]) -> Batch:
        return {name: array[indices] for name, array in self._part(split).items()}

    def groups(self, split: Split, indices: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        return {}

    def show(self, split: Split, index: int) -> dict[str, str]:
        part = self._part(split)
        shapes = {spec.name: " x ".join(map(str, part[spec.name].shape[1:])) for spec in self.inputs}
        return shapes | {spec.name: str(part[f"{spec.name}/target"][index]) for spec in self.outputs}

    def describe(self) -> dict[str, Any]:
        return {
            "task": self.name,
            "digest": self.digest,
            "samples": {split: self.count(split) for split in self.splits},
            "outputs": {spec.name: list(spec.names) for spec in self.outputs},
        }

    def _part(self, split: Split) -> dict[str, NDArray[Any]]:
        if split not in self._parts:
            raise UsageError(f"there is no split {split!r} in memory; there are {quoted_list(self.splits)}.")
        return self._parts[split]

    def _check(self, split: Split) -> None:
        part = self._parts[split]
        wanted: dict[str, tuple[int, ...]] = {spec.name: _shape(spec) for spec in self.inputs}
        wanted |= {f"{spec.name}/target": (spec.size,) if spec.kind == "labels" else () for spec in self.outputs}
        missing = next((name for name in wanted if name not in part), None)
        if missing is not None:
            raise DataError(f"the split {split!r} has no array {missing!r}; it has {quoted_list(sorted(part))}.")
        lengths = {name: len(array) for name, array in part.items()}
        if len(set(lengths.values())) != 1 or 0 in lengths.values():
            raise DataError(f"the arrays of the split {split!r} need equal lengths above 0; they have {lengths}.")
        for name, shape in wanted.items():
            if part[name].shape[1:] != shape:
                raise DataError(f"{name!r} in the split {split!r} has samples of {part[name].shape[1:]}, not {shape}.")

    def _digest(self) -> str:
        whole = hashlib.sha256(repr((self.inputs, self.outputs)).encode())
        for split, part in self._parts.items():
            for name in sorted(part):
                array = np.ascontiguousarray(part[name])
                whole.update(f"{split}/{name}/{array.dtype.str}/{array.shape}".encode())
                whole.update(array.tobytes())
        return whole.hexdigest()


def _shape(spec: InputSpec) -> tuple[int, ...]:
    """Shape of one sample of an input."""
    return {
        "tokens": (spec.length,),
        "image": (spec.height, spec.width, spec.channels),
        "vector": (spec.size,),
        "features": (spec.length, spec.size),
    }[spec.modality]
