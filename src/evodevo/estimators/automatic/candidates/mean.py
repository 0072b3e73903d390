"""The mean of several models' probabilities, with weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from evodevo.estimators.automatic.candidates.base import PREDICTORS, Arrays, ProbabilityModel
from evodevo.settings import Settings, validate
from evodevo.tasks.rows.samples import Samples


class _MeanPart(Settings):
    form: str
    weight: float = Field(gt=0, le=1)
    facts: dict[str, Any]


class _MeanFacts(Settings):
    parts: tuple[_MeanPart, ...] = Field(min_length=1)


class MeanPredictor(ProbabilityModel):
    """Weighted mean of probabilities.

    Args:
        parts: The models.
        weights: Weight of each; they sum to 1.
    """

    form = "mean"

    def __init__(self, parts: Sequence[ProbabilityModel], weights: Sequence[float]) -> None:
        self.parts, self.weights = tuple(parts), tuple(weights)

    def probabilities(self, samples: Samples) -> NDArray[np.float64]:
        total = sum(weight * part.probabilities(samples) for part, weight in zip(self.parts, self.weights, strict=True))
        return np.asarray(total)

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        parts: list[dict[str, Any]] = []
        arrays: dict[str, NDArray[Any]] = {}
        for place, (part, weight) in enumerate(zip(self.parts, self.weights, strict=True)):
            facts, own = part.to_state()
            parts.append({"form": part.form, "weight": weight, "facts": facts})
            arrays |= {f"{place}.{name}": array for name, array in own.items()}
        return {"parts": parts}, arrays

    def source(self, facts: dict[str, Any], files: dict[str, str | Path]) -> dict[str, Any]:
        found = [
            {**given, "facts": part.source(given["facts"], files)}
            for part, given in zip(self.parts, facts["parts"], strict=True)
        ]
        return {**facts, "parts": found}

    @classmethod
    def from_state(cls, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        known = validate(_MeanFacts, dict(facts), what="a mean of models")
        parts = []
        for place, part in enumerate(known.parts):
            before = f"{place}."
            own = {name.removeprefix(before): array for name, array in arrays.items() if name.startswith(before)}
            parts.append(PREDICTORS.get(part.form).from_state(part.facts, own))
        return cls(parts, [part.weight for part in known.parts])


def mean(parts: Sequence[ProbabilityModel]) -> ProbabilityModel:
    """The mean of some models with equal weights; the model itself where there is one."""
    return parts[0] if len(parts) == 1 else MeanPredictor(parts, [1 / len(parts)] * len(parts))
