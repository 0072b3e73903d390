"""Few samples of each class: a task as if little had been labelled, with the test split of all.

Source: docs/spec/munet.md#tasks.

Shapes: N samples.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from evodevo.errors import DataError
from evodevo.settings import Settings
from evodevo.tasks.base import Split


class FewSamples(Settings):
    """The numbers of samples that are kept of each class.

    Attributes:
        train, validation: samples of each class in that split; the test split stays whole.
        draw: seed of the choice. With the same draw a smaller number is a part of a larger one.
    """

    train: int = Field(ge=1, le=1 << 20)
    validation: int = Field(ge=1, le=1 << 20)
    draw: int = Field(default=0, ge=0)

    @property
    def rule(self) -> str:
        """The choice in words."""
        return f"of each class {self.train} for training and {self.validation} for validation, draw {self.draw}"


def thinned(
    indices: Mapping[Split, NDArray[np.int64]],
    contents: Sequence[bytes],
    labels: NDArray[np.int64],
    few: FewSamples,
    names: Sequence[str],
    source: str,
) -> dict[Split, NDArray[np.int64]]:
    """The splits with so many samples of each class, in their order.

    Args:
        indices: split -> its samples.
        contents: content of each sample, N of them; what is drawn depends on nothing else.
        labels: class of each sample, (N,).
        few: the numbers.
        names: names of the classes.
        source: origin of the samples, for messages.

    Raises:
        DataError: a class has fewer samples.
    """
    kept = dict(indices)
    numbers: Mapping[Split, int] = {"train": few.train, "validation": few.validation}
    for split, number in numbers.items():
        rows = indices[split]
        order = sorted(rows.tolist(), key=lambda row: hashlib.sha256(b"%d\0" % few.draw + contents[row]).digest())
        classes: dict[int, list[int]] = {int(name): [] for name in np.unique(labels)}
        for row in order:
            classes[int(labels[row])].append(row)
        short = min(classes, key=lambda name: (len(classes[name]), name))
        if len(classes[short]) < number:
            raise DataError(
                f"{source}: {names[short]!r} has {len(classes[short])} samples in the {split} split; {number} of each"
                " class are asked for. Ask for fewer, or leave the class out."
            )
        chosen = {row for own in classes.values() for row in own[:number]}
        kept[split] = np.asarray([row for row in rows.tolist() if row in chosen], np.int64)
    return kept
