"""Fingerprints decide splits."""

from __future__ import annotations

import numpy as np
import pytest

from evodevo.errors import DataError
from evodevo.tasks.base import SPLITS, check_key
from evodevo.tasks.generated import belongs, mix


def test_each_fingerprint_belongs_to_one_split() -> None:
    fingerprints = mix(np.arange(100_000))
    inside = {split: belongs(fingerprints, split) for split in SPLITS}
    np.testing.assert_array_equal(sum(one.astype(int) for one in inside.values()), 1)
    for split, share in {"train": 12 / 16, "validation": 2 / 16, "test": 2 / 16}.items():
        assert abs(inside[split].mean() - share) < 0.01
    assert len(np.unique(fingerprints)) == 100_000, "mixing is one to one"


def test_keys_that_differ_are_told() -> None:
    check_key("a" * 64, None, "the data")
    check_key("a" * 64, "a" * 64, "the data")
    with pytest.raises(DataError, match=r"the data is not what it was.*aaaaaaaaaaaa.*bbbbbbbbbbbb"):
        check_key("a" * 64, "b" * 64, "the data")
