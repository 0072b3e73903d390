"""Files that state what is not there, or ask for what nobody has: one error each, which names the file."""

from __future__ import annotations

import datetime
import decimal
import io
import json
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from evodevo.errors import DataError, UsageError
from evodevo.settings import assign, read_toml
from evodevo.tasks import parquet
from evodevo.tasks.images.arrays import open_arrays
from evodevo.tasks.images.pixels import decode
from evodevo.tasks.table import tables
from evodevo.tasks.text import tokenizers


def _npy(shape: str, kind: str = "'|u1'", data: bytes = b"") -> bytes:
    header = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (_npy("(10000000000000,)", data=bytes(9)), "states 10,000,000,000,000 bytes"),
        (_npy("(4294967296, 4294967296)"), "states 18,446,744,073,709,551,616 bytes"),
        (_npy("(1,)", "'|O'", b"\x80\x04."), "no Python objects"),
        (_npy("(-1, -9)"), "which no array has"),
        (_npy("(9,)", data=bytes(3)), "states 9 bytes|too early"),
        (b"no array", "not a readable .npz"),
        (_npy("(" * 5000), "not a readable .npz"),
    ],
)
def test_arrays_that_are_not_there(tmp_path: Path, member: bytes, message: str) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", member)
    with pytest.raises(DataError, match=message) as error:
        open_arrays(tmp_path / "a.npz")
    assert "a.npz" in str(error.value)


def test_arrays_with_a_password_and_bombs(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", _npy("(100000000,)", data=bytes(10**8)))
    with pytest.raises(DataError, match="200 times its size"):
        open_arrays(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", x=np.zeros(3))
    data = bytearray((tmp_path / "a.npz").read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "a.npz").write_bytes(data)
    with pytest.raises(DataError, match="password"):
        open_arrays(tmp_path / "a.npz")


def test_plain_arrays_are_as_numpy_reads_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    given = {
        "f": np.asfortranarray(rng.normal(size=(3, 5, 2))),
        "empty": np.zeros((0, 4), np.int16),
        "one": np.asarray(7, ">i4"),
        "text": np.asarray(["a", "größer"]),
        "x": rng.integers(0, 255, (2, 3, 3)).astype(np.uint8),
    }
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "a.npz", **given)
        found = open_arrays(tmp_path / "a.npz")
        assert list(found) == list(given)
        for name, array in given.items():
            np.testing.assert_array_equal(found[name], array)
            assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)


def test_a_picture_of_more_pixels_than_memory() -> None:
    from PIL import Image

    out = io.BytesIO()
    Image.new("L", (1, 1)).save(out, "PNG")
    data = out.getvalue()
    head = struct.pack(">II", 10**5, 10**5)
    with pytest.raises(DataError, match=r"the image a\.png"):
        decode(data[:16] + head + data[24:], "a.png")
    with pytest.raises(DataError, match="no image format"):  # a program for a printer
        decode(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n", "a.png")


def test_dates_and_decimals_become_text_and_tables_do_not(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="needs evodevo[data]")
    from pyarrow import parquet as library

    columns = {
        "day": [datetime.date(2026, 1, 2), None],
        "time": [datetime.datetime(2026, 1, 2, 3, 4, 5), None],
        "price": [decimal.Decimal("1.50"), None],
        "inner": [{"a": 1}, None],
        "text": pyarrow.array(["a", "b"]).dictionary_encode(),
    }
    library.write_table(pyarrow.table(columns), tmp_path / "a.parquet", row_group_size=1)
    table = tables.read(tmp_path / "a.parquet")
    assert table.some(["day", "time", "price", "absent"]) == {
        "day": ["2026-01-02", ""],
        "time": ["2026-01-02T03:04:05", ""],
        "price": ["1.50", ""],
    }
    with pytest.raises(DataError, match="row 1: 'inner' holds dict"):
        table["inner"]
    assert list(parquet.texts(tmp_path / "a.parquet", "text", lambda: 100)) == [b"a", b"b"]
    with pytest.raises(DataError, match=r"a\.parquet: 'text' holds more than 1 bytes"):
        parquet.columns(tmp_path / "a.parquet", ["text"], 1)


def _tokenizer(path: Path, ids: dict[str, int], **more: object) -> Path:
    model = {"type": "WordLevel", "vocab": ids, "unk_token": "a", **more}
    path.write_text(json.dumps({"version": "1.0", "added_tokens": [], "model": model}))
    return path


def test_tokenizers_with_ids_beyond_all_tables(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    assert tokenizers.read_tokenizer_file(_tokenizer(file, {"a": 0, "b": 1})).vocabulary == 2
    for number in (2**22, 2**31, 2**63):
        with pytest.raises(DataError, match=r"tokenizer\.json.*ids below 4,194,304"):
            tokenizers.read_tokenizer_file(_tokenizer(file, {"a": 0, "b": number}))
    with pytest.raises(DataError, match=r"tokenizer\.json.*without holes"):
        tokenizers.read_tokenizer_file(_tokenizer(file, {"a": 0, "b": 100_000}))


def test_a_word_without_end_is_learned_in_parts_and_nothing_else_changes() -> None:
    from tokenizers.pre_tokenizers import ByteLevel

    pieces = tokenizers._without_long_runs
    words = ByteLevel(add_prefix_space=False)
    for text in ("some words\n\n  and more", "a" * 1024, "ab1-" * 3000, ""):
        assert list(pieces(text, words)) == [text]
    for text in (f"before {'a' * 5000} after", " " * 5000 + "x", "é" * 3000):
        found = list(pieces(text, words))
        assert "".join(found) == text
        assert all(end - begin <= 1025 for piece in found for _, (begin, end) in words.pre_tokenize_str(piece))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = " + "9" * 5000, "more than 30 digits"),
        ("a = " + "[" * 10_000 + "]" * 10_000, "deeper than 64"),
        ("a = " + "{a=" * 10_000, "deeper than 64"),
        (".".join("a" * 100_000) + " = 1", "deeper than 64"),
        ("[" + " . ".join("a" * 100_000) + "]", "deeper than 64"),
        ("a = 1\na = 2", "Cannot overwrite"),
    ],
)
def test_settings_without_end(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(UsageError, match=rf"a\.toml is not a readable TOML file: .*{message}"):
        read_toml(tmp_path / "a.toml")


def test_brackets_and_digits_in_texts_are_text(tmp_path: Path) -> None:
    deep, digits = "[{" * 100, "1" * 100
    (tmp_path / "a.toml").write_text(
        f"a = \"{deep}\\\"\"\nb = '{digits}'\nc = '''\n{deep}'''\nd = 1 # {deep} {digits}\n"
    )
    assert read_toml(tmp_path / "a.toml") == {"a": f'{deep}"', "b": digits, "c": deep, "d": 1}
    values: dict[str, object] = {}
    assign(values, "a", digits)
    assert values == {"a": digits}
    with pytest.raises(UsageError, match="at most 64 parts"):
        assign(values, ".".join("a" * 100), "1")
