"""Donors learn, are the same for the same key, and can be read as what they claim to be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch

from evodevo.errors import DataError, UsageError
from evodevo.h_model.procedures.checkpoints import IGNORED, MASKED, mask_tokens, pretrain_donor
from evodevo.tasks.text.tokenizers import ByteTokenizer, hugging_face_json, train_bpe

pytest.importorskip("transformers", reason="the extra hf is not installed")

TEXTS = [f"the cat number {i % 7} sat on the mat number {i % 5} and slept. " * 3 for i in range(40)]
SIZES: dict[str, Any] = {"layers": 2, "heads": 2, "length": 16, "batch": 8}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("donors")


@pytest.mark.slow
def test_a_donor_learns_and_is_made_once(folder: Path) -> None:
    losses: list[float] = []
    options: dict[str, Any] = {**SIZES, "width": 16, "steps": 40, "seed": 1, "learning_rate": 1e-2}
    place = pretrain_donor(
        TEXTS, ByteTokenizer(), folder=folder, report=lambda step, loss: losses.append(loss), **options
    )
    files = sorted(file.name for file in place.iterdir())
    assert files == ["config.json", "donor.json", "model.safetensors", "tokenizer.json"]
    assert len(losses) == 40
    assert losses[0] > 4.5
    assert np.mean(losses[-10:]) < 0.75 * losses[0]
    again = pretrain_donor(
        TEXTS, ByteTokenizer(), folder=folder, report=lambda step, loss: pytest.fail("trained again"), **options
    )
    assert again == place
    record = json.loads((place / "donor.json").read_text())
    assert record["last_loss"] == losses[-1]
    assert not list(folder.glob(".donor-*"))


def test_the_same_key_gives_the_same_weights_and_another_another_folder(folder: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {**SIZES, "width": 8, "steps": 2}
    torch.manual_seed(123)
    one = pretrain_donor(TEXTS, ByteTokenizer(), folder=folder, seed=1, **options)
    torch.rand(5)
    two = pretrain_donor(TEXTS, ByteTokenizer(), folder=tmp_path, seed=1, **options)
    assert one.name == two.name
    assert (one / "model.safetensors").read_bytes() == (two / "model.safetensors").read_bytes()
    others = [
        pretrain_donor(TEXTS, ByteTokenizer(), folder=folder, seed=2, **options),
        pretrain_donor(TEXTS[1:], ByteTokenizer(), folder=folder, seed=1, **options),
        pretrain_donor(TEXTS, ByteTokenizer(), folder=folder, seed=1, **{**options, "width": 12}),
    ]
    assert len({one, *others}) == 4
    (tmp_path / others[0].name).mkdir()
    (tmp_path / others[0].name / "something").touch()
    with pytest.raises(DataError, match="in the way"):
        pretrain_donor(TEXTS, ByteTokenizer(), folder=tmp_path, seed=2, **options)


def test_the_tokenizer_file_gives_the_ids_of_the_task() -> None:
    for mine in (ByteTokenizer(), train_bpe([text.encode() for text in TEXTS], 300)):
        theirs = tokenizers.Tokenizer.from_str(hugging_face_json(mine))
        for text in ("the cat sat", " ünïcode — 漢字\n\ttabs  ", "a\x00b", ""):
            assert theirs.encode(text).ids == mine.encode(text).tolist()
            assert theirs.decode(theirs.encode(text).ids) == text


def test_masking_asks_for_fifteen_percent_and_shows_the_mask_for_most() -> None:
    windows = np.random.default_rng(0).integers(100, size=(200, 50))
    inputs, targets = mask_tokens(windows, 100, np.random.default_rng(1))
    asked = targets != IGNORED
    assert bool(asked.any(1).all())
    assert asked.mean() == pytest.approx(MASKED + 0.85 / 50, abs=0.01)
    assert (targets[asked] == windows[asked]).all()
    assert (inputs[~asked] == windows[~asked]).all()
    assert (inputs[asked] == 100).mean() == pytest.approx(0.8, abs=0.03)
    assert (inputs[asked] == windows[asked]).mean() == pytest.approx(0.1, abs=0.03)


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    options: dict[str, Any] = {"layers": 1, "seed": 0, "folder": tmp_path}
    with pytest.raises(UsageError, match="3 attention heads do not divide"):
        pretrain_donor(TEXTS, ByteTokenizer(), width=8, heads=3, steps=1, **options)
    with pytest.raises(UsageError, match="at least 1"):
        pretrain_donor(TEXTS, ByteTokenizer(), width=8, heads=2, steps=0, **options)
    with pytest.raises(DataError, match="a window needs 64"):
        pretrain_donor(["short"], ByteTokenizer(), width=8, heads=2, steps=1, **options)
    assert not list(tmp_path.iterdir())
