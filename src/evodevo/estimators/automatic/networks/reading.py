"""From samples to the arrays that networks read; everything that is learned comes from the training samples.

Legend: n samples, B samples of a batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from evodevo.errors import UsageError
from evodevo.estimators.automatic.networks.data import NetworkSamples
from evodevo.estimators.automatic.networks.images import IMAGE, ImageReading
from evodevo.estimators.automatic.networks.numbers import VECTORS, NumberReading
from evodevo.estimators.automatic.networks.texts import (
    TERM_WEIGHTS,
    TERMS,
    TEXT,
    TextReading,
    padded_terms,
    text_mask,
)
from evodevo.settings import Settings
from evodevo.tasks.inputs import Batch, InputSpec


class NetworkReading(Settings):
    """How each kind of input is read; None for kinds that the training samples lack."""

    image: ImageReading | None = None
    text: TextReading | None = None
    numbers: NumberReading | None = None

    @classmethod
    def of(cls, samples: NetworkSamples) -> Self:
        """Measure the training samples.

        Raises:
            UsageError: They have no image, no word and no column.
        """
        reading = cls(
            image=None if samples.images is None else ImageReading.of(samples.images, _present(samples)),
            text=None if samples.texts is None else TextReading.of(samples.texts),
            numbers=None if samples.vectors is None else NumberReading.of(samples.vectors),
        )
        if not reading.inputs:
            raise UsageError("the training samples have no image, no word and no number that a network could read.")
        return reading

    @property
    def inputs(self) -> tuple[InputSpec, ...]:
        """Inputs of a zoo."""
        specs = []
        if self.image is not None:
            height, width, channels = self.image.shape
            specs.append(InputSpec(IMAGE, "image", height=height, width=width, channels=channels))
        if self.text is not None:
            vocabulary = len(self.text.words) + 2  # padding and unknown words
            specs.append(InputSpec(TEXT, "tokens", length=self.text.length, vocabulary=vocabulary))
        if self.numbers is not None:
            specs.append(InputSpec(VECTORS, "vector", size=self.numbers.size))
        return tuple(specs)

    def read(self, samples: NetworkSamples) -> NetworkArrays:
        """The arrays of samples; a kind of input that they lack is absent in all of them.

        Raises:
            UsageError: Images or numbers of other shapes than in the training samples.
        """
        count = len(samples)
        arrays: dict[str, NDArray[Any]] = {}
        terms = None
        if self.image is not None:
            present = _present(samples)
            images = samples.images
            if images is None:
                images = np.zeros((count, *self.image.shape), np.uint8)
            self.image.check(images)
            arrays |= {IMAGE: images, f"{IMAGE}/present": present}
        if self.text is not None:
            tokens, terms = self.text.read(samples.texts if samples.texts is not None else [""] * count)
            mask = text_mask(tokens)
            arrays |= {TEXT: tokens, f"{TEXT}/mask": mask, f"{TEXT}/present": np.asarray(mask.any(1))}
        if self.numbers is not None:
            vectors = samples.vectors
            if vectors is None:
                vectors = np.full((count, len(self.numbers.centre)), np.nan)
            arrays[VECTORS] = self.numbers.read(vectors)
        return NetworkArrays(count, arrays, terms)


@dataclass(frozen=True)
class NetworkArrays:
    """Samples as arrays.

    Attributes:
        count: n.
        arrays: By name, as ``tasks.inputs.Batch``.
        terms: Weights of the terms of the texts, (n, V), see ``TextReading``.
    """

    count: int
    arrays: dict[str, NDArray[Any]] = field(repr=False)
    terms: csr_array | None = field(default=None, repr=False)

    def batch(self, rows: NDArray[np.int64]) -> Batch:
        """The samples at these rows; terms are padded to the longest of them."""
        batch = {name: array[rows] for name, array in self.arrays.items()}
        if self.terms is not None:
            batch[TERMS], batch[TERM_WEIGHTS] = padded_terms(self.terms[rows])
        return batch


def _present(samples: NetworkSamples) -> NDArray[np.bool_]:
    if samples.images is None:
        return np.zeros(len(samples), np.bool_)
    if samples.images_present is None:
        return np.ones(len(samples), np.bool_)
    return samples.images_present
