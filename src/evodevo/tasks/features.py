"""A task some of whose inputs are features, prepared once: what a frozen extractor made of every sample.

``experiments/tower_features.py`` prepares them. Shapes: B samples, L positions, D numbers of each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from evodevo import canonical
from evodevo.errors import DataError, UsageError, unknown_name
from evodevo.settings import Settings
from evodevo.tasks.base import Batch, InputSpec, SampleTask, Split
from evodevo.tasks.feature_cache import SplitFeatures


@dataclass(frozen=True)
class InputFeatures:
    """Those of one input.

    Attributes:
        key: 64 hexadecimal digits over the samples and what read them.
        length, size: L at most, and D.
        splits: of the task.
    """

    key: str
    length: int
    size: int
    splits: Mapping[Split, SplitFeatures]


class FeaturesTask(SampleTask):
    """A view of another task, with features in the place of some inputs.

    The specification of such an input keeps the sizes of what it was made from, so that it stands on the side of a
    fusion where that would stand (``spaces.senses.sides``).

    Args:
        task: the whole.
        features: input -> its features.

    Raises:
        UsageError: no such input.
        DataError: features of other samples.
    """

    name: ClassVar[str] = "features"
    settings_class: ClassVar[type[Settings]] = Settings

    def __init__(self, task: SampleTask, features: Mapping[str, InputFeatures]) -> None:
        names = [spec.name for spec in task.inputs]
        for name, found in features.items():
            if name not in names:
                raise unknown_name("input", name, names)
            counts = {split: len(found.splits[split]) if split in found.splits else 0 for split in task.splits}
            if counts != {split: task.count(split) for split in task.splits}:
                raise DataError(f"the features of the input {name!r} are of other samples; prepare them again.")
        self.whole = task
        self.features = dict(features)
        self.inputs = tuple(self._input(spec) for spec in task.inputs)
        self.outputs, self.group_names, self.splits = task.outputs, task.group_names, task.splits
        keys = {name: found.key for name, found in features.items()}
        self.digest = canonical.digest({"task": task.digest, "features": keys})
        self.key = task.key

    @classmethod
    def open(cls, settings: Any, cache_folder: Path | None = None, key: str | None = None) -> FeaturesTask:
        raise UsageError("features are prepared from a task, in code (evaluation.features); they are not opened alone.")

    def count(self, split: Split) -> int:
        return self.whole.count(split)

    def fetch(self, split: Split, places: NDArray[np.int64]) -> Batch:
        batch = dict(self.whole.fetch(split, places))
        for name, found in self.features.items():
            values, mask = found.splits[split].padded(np.asarray(places), found.length)
            batch.pop(f"{name}/mask", None)
            batch[f"{name}/origin"] = _fingerprints(batch[name])
            batch[name] = values
            if not mask.all():
                batch[f"{name}/mask"] = mask
        return batch

    def groups(self, split: Split, places: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        return self.whole.groups(split, places)

    def show(self, split: Split, place: int) -> dict[str, str]:
        return self.whole.show(split, place)

    def baselines(self, split: Split) -> dict[str, float]:
        return self.whole.baselines(split)

    def describe(self) -> dict[str, Any]:
        sizes = {name: {"key": one.key, "length": one.length, "size": one.size} for name, one in self.features.items()}
        return {**self.whole.describe(), "digest": self.digest, "features": sizes}

    def _input(self, spec: InputSpec) -> InputSpec:
        found = self.features.get(spec.name)
        return spec if found is None else replace(spec, modality="features", length=found.length, size=found.size)


def _fingerprints(raw: NDArray[Any]) -> NDArray[np.int64]:
    """(B,), equal for equal samples. Their features differ in the last bits, by who was read beside them."""
    marks = [hashlib.blake2b(np.ascontiguousarray(sample).tobytes(), digest_size=8).digest() for sample in raw]
    return np.frombuffer(b"".join(marks), "<i8").astype(np.int64)
