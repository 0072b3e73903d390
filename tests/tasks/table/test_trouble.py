"""What is wrong with a user's table, and what is said about it."""

from __future__ import annotations

import io
import json
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from evodevo.errors import DataError, MissingExtraError, UnsafeFileError, UsageError
from evodevo.settings import validate
from evodevo.tasks.table.images import cropped
from evodevo.tasks.table.task import TableSettings, TableTask

ROWS = "".join(f"word{number},{number},{'ab'[number % 2]}\n" for number in range(40))


def _open(folder: Path, content: str | bytes, name: str = "a.csv", **settings: Any) -> TableTask:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return TableTask.open(validate(TableSettings, {"data": str(path), **settings}, what="settings"), folder / "cache")


def _images(folder: Path, count: int = 40) -> str:
    """Images 0.png, 1.png, ..., each named by a row."""
    for number in range(count):
        Image.fromarray(np.full((4, 4), 3 * number, np.uint8)).save(folder / f"{number}.png")
    return "image,label\n" + "".join(f"{number}.png,{'ab'[number % 2]}\n" for number in range(count))


@pytest.mark.parametrize(
    ("content", "settings", "message"),
    [
        ("text,age,class\n" + ROWS, {}, r"no answer is named.*there: text, age, class"),
        ("text,age,class\n" + ROWS, {"label": "clas"}, r"no column 'clas'\. Did you mean 'class'\?"),
        ("text,age,label\n" + ROWS, {"text": "txet"}, r"no column 'txet'\. Did you mean 'text'"),
        ("text,age,label\n" + ROWS, {"vectors": ["age", "agee"]}, "no column 'agee'"),
        ("body,age,label\n" + ROWS, {}, "no input is named"),
        ("text,age,label\n", {}, "has no rows"),
        ("", {}, "has no rows"),
        ("text|label\nx|y\n", {}, "no input is named"),
        ("text\nx\n", {"text": "text"}, "no answer is named"),
        ("text;label\nx;y;z\n", {"text": "text", "label": "label"}, "3 values for 2 columns.*hold semicolons between"),
        ("text,text,label\n" + ROWS, {}, "names the columns text more than once"),
        ("text,age,label\n" + "x" * 200_000 + ",1,a\n", {}, r"line 2 is not CSV: field larger"),
        (b"text,label\n\xff\xe9,a\n", {}, r"not UTF-8 \(byte 11"),
        (b"\xff\xfet\0e\0", {}, "UTF-16"),
        ("text,age,label\n" + ROWS.replace(",b", ",a"), {}, r"only the class 'a'.*two classes at least"),
        (
            "text,age,label\n" + ROWS.replace(",a", ",").replace(",b", ","),
            {},
            "no row is left of 40: 40 have no answer",
        ),
        (
            "text,age,label\n" + "".join(f"w{number},{number},{number / 7}\n" for number in range(400)),
            {},
            "look like numbers or names, not classes",
        ),
        (
            "text,age,label\n" + "".join(f"w{number},{number},class {number}\n" for number in range(40)),
            {},
            r"none of the \d+ validation rows has a class that training rows have",
        ),
        ("text,age,label\n" + ROWS, {"vectors": "text"}, r"40 rows with.*row 3.*and 37 more.*skip_corrupt"),
        ("text,age,label\nw,1,a\nv,2,b\n", {}, "2 samples in 2 groups cannot be divided into 4 splits"),
        ("text,age,label\n" + ROWS, {"text": "text", "label": "age", "match": "label"}, "two inputs"),
        ("text,age,label\n" + ROWS, {"vectors": "age", "text": "text", "match": "label"}, "holds 'a'; allowed"),
        ("text,age,label\n" + ROWS, {"text": "text", "tokenizer": "nowhere.json"}, "no tokenizer file"),
        ("text,age,label\n" + ROWS, {"text": "text", "tokenizer": "bpe", "vocabulary": 200}, "257 at least"),
    ],
)
def test_a_table_that_cannot_be_used_says_why(tmp_path: Path, content: Any, settings: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        _open(tmp_path, content, **settings)


def test_no_file_and_no_table(tmp_path: Path) -> None:
    for settings in (TableSettings(), TableSettings(data=str(tmp_path / "nowhere.csv"))):
        with pytest.raises(DataError, match=r"\.csv or \.jsonl file"):
            TableTask.open(settings, tmp_path)
    with pytest.raises(DataError, match="is no table"):
        _open(tmp_path, "x", name="a.xlsx")
    with pytest.raises(DataError, match="'text' holds dict"):
        _open(tmp_path, '{"text": {"a": 1}, "label": "a"}\n', name="a.jsonl")


@pytest.mark.parametrize(
    "settings", [{"test": "a.csv"}, {"data": "a", "test_images": "b"}, {"data": "a", "size": [0, 4]}, {"box": "b"}]
)
def test_settings_that_do_not_go_together(settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        validate(TableSettings, settings, what="settings")


def test_unreadable_images_are_counted_and_the_first_named_or_left_out(tmp_path: Path) -> None:
    table = _images(tmp_path)
    (tmp_path / "3.png").write_bytes(b"no image")
    whole = (tmp_path / "5.png").read_bytes()
    (tmp_path / "5.png").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "8.png").unlink()
    (tmp_path / "9.png").write_bytes(_bomb())
    with pytest.raises(
        DataError, match=r"4 rows with images.*row 4: .*3\.png.*row 6: .*row 9: .*; and 1 more\)"
    ) as error:
        _open(tmp_path, table)
    assert "begins so; row 6" in str(error.value)
    assert "No such file or directory; and 1" in str(error.value)
    assert "object at 0x" not in str(error.value)
    task = _open(tmp_path, table, skip_corrupt=True)
    assert sum(task.count(split) for split in task.splits) == 36
    about = task.describe()
    assert about["left_out"]["image_unreadable"] == 4
    assert "row 10" in about["unreadable"][3]
    assert "900000000 pixels" in about["unreadable"][3]


def test_what_is_asked_later_is_refused_without_advice_that_comes_too_late(tmp_path: Path) -> None:
    task = _open(tmp_path, _images(tmp_path))
    (tmp_path / "3.png").write_bytes(b"no image")
    with pytest.raises(DataError, match="1 row with images") as error:
        list(task.read_rows(tmp_path / "a.csv", 8))
    assert "skip_corrupt" not in str(error.value)
    with pytest.raises(DataError, match="Give another image") as error:
        task.read_sample({"image": str(tmp_path / "3.png")})
    assert "skip_corrupt" not in str(error.value)
    with pytest.raises(UnsafeFileError, match="outside"):
        _open(tmp_path, (tmp_path / "a.csv").read_text().replace("0.png", "../../etc/passwd", 1), skip_corrupt=True)


def test_a_wrong_box_is_an_unreadable_image(tmp_path: Path) -> None:
    table = _images(tmp_path).replace("label", "label,box").replace("a\n", 'a,"1,1,2,2"\n').replace("b\n", "b,\n")
    task = _open(tmp_path, table, image="image", box="box", size=[4, 4])
    assert sum(task.count(split) for split in task.splits) == 40
    for wrong, reason in (("7,7,2,2", "outside"), ("1,1,0,2", "above 0"), ("1,1,2", "x, y, width, height")):
        with pytest.raises(DataError, match=f"row 1: .*{reason}"):
            _open(tmp_path, table.replace("1,1,2,2", wrong, 1), image="image", box="box")
    # A box shows what lies in the image and never the other end.
    image = np.arange(30, dtype=np.uint8).reshape(5, 6, 1)
    assert np.array_equal(cropped(image, (-2, -1, 4, 4), "a.png"), image[:3, :2])
    with pytest.raises(DataError, match="outside"):
        cropped(image, (-4, -4, 3, 3), "a.png")


def test_numbers_that_are_none_are_refused_or_left_out_if_asked(tmp_path: Path) -> None:
    table = "text,age,label\n" + ROWS.replace(",7,", ",seven,")
    with pytest.raises(DataError, match=r"1 row with numbers.*row 8: 'seven'"):
        _open(tmp_path, table, vectors="age")
    task = _open(tmp_path, table, text="text", vectors="age", skip_corrupt=True)
    assert task.describe()["numbers_unreadable"] == 1
    assert task.describe()["rows_without"]["vectors"] == 1


def test_empty_texts_are_missing_and_rows_without_anything_left_out(tmp_path: Path) -> None:
    lines = [f"{'' if number % 4 == 0 else f'word{number}'},{number if number % 8 else ''}" for number in range(80)]
    table = "text,age,label\n" + "".join(f"{line},{'ab'[at % 3 == 0]}\n" for at, line in enumerate(lines))
    task = _open(tmp_path, table, text="text", vectors="age")
    assert task.describe()["left_out"]["no_input"] == 10
    assert sum(missing["text"] for missing in task.describe()["missing"].values()) == 10


def test_upright_and_grey_as_other_tasks_read_them(tmp_path: Path) -> None:
    table = _images(tmp_path)
    turned = Image.fromarray(np.arange(16, dtype=np.uint8).reshape(4, 4))
    exif = Image.Exif()
    exif[0x0112] = 6  # a quarter turn clockwise shows it upright
    turned.save(tmp_path / "0.png", exif=exif)
    task = _open(tmp_path, table)
    shown = {i.tobytes() for split in task.splits for i in task.fetch(split, np.arange(task.count(split)))["image"]}
    assert np.rot90(np.arange(16, dtype=np.uint8).reshape(4, 4), -1).tobytes() in shown
    assert task.inputs[0].channels == 1
    # Several sizes become one.
    Image.fromarray(np.zeros((9, 5), np.uint8)).save(tmp_path / "20.png")
    task = _open(tmp_path, table)
    assert (task.inputs[0].height, task.inputs[0].width) == (64, 64)
    assert _open(tmp_path, table, size=[5, 6]).inputs[0].width == 6


def test_parquet_reads_as_lines_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="needs evodevo[data]")
    from pyarrow import parquet

    columns = {
        "text": [f"w{number}" if number % 5 else None for number in range(40)],
        "age": [[number / 3, float("nan") if number % 7 == 0 else 1.0] for number in range(40)],
        "label": [bool(number % 2) for number in range(40)],
    }
    parquet.write_table(pyarrow.table(columns), tmp_path / "b.parquet")
    settings = {"text": "text", "vectors": "age"}
    task = _open(tmp_path, (tmp_path / "b.parquet").read_bytes(), name="a.parquet", **settings)
    lines = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    text = "".join(json.dumps(line).replace("NaN", "null") + "\n" for line in lines)
    assert _open(tmp_path, text, name="a.jsonl", **settings).digest == task.digest
    with pytest.raises(DataError, match="not a readable parquet file"):
        _open(tmp_path, "x", name="c.parquet", **settings)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"evodevo\[data\]"):
        _open(tmp_path, (tmp_path / "b.parquet").read_bytes(), name="d.parquet", **settings)


def _bomb() -> bytes:
    """A small PNG that states 900 million pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    written = io.BytesIO(b"\x89PNG\r\n\x1a\n")
    written.seek(0, io.SEEK_END)
    written.write(chunk(b"IHDR", struct.pack(">IIBBBBB", 30_000, 30_000, 8, 0, 0, 0, 0)))
    written.write(chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b""))
    return written.getvalue()
