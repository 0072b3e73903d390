"""Images that are always there: no two equal, every class among them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from evodevo.tasks.images import drawn_images
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


def test_digits_are_those_of_scikit_learn_wherever_its_file_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = load_digits()
    for found in (drawn_images.find_spec("sklearn"), None):
        monkeypatch.setattr(drawn_images, "find_spec", lambda name, found=found: found)
        images, labels = read("digits")
        assert np.array_equal(images[..., 0], np.rint(whole.images * (255 / 16)))
        assert labels == [str(label) for label in whole.target]
