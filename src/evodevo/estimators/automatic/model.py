"""The answer of ``evodevo.fit``: a model with its leaderboard.

Legend: n rows, C classes or labels; of a quantity C is 1.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from evodevo import __version__
from evodevo.errors import DataError, UsageError
from evodevo.estimators.automatic import keeping, scores
from evodevo.estimators.automatic.candidates.base import ProbabilityModel
from evodevo.estimators.automatic.leaderboard import Judged, Leaderboard, Row
from evodevo.estimators.automatic.scores import Decisions, Metric
from evodevo.tasks.rows import sources
from evodevo.tasks.rows.samples import RowReading, Samples
from evodevo.tasks.rows.sources import Rows
from evodevo.tasks.rows.targets import Targets, known

PROBES = 50
"""Number of training rows that are kept for the verification of exports."""


@dataclass(frozen=True)
class FittedModel:
    """The best candidate on held out samples.

    Attributes:
        reading: How rows become samples.
        targets: Classes, labels or a quantity.
        metric: Metric of the ranking.
        shares: How frequent each class or label was in training, (C,); of a quantity (0,).
        predictor: The model.
        rows: All candidates, best first; the first one is the model.
        held: Number of held out samples.
        left_out: Candidates that were not judged, with the reason.
        others: Models of the other candidates by name; empty in a model that was loaded.
        about: Facts about the training data, for people.
        probes: Some training rows, on which an export is verified; None in a model that was loaded.
    """

    reading: RowReading
    targets: Targets
    metric: Metric
    shares: NDArray[np.float64]
    predictor: ProbabilityModel
    rows: tuple[Row, ...]
    held: int
    left_out: tuple[str, ...]
    others: Mapping[str, ProbabilityModel]
    about: Mapping[str, Any]
    probes: Rows | None = None

    @property
    def name(self) -> str:
        """Name of the chosen candidate."""
        return self.rows[0].name

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes or labels, in the order of the probabilities; none of a quantity."""
        return () if self.targets.kind == "quantity" else self.targets.names

    def predict_proba(self, data: Any) -> NDArray[np.float64]:
        """Probabilities (n, C): rows sum to 1 for classes, independent for labels.

        Args:
            data: Rows in any form that ``evodevo.fit`` takes, with or without the label.

        Raises:
            UsageError: The model answers with a quantity, which has no probabilities.
            DataError: They cannot be read, or have none of the training columns.

        Warns:
            UserWarning: Values of a column of numbers or dates are none, and count as missing.
        """
        if self.targets.kind == "quantity":
            raise UsageError(f"{self.targets.names[0]!r} is a quantity, which has no probabilities; use predict.")
        return self.answers(self._warned(data))

    def answers(self, data: Any) -> NDArray[np.float64]:
        """The model's answers to rows: probabilities (n, C), or the values of a quantity, (n, 1).

        Raises:
            DataError: See ``predict_proba``.
        """
        return self.predictor.probabilities(self._samples(self._rows(data)))

    def predict(self, data: Any) -> list[str] | list[list[str]] | list[float]:
        """The class of each row by name; of several labels the list of those that apply; the value of a quantity.

        Warns:
            UserWarning: See ``predict_proba``.
        """
        return self.named(self.decided(self.answers(self._warned(data))))

    def named(self, chosen: Decisions) -> list[str] | list[list[str]] | list[float]:
        """Decisions as names: of classes, or of the labels that apply; values as they are."""
        names = self.targets.names
        if self.targets.kind == "quantity":
            return [float(value) for value in chosen]
        if self.targets.kind == "class":
            return [names[place] for place in chosen.tolist()]
        return [[name for name, value in zip(names, row, strict=True) if value] for row in chosen.tolist()]

    def decided(self, chances: NDArray[np.float64]) -> Decisions:
        """Decisions by answers (n, C): places of classes (n,), labels (n, C) of 0 and 1, or values (n,)."""
        return self.metric.decide(chances, self.shares)

    def leaderboard(self, test: Any = None) -> Leaderboard:
        """All candidates, best first by the held out samples; with test rows also their scores on those.

        Args:
            test: Rows with labels that were no training rows; their scores decide nothing.

        Raises:
            DataError: No test row has a known label.
        """
        judged: dict[str, Judged] = {}
        count = 0
        if test is not None:
            rows = self._rows(test)
            answers = self.targets.read(rows)
            there = np.flatnonzero(known(answers))
            if not len(there):
                raise DataError(f"no row of {rows.source} has a label that was in training.")
            samples, truth, count = self._samples(rows).take(there), answers[there], len(there)
            own = self.decided(self.predictor.probabilities(samples))
            judged[self.name] = self._judged(own, own, truth)
            for name, other in self.others.items():
                if name != self.name:
                    judged[name] = self._judged(own, self.decided(other.probabilities(samples)), truth)
        return Leaderboard(self.metric.name, self.rows, self.held, judged, count, self.left_out)

    def score(self, test: Any) -> float:
        """The metric on test rows."""
        return self.leaderboard(test).test[self.name].score

    def save(self, folder: str | Path) -> Path:
        """Write the model: ``model.json`` and ``arrays.safetensors``; neither holds code. Returns the folder.

        Raises:
            UsageError: The folder holds other files.
        """
        kept, arrays = self.saved()
        return keeping.save(kept, arrays, Path(folder))

    def export(self, to: str, folder: str | Path, probes: Any = None) -> Path:
        """Write the model as files that work without evodevo; returns the folder.

        ``source`` is a readable ``predict.py`` of numpy beside the JSON and the arrays; where the model has networks,
        also ``torch_networks.py`` of plain PyTorch, and a file for each kind of zoo. All is verified in a fresh process
        on some rows, and nothing is left where it answers otherwise.

        Args:
            to: source.
            folder: Folder that is missing, empty, or an earlier export, which is replaced.
            probes: Rows on which the answers are compared; if left out some training rows, or drawn ones where the
                model was loaded.

        Raises:
            UsageError: An unknown format, a folder with other files, or a part without source.
            VerificationError: The written program answers otherwise.
            DiskFullError: No space left.
        """
        from evodevo.estimators.automatic.source.export import export_fitted

        return export_fitted(self, to, Path(folder), probes).folder

    def saved(self) -> tuple[keeping.SavedModel, dict[str, NDArray[Any]]]:
        """What ``save`` writes: the contents of ``model.json``, and arrays by name."""
        facts, arrays = self.predictor.to_state()
        kept = keeping.SavedModel(
            format=keeping.FORMAT,
            version=__version__,
            reading=self.reading,
            targets=self.targets,
            metric=self.metric.name,
            shares=tuple(self.shares.tolist()),
            form=self.predictor.form,
            facts=facts,
            rows=self.rows,
            held=self.held,
            left_out=self.left_out,
            about=dict(self.about),
        )
        return kept, arrays

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a model that was saved; the leaderboard keeps its numbers, the other candidates are gone.

        Raises:
            NotFoundError: The folder holds no model.
            UnsafeFileError: Files of another kind, or damaged ones.
        """
        kept, predictor, metric = keeping.load(Path(folder))
        return cls(
            reading=kept.reading,
            targets=kept.targets,
            metric=metric,
            shares=np.asarray(kept.shares),
            predictor=predictor,
            rows=kept.rows,
            held=kept.held,
            left_out=kept.left_out,
            others={},
            about=kept.about,
        )

    def __str__(self) -> str:
        return str(self.leaderboard())

    def _rows(self, data: Any) -> Rows:
        return sources.read(data, self.targets.columns)

    def _warned(self, data: Any) -> Rows:
        """The rows; what is unreadable in them is said to whoever called the method that calls this one."""
        rows = self._rows(data)
        for sentence in self.reading.unreadable(rows):
            warnings.warn(sentence, UserWarning, stacklevel=3)
        return rows

    def _samples(self, rows: Rows) -> Samples:
        return self.reading.read(rows)

    def _judged(self, own: Decisions, other: Decisions, truth: Any) -> Judged:
        further = {metric.name: _judged(metric, own, other, truth) for metric in scores.further(self.metric)}
        return replace(_judged(self.metric, own, other, truth), further=further)


def _judged(metric: Metric, own: Decisions, other: Decisions, truth: Any) -> Judged:
    found = scores.score(metric, other, truth)
    gap = scores.difference(metric, own, other, truth)
    return Judged(found.value, found.low, found.high, gap.value, gap.low, gap.high)
