"""How well gains of edits are foreseen for runs that were not seen: the rank correlation with whole runs held out.

Source: docs/spec/architect_thyself.md#gains-of-edits.

Rows of one run share its data, its first weights and its batches; so runs are held out, not rows. The correlation is
that of Spearman over all rows, each foreseen by a model of the runs of other folds. Where it is above ``LEARNED``, the
strategist is called learned.

Legend: n rows, d features.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from evodevo.growth.strategists.edit_memory import EditMemory, RememberedEdit
from evodevo.growth.strategists.gains.features import NAMES, edit_features
from evodevo.growth.strategists.gains.record import LEARNED
from evodevo.growth.strategists.gains.regression import fit

Numbers = NDArray[np.float64]
Model = Callable[[Numbers, Numbers, Numbers], Numbers]
"""(features (n, d), gains (n,), features (m, d) of other runs) -> gains (m,) that it foresees."""

MOST_FOLDS = 20
"""Runs are held out one by one, or together where there are more."""
FEWEST_RUNS, FEWEST_ROWS = 3, 10
"""Below so many there is no correlation."""


@dataclass(frozen=True)
class GainRows:
    """Edits whose gain was measured alone.

    Attributes:
        features: (n, d) features.
        gains: (n,) gains in nats.
        errors: (n,) their standard errors in nats.
        runs: Name of the run of each.
        edits: The edits.
    """

    features: Numbers
    gains: Numbers
    errors: Numbers
    runs: tuple[str, ...]
    edits: tuple[RememberedEdit, ...]


def rows_of(edits: Iterable[RememberedEdit]) -> GainRows:
    """The edits with a gain of their own; where several were measured together, nobody knows whose it is."""
    measured = [(edit, edit.gain) for edit in edits if edit.gain is not None and edit.gain.together == 1]
    described = [(edit, gain, edit_features(edit.state, edit.action)) for edit, gain in measured]
    # A memory is a file: numbers in it may be so large that their sums are none any more.
    known = [(edit, gain, numbers) for edit, gain, numbers in described if np.isfinite(numbers).all()]
    return GainRows(
        features=np.array([numbers for _, _, numbers in known]).reshape(len(known), len(NAMES)),
        gains=np.array([gain.gain for _, gain, _ in known]),
        errors=np.array([gain.error for _, gain, _ in known]),
        runs=tuple(gain.run for _, gain, _ in known),
        edits=tuple(edit for edit, _, _ in known),
    )


@dataclass(frozen=True)
class Foresight:
    """How well a memory foresees gains.

    Attributes:
        correlation: Spearman's rank correlation of foreseen and measured gains; None where it is not defined.
        rows, runs: Numbers of gains and of runs.
        elsewhere: Number of gains on other data, which do not count here.
    """

    correlation: float | None
    rows: int
    runs: int
    elsewhere: int = 0

    @property
    def learned(self) -> bool:
        """Whether a strategist with this memory is called learned."""
        return self.correlation is not None and self.correlation > LEARNED

    def to_json(self) -> dict[str, Any]:
        """The fields and ``learned``, for the facts of a run."""
        return {**asdict(self), "learned": self.learned}


def linear(features: Numbers, gains: Numbers, others: Numbers) -> Numbers:
    """The gain under the mean of the posterior of the strategist ``thompson``."""
    return fit(features, gains, 0.0).predict(others)


def foreseen(rows: GainRows, model: Model = linear) -> Numbers:
    """(n,) gain of each row in nats, foreseen from the runs of other folds.

    Args:
        rows: Rows of at least two runs.
        model: Model that is fitted once for each fold.
    """
    folds = _folds(rows.runs)
    expected = np.zeros(len(rows.gains))
    for fold in range(max(folds) + 1):
        out = folds == fold
        expected[out] = model(rows.features[~out], rows.gains[~out], rows.features[out])
    return expected


def held_out(memory: EditMemory, data: str | None = None, model: Model = linear) -> Foresight:
    """The rank correlation of foreseen and measured gains of a memory, runs held out.

    Args:
        memory: The memory.
        data: Name of the data whose gains count, as those of one data set say nothing of another; None for all.
        model: Model that foresees.
    """
    every = rows_of(memory.edits)
    own = [edit for edit in every.edits if data is None or (edit.gain is not None and edit.gain.data == data)]
    rows = rows_of(own)
    count, runs = len(rows.gains), len(set(rows.runs))
    seen = Foresight(None, count, runs, len(every.gains) - count)
    if runs < FEWEST_RUNS or count < FEWEST_ROWS:
        return seen
    expected = foreseen(rows, model)
    if np.ptp(expected) == 0 or np.ptp(rows.gains) == 0:
        return seen
    correlation = float(spearmanr(expected, rows.gains).statistic)
    return replace(seen, correlation=correlation if math.isfinite(correlation) else None)


def _folds(runs: Sequence[str]) -> NDArray[np.int64]:
    """(n,) fold of each row: its run's place in order of appearance, modulo the number of folds."""
    places = {run: place for place, run in enumerate(dict.fromkeys(runs))}
    return np.array([places[run] % MOST_FOLDS for run in runs])
