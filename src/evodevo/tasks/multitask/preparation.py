"""Preparation of the task ``multitask``: from a source's samples to stratified splits, which are then cached.

Source: docs/spec/munet.md#tasks. Every class is held out evenly, as a function of the samples' contents and a seed. A
given test split is kept, and a tenth of the rest is validation; data without a test split are divided 70/15/15. (The
published code takes the first samples instead, which on sets sorted by class leaves whole classes out.)

Shapes: N samples.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import DataError, quoted_list
from evodevo.tasks.base import SPLITS, SampleTask, Split
from evodevo.tasks.multitask.answers import Answers
from evodevo.tasks.multitask.few import FewSamples, thinned
from evodevo.tasks.sample_splits import fingerprint
from evodevo.tasks.text.token_cache import CachedTokens

NO_INPUT = ("/target", "/position")
"""Suffixes of the names in a batch that are no inputs of a model."""
_CHUNK = 1024


def prepare(
    source: SampleTask, wanted: Answers, seed: int, source_name: str, few: FewSamples | None = None
) -> CachedTokens:
    """Divide all samples of the source.

    The split is stratified by the source's classes, whatever the question: two tasks of one source hold out the same
    samples, so that neither is trained on test samples of the other.

    Args:
        source: Task with one class per sample.
        wanted: Answer to each class.
        seed: Seed of the splits.
        source_name: Origin of the samples, for messages.
        few: Samples of each class that are kept; None keeps all.

    Returns:
        Per split ``origin`` (index of the source's split), ``place`` (index there) and ``label``, each (N,), and the
        rule in ``info``.

    Raises:
        DataError: A split is empty, or a class has no training sample, or fewer than are asked for.
    """
    rows = _read(source, wanted)
    indices, rule = _divided(source, rows, seed)
    if few is not None:
        indices = thinned(indices, rows.contents, rows.kind, few, source.outputs[0].names, source_name)
        rule = f"{rule}; {few.rule}"
    arrays: dict[str, NDArray[Any]] = {}
    for split in SPLITS:
        chosen = indices[split]
        arrays |= {
            f"origin_{split}": rows.origin[chosen].astype(np.uint8),
            f"place_{split}": rows.place[chosen].astype(np.uint32),
            f"label_{split}": rows.answer[chosen].astype(np.uint32),
        }
    labels = {split: rows.kind[indices[split]] for split in SPLITS}
    check_splits(labels, source.outputs[0].names, source_name)
    info = {
        "source": source_name,
        "source_key": source.key,
        "split_rule": rule,
        "contradictory": contradictions(rows.contents, rows.kind),
    }
    return CachedTokens(arrays, b"", info)


@dataclass(frozen=True)
class _Rows:
    """All samples of a source that a question is about.

    Attributes:
        origin: Index of the source's split, (N,).
        place: Index in that split, (N,).
        kind: Class, (N,).
        answer: Answer to the question, (N,).
        contents: Fingerprint of the inputs, N of them.
    """

    origin: NDArray[np.int64]
    place: NDArray[np.int64]
    kind: NDArray[np.int64]
    answer: NDArray[np.int64]
    contents: list[bytes]


def _read(source: SampleTask, wanted: Answers) -> _Rows:
    target = f"{source.outputs[0].name}/target"
    columns: list[NDArray[np.int64]] = []
    contents: list[bytes] = []
    for number, split in enumerate(source.splits):
        for start in range(0, source.count(split), _CHUNK):
            indices = np.arange(start, min(start + _CHUNK, source.count(split)))
            batch = source.fetch(split, indices)
            kind = batch[target]
            answer = np.where(kind < 0, -1, wanted.table[kind])
            kept = np.flatnonzero(answer >= 0)
            columns.append(np.stack([np.full(len(kept), number), indices[kept], kind[kept], answer[kept]]))
            inputs = [batch[name] for name in sorted(batch) if not name.endswith(NO_INPUT)]
            contents += [fingerprint(*(array[row].tobytes() for array in inputs)) for row in kept]
    origin, place, kind, answer = np.concatenate(columns, axis=1)
    return _Rows(origin, place, kind, answer, contents)


def _divided(source: SampleTask, rows: _Rows, seed: int) -> tuple[dict[Split, NDArray[np.int64]], str]:
    """Rows of each split, and the rule as text; splits that the user's files define are kept."""
    given = given_splits(source.describe())
    numbers = {split: source.splits.index(split) for split in given}
    fixed = {split: np.flatnonzero(rows.origin == number) for split, number in numbers.items()}
    free = np.flatnonzero(~np.isin(rows.origin, list(numbers.values())))
    shares = {split: share for split, share in (OF_TRAIN if given else OF_ALL).items() if split not in given}
    drawn = stratified([rows.contents[row] for row in free], rows.kind[free], shares, seed)
    indices = {split: free[chosen] for split, chosen in drawn.items()} | fixed
    if "validation" in fixed:  # only its first samples may be used, so they must be a random choice
        mixed = sorted(fixed["validation"].tolist(), key=rows.contents.__getitem__)
        indices["validation"] = np.asarray(mixed, np.int64)
    words = ", ".join(f"{share:.0%} {split}" for split, share in shares.items())
    own = [f"given: {', '.join(given)}"] if given else []
    return indices, "; ".join([*own, *([f"each class evenly, seed {seed}: {words}"] if shares else [])])


def given_splits(about: dict[str, Any]) -> tuple[Split, ...]:
    """The splits, of validation and test, that the files of a task define, read from the task's description."""
    rule = str(about.get("split_rule", ""))
    if not rule.startswith("given: "):
        return ()
    names = rule.removeprefix("given: ").partition(";")[0].split(", ")
    return tuple(split for split in SPLITS[1:] if split in names)


OF_TRAIN: Mapping[Split, float] = {"validation": 0.1}
OF_ALL: Mapping[Split, float] = {"validation": 0.15, "test": 0.15}


def stratified(
    contents: Sequence[bytes], labels: NDArray[np.int64], shares: Mapping[Split, float], seed: int
) -> dict[Split, NDArray[np.int64]]:
    """Indices of each split: of each class its share, and at least one sample where training keeps one too.

    Samples of equal content stay together. Held-out indices are in random order, so that the first of them represent
    all classes; training indices ascend.

    Args:
        contents: Content of each sample, N of them.
        labels: Class of each sample, (N,).
        shares: Share of each held-out split, 0 to 1.
        seed: Seed of the choice of held-out samples.
    """
    order: dict[bytes, bytes] = {
        content: hashlib.sha256(b"%d\0" % seed + content).digest() for content in set(contents)
    }
    members: dict[bytes, list[int]] = {}
    for index, content in enumerate(contents):
        members.setdefault(content, []).append(index)
    strata: dict[int, list[bytes]] = {}
    for content in sorted(members, key=order.__getitem__):
        commonest = Counter(labels[members[content]].tolist())
        strata.setdefault(min(commonest, key=lambda name: (-commonest[name], name)), []).append(content)
    held: dict[Split, list[bytes]] = {split: [] for split in shares}
    rest: list[bytes] = []
    for stratum in strata.values():
        start = 0
        for split, share in shares.items():
            # At least one is held out where that leaves one for training.
            count = min(max(1, round(share * len(stratum))), len(stratum) - 1 - start)
            held[split] += stratum[start : start + count]
            start += max(count, 0)
        rest += stratum[start:]
    held_rows = {
        split: [index for content in sorted(own, key=order.__getitem__) for index in members[content]]
        for split, own in held.items()
    }
    rows = {**held_rows, "train": sorted(index for content in rest for index in members[content])}
    return {split: np.asarray(rows[split], np.int64) for split in SPLITS if split in rows}


def check_splits(labels: Mapping[Split, NDArray[np.int64]], names: Sequence[str], source: str) -> None:
    """Check that every split has samples, and that training has every class of the other splits.

    Raises:
        DataError: A split is empty, or a class has no training sample.
    """
    for split in SPLITS:
        if not len(labels[split]):
            raise DataError(f"{source}: the {split} split is empty. Give more samples of each class.")
    for split in SPLITS[1:]:
        unseen = np.setdiff1d(labels[split], labels["train"])
        if len(unseen):
            raise DataError(
                f"{source}: {quoted_list(repr(names[number]) for number in unseen[:8])} is in the {split} split and not"
                " in training. Give training samples of each class, or leave the class out."
            )


def contradictions(contents: Sequence[bytes], labels: NDArray[np.int64]) -> int:
    """Number of samples whose content occurs with another class too."""
    classes: dict[bytes, set[int]] = {}
    for content, label in zip(contents, labels.tolist(), strict=True):
        classes.setdefault(content, set()).add(label)
    return sum(len(classes[content]) > 1 for content in contents)
