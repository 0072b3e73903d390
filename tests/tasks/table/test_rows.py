"""Rows of named columns."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evodevo.errors import DataError
from evodevo.tasks.table import rows

# What both formats hold: no NUL, no surrogates; a bare carriage return has no meaning of its own in CSV.
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\ufeff"), max_size=20)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rows")


@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=5))
def test_what_was_written_is_read(folder: Path, pairs: list[tuple[str, str]]) -> None:
    lines = folder / "a.jsonl.gz"
    with gzip.open(lines, "wt", encoding="utf-8", newline="") as stream:
        stream.writelines(json.dumps({"b": b, "a": a}, ensure_ascii=False) + "\n" for a, b in pairs)
    assert list(rows.read(lines, ("a", "b"))) == pairs
    written = io.StringIO(newline="")
    csv.writer(written, quoting=csv.QUOTE_ALL).writerows([("b", "a"), *((b, a) for a, b in pairs)])
    table = folder / "a.csv"
    table.write_text(written.getvalue(), encoding="utf-8", newline="")
    assert list(rows.read(table, ("a", "b"))) == pairs


def test_numbers_and_booleans_become_text_a_byte_order_mark_goes_and_a_damaged_archive_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\n\n{"a": true}\n{"a": "x"}')
    assert list(rows.read(path, ["a"])) == [("1",), ("True",), ("x",)]
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"text,label\n" * 100)[:40])
    with pytest.raises(DataError, match="cannot be read"):
        list(rows.read(path, ("text", "label")))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"text": "x", "label": "y"}\n{"text": "x", "lable": "y"}\n', "line 2 has no .*There: text, lable"),
        ("a.jsonl", '{"label": "x", "text": null}\n', "'text' holds NoneType"),
        ("a.jsonl", '{"label": "x", "text": 1.5}\n', "'text' holds float"),
        ("a.jsonl", '["x"]\n', "line 1 is not a JSON object"),
        ("a.jsonl", "{text: x}\n", "line 1 is not valid JSON"),
        ("a.jsonl", '{"label": "x", "text": "\\ud800"}\n', "half a surrogate pair"),
        ("a.csv", "label,txt\nx,y\n", r"line 1 has no column 'text'\. Did you mean 'txt'\?"),
        ("a.csv", "label,text\nx,y,z\n", "line 2 has 3 values for 2 columns"),
        ("a.csv", 'label,text\nx,"y\n', "not CSV"),
        ("a.csv", "", "no column 'text'"),
        ("a.tsv", "label\ttext\n", "neither .jsonl nor .csv"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, name: str, content: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        list(rows.read(path, ("text", "label")))
