"""The plain candidates for data of a kind, cheap ones first."""

from __future__ import annotations

from evodevo.estimators.automatic.candidates.base import FitCandidate, LabelledSamples
from evodevo.estimators.automatic.candidates.boosting import Boosting
from evodevo.estimators.automatic.candidates.constant import Constant, MeanValue
from evodevo.estimators.automatic.candidates.forest import ExtraTrees, RandomForest
from evodevo.estimators.automatic.candidates.linear import Linear
from evodevo.estimators.automatic.candidates.neighbours import Neighbours
from evodevo.estimators.automatic.candidates.ridge import Ridge
from evodevo.estimators.automatic.candidates.tower import NamedTower, OnTower
from evodevo.estimators.automatic.features.package_root import RootReading

FIRST = 2
"""Candidates before those on a tower of the user: the constant, and the first linear model."""
BEFORE_ROOT = 1
"""Candidates before those on the package's root, which reads faster than a linear model of pixels is trained."""
MOST_BOOSTED_CLASSES = 40
"""Number of classes above which boosting is left out: it trains one tree per class and iteration."""


def plain_candidates(lesson: LabelledSamples) -> list[FitCandidate]:
    """The candidates for these data; those on a tower come early: they are cheap, and the user may have named it."""
    found = _of_quantity(lesson) if lesson.kind == "quantity" else _of_classes(lesson)
    quick = all(isinstance(reading, RootReading) for reading in lesson.towers.values())
    first = BEFORE_ROOT if lesson.towers and quick else FIRST
    return [*found[:first], *_on_towers(lesson), *found[first:]]


def _on_towers(lesson: LabelledSamples) -> list[FitCandidate]:
    found: list[FitCandidate] = []
    for name, reading in lesson.towers.items():
        tower = NamedTower(reading, name)
        texts = bool(lesson.samples.texts) and "tokens" not in reading.reads
        inner: list[FitCandidate] = (
            [Ridge(strength, texts=texts) for strength in (100.0, 10.0, 1000.0)]
            if lesson.kind == "quantity"
            else [Linear(strength, texts=texts) for strength in (0.1, 0.01, 1.0)]
        )
        found += [OnTower(tower, one) for one in inner]
    return found


def _of_classes(lesson: LabelledSamples) -> list[FitCandidate]:
    texts = bool(lesson.samples.texts)
    boosted = lesson.classes <= MOST_BOOSTED_CLASSES
    found: list[FitCandidate] = [Constant(), Linear(1.0, texts=texts, least=0)]
    if texts:
        found += [Linear(3.0, texts=True, characters=True), Linear(10.0, texts=True)]
        found += [Linear(30.0, texts=True, characters=True)]
    else:
        found.append(Neighbours(5))
    if boosted:
        found.append(Boosting("gradient boosting", rate=0.1, leaves=31, fewest=20, penalty=0.0))
    if not texts:
        found += [Linear(10.0), Linear(0.1)]
    if not texts or _has_numbers(lesson):
        found += [ExtraTrees(), RandomForest()]
    if boosted:
        found.append(Boosting("gradient boosting, small trees", rate=0.05, leaves=8, fewest=10, penalty=1.0))
    return found


def _has_numbers(lesson: LabelledSamples) -> bool:
    """Whether rows have numbers or categories, of which trees know more than of texts."""
    columns: int = lesson.samples.numbers.shape[1] + lesson.samples.codes.shape[1]
    return columns > 0


def _of_quantity(lesson: LabelledSamples) -> list[FitCandidate]:
    texts = bool(lesson.samples.texts)
    found: list[FitCandidate] = [MeanValue(), Ridge(1.0, texts=texts)]
    if texts:
        found += [Ridge(1.0, texts=True, characters=True), Ridge(0.1, texts=True), Ridge(10.0, texts=True)]
    else:
        found += [Neighbours(5), Neighbours(15)]
    found.append(Boosting("gradient boosting", rate=0.1, leaves=31, fewest=20, penalty=0.0))
    if not texts:
        found += [Ridge(10.0), Ridge(100.0), Ridge(0.01)]
    if not texts or _has_numbers(lesson):
        found += [ExtraTrees(), RandomForest()]
    found.append(Boosting("gradient boosting, small trees", rate=0.05, leaves=8, fewest=10, penalty=1.0))
    return found
