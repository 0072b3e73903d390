"""Preparation of the task ``multitask``: from a source's samples to stratified splits, which are then cached.

Shapes: N samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evodevo.tasks.base import SPLITS, SampleTask, Split
from evodevo.tasks.multitask.answers import Answers
from evodevo.tasks.multitask.splits import OF_ALL, OF_TRAIN, check_splits, contradictions, stratified
from evodevo.tasks.sample_splits import fingerprint
from evodevo.tasks.text.token_cache import CachedTokens

NO_INPUT = ("/target", "/position")
"""Suffixes of the names in a batch that are no inputs of a model."""
_CHUNK = 1024


def prepare(source: SampleTask, wanted: Answers, seed: int, source_name: str) -> CachedTokens:
    """Divide all samples of the source.

    The split is stratified by the source's classes, whatever the question: two tasks of one source hold out the same
    samples, so that neither is trained on test samples of the other.

    Args:
        source: Task with one class per sample.
        wanted: Answer to each class.
        seed: Seed of the splits.
        source_name: Origin of the samples, for messages.

    Returns:
        Per split ``origin`` (index of the source's split), ``place`` (index there) and ``label``, each (N,), and the
        rule in ``info``.

    Raises:
        DataError: A split is empty, or a class has no training sample.
    """
    rows = _read(source, wanted)
    indices, rule = _divided(source, rows, seed)
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
