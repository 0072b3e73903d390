"""Images that are always there: no two equal, every class among them."""

from __future__ import annotations

import numpy as np
import pytest

from evodevo.tasks.images.drawn_images import BUILTINS, Builtin, read


@pytest.mark.parametrize("name", BUILTINS)
def test_many_different_images_of_every_class(name: Builtin) -> None:
    images, labels = read(name)
    assert images.dtype == np.uint8
    assert images.ndim == 4
    assert images.shape[-1] == 1
    assert len(images) == len(labels) > 1_500
    assert len({image.tobytes() for image in images}) == len(images)
    counts = np.unique(labels, return_counts=True)[1]
    assert len(counts) >= 6
    assert counts.min() > 100
