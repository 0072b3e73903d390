"""What networks of a race read: everything that is learned comes from the training samples."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from evodevo.errors import UsageError
from evodevo.estimators.automatic.networks.data import NetworkSamples
from evodevo.estimators.automatic.networks.images import ImageReading
from evodevo.estimators.automatic.networks.numbers import NumberReading
from evodevo.estimators.automatic.networks.reading import NetworkReading
from evodevo.estimators.automatic.networks.texts import TextReading, padded_terms
from evodevo.tasks.text.words import PADDING, UNKNOWN, cut

TEXTS = ("the cat sat", "the dog sat down", "a cat, a dog")


def test_a_word_of_other_samples_is_unknown() -> None:
    reading = TextReading.of(TEXTS)
    assert reading is not None
    tokens, terms = reading.read(["the zebra sat", ""])
    assert tokens[0].tolist()[:3] == [reading.words.index("the") + 2, UNKNOWN, reading.words.index("sat") + 2]
    assert set(tokens[1].tolist()) == {PADDING}
    assert {reading.terms.terms[place] for place in terms[[0]].indices} == {"the", "sat"}
    assert terms[[1]].nnz == 0


def test_weights_of_terms_are_those_of_scikit_learn() -> None:
    reading = TextReading.of(TEXTS)
    assert reading is not None
    plain = TfidfVectorizer(
        tokenizer=cut, token_pattern=None, lowercase=False, ngram_range=(1, 2), sublinear_tf=True
    ).fit(TEXTS)
    assert set(plain.get_feature_names_out()) == set(reading.terms.terms)
    order = [plain.vocabulary_[term] for term in reading.terms.terms]
    texts = [*TEXTS, "a new cat sat sat"]
    assert np.allclose(reading.read(texts)[1].toarray(), plain.transform(texts).toarray()[:, order], atol=1e-6)


def test_padded_terms_are_the_rows_of_the_table() -> None:
    reading = TextReading.of(TEXTS)
    assert reading is not None
    weights = reading.read(["", *TEXTS])[1]
    ids, filled = padded_terms(weights)
    table = np.zeros((len(filled), len(reading.terms.terms) + 1))
    np.add.at(table, (np.arange(len(filled))[:, None], ids), filled)
    assert np.allclose(table[:, 1:], weights.toarray())
    assert not table[:, 0].any()


def test_rare_terms_of_many_texts_are_left_out() -> None:
    texts = [f"often w{number}" for number in range(100)]
    reading = TextReading.of(texts)
    assert reading is not None
    assert reading.terms.terms == ("often",)
    lonely = TextReading.of([f"w{number}" for number in range(100)])
    assert lonely is not None
    assert len(lonely.terms.terms) == 100


def test_missing_numbers_become_the_median_and_an_indicator() -> None:
    train = np.array([[0.0, 5.0, np.nan], [1.0, np.nan, np.nan], [2.0, 7.0, np.nan], [3.0, 9.0, np.nan]])
    reading = NumberReading.of(train)
    assert reading is not None
    assert reading.indicated == (1,)  # the third has no number that could tell anything
    read = reading.read(np.array([[np.nan, np.nan, 4.0], [1.5, 7.0, np.nan]]))
    assert np.array_equal(read[0, :2], [0, 0])
    assert np.array_equal(read[:, 3], [1, 0])
    assert np.allclose(read[1], 0)


def test_scaled_numbers_keep_their_order_and_stay_small() -> None:
    values = np.concatenate([np.random.default_rng(0).lognormal(0, 3, 200), [1e12, np.inf, -np.inf]])[:, None]
    reading = NumberReading.of(values)
    assert reading is not None
    read = reading.read(values)[:, 0]
    assert np.isfinite(read).all()
    assert np.abs(read).max() <= 3
    order = np.argsort(values[:, 0])
    assert (np.diff(read[order]) >= 0).all()


def test_a_column_that_is_mostly_one_value_is_scaled_by_its_range() -> None:
    reading = NumberReading.of(np.array([[0.0]] * 9 + [[10.0]]))
    constant = NumberReading.of(np.ones((4, 1)))
    assert reading is not None
    assert constant is not None
    assert reading.scale == (0.2,)
    assert constant.scale == (1.0,)
    assert len(constant.edges[0]) == 2


def test_shifts_move_an_image_and_repeat_its_border() -> None:
    images = np.random.default_rng(0).integers(0, 256, (40, 16, 16, 1)).astype(np.uint8)
    reading = ImageReading.of(images, np.ones(40, np.bool_))
    assert reading is not None
    assert reading.shift == 2
    moved = reading.shifted(images, np.random.default_rng(1))
    offsets = set()
    for before, after in zip(images[..., 0], moved[..., 0], strict=True):
        padded = np.pad(before, 2, mode="edge")
        offsets |= {
            (down, right)
            for down in range(5)
            for right in range(5)
            if np.array_equal(padded[down : down + 16, right : right + 16], after)
        }
    assert len(offsets) > 12


def test_only_present_images_are_measured() -> None:
    images = np.full((3, 8, 8, 1), 255, np.uint8)
    images[1] = 0
    reading = ImageReading.of(images, np.array([True, False, True]))
    assert reading is not None
    assert reading.mean == (1.0,)
    assert ImageReading.of(images, np.zeros(3, np.bool_)) is None


def test_inputs_that_the_training_samples_lack_are_left_out() -> None:
    samples = NetworkSamples(
        images=np.zeros((2, 8, 8, 3), np.uint8),
        images_present=np.zeros(2, np.bool_),
        texts=["", " "],
        vectors=np.eye(2),
    )
    assert [spec.name for spec in NetworkReading.of(samples).inputs] == ["vectors"]
    with pytest.raises(UsageError, match="no image, no word and no number"):
        NetworkReading.of(NetworkSamples(texts=["", "..."[:0]]))


def test_samples_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(UsageError, match="at least one of"):
        NetworkSamples()
    with pytest.raises(UsageError, match="equal numbers"):
        NetworkSamples(texts=["a"], vectors=np.zeros((2, 1)))
    reading = NetworkReading.of(NetworkSamples(vectors=np.eye(2)))
    with pytest.raises(UsageError, match="trained on 2"):
        reading.read(NetworkSamples(vectors=np.eye(3)))
    reading = NetworkReading.of(NetworkSamples(images=np.ones((1, 8, 8, 1), np.uint8)))
    with pytest.raises(UsageError, match="trained on uint8"):
        reading.read(NetworkSamples(images=np.ones((1, 8, 9, 1), np.uint8)))
