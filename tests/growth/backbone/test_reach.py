"""When a training reached a loss."""

from __future__ import annotations

import pytest

from evodevo.growth.backbone.reach import first_at

CURVE = [(10.0, 3.0), (20.0, 2.0), (30.0, 2.2), (40.0, 1.0)]


@pytest.mark.parametrize(
    ("target", "place"), [(3.5, 10.0), (3.0, 10.0), (2.5, 15.0), (2.0, 20.0), (1.6, 35.0), (1.0, 40.0), (0.9, None)]
)
def test_the_first_fall_counts_and_lies_between_two_points(target: float, place: float | None) -> None:
    found = first_at(CURVE, target)
    assert found is place or found == pytest.approx(place)
