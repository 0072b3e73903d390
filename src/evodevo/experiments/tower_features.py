"""Features of frozen towers, computed once for all samples and kept on disk.

Legend: B samples, L positions, D channels of a tower.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from evodevo import canonical, files
from evodevo.errors import unknown_name
from evodevo.networks.towers.spec import ExtractorStructure, tower_sizes
from evodevo.operators.pretrained.files import check_digest, weights_digest
from evodevo.operators.pretrained.spec import model_folder, root_of
from evodevo.tasks.base import SampleTask
from evodevo.tasks.feature_cache import Chunk, FeatureCache
from evodevo.tasks.features import FeaturesTask, InputFeatures
from evodevo.tasks.inputs import Batch, InputSpec

_BESIDE = ("config.json", "tokenizer.json", "preprocessor_config.json")
"""Files of a model that decide with its weights about what it makes of a sample."""
_ROWS = 64

Progress = Callable[[str, int, int], None]
"""Called with the input, the samples that are done, and all of them."""


def precompute(
    task: SampleTask,
    extractors: Mapping[str, ExtractorStructure],
    cache_folder: Path,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
) -> SampleTask:
    """The task with features in the place of every input that a frozen tower reads.

    A network reads them as the tower would have been read while it trained, and needs no tower. A second call finds
    them in the cache; damaged files there are made anew.

    Args:
        task: any.
        extractors: input -> its extractor; inputs of a built-in extractor or of a tower that learns stay.
        cache_folder: cache folder of the tasks.
        device: device of the towers.
        progress: called with the progress.

    Raises:
        UsageError: no such input, or a tower that cannot read it.
        NotFoundError, DataError, UnsafeFileError, StoreDamagedError, MissingExtraError: a tower that cannot be loaded.
        DiskFullError: no space left.
    """
    specs = {spec.name: spec for spec in task.inputs}
    features = {}
    for name, structure in extractors.items():
        if name not in specs:
            raise unknown_name("input", name, specs)
        if can_be_prepared(specs[name], structure):
            features[name] = _features(task, specs[name], structure, cache_folder, torch.device(device), progress)
    return FeaturesTask(task, features) if features else task


def can_be_prepared(spec: InputSpec, structure: ExtractorStructure) -> bool:
    """Whether a frozen tower reads this input."""
    frozen = structure.kind == "hugging_face" and structure.train == "none"
    return frozen and spec.modality in ("tokens", "image")


class TowerReader:
    """Features of samples that no cache holds, computed at once: for predictions on a user's own samples.

    Args:
        spec: specification of the input.
        structure: a frozen tower.
        device: device of the tower.
    """

    def __init__(self, spec: InputSpec, structure: ExtractorStructure, device: torch.device) -> None:
        self.spec = spec
        self.device = device
        from evodevo.networks.towers.model import build_tower  # it loads transformers

        tower: nn.Module = build_tower(spec, structure, missing=False)
        self._tower = tower.to(device).eval()

    @torch.no_grad()
    def read(self, batch: Batch) -> list[NDArray[np.float32]]:
        """Features (positions, D) of each sample's real positions; (0, D) of a sample that lacks the input."""
        name = self.spec.name
        given = {
            key: torch.from_numpy(np.asarray(batch[key])).to(self.device)
            for key in (name, f"{name}/mask")
            if key in batch
        }
        h, mask = self._tower(given, len(batch[name]))
        values: NDArray[np.float32] = h.float().cpu().numpy()
        real = np.ones(values.shape[:2], bool) if mask is None else mask.cpu().numpy()
        present = np.asarray(batch.get(f"{name}/present", np.ones(len(values), bool)))
        return [sample[kept & here] for sample, kept, here in zip(values, real, present, strict=True)]


def _features(
    task: SampleTask,
    spec: InputSpec,
    structure: ExtractorStructure,
    cache_folder: Path,
    device: torch.device,
    progress: Progress | None,
) -> InputFeatures:
    assert structure.path is not None
    check_digest(structure.path, structure.digest)
    sizes = tower_sizes(structure.path, spec)
    key = features_key(task, spec, structure)
    cache = FeatureCache(cache_folder)
    entry = cache.get(key)
    if entry is None:
        reader = TowerReader(spec, structure, device)
        entry = cache.put(key, sizes.width, _chunks(task, reader, progress))
    return InputFeatures(key, sizes.length(spec), sizes.width, entry)


def features_key(task: SampleTask, spec: InputSpec, structure: ExtractorStructure) -> str:
    """64 hexadecimal digits over everything that decides about the features of an input.

    Raises:
        NotFoundError, UnsafeFileError: see ``operators.pretrained``.
    """
    assert structure.path is not None
    folder = model_folder(structure.path)
    root = root_of(folder)
    beside = {name: files.sha256(folder / name, inside=root) for name in _BESIDE if files.regular(folder / name, root)}
    facts: dict[str, Any] = {
        "task": task.digest,
        "splits": {split: task.count(split) for split in task.splits},
        "input": asdict(spec),
        "weights": weights_digest(structure.path),
        "beside": beside,
        "positions": structure.positions,
        "transformers": version("transformers"),
        **({} if structure.normalise else {"normalise": False}),
    }
    return canonical.digest(facts)


def _chunks(task: SampleTask, reader: TowerReader, progress: Progress | None) -> Iterator[Chunk]:
    total = sum(task.count(split) for split in task.splits)
    done = 0
    for split in task.splits:
        yield split, []  # a split without samples has an entry, too
        for begin in range(0, task.count(split), _ROWS):
            places = np.arange(begin, min(begin + _ROWS, task.count(split)))
            yield split, reader.read(task.fetch(split, places))
            done += len(places)
            if progress is not None:
                progress(reader.spec.name, done, total)
