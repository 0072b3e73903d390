"""Tables, texts, images and columns, read as networks want them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from evodevo.errors import UsageError
from evodevo.estimators.reading import InputReading, columns_of


def test_forms_of_x() -> None:
    assert columns_of(np.zeros((3, 2))) is None
    assert columns_of([[1.0, 2.0]]) is None
    assert columns_of(np.zeros((3, 4, 4), np.uint8)).keys() == {"image"}  # type: ignore[union-attr]
    for texts in (["a", None], ("a", "b"), np.array(["a", "b"]), np.array(["a", None], object)):
        assert columns_of(texts).keys() == {"text"}  # type: ignore[union-attr]

    class Frame(dict[str, Any]):
        columns = ("text", "vectors")

    assert columns_of({"text": ["a"]}) == {"text": ["a"]}
    assert columns_of(Frame(text=["a"], vectors=[1.0])) == {"text": ["a"], "vectors": [1.0]}
    with pytest.raises(UsageError, match=r"unknown column 'images'\. Did you mean 'image'"):
        columns_of({"images": []})
    with pytest.raises(UsageError, match="no column"):
        columns_of({})


def test_vectors_are_standardised_by_the_training_samples() -> None:
    table = np.random.default_rng(0).normal(5, 3, (50, 3))
    table[:, 2] = 7
    reading = InputReading.of({"vectors": table}, 8)
    batch = reading.read({"vectors": table})
    assert batch["vectors"].dtype == np.float32
    assert np.allclose(batch["vectors"].mean(0), 0, atol=1e-5)
    assert np.allclose(batch["vectors"].std(0), (1, 1, 0), atol=1e-5)
    moved = reading.read({"vectors": table[:1] + 3})["vectors"]
    assert np.allclose(moved, batch["vectors"][:1] + np.divide(3, [*table[:, :2].std(0), 1]))
    with pytest.raises(UsageError, match="have 2 numbers; the classifier was fitted on 3"):
        reading.read({"vectors": table[:, :2]})


def test_what_a_sample_lacks_is_marked() -> None:
    image = np.full((4, 5), 9, np.uint8)
    columns = {"image": [image, None, image], "text": ["one two", "", None], "vectors": [[1.0], [np.nan], [3.0]]}
    reading = InputReading.of(columns, 3)
    batch = reading.read(columns)
    assert [(spec.name, spec.modality) for spec in reading.inputs] == [
        ("image", "image"),
        ("text", "tokens"),
        ("vectors", "vector"),
    ]
    assert batch["image"].shape == (3, 4, 5, 1)
    assert batch["image/present"].tolist() == [True, False, True]
    assert batch["text/mask"].tolist() == [[True, True, False], [False] * 3, [False] * 3]
    assert batch["text/present"].tolist() == [True, False, False]
    assert batch["vectors/present"].tolist() == [True, False, True]
    assert batch["vectors"][1] == 0
    alone = reading.read({"text": ["two"]})
    assert alone["image/present"].tolist() == alone["vectors/present"].tolist() == [False]
    assert "text/present" not in alone


def test_words_that_were_not_trained_on_are_unknown_and_long_texts_cut() -> None:
    reading = InputReading.of({"text": ["a b c"]}, 2)
    assert reading.read({"text": ["b new words"]})["text"].tolist() == [[3, 1]]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"text": [1, 2]}, "texts are strings"),
        ({"text": ["", None, " "]}, "no text has a word"),
        ({"image": [np.zeros((2, 2))]}, "an image is an array of uint8"),
        ({"image": [np.zeros((2, 2), np.uint8), np.zeros((2, 3), np.uint8)]}, "need one size"),
        ({"image": [None]}, "there are none"),
        ({"vectors": [[np.nan]]}, "without a missing number"),
        ({"vectors": [[np.inf]]}, "infinity"),
        ({"vectors": [["x"]]}, "could not convert"),
    ],
)
def test_columns_that_hold_something_else(columns: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        InputReading.of(columns, 4)


def test_unknown_columns_and_unequal_lengths() -> None:
    reading = InputReading.of({"text": ["a"], "vectors": [[1.0]]}, 4)
    with pytest.raises(UsageError, match="fitted without 'image'"):
        reading.read({"image": [np.zeros((2, 2), np.uint8)]})
    with pytest.raises(UsageError, match="equal lengths"):
        reading.read({"text": ["a"], "vectors": [[1.0], [2.0]]})
