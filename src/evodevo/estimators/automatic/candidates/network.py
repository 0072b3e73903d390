"""Networks of the race as predictors.

Legend: n samples, F numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from evodevo.estimators.automatic.candidates.base import Arrays, ProbabilityModel
from evodevo.settings import Settings, validate
from evodevo.tasks.rows.samples import Samples

if TYPE_CHECKING:
    from evodevo.estimators.automatic.networks.data import NetworkSamples
    from evodevo.estimators.automatic.networks.predictor import NetworkPredictor

MOST_CODES = 32
"""Number of codes of a category that have a number of their own; the less frequent ones share one."""


class _NetworkFacts(Settings):
    levels: tuple[int, ...]
    network: dict[str, Any]


class NetworkRow(ProbabilityModel):
    """A trained network.

    Args:
        network: The network.
        levels: Number of codes of each category.
    """

    form = "network"

    def __init__(self, network: NetworkPredictor, levels: tuple[int, ...]) -> None:
        self.network, self.levels = network, levels

    def probabilities(self, samples: Samples) -> NDArray[np.float64]:
        return self.network.probabilities(inputs(samples, self.levels))

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        facts, arrays = self.network.to_state()
        return {"levels": list(self.levels), "network": facts}, arrays

    def source(self, facts: dict[str, Any], files: dict[str, str | Path]) -> dict[str, Any]:
        from evodevo.estimators.automatic.source.written import written_network

        return {**facts, "network": written_network(self.network, facts["network"], files)}

    @classmethod
    def from_state(cls, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        from evodevo.estimators.automatic.networks.predictor import NetworkPredictor

        known = validate(_NetworkFacts, dict(facts), what="a network")
        return cls(NetworkPredictor.from_state(known.network, arrays), known.levels)


def inputs(samples: Samples, levels: tuple[int, ...]) -> NetworkSamples:
    """Samples as a network reads them: numbers and categories in one table, all texts joined, the first images."""
    from evodevo.estimators.automatic.networks.data import NetworkSamples

    parts = [samples.numbers]
    for place, size in enumerate(levels):
        codes = np.minimum(samples.codes[:, place], min(size, MOST_CODES) - 1)
        parts.append(np.eye(min(size, MOST_CODES))[codes])
    vectors = np.concatenate(parts, axis=1)
    texts = [" ".join(part for part in row if part) for row in zip(*samples.texts, strict=True)]
    present = samples.present[0] if samples.present else None
    return NetworkSamples(
        images=samples.images[0] if samples.images else None,
        images_present=None if present is None or present.all() else present,
        texts=texts if samples.texts else None,
        vectors=vectors if vectors.shape[1] else None,
    )
