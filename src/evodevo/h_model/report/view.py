"""The level of detail at which a page shows a routing report."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evodevo.h_model.diagrams.layout import Limits
from evodevo.h_model.report.data import ClassRouting, RoutingReport


@dataclass(frozen=True)
class RoutingDetail:
    """Pictures of each kind, and lines in each; lowered step by step until the file fits."""

    samples: int
    classes: int
    pairs: int
    patterns: int
    lines: int


class RoutingView:
    """The report at one level of detail; ``reduced`` is true where a higher level did not fit."""

    def __init__(self, report: RoutingReport, detail: RoutingDetail, reduced: bool) -> None:
        self.report, self.detail, self.reduced = report, detail, reduced
        self.limits = Limits(strongest=detail.lines)
        self.classes = list(report.classes)[: detail.classes]

    def class_of(self, place: int) -> ClassRouting | None:
        """The class of a sample, where it has one."""
        return next((each for each in self.report.classes if place in each.places), None)

    def chosen(self) -> NDArray[np.int64]:
        """Samples to draw: the first of each class in turn, in their order."""
        wanted = min(self.detail.samples, self.report.trace.count)
        turns = [each.places for each in self.report.classes] or [np.arange(self.report.trace.count)]
        indices: list[int] = []
        for turn in range(max(len(places) for places in turns)):
            indices += [int(places[turn]) for places in turns if turn < len(places)]
            if len(indices) >= wanted:
                break
        return np.array(sorted(indices[:wanted]), dtype=np.int64)
