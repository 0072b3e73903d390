"""The task of rows: the laws, what each kind of column becomes, files of every form, and what is refused."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from evodevo.errors import DataError
from evodevo.settings import validate
from evodevo.tasks.rows import vectors
from evodevo.tasks.rows.task import RowsSettings, RowsTask
from evodevo.testing.tasks import SampleTaskTests
from fixtures.clients import client_rows, client_text


def opened(folder: Path, text: str, **settings: Any) -> RowsTask:
    (folder / "t.csv").write_text(text)
    return RowsTask.open(validate(RowsSettings, {"data": str(folder / "t.csv"), **settings}, what="s"), folder / "c")


class TestRows(SampleTaskTests):
    task_class = RowsTask
    settings: ClassVar[Any]

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _files(cls, tmp_path_factory: pytest.TempPathFactory) -> None:
        folder = tmp_path_factory.mktemp("rows")
        (folder / "a.csv").write_text(client_text())
        (folder / "b.csv").write_text(client_text(seed=1))
        (folder / "a.csv.gz").write_bytes(gzip.compress(client_text().encode()))
        data = str(folder / "a.csv")
        cls.settings = RowsSettings(data=data)
        cls.decisive = (
            RowsSettings(data=data, ignore=("age",)),
            RowsSettings(data=data, label="job"),
            RowsSettings(data=data, test=str(folder / "b.csv")),
            RowsSettings(data=data, validation=str(folder / "b.csv")),
            RowsSettings(data=str(folder / "b.csv")),
        )
        cls.indifferent = (RowsSettings(data=str(folder / "a.csv.gz")), RowsSettings(data=data, label="label"))


def test_numbers_indicators_and_codes(tmp_path: Path) -> None:
    task = opened(tmp_path, client_text())
    names = vectors.names_of(task.reading)
    assert names[:3] == ("age", "income", "since (days)")
    assert names[6:9] == ("age is missing", "income is missing", "since (days) is missing")
    assert names[12:14] == ("job = (missing)", "job = (other)")
    assert set(names[14:]) == {"job = smith", "job = baker", "job = clerk"}
    assert len(names) == task.inputs[0].size == vectors.size_of(task.reading)
    row = dict(zip(names, task.read_sample({"income": "1500.5", "job": "sailor"})[vectors.ROW][0], strict=True))
    told = {name: value for name, value in row.items() if value}
    assert told.pop("income") == 1500.5
    missing = ("age", "since (days)", "since (month)", "since (weekday)", "since (hour)")
    assert told == {f"{name} is missing": 1 for name in missing} | {"job = (other)": 1}
    about = task.describe()
    assert about["columns"] == {"number": 2, "category": 1, "date": 1}
    assert about["left_out"] == {"remark": "it holds text", "nothing": "it is empty"}
    assert about["label"] == "label"
    (batch,) = task.read_rows(tmp_path / "t.csv", 1000)
    stored = {row.tobytes() for split in task.splits for row in task.fetch(split, np.arange(task.count(split)))["row"]}
    assert {row.tobytes() for row in batch["row"]} == stored


def test_files_of_every_form_are_the_same_task(tmp_path: Path) -> None:
    plain = opened(tmp_path, client_text()).describe()["samples"]
    lines = "\n".join(map(json.dumps, client_rows())).encode()
    for name, content in (("a.jsonl", lines), ("a.jsonl.xz", lzma.compress(lines))):
        (tmp_path / name).write_bytes(content)
        task = RowsTask.open(RowsSettings(data=str(tmp_path / name)), tmp_path / "c")
        assert task.describe()["columns"] == {"number": 2, "category": 1, "date": 1}
        assert task.describe()["samples"] == plain
    x = np.random.default_rng(0).normal(size=(90, 5))
    np.savez(tmp_path / "v.npz", x=x, y=(x[:, 0] > 0).astype(int))
    task = RowsTask.open(RowsSettings(data=str(tmp_path / "v.npz")), tmp_path / "c")
    assert (task.inputs[0].size, task.outputs[0].names) == (10, ("0", "1"))


def test_a_parquet_file(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.Table.from_pylist(client_rows()), tmp_path / "a.parquet")
    task = RowsTask.open(RowsSettings(data=str(tmp_path / "a.parquet")), tmp_path / "c")
    assert task.describe()["columns"] == {"number": 2, "category": 1, "date": 1}


def test_rows_without_a_class_are_left_out_and_counted(tmp_path: Path) -> None:
    task = opened(tmp_path, client_text() + "33,1000,clerk,2001-01-15,x,,\n")
    assert task.describe()["without_class"] == 1
    assert sum(task.describe()["samples"].values()) == 160


@pytest.mark.parametrize(
    ("text", "settings", "words"),
    [
        (
            "a,b\n1,2\n3,4\n",
            {},
            r"no column 'label' \(there: .*a.*b.*\)\. Name the column of the class: --label COLUMN",
        ),
        (client_text(), {"label": "lable"}, "no column 'lable'. Did you mean 'label'"),
        (client_text(), {"ignore": ("agee",)}, "no column 'agee'. Did you mean 'age'"),
        ("a,label\n" + ",x\n,y\n" * 20, {}, "no column to learn from .*'a': it is empty"),
        ("a,label\n" + "1,x\n2,x\n" * 20, {}, "one class alone, 'x'; two classes or more are needed"),
        ("a,label\n" + "".join(f"{n % 3},{n * 1.5}\n" for n in range(60)), {}, "a quantity and no class"),
        ("a,label\n" + "".join(f"some words of a text {n},{'xy'[n % 2]}\n" for n in range(60)), {}, "it holds text"),
        ("a,label\n1,x\n2,y\n", {}, "leave the .* split empty"),
    ],
)
def test_tables_that_make_no_task_are_refused(tmp_path: Path, text: str, settings: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        opened(tmp_path, text, **settings)


def test_without_data(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the task 'rows' has no data of its own"):
        RowsTask.open(RowsSettings(), tmp_path)
