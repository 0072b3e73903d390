"""The task ``table``: a user's rows with images, texts and numbers, and with classes, labels or matches as outputs.

The outputs follow from the named columns: one class of two or more, several labels, or whether the inputs match.

Shapes: N samples of a split, B samples of a batch, L tokens, F numbers of a vector, C classes or labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from evodevo import canonical
from evodevo.errors import UsageError
from evodevo.settings import Settings
from evodevo.tasks import sample_baselines
from evodevo.tasks.base import NO_TARGET, OutputSpec, SampleTask, Split, check_key
from evodevo.tasks.inputs import Batch, InputSpec
from evodevo.tasks.table import own_rows as table_own_rows
from evodevo.tasks.table import text as table_text
from evodevo.tasks.table.own_rows import TableReading
from evodevo.tasks.table.preparation import prepare
from evodevo.tasks.table.settings import Columns, TableSettings, data_of
from evodevo.tasks.table.sources import identity, read_parts
from evodevo.tasks.text.token_cache import CachedTokens, TokenCache, default_folder

_NOTHING = "(none)"
_SHOWN_CHARACTERS = 400
_BASELINE_SIDE = 16
_BASELINE_WORDS = 2048


class TableTask(SampleTask):
    """Samples from the rows of a CSV, JSONL or parquet file.

    Inputs are called ``image``, ``text`` and ``vectors``, outputs ``label`` and ``match``, whatever the columns are
    called. Where an input is missing, ``NAME/present`` is false and its numbers are 0.

    Args:
        settings: Settings of the task.
        key: 64 hexadecimal digits over the rows, the images and their preparation; equal in every process.
        entry: Prepared samples.
    """

    name: ClassVar[str] = "table"
    settings_class: ClassVar[type[Settings]] = TableSettings

    def __init__(self, settings: TableSettings, key: str, entry: CachedTokens) -> None:
        self.settings = settings
        self.key = key
        self.digest = canonical.digest({"task": self.name, "key": key})
        self._meaning, self._about, self._arrays = entry.info["meaning"], entry.info["about"], entry.arrays
        self.splits = tuple(self._meaning["splits"])
        self.columns = Columns.model_validate_json(canonical.dumps(self._meaning["columns"]))
        self.coder = table_text.from_bytes(entry.tokenizer) if entry.tokenizer else None
        self.inputs = tuple(self._inputs())
        self.outputs = tuple(OutputSpec(name, kind, len(names), tuple(names)) for name, kind, names in self._questions)
        self.group_names = {}

    @classmethod
    def open(cls, settings: TableSettings, cache_folder: Path | None = None, key: str | None = None) -> TableTask:
        cache = TokenCache(cache_folder or default_folder())
        entry = cache.get(key) if key is not None else None
        if entry is not None and key is not None:
            return cls(settings, key, entry)
        columns, parts = read_parts(settings)
        actual_key = canonical.digest(identity(settings, columns, parts))
        check_key(actual_key, key, data_of(settings))
        entry = cache.get(actual_key)
        if entry is None:
            entry = cache.put(actual_key, prepare(settings, columns, parts))
        return cls(settings, actual_key, entry)

    def count(self, split: Split) -> int:
        name, _, names = self._questions[0]
        each = len(names) if self.outputs[0].kind == "labels" else 1
        return len(self._arrays[f"target_{name}_{split}"]) // each

    def fetch(self, split: Split, indices: NDArray[np.int64]) -> Batch:
        batch: dict[str, NDArray[Any]] = {}
        for spec in self.inputs:
            batch |= self._fetched(spec, split, indices)
            here = self._present[split][spec.name]
            if not here.all():
                batch[f"{spec.name}/present"] = here[indices]
        for output in self.outputs:
            target = self._target(output, split)[indices]
            if output.kind == "labels":
                target = np.where(target == NO_TARGET, np.nan, target).astype(np.float32)
            batch[f"{output.name}/target"] = target
        return batch

    def groups(self, split: Split, indices: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        return {}

    def show(self, split: Split, index: int) -> dict[str, str]:
        words: dict[str, str] = {}
        for spec in self.inputs:
            if not self._present[split][spec.name][index]:
                words[spec.name] = _NOTHING
            elif spec.modality == "image":
                words[spec.name] = f"{spec.height} x {spec.width}, {'grey' if spec.channels == 1 else 'colour'}"
            elif spec.modality == "tokens":
                text = self.texts(split)[index]
                words[spec.name] = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]} …"
            else:
                words[spec.name] = f"{spec.size} numbers"
        for output in self.outputs:
            target = self._target(output, split)[index]
            if output.kind == "labels":
                words[output.name] = ", ".join(np.asarray(output.names)[target > 0].tolist()) or _NOTHING
            else:
                words[output.name] = _NOTHING if target == NO_TARGET else output.names[target]
        return words

    def encode(self, name: str, text: str) -> NDArray[np.int64]:
        if self.coder is None:
            return super().encode(name, text)
        return self.coder.encode(text)[: self._meaning["length"]]

    def decode(self, name: str, tokens: NDArray[np.int64]) -> str:
        return super().decode(name, tokens) if self.coder is None else self.coder.decode(tokens)

    def texts(self, split: Split) -> list[str]:
        """All texts of a split, unchanged; empty where a sample has none.

        Raises:
            UsageError: The table has no texts.
        """
        if self.coder is None:
            raise UsageError("this table has no texts; name their column in the settings.")
        return self._texts[split]

    def read_sample(self, columns: Mapping[str, str]) -> Batch:
        """A user's sample with any of the inputs; see ``own_samples.read``. A ``box`` selects a part of the image.

        Raises:
            UsageError: An input is unknown, all inputs are missing, or numbers cannot be read.
            DataError: An image or a box cannot be read.
        """
        return table_own_rows.read_sample(self._reading, columns)

    def read_rows(self, path: Path, size: int = 64) -> Iterator[Batch]:
        """The samples of a file without answers, in its order; an input whose column it lacks is absent.

        Args:
            path: Table whose columns have the names in the settings.
            size: Number of samples in a batch.

        Raises:
            DataError: The file is unreadable, has no column of an input, or images or numbers that cannot be read
                (unless ``skip_corrupt``, which leaves that input out of the sample).
            UnsafeFileError: A path leads out of the folder of images.
        """
        return table_own_rows.read_rows(self._reading, path, size)

    def baselines(self, split: Split) -> dict[str, float]:
        """Accuracy (micro F1 for labels) of a constant answer, and of logistic regression on each input and on all.

        Images are coarse pixels, texts bags of tokens. The gap between one input and all is what several modalities add
        to a linear model.
        """
        metrics: dict[str, float] = {}
        train, held = (self.fetch(part, np.arange(self.count(part))) for part in ("train", split))
        names = tuple(spec.name for spec in self.inputs)
        for output in self.outputs:
            key = f"{output.name}/target"
            before = f"{output.name}: " if len(self.outputs) > 1 else ""
            metrics[f"{before}majority"] = sample_baselines.constant(train[key], held[key])
            for chosen in dict.fromkeys((*((name,) for name in names), names)):
                learned, judged = (
                    np.concatenate([self._features(batch, spec) for spec in self.inputs if spec.name in chosen], axis=1)
                    for batch in (train, held)
                )
                label = f"{before}logistic regression on {' and '.join(chosen)}"
                metrics[label] = sample_baselines.logistic(learned, train[key], judged, held[key])
        return metrics

    def describe(self) -> dict[str, Any]:
        return {
            "task": self.name,
            "digest": self.digest,
            "key": self.key,
            "samples": {split: self.count(split) for split in self.splits},
            "missing": {
                split: {name: int((~here).sum()) for name, here in self._present[split].items()}
                for split in self.splits
            },
            "outputs": {output.name: list(output.names) for output in self.outputs},
            "tokenizer": None if self.coder is None else self.coder.describe(),
            **self._about,
        }

    @property
    def _questions(self) -> list[tuple[str, Any, list[str]]]:
        return [(name, kind, names) for name, kind, names in self._meaning["questions"]]

    def _inputs(self) -> Iterator[InputSpec]:
        if "pixels" in self._arrays:
            height, width, channels = self._meaning["shape"]
            yield InputSpec("image", "image", height=height, width=width, channels=channels)
        if self.coder is not None:
            yield InputSpec("text", "tokens", length=self._meaning["length"], vocabulary=self.coder.vocabulary)
        if "mean" in self._meaning:
            yield InputSpec("vectors", "vector", size=len(self._meaning["mean"]))

    def _fetched(self, spec: InputSpec, split: Split, indices: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        if spec.modality == "image":
            number = self._arrays[f"images_{split}"][indices].astype(np.int64) - 1
            images = np.zeros((len(indices), spec.height, spec.width, spec.channels), np.uint8)
            images[number >= 0] = self._pixels[number[number >= 0]]
            return {spec.name: images}
        if spec.modality == "vector":
            return {spec.name: self._arrays[f"vectors_{split}"].view(np.float32).reshape(-1, spec.size)[indices]}
        columns = np.arange(spec.length)
        mask = columns < self._arrays[f"tokens_each_{split}"][indices][:, None]
        at = np.where(mask, self._starts[split][indices][:, None] + columns, 0)
        # Indexing an empty array fails, also where the mask hides all of its results.
        flat = self._arrays[f"tokens_{split}"] if len(self._arrays[f"tokens_{split}"]) else np.zeros(1, np.uint8)
        return {spec.name: np.where(mask, flat[at].astype(np.int64), 0), f"{spec.name}/mask": mask}

    def _target(self, output: OutputSpec, split: Split) -> NDArray[np.int64]:
        flat = self._arrays[f"target_{output.name}_{split}"].astype(np.int64) + NO_TARGET
        return flat.reshape(-1, output.size) if output.kind == "labels" else flat

    @cached_property
    def _present(self) -> dict[Split, dict[str, NDArray[np.bool_]]]:
        """Split -> input -> whether each sample has it, (N,)."""
        arrays = {"image": "images", "text": "tokens_each", "vectors": "vectors_present"}
        return {
            split: {spec.name: self._arrays[f"{arrays[spec.name]}_{split}"] > 0 for spec in self.inputs}
            for split in self.splits
        }

    @cached_property
    def _pixels(self) -> NDArray[np.uint8]:
        return self._arrays["pixels"].reshape(-1, *self._meaning["shape"])

    @cached_property
    def _starts(self) -> dict[Split, NDArray[np.int64]]:
        lengths = {split: self._arrays[f"tokens_each_{split}"] for split in self.splits}
        return {split: np.cumsum(own, dtype=np.int64) - own for split, own in lengths.items()}

    @cached_property
    def _texts(self) -> dict[Split, list[str]]:
        texts: dict[Split, list[str]] = {}
        for split in self.splits:
            whole = self._arrays[f"bytes_{split}"].tobytes()
            ends = np.cumsum(self._arrays[f"bytes_each_{split}"], dtype=np.int64).tolist()
            texts[split] = [whole[start:end].decode() for start, end in pairwise([0, *ends])]
        return texts

    @property
    def _reading(self) -> TableReading:
        scale = (self._meaning.get("mean", []), self._meaning.get("scale", []))
        return TableReading(self.settings, self.columns, self.inputs, self.encode, *scale)

    def _features(self, batch: Batch, spec: InputSpec) -> NDArray[np.float32]:
        values = batch[spec.name]
        if spec.modality == "vector":
            return values
        if spec.modality == "tokens":
            # Ids of a large vocabulary are taken modulo a limit, so that the dense counts fit into memory.
            size = min(spec.vocabulary, _BASELINE_WORDS)
            return sample_baselines.word_counts(values % size, batch[f"{spec.name}/mask"], size)
        step = -(-max(spec.height, spec.width) // _BASELINE_SIDE)
        return values[:, ::step, ::step].reshape(len(values), -1).astype(np.float32) / np.float32(255)
