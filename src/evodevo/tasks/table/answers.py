"""Outputs and targets of a user's table: a class, several labels, or whether the inputs match.

Shapes: N rows, C classes or labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import DataError, quoted_list
from evodevo.tasks.base import NO_TARGET, Split
from evodevo.tasks.image_text.samples import MATCH, QuestionKind, truth
from evodevo.tasks.table import cells as table_cells
from evodevo.tasks.table.cells import Trouble

_MOST_CLASSES = 100
"""More classes than this, most of them with one row, are taken for numbers or for names of rows."""


@dataclass(frozen=True)
class RowAnswers:
    """The answers in the rows, before the rows are divided into splits.

    Attributes:
        labels: Labels of each row, one where the output is a class; None where a row has none. Empty without output.
        several: Whether a row may have several labels.
        match: Index in ``MATCH`` of each row, (N,), -1 for none; None without this output.
    """

    labels: list[frozenset[str] | None]
    several: bool
    match: NDArray[np.int64] | None

    def answered(self) -> NDArray[np.bool_]:
        """Whether a row has an answer. Shape (N,)."""
        labelled = np.asarray([labels is not None for labels in self.labels], bool)
        matched = np.zeros(0, bool) if self.match is None else self.match != NO_TARGET
        if not len(labelled):
            return matched
        return labelled if self.match is None else labelled | matched

    def strata(self) -> list[str]:
        """Key of each row for even splits: its class, or the rarest of several labels, and its match. N of them."""
        counts = Counter(name for names in self.labels for name in names or ())
        rarest = [min(names, key=lambda name: (counts[name], name)) if names else "" for names in self.labels]
        matched = [] if self.match is None else [str(value) for value in self.match.tolist()]
        if rarest and matched:
            return [f"{name} {value}" for name, value in zip(rarest, matched, strict=True)]
        return rarest or matched


@dataclass(frozen=True)
class RowTargets:
    """Outputs, their targets for all rows, and labels without a training row.

    Attributes:
        questions: Outputs of the task.
        targets: Output -> classes (N,), -1 for none, or labels (N, C) of 0 and 1, all -1 in a row without labels.
        unseen: Split -> label without a training row -> number of its rows.
    """

    questions: tuple[QuestionKind, ...]
    targets: dict[str, NDArray[np.int64]]
    unseen: dict[Split, dict[str, int]]


def read(
    labels: Sequence[str] | None, match: Sequence[str] | None, *, separator: str | None, match_column: str, source: str
) -> RowAnswers:
    """The answers in the cells.

    Args:
        labels: Cells of the column of labels; None without this output.
        match: Cells of the column of matches; None without this output.
        separator: Separator of labels in a row; None = one label.
        match_column: Name of the column of matches, for messages.
        source: Names of the files, for messages.

    Raises:
        DataError: Cells cannot be read; the message covers all of them.
    """
    several = labels is not None and (separator is not None or any(map(table_cells.is_list, labels)))
    labels_of: list[frozenset[str] | None] = []
    troubles: list[Trouble] = []
    for row, cell in enumerate(labels or (), start=1):
        try:
            if several:
                labels_of.append(table_cells.labels(cell, separator))
            else:
                labels_of.append(frozenset({cell.strip()}) if cell.strip() else None)
        except DataError as error:
            troubles.append(Trouble(row, str(error)))
    table_cells.refuse(troubles, source, "labels that cannot be read", "Write JSON lists of names, or set separator.")
    matched: NDArray[np.int64] | None = None
    if match is not None:
        cells = [cell.strip() for cell in match]
        matched = np.asarray([truth(cell, match_column) if cell else NO_TARGET for cell in cells], np.int64)
    return RowAnswers(labels_of, several, matched)


def targets(answers: RowAnswers, places: Mapping[Split, NDArray[np.int64]], source: str) -> RowTargets:
    """Outputs and targets, with the classes of the training rows; a row with another class has no target.

    Raises:
        DataError: The training rows have one class only, or almost a class per row, or no validation or test row has a
            class of the training rows.
    """
    questions: list[QuestionKind] = []
    target_of: dict[str, NDArray[np.int64]] = {}
    unseen: dict[Split, dict[str, int]] = {}
    if answers.labels:
        taught = [answers.labels[row] for row in places["train"].tolist()]
        counts = Counter(name for names in taught for name in names or ())
        names = table_cells.ordered(set(counts))
        _check_classes(counts, answers.several, source)
        for split, rows in places.items():
            strange = Counter(name for row in rows.tolist() for name in answers.labels[row] or () if name not in counts)
            if strange:
                unseen[split] = dict(sorted(strange.items()))
        number = {name: index for index, name in enumerate(names)}
        if answers.several:
            questions.append(QuestionKind("label", "labels", names))
            table = np.zeros((len(answers.labels), len(names)), np.int64)
            for row, own in enumerate(answers.labels):
                if own is None:
                    table[row] = NO_TARGET
                else:
                    table[row, [number[name] for name in own if name in number]] = 1
            target_of["label"] = table
        else:
            questions.append(QuestionKind("label", "class", names))
            each = [number.get(next(iter(own)), NO_TARGET) if own else NO_TARGET for own in answers.labels]
            target_of["label"] = np.asarray(each, np.int64)
            if answers.match is None:
                _check_splits(target_of["label"], places, source)
    if answers.match is not None:
        seen = np.unique(answers.match[places["train"]])
        if len(seen[seen != NO_TARGET]) < 2:
            raise DataError(f"{source}: all training rows match, or none does. Give rows of both kinds.")
        questions.append(QuestionKind("match", "class", MATCH))
        target_of["match"] = answers.match
    return RowTargets(tuple(questions), target_of, unseen)


def _check_splits(target: NDArray[np.int64], places: Mapping[Split, NDArray[np.int64]], source: str) -> None:
    for split in ("validation", "test"):
        rows = places[split]
        if len(rows) and (target[rows] == NO_TARGET).all():
            raise DataError(
                f"{source}: none of the {len(rows):,} {split} rows has a class that training rows have, so nothing can"
                " be measured there. Give more rows of each class, or another label."
            )


def _check_classes(counts: Counter[str], several: bool, source: str) -> None:
    if not counts or (len(counts) < 2 and not several):
        there = f"only the class {next(iter(counts))!r}" if counts else "no label"
        raise DataError(
            f"{source}: the training rows have {there}; a task needs two classes at least. Is the right column set as"
            " label?"
        )
    if not several and len(counts) > _MOST_CLASSES and counts.total() < 2 * len(counts):
        raise DataError(
            f"{source}: {counts.total():,} training rows have {len(counts):,} different labels"
            f" ({quoted_list(sorted(counts)[:3])}, ...), which look like numbers or names, not classes. Set another"
            " label, or put numbers into a few classes."
        )
