"""Tokenizers lose nothing, are the same when they come back from the disk, and refuse what is none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evodevo.errors import DataError
from evodevo.tasks.text.tokenizers import (
    ByteTokenizer,
    SubwordTokenizer,
    Tokenizer,
    byte_stream,
    from_bytes,
    read_tokenizer_file,
    train_bpe,
)

CORPUS = [b"the cat sat on the mat, the dog on the log. " * 20, b"def f(x):\n    return x + 1\n" * 20]
TRAINED = train_bpe(CORPUS, 300)
TOKENIZERS: list[Tokenizer] = [ByteTokenizer(), TRAINED]
TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.parametrize("tokenizer", TOKENIZERS, ids=lambda tokenizer: tokenizer.kind)
@given(text=TEXT)
def test_text_comes_back(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert all(0 <= index < tokenizer.vocabulary for index in ids)
    table = tokenizer.token_bytes()
    assert table is not None
    if "\0" not in text:
        assert b"".join(table[index] for index in ids) == text.encode()
        assert tokenizer.separator not in ids


@pytest.mark.parametrize("tokenizer", TOKENIZERS, ids=lambda tokenizer: tokenizer.kind)
@settings(max_examples=15)
@given(texts=st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))))
def test_a_stream_is_its_documents_with_a_separator_after_each(tokenizer: Tokenizer, texts: list[str]) -> None:
    documents = [text.encode() for text in texts]
    stream = tokenizer.encode_documents(documents)
    expected = [index for text in texts for index in [*tokenizer.encode(text), tokenizer.separator]]
    assert stream.tolist() == expected
    assert stream.dtype in (np.uint8, np.uint16)
    table = tokenizer.token_bytes()
    assert table is not None
    assert b"".join(table[index] for index in stream) == byte_stream(documents).tobytes()


def test_it_comes_back_from_its_bytes_and_bpe_shortens_what_it_has_seen() -> None:
    # Brackets in a vocabulary are not nesting.
    brackets = train_bpe([b"[[[[[[[[{{{{{{((((" * 50, b"x = [[[ {{{ \n" * 50], 400)
    for tokenizer in (*TOKENIZERS, brackets):
        again = from_bytes(tokenizer.to_bytes())
        assert again.digest == tokenizer.digest
        assert again.describe() == tokenizer.describe()
        assert again.encode("the dog").tolist() == tokenizer.encode("the dog").tolist()
    assert 256 < TRAINED.vocabulary <= 300
    assert len(TRAINED.encode(CORPUS[0].decode())) < len(CORPUS[0]) / 2


def test_bpe_training_is_the_same_in_another_process() -> None:
    code = f"from evodevo.tasks.text.tokenizers import train_bpe\nprint(train_bpe({CORPUS!r}, 300).digest)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == TRAINED.digest


def test_a_tokenizer_file_of_words(tmp_path: Path) -> None:
    import tokenizers

    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0, "</s>": 1, "cat": 2}, unk_token="[UNK]"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    words.enable_truncation(2)
    words.save(str(tmp_path / "tokenizer.json"))
    for path in (tmp_path, tmp_path / "tokenizer.json"):
        read = read_tokenizer_file(path)
        assert (read.kind, read.vocabulary, read.separator) == ("file", 3, 1)
        assert read.token_bytes() is None
        assert read.encode("cat dog cat").tolist() == [2, 0, 2]  # no truncation
        assert read.encode_documents([b"cat", b"dog"]).tolist() == [2, 1, 0, 1]


def test_our_own_bpe_as_a_file_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(json.loads(TRAINED.to_bytes())["json"])
    read = read_tokenizer_file(tmp_path)
    assert read.token_bytes() == TRAINED.token_bytes()
    assert read.separator == TRAINED.separator


@pytest.mark.parametrize("content", [b"", b"{}", b"not json", b"\xff\xfe", b'{"model": {"type": "Evil"}}'])
def test_a_bad_tokenizer_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(DataError, match=r"tokenizer\.json"):
        read_tokenizer_file(tmp_path)
    with pytest.raises(DataError, match="Give 'bytes', 'bpe'"):
        read_tokenizer_file(tmp_path / "byte")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"format":"evodevo.tokenizer/1","kind":"bytes","more":1}',
        b'{"format":"evodevo.tokenizer/2","kind":"bytes"}',
        b'{"format":"evodevo.tokenizer/1","kind":"pickle","json":"x"}',
        b'{"format":"evodevo.tokenizer/1","kind":"bpe","json":3}',
        b'{"format":"evodevo.tokenizer/1","kind":"bpe","json":"x"}',
    ],
)
def test_bytes_that_are_no_tokenizer(data: bytes) -> None:
    import tokenizers

    with pytest.raises(DataError):
        from_bytes(data)
    with pytest.raises(DataError, match="empty vocabulary"):
        SubwordTokenizer("file", tokenizers.Tokenizer(tokenizers.models.BPE()).to_str())
