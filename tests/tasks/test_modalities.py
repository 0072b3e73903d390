"""What samples consist of, in the words by which paths know whether they can read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evodevo.errors import UsageError
from evodevo.tasks.modalities import READ_BYTES, modalities_of, with_bytes
from evodevo.tasks.multitask.task import MultitaskSettings, MultitaskTask

SMALL = {"samples": {"train": 60, "validation": 10, "test": 10}, "classes": 3}


def opened(folder: Path, **values: Any) -> MultitaskTask:
    return MultitaskTask.open(MultitaskSettings(**values), folder)


def topics(folder: Path, seed: int = 0, **options: Any) -> MultitaskTask:
    return opened(folder, source="text_labels", options={"topics": {**SMALL, "seed": seed}, **options})


def test_bytes_are_bytes_and_other_tokens_are_known_by_their_tokenizer(tmp_path: Path) -> None:
    assert modalities_of(opened(tmp_path)) == ("image",)
    assert modalities_of(topics(tmp_path, tokenizer="bytes")) == ("tokens:bytes",)
    (first,) = modalities_of(topics(tmp_path, vocabulary=300))
    assert first == modalities_of(topics(tmp_path, vocabulary=300, length=9))[0], "the length changes no id"
    (other,) = modalities_of(topics(tmp_path, vocabulary=300, seed=1))
    assert first.startswith("tokens:")
    assert len({first, other, "tokens:bytes"}) == 3


def test_a_table_is_told_input_by_input(tmp_path: Path) -> None:
    rows = [f"{number % 7},{'abc'[number % 3] * 3} {number},{number % 2}" for number in range(60)]
    file = tmp_path / "rows.csv"
    file.write_text("\n".join(["size,text,label", *rows]))
    options = {"vectors": ["size"], "text": "text", "label": "label"}
    told = modalities_of(opened(tmp_path, source="table", data=str(file), options=with_bytes("table", options)))
    assert sorted(told) == ["tokens:bytes", "vector:1"]
    words = modalities_of(opened(tmp_path, source="table", data=str(file), options=options))
    assert "vector:1" in words
    assert "tokens:bytes" not in words


def test_texts_are_handed_out_as_bytes_unless_somebody_says_otherwise() -> None:
    assert with_bytes("text_labels", {}) == {"tokenizer": "bytes", "length": READ_BYTES}
    assert with_bytes("text_labels", {"length": 9}) == {"tokenizer": "bytes", "length": 9}
    assert with_bytes("text_labels", {"tokenizer": "bpe"}) == {"tokenizer": "bpe"}
    assert with_bytes("images", {"size": 8}) == {"size": 8}
    with pytest.raises(UsageError, match="text_labels"):
        with_bytes("text_label", {})
