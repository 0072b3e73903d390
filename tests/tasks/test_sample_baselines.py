"""Opponents: what they score where the answer can be counted by hand, or asked of scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix, issparse
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score

from evodevo.tasks import sample_baselines
from evodevo.tasks.sample_baselines import constant, logistic, micro_f1, word_counts

RNG = np.random.default_rng(0)


def test_a_constant_is_the_best_on_training() -> None:
    train, held = np.asarray([0, 1, 1, -1, -1, -1]), np.asarray([1, 1, 0, -1])
    assert constant(train, held) == pytest.approx(2 / 3)

    train = np.asarray([[1, 0, 0]] * 8 + [[1, 1, 0]] * 2, np.float32)
    held = np.asarray([[1, 0, 1], [1, 1, 1]], np.float32)
    # Only the first label is worth saying: 2 true of 2 said and 5 there.
    assert constant(train, held) == pytest.approx(2 * 2 / (2 + 5))


def test_micro_f1_is_scikit_learns() -> None:
    answers, targets = RNG.integers(0, 2, (2, 50, 4))
    assert micro_f1(answers, targets) == pytest.approx(f1_score(targets, answers, average="micro"))
    assert micro_f1(np.zeros((2, 2)), np.zeros((2, 2))) == 0


def test_a_line_finds_a_line_and_ignores_missing_targets() -> None:
    features = RNG.normal(size=(600, 3)).astype(np.float32)
    classes = (features[:, 0] > 0).astype(np.int64)
    spoiled = np.where(np.arange(600) % 3 == 0, -1, classes)
    assert logistic(features[:400], spoiled[:400], features[400:], spoiled[400:]) > 0.95
    labels = np.stack([classes, features[:, 1] > 0, np.ones(600)], axis=1).astype(np.float32)
    labels[::5] = np.nan
    assert logistic(features[:400], labels[:400], features[400:], labels[400:]) > 0.95


def test_bags_of_words_count_only_real_tokens() -> None:
    tokens = np.asarray([[2, 2, 3, 0], [1, 0, 0, 0]])
    counts = word_counts(tokens, tokens != 0, 4)
    np.testing.assert_array_equal(counts, [[0, 0, 2, 1], [0, 1, 0, 0]])
    np.testing.assert_array_equal(word_counts(tokens, None, 4).sum(axis=1), [4, 4])


def test_counts_of_words_are_fitted_as_sparse_features_and_answer_as_scikit_learn_does() -> None:
    tokens = np.random.default_rng(1).integers(0, 200, (500, 5))
    counts, classes = word_counts(tokens, None, 200), (tokens[:, 0] < 100).astype(np.int64)
    train, held = slice(0, 400), slice(400, 500)
    # As many iterations as it needs, so that both arrive at the same minimum.
    dense = LogisticRegression(max_iter=100).fit(counts[train], classes[train])
    assert dense.n_iter_ < 100
    expected = float((dense.predict(counts[held]) == classes[held]).mean())
    assert logistic(counts[train], classes[train], counts[held], classes[held]) == pytest.approx(expected)
    assert issparse(sample_baselines._fewest_bytes(counts))
    assert not issparse(sample_baselines._fewest_bytes(np.abs(counts) + 1))
    sparse = csr_matrix(counts)
    assert logistic(sparse[train], classes[train], sparse[held], classes[held]) == pytest.approx(expected)


def test_one_fit_judges_all_splits_and_other_features_or_targets_have_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fits: list[tuple[int, ...]] = []
    fitted = sample_baselines._fitted

    def counted(features: object, targets: np.ndarray) -> object:
        fits.append(targets.shape)
        return fitted(features, targets)

    monkeypatch.setattr(sample_baselines, "_fitted", counted)
    monkeypatch.setattr(sample_baselines, "_kept", type(sample_baselines._kept)())
    features = np.random.default_rng(2).normal(size=(300, 3)).astype(np.float32)
    classes = (features[:, 0] > 0).astype(np.int64)
    train = features[:100], classes[:100]
    first = logistic(*train, features[100:200], classes[100:200])
    assert logistic(*train, features[100:200], classes[100:200]) == first
    logistic(*train, features[200:], classes[200:])
    assert len(fits) == 1
    moved = features[:100].copy()
    moved[0, 0] += 1
    logistic(moved, classes[:100], features[200:], classes[200:])
    logistic(features[:100], 1 - classes[:100], features[200:], classes[200:])
    logistic(features[:100].reshape(50, 6), classes[:50], features[200:].reshape(50, 6), classes[200:250])
    assert len(fits) == 4
    for count in range(sample_baselines._MOST_KEPT):
        logistic(features[:60] + count, classes[:60], features[100:], classes[100:])
        logistic(*train, features[100:], classes[100:])
    assert len(fits) == 4 + sample_baselines._MOST_KEPT, "what is used again is kept longest"
    assert len(sample_baselines._kept) == sample_baselines._MOST_KEPT
