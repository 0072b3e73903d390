"""The task ``images``: classes of images from one source, or from several domains with one output or one each.

Shapes: N images of a split, B samples of a batch; an image is (height, width, channels) uint8.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from evodevo import canonical
from evodevo.errors import DataError, quoted_list, unknown_name
from evodevo.settings import Settings
from evodevo.tasks import sample_baselines
from evodevo.tasks.base import ALL_SPLITS, NO_TARGET, SPLITS, OutputSpec, SampleTask, Split, check_key
from evodevo.tasks.images.drawn_images import Builtin
from evodevo.tasks.images.pixels import Colour
from evodevo.tasks.images.preparation import Domain, identity, prepare
from evodevo.tasks.inputs import Batch, InputSpec
from evodevo.tasks.text.token_cache import CachedTokens, TokenCache, default_folder


class ImagesSettings(Settings):
    """Sources, size and splits of the images, and the outputs."""

    data: str | None = Field(
        default=None, description="a folder, .npz or idx file of images; none is scikit-learn's digits"
    )
    test: str | None = Field(default=None, description="the same for the test split; none is cut off by content")
    domains: tuple[Domain, ...] = Field(
        default=(), max_length=64, description="several sources of images in one task; instead of data and test"
    )
    answers: Literal["each", "joint", "shared"] = Field(
        default="each",
        description="outputs for several domains: one each, one output with all classes ('domain/class'), or one whose"
        " classes of equal name are one class",
    )
    active: tuple[str, ...] = Field(
        default=(), description="domains that samples come from, all when empty; outputs are those of all domains"
    )
    size: tuple[int, int] | None = Field(default=None, description="height and width to which images are resized")
    colour: Colour = Field(default="auto", description="'grey', 'rgb', or 'auto' for that of the images")
    held_out: float = Field(
        default=0.1,
        gt=0,
        le=0.4,
        description="share of the validation split, and of the test split where none is given",
    )
    architecture: float = Field(
        default=0.0, ge=0, le=0.5, description="share of the training images for a growth strategist's decisions"
    )
    images: str = Field(default="x", min_length=1, description="the npz's array of images")
    labels: str = Field(default="y", min_length=1, description="the npz's array of labels")
    skip_corrupt: bool = Field(default=False, description="leave out images that cannot be read, instead of stopping")

    @model_validator(mode="after")
    def _one_way_to_name_sources(self) -> Self:
        if self.domains and (self.data is not None or self.test is not None):
            raise ValueError("give either data (and test) or domains, not both")
        names = [domain.name for domain in self.domains]
        if len(set(names)) != len(names):
            raise ValueError(f"domains need different names, got {', '.join(names)}")
        if self.size is not None and not all(1 <= side <= 4096 for side in self.size):
            raise ValueError(f"size is a height and a width from 1 to 4096, got {list(self.size)}")
        return self

    def sources(self) -> tuple[Domain, ...]:
        """The domains, one also where ``data`` names the images."""
        builtin: Builtin | None = None if self.data else "digits"
        return self.domains or (Domain(name="images", data=self.data, test=self.test, builtin=builtin),)


class ImagesTask(SampleTask):
    """Images and their classes.

    An image's split is a function of its prepared pixels, so that copies are never in two splits.

    Args:
        settings: Settings of the task.
        key: 64 hexadecimal digits over the sources and their preparation; equal in every process.
        entry: Pixels, labels and domains of each split, and their description.

    Raises:
        UsageError: An active domain does not exist.
        DataError: A split has no image of an active domain.
    """

    name: ClassVar[str] = "images"
    settings_class: ClassVar[type[Settings]] = ImagesSettings

    def __init__(self, settings: ImagesSettings, key: str, entry: CachedTokens) -> None:
        self.settings = settings
        self.key = key
        self._info = entry.info
        self._classes = {name: tuple(classes) for name, classes in entry.info["classes"].items()}
        height, width, channels = entry.info["shape"]
        self.inputs = (InputSpec("image", "image", height=height, width=width, channels=channels),)
        self.outputs, self._answers = _outputs(self._classes, settings.answers)
        self.group_names = {"domain": tuple(self._classes)} if len(self._classes) > 1 else {}
        self.digest = canonical.digest(
            {"task": self.name, "key": key, "answers": settings.answers, "active": list(settings.active)}
        )
        self.splits = ALL_SPLITS if settings.architecture else SPLITS
        self._pixels = {
            split: entry.arrays[f"pixels_{split}"].reshape(-1, height, width, channels) for split in self.splits
        }
        self._labels = {split: entry.arrays[f"labels_{split}"] for split in self.splits}
        self._domains = {split: entry.arrays[f"domains_{split}"] for split in self.splits}
        self._rows = {split: self._active_rows(split) for split in self.splits}

    @classmethod
    def open(cls, settings: ImagesSettings, cache_folder: Path | None = None, key: str | None = None) -> ImagesTask:
        cache = TokenCache(cache_folder or default_folder())
        entry = cache.get(key) if key is not None else None
        if entry is not None and key is not None:
            return cls(settings, key, entry)
        # Without the fourth split the key is the same as before that split existed, so that caches stay valid.
        unused = {"data", "test", "domains", "answers", "active"} | (
            set() if settings.architecture else {"architecture"}
        )
        options = settings.model_dump(exclude=unused, mode="json")
        actual_key = canonical.digest({"task": cls.name, "sources": identity(settings.sources()), "options": options})
        check_key(actual_key, key, quoted_list(domain.source for domain in settings.sources()))
        entry = cache.get(actual_key)
        if entry is None:
            prepared = prepare(
                settings.sources(),
                size=settings.size,
                colour=settings.colour,
                held_out=settings.held_out,
                architecture=settings.architecture,
                images=settings.images,
                labels=settings.labels,
                skip_corrupt=settings.skip_corrupt,
            )
            entry = cache.put(actual_key, prepared)
        return cls(settings, actual_key, entry)

    def count(self, split: Split) -> int:
        return len(self._rows[split])

    def fetch(self, split: Split, indices: NDArray[np.int64]) -> Batch:
        rows = self._rows[split][indices]
        batch: dict[str, NDArray[Any]] = {"image": np.ascontiguousarray(self._pixels[split][rows])}
        return batch | self._targets(split, rows)

    def groups(self, split: Split, indices: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        domains = self._domains[split][self._rows[split][indices]].astype(np.int64)
        return {"domain": domains} if self.group_names else {}

    def show(self, split: Split, index: int) -> dict[str, str]:
        row = self._rows[split][[index]]
        spec = self.inputs[0]
        colour = "grey" if spec.channels == 1 else "colour"
        words = {"image": f"{spec.height} x {spec.width}, {colour}"}
        for output in self.outputs:
            target = int(self._targets(split, row)[f"{output.name}/target"][0])
            words[output.name] = "(none)" if target == NO_TARGET else output.names[target]
        return words

    def baselines(self, split: Split) -> dict[str, float]:
        """Accuracy of the commonest class and of logistic regression on pixels; several outputs are listed by name."""
        metrics: dict[str, float] = {}
        train, held = self._all_targets["train"], self._all_targets[split]
        for output in self.outputs:
            wanted, given = (part[f"{output.name}/target"] for part in (train, held))
            if not ((wanted != NO_TARGET).any() and (given != NO_TARGET).any()):
                continue
            before = f"{output.name}: " if len(self.outputs) > 1 else ""
            features = (self._features("train"), wanted, self._features(split), given)
            metrics[f"{before}majority"] = sample_baselines.constant(wanted, given)
            metrics[f"{before}logistic regression"] = sample_baselines.logistic(*features)
        return metrics

    def describe(self) -> dict[str, Any]:
        return {
            "task": self.name,
            "digest": self.digest,
            "key": self.key,
            "samples": {split: self.count(split) for split in self.splits},
            "outputs": {output.name: list(output.names) for output in self.outputs},
            **self._info,
        }

    @cached_property
    def _all_targets(self) -> dict[Split, dict[str, NDArray[np.int64]]]:
        return {split: self._targets(split, self._rows[split]) for split in self.splits}

    def _features(self, split: Split) -> NDArray[np.float32]:
        return self._pixels[split][self._rows[split]].reshape(self.count(split), -1).astype(np.float32) / np.float32(
            255
        )

    def _targets(self, split: Split, rows: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        """Classes of these rows (B,) per output; -1 where the domain has another output."""
        domains, labels = self._domains[split][rows].astype(np.int64), self._labels[split][rows].astype(np.int64)
        return {f"{name}/target": table[domains, labels] for name, table in self._answers.items()}

    def _active_rows(self, split: Split) -> NDArray[np.int64]:
        names = list(self._classes)
        for name in self.settings.active:
            if name not in names:
                raise unknown_name("domain", name, names)
        wanted = [names.index(name) for name in self.settings.active or names]
        rows = np.flatnonzero(np.isin(self._domains[split], wanted))
        if not len(rows):
            raise DataError(f"the {split} split has no image of {quoted_list(self.settings.active)}. Give more images.")
        return rows


def _outputs(
    classes: dict[str, tuple[str, ...]], answers: str
) -> tuple[tuple[OutputSpec, ...], dict[str, NDArray[np.int64]]]:
    """The outputs, and per output a table of targets, (domains, largest number of classes of a domain)."""
    widest = max(map(len, classes.values()))

    def table() -> NDArray[np.int64]:
        return np.full((len(classes), widest), NO_TARGET, np.int64)

    if answers == "each" and len(classes) > 1:
        specs, tables = [], {}
        for row, (domain, names) in enumerate(classes.items()):
            specs.append(OutputSpec(domain, "class", len(names), names))
            tables[domain] = table()
            tables[domain][row, : len(names)] = np.arange(len(names))
        return tuple(specs), tables
    apart = answers == "joint" and len(classes) > 1
    given = {domain: [f"{domain}/{name}" if apart else name for name in names] for domain, names in classes.items()}
    order = {name: number for number, name in enumerate(dict.fromkeys(n for names in given.values() for n in names))}
    targets = table()
    for row, own in enumerate(given.values()):
        targets[row, : len(own)] = [order[name] for name in own]
    return (OutputSpec("class", "class", len(order), tuple(order)),), {"class": targets}
