"""Draws without arrays are the draws of NumPy's ``choice``: what a recorded run proposes depends on it."""

from __future__ import annotations

import numpy as np
import pytest

from evodevo.randomness import draw_one, draw_weighted, generator


@pytest.mark.parametrize("options", [(7,), (3, 1, 2), range(5, 105)])
def test_one_of_the_options_is_drawn_as_choice_draws_it(options: tuple[int, ...] | range) -> None:
    ours, theirs = generator(1, "one"), generator(1, "one")
    for _ in range(200):
        assert draw_one(options, ours) == theirs.choice(list(options))
    assert ours.random() == theirs.random()


@pytest.mark.parametrize(
    "weights", [(1.0,), (5.0, 1.5, 1.5, 0.5, 2.0, 1.0), (0.0, 1.0, 0.0, 3.0, 0.0), (1e-9, 1.0, 0.1)]
)
def test_an_index_is_drawn_by_weights_as_choice_draws_it(weights: tuple[float, ...]) -> None:
    ours, theirs = generator(2, "weighted"), generator(2, "weighted")
    chances = np.array(weights) / np.sum(weights)
    for _ in range(500):
        assert draw_weighted(weights, ours) == theirs.choice(len(weights), p=chances)
    assert ours.random() == theirs.random()


def test_nothing_is_drawn_from_no_options() -> None:
    with pytest.raises(ValueError, match="high"):
        draw_one((), generator(0))
