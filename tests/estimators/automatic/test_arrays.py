"""The files of arrays: equal arrays are stored once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from evodevo.errors import DataError
from evodevo.estimators.automatic.candidates.arrays import from_safetensors, to_safetensors
from evodevo.estimators.automatic.source.predict import read_arrays


def test_equal_arrays_are_stored_once_and_read_as_they_were(tmp_path: Path) -> None:
    large, other = np.arange(300.0), np.arange(300.0) + 1
    given = {
        "a": large,
        "b": other,
        "c": large.copy(),
        "d": np.float32(2.0),
        "e": large.astype(np.float32),
        "f": large[:3],
    }
    # The same bytes of another type or shape are another array.
    given |= {"g": np.zeros(200), "h": np.zeros(200, np.int64), "i": np.zeros((2, 100))}
    data = to_safetensors(given)
    assert len(data) < len(to_safetensors({**given, "c": other + 1}))
    (tmp_path / "arrays.safetensors").write_bytes(data)
    for found in (from_safetensors(data, "a file"), read_arrays(tmp_path / "arrays.safetensors")):
        assert found.keys() == given.keys()
        for name, array in given.items():
            np.testing.assert_array_equal(found[name], array)
            assert found[name].dtype == array.dtype
    for same in ('{"x": "nothing"}', '{"a": "b"}', "[]", '{"x": ["a"]}'):
        with pytest.raises(DataError, match="names arrays"):
            from_safetensors(save({"a": large, "b": other}, {"same": same}), "a file")
    with pytest.raises(DataError, match="a file"):
        from_safetensors(save({"a": large}, {"same": "{"}), "a file")
