"""Reading documents: every kind of file, and one clear error for each kind of bad input."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from evodevo.errors import DataError, ExitCode
from evodevo.tasks.text import corpus

DOCUMENTS = (b"one\n", "zwei und \u00e4\u00f6\u00fc\n".encode(), b"three lines\nof\ntext")


def _json_lines() -> bytes:
    return "".join(json.dumps({"title": 1, "text": text.decode()}) + "\n" for text in DOCUMENTS).encode()


def _parquet(path: Path, **columns: list[object]) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="parquet is read with pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(columns), path)


WRITERS: dict[str, Callable[[Path], object]] = {
    "lines.jsonl": lambda path: path.write_bytes(_json_lines()),
    "lines.jsonl.gz": lambda path: path.write_bytes(gzip.compress(_json_lines())),
    "lines.JSONL.xz": lambda path: path.write_bytes(lzma.compress(_json_lines())),
    "table.parquet": lambda path: _parquet(path, text=[text.decode() for text in DOCUMENTS], other=[1, 2, 3]),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_documents(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path / name)
    found = corpus.read(tmp_path / name)
    assert found.documents == DOCUMENTS
    assert found.omitted == 0


def test_a_folder_is_read_in_the_order_of_its_paths_and_says_what_it_left_out(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "1.txt").write_bytes(DOCUMENTS[1])
    (tmp_path / "a.md").write_bytes(b"\xef\xbb\xbf" + DOCUMENTS[0])  # a byte order mark is not text
    (tmp_path / "c.txt.gz").write_bytes(gzip.compress(DOCUMENTS[2]))
    (tmp_path / "photo.png").write_bytes(b"\x89PNG\0")
    (tmp_path / "again.txt").write_bytes(DOCUMENTS[0])
    (tmp_path / "blank.txt").write_bytes(b" \n")
    (tmp_path / ".hidden.txt").write_bytes(b"secret")
    found = corpus.read(tmp_path)
    assert found.documents == (DOCUMENTS[0], DOCUMENTS[1], DOCUMENTS[2])
    assert found.omitted == 3  # the photo, the copy, the blank page
    assert {(group.reason, group.count, group.names) for group in found.left_out} == {
        (corpus.HIDDEN, 1, (".hidden.txt",)),
        (corpus.SUFFIX, 1, ("photo.png",)),
        (corpus.REPEATED, 1, ()),
        (corpus.BLANK, 1, ()),
    }


ABOUT = ("README.md", "readme", "ReadMe-de.txt", "README.md.gz", "LICENSE", "LICENCE.txt", "License_MIT.md", "COPYING")


def test_what_is_about_a_corpus_is_no_document_of_it(tmp_path: Path) -> None:
    (tmp_path / "part").mkdir()
    for name in (*ABOUT, "part/NOTICE.rst"):
        content = b"This corpus was collected by hand."
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    for number, name in enumerate(("novel.txt", "license.py", "readmes.txt")):
        (tmp_path / name).write_bytes(DOCUMENTS[number])
    found = corpus.read(tmp_path)
    assert sorted(found.documents) == sorted(DOCUMENTS)
    assert found.left_out == (corpus.LeftOut(corpus.ABOUT, 9, tuple(sorted((*ABOUT, "part/NOTICE.rst")))[:8]),)
    assert corpus.read(tmp_path / "README.md").documents == (b"This corpus was collected by hand.",), "it was named"
    assert len(corpus.read(tmp_path, everything=True).documents) == 4, "as stored runs read it"


@pytest.mark.parametrize("kind", ["file", "folder", "nothing"])
def test_a_link_out_of_the_folder_is_refused_and_one_inside_is_not(tmp_path: Path, kind: str) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    if kind != "nothing":
        outside.mkdir()
        (outside / "secret.txt").write_text("a password")
    (inside / "novel.txt").write_bytes(DOCUMENTS[0])
    (inside / "same.txt").symlink_to(inside / "novel.txt")
    assert corpus.read(inside).documents == (DOCUMENTS[0],)
    (inside / "link").symlink_to(outside / "secret.txt" if kind == "file" else outside)
    with pytest.raises(DataError, match=r"inside/link is a link to .*outside.*Copy what it leads to"):
        corpus.read(inside)
    (tmp_path / "door").symlink_to(inside)
    (inside / "link").unlink()
    assert corpus.read(tmp_path / "door").documents == (DOCUMENTS[0],), "the folder itself may be reached by a link"


def test_the_digest_follows_the_content_and_not_the_names(tmp_path: Path) -> None:
    for folder, names in {"x": ("1.txt", "2.txt"), "y": ("p.md", "q.md")}.items():
        (tmp_path / folder).mkdir()
        for name, text in zip(names, DOCUMENTS, strict=False):
            (tmp_path / folder / name).write_bytes(text)
    assert corpus.read(tmp_path / "x").digest == corpus.read(tmp_path / "y").digest
    (tmp_path / "y" / "q.md").write_bytes(DOCUMENTS[2])
    assert corpus.read(tmp_path / "x").digest != corpus.read(tmp_path / "y").digest


def test_max_bytes_chooses_by_content_and_cuts_one_long_document_at_a_character(tmp_path: Path) -> None:
    texts = [bytes([97 + i]) * 10 for i in range(20)]
    lines = [json.dumps({"text": text.decode()}) for text in texts]
    (tmp_path / "up.jsonl").write_text("\n".join(lines))
    (tmp_path / "down.jsonl").write_text("\n".join(reversed(lines)))
    up, down = (corpus.read(tmp_path / name, max_bytes=55) for name in ("up.jsonl", "down.jsonl"))
    assert len(up.documents) == 5
    assert up.documents == tuple(reversed(down.documents))
    assert up.omitted == 15
    (tmp_path / "a.txt").write_text("\u20ac" * 100, encoding="utf-8")
    assert corpus.read(tmp_path / "a.txt", max_bytes=10).documents == ("\u20ac\u20ac\u20ac".encode(),)


@pytest.mark.slow
def test_the_standard_library_is_large_real_text_without_tests_or_packages() -> None:
    found = corpus.read(None)
    assert found.source.startswith("the source of Python")
    assert sum(map(len, found.documents)) > 5_000_000
    assert len(set(found.documents)) == len(found.documents)
    assert any(document.startswith(b'r"""HTTP/1.1 client library') for document in found.documents)
    assert not any(b"class TestCase_" in document for document in found.documents)
    assert found == corpus.read(None)


class _Canary:
    def __reduce__(self) -> tuple[object, ...]:
        return (os.mkdir, ("canary",))


BAD: dict[str, tuple[bytes | None, str]] = {
    "missing.txt": (None, "there is nothing at"),
    "empty.txt": (b"", "holds no text"),
    "blank.txt": (b"\n \t\n", "holds no text"),
    "binary.txt": (b"abc\0def", "binary, not text (a NUL at byte 3)"),
    "latin.txt": (b"caf\xe9", "not UTF-8 (byte 3 is 0xe9)"),
    "wide.txt": ("hello".encode("utf-16"), "UTF-16"),
    "pickle.txt": (pickle.dumps(_Canary()), "not"),
    "broken.txt.gz": (gzip.compress(b"hello" * 100)[:-12], "cannot be read"),
    "wrong.txt.gz": (b"hello", "cannot be read"),
    "broken.txt.xz": (b"hello", "cannot be read"),
    "broken.jsonl": (b'{"text": "a"}\n{"text": ', "line 2"),
    "twice.jsonl": (b'{"text": "a", "text": "b"}', "occurs twice"),
    "list.jsonl": (b"[1, 2]", "line 1 has no text under 'text'"),
    "field.jsonl": (b'{"body": "a", "id": 3}', "(there: body, id)"),
    "number.jsonl": (b'{"text": 3}', "has no text under 'text'"),
    "surrogate.jsonl": (b'{"text": "\\ud800"}', "half a surrogate pair"),
    "nul.jsonl": (b'{"text": "a\\u0000b"}', "binary"),
    "broken.parquet": (b"PAR1 not really", "not a readable parquet file"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    content, message = BAD[name]
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError) as caught:
        corpus.read(tmp_path / name)
    assert message in str(caught.value)
    assert str(tmp_path / name) in str(caught.value)
    assert caught.value.exit_code == ExitCode.USAGE
    assert not (tmp_path / "canary").exists()


def test_bad_parquet_columns(tmp_path: Path) -> None:
    _parquet(tmp_path / "names.parquet", body=["a"])
    with pytest.raises(DataError, match=r"no column 'text' \(there: body\)"):
        corpus.read(tmp_path / "names.parquet")
    assert corpus.read(tmp_path / "names.parquet", field="body").documents == (b"a",)
    _parquet(tmp_path / "numbers.parquet", text=[1])
    with pytest.raises(DataError, match="holds int64, not text"):
        corpus.read(tmp_path / "numbers.parquet")


def test_a_folder_without_text_says_what_is_there_and_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"x")
    with pytest.raises(DataError, match=r"no text file \(there: \.bin\)"):
        corpus.read(tmp_path)
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(DataError, match="neither a file nor a folder"):
        corpus.read(tmp_path / "pipe.txt")


def test_a_decompression_bomb_stops_at_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "MAX_CORPUS_BYTES", 10_000)
    (tmp_path / "bomb.txt.gz").write_bytes(gzip.compress(b"a" * 1_000_000))
    with pytest.raises(DataError, match="over 10,000 bytes"):
        corpus.read(tmp_path / "bomb.txt.gz")
