"""Preparation of the task ``table``: from a user's files to arrays of up to four splits, which are then cached.

Shapes: N rows, M distinct images, F numbers of a vector, L tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import DataError, quoted_list
from evodevo.tasks.base import NO_TARGET, Split
from evodevo.tasks.sample_splits import fingerprint
from evodevo.tasks.table import answers as table_answers
from evodevo.tasks.table import text as table_text
from evodevo.tasks.table.settings import Columns, TableSettings
from evodevo.tasks.table.sources import RowInputs, TableFile, column, read_inputs, sources
from evodevo.tasks.table.splits import Division, SplitRow, divide_rows, split_of
from evodevo.tasks.text.token_cache import CachedTokens

_NAMED = 20
_LONGEST = 128


def prepare(settings: TableSettings, columns: Columns, parts: Sequence[TableFile]) -> CachedTokens:
    """Decode images, tokenise texts, standardise numbers and divide the rows.

    Raises:
        DataError: Cells cannot be read, there are too few rows for the splits, or training rows of one class only.
        UnsafeFileError: A path leads out of the folder of images.
    """
    shown = read_inputs(settings, columns, parts)
    present = shown.present()
    if not present:
        raise DataError(f"{sources(parts)}: no row names an image in {columns.image!r}.")
    if "vectors" in present and not present["vectors"].any():
        raise DataError(f"{sources(parts)}: there is no number in {quoted_list(columns.vectors)}.")
    answers = table_answers.read(
        column(parts, columns.label) if columns.label else None,
        column(parts, columns.match) if columns.match else None,
        separator=settings.separator,
        match_column=columns.match or "",
        source=sources(parts),
    )
    if answers.match is not None:
        # A match is undefined where one of the two inputs is missing.
        answers.match[~np.logical_and.reduce(list(present.values()))] = NO_TARGET
    anything = np.logical_or.reduce(list(present.values()))
    corrupt = np.isin(np.arange(len(anything)) + 1, [trouble.row for trouble in shown.troubles.get("image", ())])
    answered = answers.answered()
    kept = np.flatnonzero(anything & answered & ~corrupt)
    if not len(kept):
        raise DataError(
            f"{sources(parts)}: no row is left of {len(anything):,}: {int((~answered).sum()):,} have no answer,"
            f" {int((~anything).sum()):,} no input."
        )
    rows = _rows(settings, columns, parts, shown, answers.strata())
    division = divide_rows([rows[index] for index in kept], settings.shares, columns.group)
    indices = {split: kept[chosen] for split, chosen in division.places.items()}
    outputs = table_answers.targets(answers, indices, sources(parts))
    arrays: dict[str, NDArray[Any]] = {}
    meaning: dict[str, Any] = {
        "splits": list(indices),
        "columns": columns.model_dump(mode="json"),
        "questions": [[question.name, question.kind, list(question.names)] for question in outputs.questions],
    }
    for split, chosen in indices.items():
        for name, target in outputs.targets.items():
            arrays[f"target_{name}_{split}"] = (target[chosen].reshape(-1) - NO_TARGET).astype(np.uint32)
    if shown.pixels is not None:
        meaning["shape"] = list(shown.pixels.shape[1:])
        arrays["pixels"] = shown.pixels.reshape(-1)
        arrays |= {f"images_{split}": (shown.image[own] + 1).astype(np.uint32) for split, own in indices.items()}
    if shown.vectors is not None:
        arrays |= _standardised(shown.vectors, indices, meaning)
    tokenizer, truncated = b"", 0
    if shown.texts is not None:
        tokenizer, truncated = _numbered(settings, shown.texts, indices, arrays, meaning)
    about = _about(parts, shown, present, division, outputs.unseen)
    about["left_out"] = {
        "no_input": int((~anything & ~corrupt).sum()),
        "no_answer": int((anything & ~answered).sum()),
        "image_unreadable": int(corrupt.sum()),
        "held_out_repeats": division.dropped,
    }
    return CachedTokens(arrays, tokenizer, {"meaning": meaning, "about": {**about, "truncated_texts": truncated}})


def _rows(
    settings: TableSettings, columns: Columns, parts: Sequence[TableFile], shown: RowInputs, strata: Sequence[str]
) -> list[SplitRow]:
    count = len(shown.image)
    each = [fingerprint(picture.tobytes()) for picture in shown.pixels] if shown.pixels is not None else []
    images = [each[number] if number >= 0 else b"" for number in shown.image.tolist()]
    texts = [table_text.comparable(settings.tokenizer, text) for text in shown.texts] if shown.texts else [b""] * count
    numbers = [vector.tobytes() for vector in shown.vectors] if shown.vectors is not None else [b""] * count
    named = [part.given for part in parts for _ in range(len(part))]
    splits = [split_of(cell, columns.split) for cell in column(parts, columns.split)] if columns.split else named
    groups = [value.strip() for value in column(parts, columns.group)] if columns.group else [""] * count
    return [
        SplitRow(
            content=fingerprint(images[index], texts[index], numbers[index]),
            image=images[index],
            text=texts[index],
            group=groups[index],
            given=named[index] or splits[index],
            stratum=strata[index],
        )
        for index in range(count)
    ]


def _standardised(
    vectors: NDArray[np.float32], indices: dict[Split, NDArray[np.int64]], meaning: dict[str, Any]
) -> dict[str, NDArray[Any]]:
    """Numbers with mean 0 and standard deviation 1 over training rows; missing ones become the mean, 0."""
    taught = vectors[indices["train"]].astype(np.float64)
    there = ~np.isnan(taught)
    count = np.maximum(there.sum(axis=0), 1)
    mean = np.where(there, taught, 0).sum(axis=0) / count
    deviation = np.sqrt((np.where(there, taught - mean, 0) ** 2).sum(axis=0) / count)
    scale = np.where(deviation > 0, deviation, 1.0)
    meaning["mean"], meaning["scale"] = mean.tolist(), scale.tolist()
    arrays: dict[str, NDArray[Any]] = {}
    for split, rows in indices.items():
        own = standardise(vectors[rows], meaning["mean"], meaning["scale"])
        # The cache stores unsigned integers only, so the floats are stored by their bits.
        arrays[f"vectors_{split}"] = own.reshape(-1).view(np.uint32)
        arrays[f"vectors_present_{split}"] = np.logical_not(np.isnan(vectors[rows]).all(axis=1)).astype(np.uint8)
    return arrays


def standardise(vectors: NDArray[np.float32], mean: Sequence[float], scale: Sequence[float]) -> NDArray[np.float32]:
    """Numbers (N, F) minus the training rows' mean, divided by their deviation; 0 where a number is missing."""
    scaled = (vectors.astype(np.float64) - np.asarray(mean)) / np.asarray(scale)
    # A value far beyond the training rows may overflow to infinity, which would make a network's outputs NaN.
    limit = float(np.finfo(np.float32).max)
    result: NDArray[np.float32] = np.where(np.isnan(scaled), 0, scaled.clip(-limit, limit)).astype(np.float32)
    return result


def _numbered(
    settings: TableSettings,
    texts: Sequence[str],
    indices: dict[Split, NDArray[np.int64]],
    arrays: dict[str, NDArray[Any]],
    meaning: dict[str, Any],
) -> tuple[bytes, int]:
    """Add tokens and bytes of the texts to ``arrays``; returns the coder's bytes and the number of texts cut."""
    coder = table_text.choose(settings.tokenizer, settings.vocabulary, [texts[row] for row in indices["train"]])
    encoded = {split: [coder.encode(texts[row]) for row in rows] for split, rows in indices.items()}
    longest = max((len(ids) for ids in encoded["train"]), default=0)
    meaning["length"] = settings.length or max(1, min(_LONGEST, longest))
    truncated = 0
    for split, rows in indices.items():
        cut = [ids[: meaning["length"]] for ids in encoded[split]]
        truncated += sum(len(ids) > meaning["length"] for ids in encoded[split])
        raw = [texts[row].encode() for row in rows]
        flat = np.concatenate(cut) if cut else np.zeros(0, np.int64)
        arrays[f"tokens_{split}"] = flat.astype(np.min_scalar_type(max(1, coder.vocabulary - 1)))
        arrays[f"tokens_each_{split}"] = np.asarray([len(ids) for ids in cut], np.uint32)
        arrays[f"bytes_{split}"] = np.frombuffer(b"".join(raw), np.uint8)
        arrays[f"bytes_each_{split}"] = np.asarray([len(text) for text in raw], np.uint32)
    return coder.to_bytes(), truncated


def _about(
    parts: Sequence[TableFile],
    shown: RowInputs,
    present: dict[str, NDArray[np.bool_]],
    division: Division,
    unseen: dict[Split, dict[str, int]],
) -> dict[str, Any]:
    return {
        "source": sources(parts),
        "rows": sum(map(len, parts)),
        "rows_without": {name: int((~here).sum()) for name, here in present.items()},
        "numbers_missing": 0 if shown.vectors is None else int(np.isnan(shown.vectors).sum()),
        "numbers_unreadable": len(shown.troubles.get("vectors", ())),
        "unreadable": [
            f"row {trouble.row}: {trouble.reason}" for own in shown.troubles.values() for trouble in own[:_NAMED]
        ],
        "labels_unseen_in_training": {split: dict(names) for split, names in unseen.items()},
        "group_or_image_also_in_a_given_split": division.shared,
        "split_rule": division.rule,
    }
