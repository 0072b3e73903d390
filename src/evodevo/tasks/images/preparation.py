"""Preparation of the task ``images``: from its sources to arrays of the splits, which are then cached."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from evodevo.errors import DataError, quoted_list
from evodevo.settings import Settings
from evodevo.tasks.base import Split
from evodevo.tasks.images import drawn_images
from evodevo.tasks.images import files as image_files
from evodevo.tasks.images.drawn_images import Builtin
from evodevo.tasks.images.files import ImageSet, Labelled
from evodevo.tasks.images.pixels import Colour, uniform
from evodevo.tasks.sample_splits import Pool, assign, fingerprint
from evodevo.tasks.table.group_splits import Shares, divide
from evodevo.tasks.text.token_cache import CachedTokens

_VERSION = 1
_NAMED = 20
"""Largest number of skipped images listed in the description; all are counted."""


class Domain(Settings):
    """One source of images."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,63}$", description="name of the domain and of its output")
    data: str | None = Field(default=None, description="a folder, .npz or idx file of images")
    test: str | None = Field(default=None, description="the same for the test split; none is cut off by content")
    builtin: Builtin | None = Field(default=None, description="built-in images, instead of data")
    limit: int | None = Field(
        default=None, ge=2, description="largest number of images of each file or folder, chosen by hash"
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.data is None) == (self.builtin is None):
            raise ValueError("a domain has either data or builtin")
        if self.test is not None and self.data is None:
            raise ValueError("test belongs to data; there is none")
        return self

    @property
    def source(self) -> str:
        """Origin of the images, for display."""
        return self.data or f"the built-in {self.builtin}"

    def parts(self) -> list[ImageSet]:
        """Sources of the images; empty for built-in images.

        Raises:
            DataError: A path does not exist, or two of them define splits.
        """
        if self.data is None:
            return []
        parts = image_files.locate(Path(self.data).expanduser(), "all" if self.test is None else "train_validation")
        if self.test is None:
            return parts
        tests = image_files.locate(Path(self.test).expanduser(), "test")
        if len(parts) > 1 or len(tests) > 1:
            raise DataError(f"{self.data} or {self.test} is divided into splits already; give it as data alone.")
        return parts + tests


@dataclass(frozen=True)
class _Pool:
    """Images of one domain that may belong to the same splits."""

    domain: int
    pool: Pool
    found: Labelled


def identity(domains: tuple[Domain, ...]) -> list[Any]:
    """All that determines the pixels, from the bytes of the files alone. JSON-able.

    Raises:
        DataError: A source does not exist.
    """
    return [
        {
            "version": _VERSION,
            "name": domain.name,
            "limit": domain.limit,
            "parts": [part.fingerprint() for part in domain.parts()],
            "builtin": drawn_images.identity(domain.builtin) if domain.builtin else None,
        }
        for domain in domains
    ]


def prepare(
    domains: tuple[Domain, ...],
    *,
    size: tuple[int, int] | None,
    colour: Colour,
    held_out: float,
    architecture: float,
    images: str,
    labels: str,
    skip_corrupt: bool,
) -> CachedTokens:
    """Read, resize and divide all images.

    Returns:
        Per split: ``pixels`` flat, ``labels`` (N,) within the domain, ``domains`` (N,); ``info`` with the shape, the
        classes of each domain, the skipped images, the rule of the split, and ``uneven`` where images of several sizes
        were made one.

    Raises:
        DataError: Images are unreadable, there is one class only, or a class has no training image.
    """
    pools = [
        pool
        for number, domain in enumerate(domains)
        for pool in _read(number, domain, size, images, labels, skip_corrupt)
    ]
    classes = {domain.name: _classes(domain, number, pools) for number, domain in enumerate(domains)}
    everything = [image for pool in pools for image in pool.found.images]
    if not everything:
        raise DataError(f"{_sources(domains)} has no readable image. {image_files.HOW_TO_GIVE_IMAGES}.")
    uneven = any(pool.found.uneven for pool in pools) or len({image.shape[:2] for image in everything}) > 1
    pixels = uniform(everything, size, colour, _sources(domains))
    contents = [fingerprint(image.tobytes()) for image in pixels]
    members = [(pool, label) for pool in pools for label in pool.found.labels]
    tables = [{name: at for at, name in enumerate(names)} for names in classes.values()]
    label = np.asarray([tables[pool.domain][name] for pool, name in members], np.uint32)
    domain = np.asarray([pool.domain for pool, _ in members], np.uint8)
    every_class = (domain.astype(np.int64) << 32) + label
    kept = _limited(domains, pools, contents)
    division = assign(
        [contents[row] for row in kept],
        [members[row][0].pool for row in kept],
        classes=every_class[kept].tolist(),
        held_out=held_out,
    )
    arrays: dict[str, NDArray[Any]] = {}
    indices = division.places
    if architecture:
        learning = kept[indices["train"]]
        shares = Shares(train=1 - architecture, architecture=architecture)
        wanted: tuple[Split, ...] = ("train", "architecture")
        divided = divide([contents[row] for row in learning], every_class[learning].tolist(), shares, wanted)
        indices = indices | {split: indices["train"][chosen] for split, chosen in divided.items()}
    rows = {split: kept[chosen] for split, chosen in indices.items()}
    for split in rows:
        arrays |= {
            f"pixels_{split}": pixels[rows[split]].reshape(-1),
            f"labels_{split}": label[rows[split]],
            f"domains_{split}": domain[rows[split]],
        }
    _check_seen(domains, classes, every_class, rows)
    skipped = [name for pool in pools for name in pool.found.skipped]
    info = {
        "sources": {item.name: item.source for item in domains},
        "shape": list(pixels.shape[1:]),
        "classes": {name: list(own) for name, own in classes.items()},
        "split_rule": division.rule + (f"; {architecture:.0%} of train is architecture" if architecture else ""),
        "repeated": division.repeated,
        "dropped_as_held_out": division.dropped,
        "skipped": len(skipped),
        "skipped_names": skipped[:_NAMED],
        **({"uneven": True} if size is None and uneven else {}),
    }
    return CachedTokens(arrays, b"", info)


def _read(
    number: int, domain: Domain, size: tuple[int, int] | None, images: str, labels: str, skip_corrupt: bool
) -> list[_Pool]:
    if domain.builtin is not None:
        pixels, names = drawn_images.read(domain.builtin)
        return [_Pool(number, "all", Labelled(list(pixels), names, tuple(sorted(set(names)))))]
    options: dict[str, Any] = {"size": size, "images": images, "labels": labels, "skip_corrupt": skip_corrupt}
    return [_Pool(number, part.pool, image_files.read(part, **options)) for part in domain.parts()]


def _classes(domain: Domain, number: int, pools: list[_Pool]) -> tuple[str, ...]:
    """Class names that occur, in the order of the files; numbers are sorted by value."""
    mine = [pool.found for pool in pools if pool.domain == number]
    used = {label for labelled in mine for label in labelled.labels}
    names = [name for name in dict.fromkeys(name for labelled in mine for name in labelled.classes) if name in used]
    if names and all(name.isdecimal() for name in names):
        names.sort(key=int)
    if len(names) < 2:
        there = f"only the class {names[0]!r}" if names else "no labelled image"
        raise DataError(f"{domain.source} has {there}; a task needs two classes at least.")
    return tuple(names)


def _limited(domains: tuple[Domain, ...], pools: list[_Pool], contents: list[bytes]) -> NDArray[np.int64]:
    """Indices of the images to use: where a domain has a limit, those with the smallest hashes per file or folder."""
    chosen: list[int] = []
    start = 0
    for pool in pools:
        rows = range(start, start + len(pool.found.images))
        # The split is a function of a hash of this hash, so that the choice does not change the shares of the splits.
        chosen += sorted(rows, key=contents.__getitem__)[: domains[pool.domain].limit]
        start = rows.stop
    return np.asarray(sorted(chosen), dtype=np.int64)


def _check_seen(
    domains: tuple[Domain, ...],
    classes: dict[str, tuple[str, ...]],
    every_class: NDArray[np.int64],
    rows: dict[Any, NDArray[np.int64]],
) -> None:
    seen = np.unique(every_class[rows["train"]])
    for split in (name for name in rows if name != "train"):
        unseen = Counter(every_class[rows[split]].tolist())
        for known in seen.tolist():
            unseen.pop(known, None)
        if unseen:
            names = [f"{classes[domains[code >> 32].name][code & 0xFFFFFFFF]!r}" for code in sorted(unseen)]
            raise DataError(
                f"{_sources(domains)}: {len(names)} of the classes ({quoted_list(names[:8])}) are in the {split} split"
                f" ({sum(unseen.values()):,} images) and not in training. Give training images of them, or remove them."
            )


def _sources(domains: tuple[Domain, ...]) -> str:
    return quoted_list(domain.source for domain in domains)
