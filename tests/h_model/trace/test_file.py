"""Which connections of a trace count (H-Model; docs/spec/h_model.md#forward-pass)."""

from __future__ import annotations

import numpy as np
import pytest

from fixtures.traces import trace_of


@pytest.mark.parametrize(("iterations", "usable"), [(0, 2 * 1), (1, 2 * 4 + 3 * 1), (4, 2 * 4 + 3 * 3 * 4 + 3 * 1)])
def test_only_what_somebody_could_hear_is_usable(iterations: int, usable: int) -> None:
    # Two inputs, three hidden layers, one output; every weight is 1/2 wherever a weight can be.
    trace = trace_of(np.full((5, 2, 4), 0.5), np.full((5, iterations, 3, 4), 0.5))
    assert trace.usable().shape == (5, usable)
    assert (trace.usable() == 0.5).all()
    assert trace.select(np.asarray([], np.int64)).usable().shape == (0, usable)
