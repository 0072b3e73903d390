"""Conversion of the samples of ``fit`` and ``predict`` to the arrays that a network reads.

Legend: n samples, L words at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.sparse import issparse
from sklearn.utils.validation import check_array

from evodevo.errors import UsageError, quoted_list, unknown_name
from evodevo.settings import Settings
from evodevo.tasks.inputs import Batch, InputSpec
from evodevo.tasks.text.words import PADDING, Vocabulary, cut

IMAGE, TEXT, VECTORS = COLUMNS = ("image", "text", "vectors")
MOST_WORDS = 20_000
_SMALLEST = 1e-6
"""Deviation below which a column of numbers is constant; it is not scaled."""

Columns = dict[str, Any]
Images = NDArray[np.uint8]


def columns_of(X: Any) -> Columns | None:
    """``X`` as columns by modality; None where it is a plain table of numbers.

    Args:
        X: Mapping or data frame with some of the columns image, text, vectors; texts; images (n, h, w) or
            (n, h, w, c); or a table of numbers.

    Raises:
        UsageError: A column of another name, or no column.
    """
    if issparse(X):  # some of them are mappings, too
        return None
    if isinstance(X, Mapping):
        for name in X:
            if name not in COLUMNS:
                raise unknown_name("column", str(name), COLUMNS)
        if not X:
            raise UsageError(f"X has no column; give at least one of {quoted_list(COLUMNS)}.")
        return dict(X)
    names = list(getattr(X, "columns", ()))
    if names and set(names) <= set(COLUMNS):
        return {name: X[name] for name in names}
    if isinstance(X, np.ndarray) and X.ndim in (3, 4):
        return {IMAGE: X}
    return {TEXT: X} if _are_texts(X) else None


class InputReading(Settings):
    """Statistics of the inputs in the training samples; all that the conversion of further samples needs.

    Attributes:
        image: Height, width and channels, where there are images.
        words: Words of the vocabulary, where there are texts.
        length: Largest number of words of a text that are read.
        mean, deviation: Mean and standard deviation of each column of vectors, where there are some.
    """

    image: tuple[int, int, int] | None = None
    words: tuple[str, ...] | None = None
    length: int = Field(default=64, ge=1)
    mean: tuple[float, ...] | None = None
    deviation: tuple[float, ...] | None = None

    @classmethod
    def of(cls, columns: Columns, length: int) -> Self:
        """Compute the statistics of these samples.

        Raises:
            UsageError, ValueError: A column with values that do not fit its name.
        """
        values: dict[str, Any] = {"length": length}
        if IMAGE in columns:
            shapes = {image.shape for image in _images(columns[IMAGE]) if image is not None}
            if len(shapes) != 1:
                raise UsageError(f"images need one size; there are {quoted_list(sorted(shapes)) or 'none'}.")
            values["image"] = shapes.pop()
        if TEXT in columns:
            if not any(text.strip() for text in texts_of(columns[TEXT])):
                raise UsageError("no text has a word; leave the column out, or give texts.")
            values["words"] = Vocabulary.of((cut(text) for text in texts_of(columns[TEXT])), MOST_WORDS).words
        if VECTORS in columns:
            table, present = _vectors(columns[VECTORS])
            there = table[present]
            if not len(there):
                raise UsageError("no row of vectors is without a missing number.")
            values["mean"] = tuple(there.mean(0).tolist())
            deviation = there.std(0)
            values["deviation"] = tuple(np.where(deviation > _SMALLEST, deviation, 1.0).tolist())
        return cls(**values)

    @property
    def inputs(self) -> tuple[InputSpec, ...]:
        """Specifications of the network's inputs, in the order image, text, vectors."""
        specs = []
        if self.image is not None:
            height, width, channels = self.image
            specs.append(InputSpec(IMAGE, "image", height=height, width=width, channels=channels))
        if self.words is not None:
            specs.append(InputSpec(TEXT, "tokens", length=self.length, vocabulary=len(Vocabulary(self.words))))
        if self.mean is not None:
            specs.append(InputSpec(VECTORS, "vector", size=len(self.mean)))
        return tuple(specs)

    def read(self, columns: Columns) -> Batch:
        """Samples as arrays; inputs that a sample lacks are marked as absent.

        Raises:
            UsageError, ValueError: An unknown column, unequal lengths, other sizes than in the training samples.
        """
        known = [spec.name for spec in self.inputs]
        for name in columns:
            if name not in known:
                raise UsageError(f"the classifier was fitted without {name!r}; it reads {quoted_list(known)}.")
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) != 1:
            raise UsageError(f"the columns of X need equal lengths; they have {lengths}.")
        count = next(iter(lengths.values()))
        batch: dict[str, NDArray[Any]] = {}
        if self.image is not None:
            batch |= self._read_images(columns.get(IMAGE, [None] * count))
        if self.words is not None:
            batch |= self._read_texts(columns.get(TEXT, [""] * count))
        if self.mean is not None:
            batch |= self._read_vectors(columns.get(VECTORS), count)
        return batch

    def _read_images(self, given: Any) -> dict[str, NDArray[Any]]:
        assert self.image is not None
        images = _images(given)
        present = np.array([image is not None for image in images], np.bool_)
        pixels = np.zeros((len(images), *self.image), np.uint8)
        for place, image in enumerate(images):
            if image is None:
                continue
            if image.shape != self.image:
                raise UsageError(f"image {place} is of {image.shape}; the classifier was fitted on {self.image}.")
            pixels[place] = image
        return {IMAGE: pixels, **_presence(IMAGE, present)}

    def _read_texts(self, given: Any) -> dict[str, NDArray[Any]]:
        assert self.words is not None
        tokens = Vocabulary(self.words).encode([cut(text) for text in texts_of(given)], self.length)
        mask = tokens != PADDING
        return {TEXT: tokens, f"{TEXT}/mask": mask, **_presence(TEXT, mask.any(1))}

    def _read_vectors(self, given: Any, count: int) -> dict[str, NDArray[Any]]:
        assert self.mean is not None
        if given is None:
            return {VECTORS: np.zeros((count, len(self.mean)), np.float32), f"{VECTORS}/present": np.zeros(count, bool)}
        table, present = _vectors(given)
        if table.shape[1] != len(self.mean):
            raise UsageError(f"vectors have {table.shape[1]} numbers; the classifier was fitted on {len(self.mean)}.")
        scaled = (table - np.array(self.mean)) / np.array(self.deviation)
        return {VECTORS: np.where(present[:, None], scaled, 0).astype(np.float32), **_presence(VECTORS, present)}


def _presence(name: str, present: NDArray[np.bool_]) -> dict[str, NDArray[np.bool_]]:
    return {} if present.all() else {f"{name}/present": present}


def _are_texts(X: Any) -> bool:
    if isinstance(X, (list, tuple)) or (getattr(X, "ndim", 0) == 1 and hasattr(X, "__iter__")):
        values = list(X)
        return bool(values) and all(isinstance(item, (str, type(None))) for item in values)
    return False


def texts_of(given: Iterable[Any]) -> list[str]:
    """Texts, empty where there is none.

    Raises:
        UsageError: Values that are no texts.
    """
    texts = ["" if text is None else text for text in given]
    wrong = next((text for text in texts if not isinstance(text, str)), None)
    if wrong is not None:
        raise UsageError(f"texts are strings, or None where there is none; got {str(wrong)[:60]!r}.")
    return texts


def _images(given: Iterable[Any]) -> list[Images | None]:
    """Images, each (height, width, channels)."""
    images: list[Images | None] = []
    for place, item in enumerate(given):
        if item is None:
            images.append(None)
            continue
        image = np.asarray(item)
        if image.dtype != np.uint8 or image.ndim not in (2, 3) or not image.size:
            raise UsageError(
                f"image {place} is of {image.dtype} and {image.shape}; an image is an array of uint8, 0 to 255, of "
                "(height, width) or (height, width, channels)."
            )
        images.append(image if image.ndim == 3 else image[:, :, None])
    return images


def _vectors(given: Any) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """A table (n, size), and which rows are present: all but those with a missing number."""
    table = np.asarray(given)
    table = table[:, None] if table.ndim == 1 else table
    table = check_array(table, dtype=np.float64, ensure_all_finite="allow-nan", input_name=VECTORS)
    return table, ~np.isnan(table).any(1)


def vectors_of(given: Any) -> NDArray[np.float64]:
    """A table of numbers (n, size), NaN where one is missing.

    Raises:
        ValueError: Values that are no numbers.
    """
    return _vectors(given)[0]
