"""The kind of a column is found by its values."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evodevo.errors import DataError, UsageError
from evodevo.tasks.rows import columns, sources
from evodevo.tasks.rows.samples import MISSING_CODE, OTHER_CODE, RowReading

CASES = [
    (["1.5", "", "3", "NA", "-2e3"] * 5, "number"),
    ([*["7", "8.5"] * 20, "unknown"], "number"),
    (["red", "blue", "red", ""] * 5, "category"),
    (["2024-01-31", "2023-05-02", "?"] * 4, "date"),
    (["31.12.2023", "01.02.2024"] * 4, "date"),
    (["12/31/2023 10:30", "01/02/2024 08:00"] * 4, "date"),
    ([f"a text of some words {n}" for n in range(12)], "text"),
    ([f"code-{n}" for n in range(40)], "text"),
    (["[1, 2.5, null]", "[0, 1, 2]"] * 3, "vector"),
    ([str(n) for n in range(100, 140)], "ignored"),
    (["same"] * 9, "ignored"),
    (["", "nan"] * 4, "ignored"),
]


@pytest.mark.parametrize(("cells", "kind"), CASES)
def test_kind(cells: list[str], kind: str) -> None:
    found = columns.find("x", cells, None)
    assert found.kind == kind
    assert bool(found.reason) == (kind == "ignored")


def test_dates_become_days_and_parts() -> None:
    assert columns.date("1970-01-02T12:00:00", columns.ISO) == (1.5, 1.0, 4.0, 12.0)
    assert columns.date("02.01.1970", "%d.%m.%Y") == (1.0, 1.0, 4.0, 0.0)
    assert columns.date("tomorrow", columns.ISO) is None


def test_what_training_did_not_have_is_other_and_what_is_gone_is_missing() -> None:
    rows = sources.read({"colour": ["red", "blue"] * 5, "size": ["1", "2.5"] * 5, "y": ["a", "b"] * 5})
    reading = RowReading.of(rows, ("y",))
    found = reading.read(sources.read({"colour": ["red", "", "green"], "more": ["1", "2", "3"]}))
    assert found.codes[1, 0] == MISSING_CODE
    assert found.codes[2, 0] == OTHER_CODE
    assert found.codes[0, 0] > OTHER_CODE
    assert all(math.isnan(value) for value in found.numbers[:, 0])


def test_cells_of_a_frame_and_of_a_file_are_the_same(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.25, None, 3.0], "b": ["x", None, "z"], "c": [True, False, True]})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    direct, read = sources.read(frame), sources.read(tmp_path / "rows.csv")
    assert direct.cells["a"] == read.cells["a"] == ["1.25", "", "3.0"]
    assert direct.cells["b"] == read.cells["b"]
    assert direct.cells["c"] == read.cells["c"]


class Frame:
    """What a data frame has."""

    columns = ("a", 2)

    def __getitem__(self, name: object) -> np.ndarray[Any, Any]:
        return np.asarray([1.5, np.nan]) if name == "a" else np.asarray(["x", None], object)


def test_whatever_has_columns_is_read_like_a_frame() -> None:
    found = sources.read(Frame())
    assert found.cells == {"a": ["1.5", ""], "2": ["x", ""]}


def test_images_above_the_image_size_are_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pattern of single pixels is there at its own size, and gone at half of it."""
    stripes = np.zeros((10, 128, 96, 1), np.uint8)
    stripes[:, ::2] = 200
    rows = sources.read({"image": stripes, "y": ["a", "b"] * 5})
    whole, usual = RowReading.of(rows, ("y",), image_size=128), RowReading.of(rows, ("y",))
    assert whole.shapes == ((128, 96, 1),)
    np.testing.assert_array_equal(whole.read(rows).images[0], stripes)
    assert usual.shapes == ((64, 48, 1),)
    assert np.ptp(usual.read(rows).images[0]) < 100
    assert RowReading.of(rows, ("y",), image_size=500).shapes == ((128, 96, 1),)
    for wrong in (0, -3, 1025):
        with pytest.raises(UsageError, match="1 to 1024"):
            RowReading.of(rows, ("y",), image_size=wrong)
    monkeypatch.setattr("evodevo.tasks.rows.samples.MAX_BYTES", 10 * 128 * 96 - 1)
    with pytest.raises(DataError, match="smaller image size"):
        RowReading.of(rows, ("y",), image_size=128)
    RowReading.of(rows, ("y",))
