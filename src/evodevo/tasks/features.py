"""A view of a task in which some inputs are replaced by features that a frozen extractor computed in advance.

``experiments/tower_features.py`` prepares them. Shapes: B samples, L positions, D numbers per position.
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
    """Features of one input.

    Attributes:
        key: 64 hexadecimal digits over the samples and the extractor.
        length: Largest number of positions L.
        size: Number of entries D of each feature.
        splits: Split of the task -> its features.
    """

    key: str
    length: int
    size: int
    splits: Mapping[Split, SplitFeatures]


class FeaturesTask(SampleTask):
    """A view of another task, with features in place of some inputs.

    The specification of such an input keeps the sizes of the original input, so that a network that fuses modalities
    assigns it to the same side.

    Args:
        task: Original task.
        features: Input -> its features.

    Raises:
        UsageError: The task has no such input.
        DataError: The features belong to other samples.
    """

    name: ClassVar[str] = "features"
    settings_class: ClassVar[type[Settings]] = Settings

    def __init__(self, task: SampleTask, features: Mapping[str, InputFeatures]) -> None:
        names = [spec.name for spec in task.inputs]
        for name, prepared in features.items():
            if name not in names:
                raise unknown_name("input", name, names)
            counts = {split: len(prepared.splits[split]) if split in prepared.splits else 0 for split in task.splits}
            if counts != {split: task.count(split) for split in task.splits}:
                raise DataError(f"the features of the input {name!r} are of other samples; prepare them again.")
        self.whole = task
        self.features = dict(features)
        self.inputs = tuple(self._input(spec) for spec in task.inputs)
        self.outputs, self.group_names, self.splits = task.outputs, task.group_names, task.splits
        keys = {name: prepared.key for name, prepared in features.items()}
        self.digest = canonical.digest({"task": task.digest, "features": keys})
        self.key = task.key

    @classmethod
    def open(cls, settings: Any, cache_folder: Path | None = None, key: str | None = None) -> FeaturesTask:
        raise UsageError("features are prepared from a task, in code (evaluation.features); they are not opened alone.")

    def count(self, split: Split) -> int:
        return self.whole.count(split)

    def fetch(self, split: Split, indices: NDArray[np.int64]) -> Batch:
        batch = dict(self.whole.fetch(split, indices))
        for name, prepared in self.features.items():
            values, mask = prepared.splits[split].padded(np.asarray(indices), prepared.length)
            batch.pop(f"{name}/mask", None)
            batch[f"{name}/origin"] = _fingerprints(batch[name])
            batch[name] = values
            if not mask.all():
                batch[f"{name}/mask"] = mask
        return batch

    def groups(self, split: Split, indices: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        return self.whole.groups(split, indices)

    def show(self, split: Split, index: int) -> dict[str, str]:
        return self.whole.show(split, index)

    def baselines(self, split: Split) -> dict[str, float]:
        return self.whole.baselines(split)

    def describe(self) -> dict[str, Any]:
        sizes = {
            name: {"key": prepared.key, "length": prepared.length, "size": prepared.size}
            for name, prepared in self.features.items()
        }
        return {**self.whole.describe(), "digest": self.digest, "features": sizes}

    def _input(self, spec: InputSpec) -> InputSpec:
        prepared = self.features.get(spec.name)
        return (
            spec if prepared is None else replace(spec, modality="features", length=prepared.length, size=prepared.size)
        )


def _fingerprints(raw: NDArray[Any]) -> NDArray[np.int64]:
    """A number per sample (B,), equal for equal samples.

    Features cannot serve for that: they differ in the last bits with the other samples in the extractor's batch.
    """
    digests = [hashlib.blake2b(np.ascontiguousarray(sample).tobytes(), digest_size=8).digest() for sample in raw]
    return np.frombuffer(b"".join(digests), "<i8").astype(np.int64)
