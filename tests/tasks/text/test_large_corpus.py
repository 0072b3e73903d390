"""A corpus beyond the memory gives what the same corpus gives within it."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evodevo import files
from evodevo.errors import DataError, DiskFullError
from evodevo.tasks import baselines, spooled
from evodevo.tasks.base import SPLITS
from evodevo.tasks.text import corpus, token_cache, tokenizers
from evodevo.tasks.text.language import LanguageSettings, LanguageTask
from evodevo.tasks.text.token_cache import ArrayStream, TokenCache

SENTENCES = [f"sentence {i} \u20ac: " + " ".join(str(j * i) for j in range(40)) for i in range(60)]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "text.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in [*SENTENCES, SENTENCES[3], " "]))
    return path


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A memory of a thousand bytes, and batches of a few documents."""
    monkeypatch.setattr(spooled, "IN_MEMORY_BYTES", 1000)
    monkeypatch.setattr(tokenizers, "_BATCH_BYTES", 500)
    monkeypatch.setattr(baselines, "_STRETCH", 97)


def opened(data: Path, cache: str, **settings: Any) -> LanguageTask:
    return LanguageTask.open(LanguageSettings(data=str(data), context_length=3, **settings), data.parent / cache)


@pytest.mark.parametrize("rule", ["document", "position", "legacy"])
@pytest.mark.parametrize("settings", [{}, {"tokenizer": "bpe", "vocabulary": 300}, {"max_bytes": 5000}])
def test_key_tokens_splits_and_baselines_are_the_same(
    data: Path, rule: str, settings: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    within = opened(data, "within", split=rule, **settings)
    request.getfixturevalue("small")
    beyond = opened(data, "beyond", split=rule, **settings)
    assert beyond.key == within.key
    assert beyond.describe() == within.describe()
    for split in SPLITS:
        np.testing.assert_array_equal(beyond.tokens(split), within.tokens(split))
        assert beyond.tokens(split).dtype == within.tokens(split).dtype
        np.testing.assert_array_equal(beyond.text(split), within.text(split))
        assert isinstance(beyond.tokens(split).base, np.memmap), "never whole in memory"
    assert beyond.baselines("validation") == within.baselines("validation")
    assert [path.name for path in (data.parent / "beyond" / "tokens").rglob(".*")] == []


@pytest.mark.usefixtures("small")
def test_documents_above_the_limit_are_not_in_memory(data: Path, tmp_path: Path) -> None:
    found = corpus.read(data, spool=tmp_path / "spool")
    assert found.is_on_disk
    assert list(found.documents) == [text.encode() for text in SENTENCES]
    assert found.omitted == 2
    few = corpus.read(data, spool=tmp_path / "spool", max_bytes=3000)
    assert few.is_on_disk
    assert few.digest == corpus.read(data, max_bytes=3000).digest
    assert not corpus.read(data).is_on_disk


def test_only_a_document_and_not_the_corpus_has_a_limit(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus, "MAX_CORPUS_BYTES", 2000)
    with pytest.raises(DataError, match="over 2,000 bytes"):
        corpus.read(data)
    assert len(corpus.read(data, spool=tmp_path / "spool").documents) == len(SENTENCES)
    (tmp_path / "long.txt").write_text("a" * 2001)
    with pytest.raises(DataError, match="a document of over 2,000 bytes"):
        corpus.read(tmp_path / "long.txt", spool=tmp_path / "spool")
    lines = "".join(json.dumps({"text": f"{n}" + "a" * 1000}) + "\n" for n in range(2000))
    monkeypatch.setattr(files, "FREE_BYTES", 0)
    (tmp_path / "bomb.jsonl.xz").write_bytes(lzma.compress(lines.encode()))
    with pytest.raises(DataError, match=f"{files.RATIO} times its size"):
        corpus.read(tmp_path / "bomb.jsonl.xz", spool=tmp_path / "spool")
    (tmp_path / "good.jsonl.gz").write_bytes(gzip.compress(data.read_bytes()))
    assert len(corpus.read(tmp_path / "good.jsonl.gz", spool=tmp_path / "spool").documents) == len(SENTENCES)


def test_a_stream_is_the_file_that_numpy_writes(tmp_path: Path) -> None:
    pieces = [np.arange(5), np.empty(0, np.int64), np.arange(70_000) % 50_000]
    for dtype in (np.uint8, np.uint16, np.uint32):
        stream = ArrayStream(np.dtype(dtype), lambda: iter(pieces))
        token_cache._write_stream(tmp_path / "a.npy", stream)
        np.save(tmp_path / "b.npy", np.concatenate(pieces).astype(dtype))
        assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()


@pytest.mark.usefixtures("small")
def test_a_folder_that_cannot_be_written_and_a_full_disk_are_said(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match="XDG_CACHE_HOME"):
        opened(data, "file")
    with pytest.raises(DataError, match="XDG_CACHE_HOME"):
        TokenCache(tmp_path / "file").write("ab" * 32, {}, b"", {})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(token_cache, "_write_stream", full)
    with pytest.raises(DiskFullError, match="XDG_CACHE_HOME"):
        opened(data, "cache")
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []
