"""Prepared samples of a task of images and text: three splits of arrays, their meaning, and the form in the cache.

Shapes: N samples of a split, M distinct images, L tokens, C classes or labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import DataError, quoted_list
from evodevo.tasks.base import NO_TARGET, SPLITS, Split
from evodevo.tasks.images.pixels import Pixels
from evodevo.tasks.text.token_cache import CachedTokens

Form = Literal["labels", "multilabel", "match", "caption_match", "both"]
MATCH = ("no", "yes")
_YES, _NO = frozenset({"yes", "true", "1"}), frozenset({"no", "false", "0"})
TEXTS: dict[Form, tuple[str, ...]] = {
    "labels": ("text",),
    "multilabel": ("text",),
    "match": ("text",),
    "caption_match": ("first", "second"),
    "both": ("text",),
}
"""Text inputs of each form; all forms but ``caption_match`` have an image too."""


@dataclass(frozen=True)
class QuestionKind:
    """One output: its name, its kind (one class or several labels), and their names."""

    name: str
    kind: Literal["class", "labels"]
    names: tuple[str, ...]


@dataclass(frozen=True)
class ImageTextSamples:
    """Samples of one split.

    Args:
        images: Index of each sample's image, (N,), -1 where it has none; None where the form has no images.
        tokens: Input -> token ids (N, L), padded at the end; only padding where a sample has no text.
        targets: Output -> classes (N,), -1 for none, or labels (N, C) of 0 and 1.
        groups: Fact -> index of each sample's value, (N,), -1 for none.
    """

    images: NDArray[np.int64] | None
    tokens: Mapping[str, NDArray[np.int64]]
    targets: Mapping[str, NDArray[np.int64]]
    groups: Mapping[str, NDArray[np.int64]]


@dataclass(frozen=True)
class Prepared:
    """All prepared samples of a task.

    Args:
        pixels: Distinct images, (M, height, width, channels); None where the form has none.
        words: Vocabulary without its reserved words.
        questions: Outputs of the task.
        groups: Fact -> its values.
        splits: Split -> its samples.
        info: Description for reports, JSON-able.
    """

    pixels: Pixels | None
    words: tuple[str, ...]
    questions: tuple[QuestionKind, ...]
    groups: Mapping[str, tuple[str, ...]]
    splits: Mapping[Split, ImageTextSamples]
    info: dict[str, Any]


def truth(value: str, column: str) -> int:
    """The index in ``MATCH`` of a value.

    Args:
        value: Text of the value: yes/no, true/false, 1/0.
        column: Name of its column, for the message.

    Raises:
        DataError: The text is none of these.
    """
    if value.lower() in _YES:
        return MATCH.index("yes")
    if value.lower() in _NO:
        return MATCH.index("no")
    raise DataError(f"the column {column!r} holds {value[:40]!r}; allowed are {quoted_list(sorted(_YES | _NO))}.")


def to_entry(prepared: Prepared) -> CachedTokens:
    """The samples as flat unsigned arrays for the cache; numbers that may be -1 are stored plus one."""
    arrays: dict[str, NDArray[Any]] = {}
    if prepared.pixels is not None:
        arrays["pixels"] = prepared.pixels.reshape(-1)
    for split, samples in prepared.splits.items():
        if samples.images is not None:
            arrays[f"images_{split}"] = (samples.images - NO_TARGET).astype(np.uint32)
        arrays |= {f"tokens_{name}_{split}": ids.reshape(-1).astype(np.uint16) for name, ids in samples.tokens.items()}
        for kind, parts in (("target", samples.targets), ("group", samples.groups)):
            arrays |= {
                f"{kind}_{name}_{split}": (part.reshape(-1) - NO_TARGET).astype(np.uint32)
                for name, part in parts.items()
            }
    meaning = {
        "shape": None if prepared.pixels is None else list(prepared.pixels.shape[1:]),
        "words": list(prepared.words),
        "questions": [asdict(question) for question in prepared.questions],
        "groups": {name: list(values) for name, values in prepared.groups.items()},
        "samples": {split: len(next(iter(samples.tokens.values()))) for split, samples in prepared.splits.items()},
        "texts": list(prepared.splits["train"].tokens),
    }
    return CachedTokens(arrays, b"", {"meaning": meaning, "about": prepared.info})


def from_entry(entry: CachedTokens) -> Prepared:
    """The inverse of ``to_entry``."""
    meaning = entry.info["meaning"]
    questions = tuple(QuestionKind(row["name"], row["kind"], tuple(row["names"])) for row in meaning["questions"])
    splits: dict[Split, ImageTextSamples] = {}
    for split in SPLITS:
        count = meaning["samples"][split]

        def signed(name: str, shape: tuple[int, ...], split: Split = split) -> NDArray[np.int64]:
            return entry.arrays[f"{name}_{split}"].astype(np.int64).reshape(shape) + NO_TARGET

        shapes = {row.name: (count,) if row.kind == "class" else (count, len(row.names)) for row in questions}
        splits[split] = ImageTextSamples(
            images=signed("images", (count,)) if meaning["shape"] else None,
            tokens={
                name: entry.arrays[f"tokens_{name}_{split}"].astype(np.int64).reshape(count, -1)
                for name in meaning["texts"]
            },
            targets={name: signed(f"target_{name}", shape) for name, shape in shapes.items()},
            groups={name: signed(f"group_{name}", (count,)) for name in meaning["groups"]},
        )
    return Prepared(
        pixels=entry.arrays["pixels"].reshape(-1, *meaning["shape"]) if meaning["shape"] else None,
        words=tuple(meaning["words"]),
        questions=questions,
        groups={name: tuple(values) for name, values in meaning["groups"].items()},
        splits=splits,
        info=entry.info["about"],
    )
