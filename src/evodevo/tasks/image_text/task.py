"""The task ``image_text``: classes, labels or a match of images and texts, from the user's files or generated scenes.

Forms (docs/spec/h_model.md#experiments): ``labels`` one class (the answer to a question about a scene), ``multilabel``
several labels (genres, which each side alone predicts well), ``match`` whether a caption describes the image (which
neither side alone predicts), ``caption_match`` the same for two captions, ``both`` the labels and the match together.

Shapes: N samples of a split, B samples of a batch, L tokens.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from evodevo import canonical
from evodevo.randomness import generator
from evodevo.settings import Settings
from evodevo.tasks import sample_baselines
from evodevo.tasks.base import NO_TARGET, SPLITS, OutputSpec, SampleTask, Split, check_key
from evodevo.tasks.image_text import files as image_text_files
from evodevo.tasks.image_text import scene_samples
from evodevo.tasks.image_text.files import FileSettings
from evodevo.tasks.image_text.samples import TEXTS, Form, from_entry, to_entry
from evodevo.tasks.image_text.scene_samples import SceneSettings
from evodevo.tasks.inputs import Batch, InputSpec
from evodevo.tasks.text.token_cache import CachedTokens, TokenCache, default_folder
from evodevo.tasks.text.words import PADDING, Vocabulary, cut

_SCENES_VERSION = 1
# Paths are no part of the key: the contents of the files are.
_NOT_OF_FILES = {"data", "test", "images", "test_images", "scenes", "missing"}
_NOTHING = "(none)"


class ImageTextSettings(FileSettings):
    """The form of the task, its images and texts, and missing inputs."""

    form: Form = Field(default="match", description="kind of the outputs")
    scenes: SceneSettings = Field(default=SceneSettings(), description="generated samples, used without data")
    missing: dict[str, float] = Field(
        default={},
        description="input -> share of training samples that lack it, so that a network learns to work without",
    )

    @model_validator(mode="after")
    def _missing_inputs(self) -> Self:
        inputs = inputs_of(self.form)
        for name, share in self.missing.items():
            if name not in inputs:
                raise ValueError(f"missing names {name!r}; the inputs of {self.form!r} are {', '.join(inputs)}")
            if not 0 <= share <= 1:
                raise ValueError(f"missing.{name} is a share from 0 to 1, got {share}")
        if sum(self.missing.values()) > 1:
            raise ValueError("the shares of missing inputs add up to more than 1; a sample needs one input")
        return self


def inputs_of(form: Form) -> tuple[str, ...]:
    """Names of the inputs of a form, in order."""
    return TEXTS[form] if form == "caption_match" else ("image", *TEXTS[form])


class ImageTextTask(SampleTask):
    """Samples of an image and a text, or of two captions.

    Where an input is missing, ``NAME/present`` is false, its numbers are 0, and a match has no target.

    Args:
        settings: Settings of the task.
        key: 64 hexadecimal digits over the sources and their preparation; equal in every process.
        entry: Prepared samples.
    """

    name: ClassVar[str] = "image_text"
    settings_class: ClassVar[type[Settings]] = ImageTextSettings

    def __init__(self, settings: ImageTextSettings, key: str, entry: CachedTokens) -> None:
        self.settings = settings
        self.key = key
        prepared = from_entry(entry)
        self._info, self._pixels, self._splits = prepared.info, prepared.pixels, prepared.splits
        self.vocabulary = Vocabulary(prepared.words)
        shares = {name: share for name, share in sorted(settings.missing.items()) if share}
        self.digest = canonical.digest({"task": self.name, "key": key, "missing": shares})
        self.group_names = prepared.groups
        self.outputs = tuple(
            OutputSpec(question.name, question.kind, len(question.names), question.names)
            for question in prepared.questions
        )
        self.inputs = tuple(self._input(name) for name in inputs_of(settings.form))
        self._present = {split: self._who_has_what(split, shares) for split in SPLITS}

    @classmethod
    def open(
        cls, settings: ImageTextSettings, cache_folder: Path | None = None, key: str | None = None
    ) -> ImageTextTask:
        cache = TokenCache(cache_folder or default_folder())
        entry = cache.get(key) if key is not None else None
        if entry is not None and key is not None:
            return cls(settings, key, entry)
        if settings.data is None:
            options = _decisive(settings.scenes, settings.form)
            actual_key = canonical.digest({"task": cls.name, "form": settings.form, "scenes": options})
            check_key(actual_key, key, "the generator of scenes")
            entry = cache.get(actual_key)
            if entry is None:
                entry = cache.put(actual_key, to_entry(scene_samples.prepare(settings.form, settings.scenes)))
            return cls(settings, actual_key, entry)
        parts = image_text_files.read_parts(settings.form, settings)
        preparation = settings.model_dump(exclude=_NOT_OF_FILES, mode="json")
        sources = image_text_files.identity(parts)
        actual_key = canonical.digest({"task": cls.name, "files": preparation, "sources": sources})
        check_key(actual_key, key, settings.data)
        entry = cache.get(actual_key)
        if entry is None:
            entry = cache.put(actual_key, to_entry(image_text_files.prepare(settings.form, settings, parts)))
        return cls(settings, actual_key, entry)

    def count(self, split: Split) -> int:
        return len(next(iter(self._splits[split].tokens.values())))

    def fetch(self, split: Split, indices: NDArray[np.int64]) -> Batch:
        samples = self._splits[split]
        present = {name: here[indices] for name, here in self._present[split].items()}
        batch: dict[str, NDArray[Any]] = {}
        if samples.images is not None and self._pixels is not None:
            here = present["image"]
            images = np.zeros((len(indices), *self._pixels.shape[1:]), np.uint8)
            images[here] = self._pixels[samples.images[indices[here]]]
            batch["image"] = images
        for name, tokens in samples.tokens.items():
            ids = np.where(present[name][:, None], tokens[indices], PADDING)
            batch |= {name: ids, f"{name}/mask": ids != PADDING}
        batch |= {f"{name}/present": here for name, here in present.items() if not self._complete[split][name]}
        everything = np.logical_and.reduce(list(present.values()))
        return batch | self._targets(split, indices, everything)

    def groups(self, split: Split, indices: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        return {name: values[indices] for name, values in self._splits[split].groups.items()}

    def show(self, split: Split, index: int) -> dict[str, str]:
        batch = self.fetch(split, np.asarray([index]))
        words: dict[str, str] = {}
        for spec in self.inputs:
            if not self._present[split][spec.name][index]:
                words[spec.name] = _NOTHING
            elif spec.modality == "image":
                words[spec.name] = f"{spec.height} x {spec.width}, {'grey' if spec.channels == 1 else 'colour'}"
            else:
                words[spec.name] = self.vocabulary.decode(batch[spec.name][0])
        for output in self.outputs:
            target = batch[f"{output.name}/target"][0]
            if output.kind == "labels":
                present = [name for name, value in zip(output.names, target, strict=True) if value > 0.5]
                words[output.name] = ", ".join(present) or _NOTHING
            else:
                words[output.name] = _NOTHING if target == NO_TARGET else output.names[target]
        return words

    def encode(self, name: str, text: str) -> NDArray[np.int64]:
        length = next(spec.length for spec in self.inputs if spec.name == name)
        ids: NDArray[np.int64] = self.vocabulary.encode([cut(text)], length)[0]
        return ids[: np.count_nonzero(ids != PADDING)]

    def baselines(self, split: Split) -> dict[str, float]:
        """Accuracy (micro F1 for labels) of a constant answer, and of logistic regression on each input and on all.

        Images are pixels, texts bags of words. The gap between one input and all is what several modalities add to a
        linear model.
        """
        metrics: dict[str, float] = {}
        for output in self.outputs:
            key = f"{output.name}/target"
            train, held = self._everything("train")[key], self._everything(split)[key]
            before = f"{output.name}: " if len(self.outputs) > 1 else ""
            metrics[f"{before}majority"] = sample_baselines.constant(train, held)
            names = tuple(spec.name for spec in self.inputs)
            for chosen in (*((name,) for name in names), names):
                learned, judged = (
                    np.concatenate([self._features(part, name) for name in chosen], axis=1) for part in ("train", split)
                )
                label = f"{before}logistic regression on {' and '.join(chosen)}"
                metrics[label] = sample_baselines.logistic(learned, train, judged, held)
        return metrics

    def describe(self) -> dict[str, Any]:
        return {
            "task": self.name,
            "digest": self.digest,
            "key": self.key,
            "form": self.settings.form,
            "samples": {split: self.count(split) for split in SPLITS},
            "vocabulary": len(self.vocabulary),
            "missing": {
                split: {name: int((~here).sum()) for name, here in self._present[split].items()} for split in SPLITS
            },
            "outputs": {output.name: list(output.names) for output in self.outputs},
            **self._info,
        }

    def _input(self, name: str) -> InputSpec:
        if name == "image":
            assert self._pixels is not None
            height, width, channels = self._pixels.shape[1:]
            return InputSpec(name, "image", height=height, width=width, channels=channels)
        length = self._splits["train"].tokens[name].shape[1]
        return InputSpec(name, "tokens", length=length, vocabulary=len(self.vocabulary))

    def _targets(
        self, split: Split, indices: NDArray[np.int64], complete: NDArray[np.bool_]
    ) -> dict[str, NDArray[Any]]:
        targets: dict[str, NDArray[Any]] = {}
        for output in self.outputs:
            target = self._splits[split].targets[output.name][indices]
            if output.kind == "labels":
                targets[f"{output.name}/target"] = target.astype(np.float32)
            else:
                # A match is undefined where one of the two inputs is missing.
                defined = complete if output.name == "match" else True
                targets[f"{output.name}/target"] = np.where(defined, target, NO_TARGET)
        return targets

    def _who_has_what(self, split: Split, shares: dict[str, float]) -> dict[str, NDArray[np.bool_]]:
        """Input -> whether each sample has it, (N,): it may be missing in the data, or dropped by the settings."""
        samples = self._splits[split]
        present = {name: (tokens != PADDING).any(axis=1) for name, tokens in samples.tokens.items()}
        if samples.images is not None:
            present = {"image": samples.images >= 0} | present
        if split == "train" and shares:
            # One draw per sample in [0, 1), divided into intervals, so that no sample loses two inputs.
            drawn = generator(self.settings.scenes.seed, "missing inputs").random(self.count(split))
            low = 0.0
            for name, share in shares.items():
                taken = (drawn >= low) & (drawn < low + share)
                others = np.logical_or.reduce([here for other, here in present.items() if other != name])
                present[name] = present[name] & ~(taken & others)
                low += share
        return present

    @cached_property
    def _complete(self) -> dict[Split, dict[str, bool]]:
        return {split: {name: bool(here.all()) for name, here in self._present[split].items()} for split in SPLITS}

    def _everything(self, split: Split) -> Batch:
        if split not in self._fetched:
            self._fetched[split] = self.fetch(split, np.arange(self.count(split)))
        return self._fetched[split]

    @cached_property
    def _fetched(self) -> dict[Split, Batch]:
        return {}

    def _features(self, split: Split, name: str) -> NDArray[np.float32]:
        batch = self._everything(split)
        if name == "image":
            return batch["image"].reshape(self.count(split), -1).astype(np.float32) / np.float32(255)
        return sample_baselines.word_counts(batch[name], batch[f"{name}/mask"], len(self.vocabulary))


def _decisive(scenes: SceneSettings, form: Form) -> dict[str, Any]:
    """The settings and versions that influence the generated samples of a form. JSON-able."""
    from importlib.metadata import version

    unused = set() if form in ("multilabel", "both") else {"image_hints", "text_hints"}
    drawn = {} if form == "caption_match" else {"pillow": version("pillow")}
    unused |= {"side"} if form == "caption_match" else set()
    return {"version": _SCENES_VERSION, **drawn, **scenes.model_dump(exclude=unused, mode="json")}
