"""Opponents: what they score where the answer can be counted by hand, or asked of scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import f1_score

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
