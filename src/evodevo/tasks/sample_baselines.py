"""Baselines on tasks of samples: a constant answer, and logistic regression on features.

The metrics are those of networks: accuracy where the answer is one class, micro F1 where it is labels.

Shapes: N samples, F features, C classes or labels.
"""

from __future__ import annotations

import hashlib
import warnings
from collections import OrderedDict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evodevo.randomness import generator
from evodevo.tasks.base import NO_TARGET

MOST_SAMPLES = 5_000
"""Largest number of samples for logistic regression; they are drawn with a fixed seed."""
_SPARSE = 0.1
"""Share of entries that are not zero, below which dense features are fitted as sparse ones: counts of words are."""
_MOST_KEPT = 32
_kept: OrderedDict[str, Any] = OrderedDict()
"""Digest of features and targets -> model: a task judges the same ones on one split after the other."""


def constant(train: NDArray[Any], targets: NDArray[Any]) -> float:
    """Metric of the constant answer that is best on the training targets.

    Args:
        train: Training targets, (N,) classes or (N, C) labels.
        targets: Targets of the judged split, in the same form; missing targets are ignored in both.
    """
    if train.ndim == 1:
        commonest = np.bincount(train[train != NO_TARGET]).argmax()
        return _accuracy(np.full(len(targets), commonest), targets)
    train, targets = _complete(train), _complete(targets)
    # The answer is the k most frequent labels, with the k that is best on the training targets.
    order = train.mean(axis=0).argsort()[::-1]
    answers = [np.isin(np.arange(train.shape[1]), order[:count]) for count in range(1, train.shape[1] + 1)]
    best = max(answers, key=lambda answer: micro_f1(np.broadcast_to(answer, train.shape), train))
    return micro_f1(np.broadcast_to(best, targets.shape), targets)


def logistic(train_features: Any, train: NDArray[Any], features: Any, targets: NDArray[Any]) -> float:
    """Metric of scikit-learn's logistic regression with its default regularisation.

    Args:
        train_features: Training features, about 0 to 1, (N, F); dense or a scipy sparse matrix.
        train: Training targets, (N,) classes or (N, C) labels.
        features: Features of the judged split, (M, F).
        targets: Targets of the judged split, (M,) or (M, C).
    """
    known = _known(train)
    chosen = np.sort(generator(0, "baseline").permutation(np.flatnonzero(known))[:MOST_SAMPLES])
    shown = _fewest_bytes(train_features[chosen])
    if train.ndim == 1:
        return _accuracy(_answers(shown, train[chosen], features), targets)
    held = _known(targets)
    answers = [_answers(shown, train[chosen, label], features) for label in range(train.shape[1])]
    return micro_f1(np.stack(answers, axis=1)[held], targets[held])


def micro_f1(answers: NDArray[Any], targets: NDArray[Any]) -> float:
    """2 TP / (2 TP + FP + FN) over all entries; 0 where there is no positive answer and no positive target."""
    positive, true = answers > 0.5, targets > 0.5
    both = int((positive & true).sum())
    return 2 * both / max(1, int(positive.sum()) + int(true.sum()))


def word_counts(tokens: NDArray[np.int64], mask: NDArray[np.bool_] | None, vocabulary: int) -> NDArray[np.float32]:
    """Bag of words: number of occurrences of each id in each row of (N, L) tokens. Shape ``(N, vocabulary)``."""
    counts = np.zeros((len(tokens), vocabulary), np.float32)
    real = np.ones(tokens.shape, bool) if mask is None else mask
    rows, columns = np.nonzero(real)
    np.add.at(counts, (rows, tokens[rows, columns]), 1)
    return counts


def _fewest_bytes(features: Any) -> Any:
    """The same features, as a sparse matrix where few are not zero."""
    from scipy.sparse import csr_matrix, issparse

    if issparse(features) or np.count_nonzero(features) >= _SPARSE * features.size:
        return features
    return csr_matrix(features)


def _answers(features: Any, targets: NDArray[Any], held: Any) -> NDArray[Any]:
    if len(np.unique(targets)) < 2:
        return np.full(held.shape[0], targets[0])
    key = _key(features, targets)
    model = _kept.pop(key, None) or _fitted(features, targets)
    _kept[key] = model
    while len(_kept) > _MOST_KEPT:
        _kept.popitem(last=False)
    answers: NDArray[Any] = model.predict(held)
    return answers


def _key(features: Any, targets: NDArray[Any]) -> str:
    from scipy.sparse import issparse

    arrays = [features.data, features.indices, features.indptr] if issparse(features) else [features]
    hashed = hashlib.sha256(repr(features.shape).encode())
    for one in (*arrays, targets):
        hashed.update(f"{one.dtype}{one.shape}".encode() + one.tobytes())
    return hashed.hexdigest()


def _fitted(features: Any, targets: NDArray[Any]) -> Any:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # 100 iterations are close enough for a baseline
        return LogisticRegression(max_iter=100).fit(features, targets)


def _known(targets: NDArray[Any]) -> NDArray[np.bool_]:
    known: NDArray[np.bool_] = targets != NO_TARGET if targets.ndim == 1 else ~np.isnan(targets).any(axis=1)
    return known


def _complete(targets: NDArray[Any]) -> NDArray[Any]:
    return targets[_known(targets)]


def _accuracy(answers: NDArray[Any], targets: NDArray[Any]) -> float:
    known = _known(targets)
    return float((answers[known] == targets[known]).mean()) if known.any() else 0.0
