"""Text paths: another length keeps what a place means, subwords go with their embedding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from evodevo.errors import UsageError
from evodevo.multitask.paths.blocks_spec import EMBEDDING, POSITIONS
from evodevo.multitask.paths.text.builder import BUILDER
from evodevo.multitask.paths.text.model import (
    MASK,
    TOKENS,
    TextPath,
    build_component,
    resize_positions,
)
from evodevo.multitask.paths.text.reading import read_texts, texts_of, tokenizer_of
from evodevo.multitask.paths.text.spec import PRESETS, TextStructure, role_parameters
from evodevo.tasks.text.tokenizers import train_bpe
from fixtures.block_paths import learned

TINY = PRESETS["tiny"].changed(classes=5, length=12)


def texts(lengths: list[int], columns: int, *, fill: int = 0, seed: int = 0) -> dict[str, Tensor]:
    """Random texts; what is none of them is ``fill``."""
    generator = torch.Generator().manual_seed(seed)
    most = max(lengths, default=0)
    ids = torch.randint(0, 256, (len(lengths), most), generator=generator)
    ids = torch.nn.functional.pad(ids, (0, columns - most))
    mask = torch.arange(columns) < torch.tensor(lengths)[:, None]
    return {TOKENS: torch.where(mask, ids, fill), MASK: mask}


def fresh(structure: TextStructure) -> TextPath:
    return TextPath.fresh(structure, 0)


@given(old=st.integers(1, 12), new=st.integers(1, 30))
@settings(max_examples=15, deadline=None)
def test_another_length_keeps_what_a_place_means(old: int, new: int) -> None:
    structure = TINY.changed(length=old)
    path = learned(fresh(structure))
    state = path.components()[POSITIONS].state_dict()
    resized = resize_positions(state, new)
    other = structure.changed(length=new)
    part = BUILDER.restore(other, POSITIONS, resized)
    changed = TextPath(other, {**path.components(), POSITIONS: part}).eval()
    both = min(old, new)
    batch = texts([both, both // 2], both)
    with torch.no_grad():
        assert torch.equal(changed(batch), path(batch))
    assert torch.equal(resize_positions(resized, both)["table"], resize_positions(state, both)["table"])


@pytest.mark.slow
def test_a_path_is_exported_for_any_number_of_texts() -> None:
    path = learned(fresh(TINY))
    samples = torch.export.Dim("samples", min=1, max=64)
    shapes = {TOKENS: {0: samples}, MASK: {0: samples}}
    exported = torch.export.export(path, (texts([12, 5], 12),), dynamic_shapes=(shapes,)).module()
    batch = texts([3, 12, 0, 1, 9], 12)
    torch.testing.assert_close(exported(batch), path(batch))


def test_what_it_cannot_read_is_refused() -> None:
    path = learned(fresh(TINY))
    with pytest.raises(UsageError, match="12 tokens at most"):
        path(texts([13], 13))
    with pytest.raises(UsageError, match="same shape"):
        path({TOKENS: torch.zeros(2, 5, dtype=torch.int64), MASK: torch.ones(2, 4, dtype=torch.bool)})
    with pytest.raises(UsageError, match="bytes"):
        read_texts(TINY, None, np.asarray([[300]]), np.asarray([[True]]))


# From bytes


def as_bytes(*lines: str, columns: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    data = np.zeros((len(lines), columns), np.int64)
    mask = np.zeros(data.shape, np.bool_)
    for row, line in enumerate(lines):
        raw = np.frombuffer(line.encode(), np.uint8)[:columns]
        data[row, : len(raw)], mask[row, : len(raw)] = raw, True
    return data, mask


@given(lines=st.lists(st.text("aé漢😀", max_size=20), min_size=1, max_size=4), columns=st.integers(1, 90))
@settings(max_examples=25, deadline=None)
def test_texts_survive_as_bytes(lines: list[str], columns: int) -> None:
    for found, line in zip(texts_of(*as_bytes(*lines, columns=columns)), lines, strict=True):
        assert line.startswith(found), "a character that was cut is left out"
        assert len(line.encode()) > columns or found == line


def test_bytes_are_cut_to_the_length() -> None:
    data, mask = as_bytes("abc", "a longer text than that", columns=20)
    batch = read_texts(TINY, None, data, mask)
    assert batch[TOKENS].shape == (2, 12)
    assert batch[TOKENS][1].tolist() == list(b"a longer tex")
    assert batch[MASK].sum(1).tolist() == [3, 12]
    assert read_texts(TINY, None, data[:, :3], mask[:, :3])[TOKENS].shape == (2, 3)


def test_subwords_live_with_their_embedding() -> None:
    lines = [f"the cat number {n} sat on the mat and the cat slept" for n in range(40)]
    tokenizer = train_bpe([line.encode() for line in lines], 300)
    structure = TINY.changed(tokenizer="bpe", vocabulary=300)
    embedding = build_component(structure, EMBEDDING, 1, tokenizer=tokenizer.to_bytes())
    assert sum(one.numel() for one in embedding.parameters()) == role_parameters(structure)[EMBEDDING]
    again = BUILDER.restore(structure, EMBEDDING, embedding.state_dict())
    kept = tokenizer_of(again)  # type: ignore[arg-type]
    assert kept is not None
    assert kept.digest == tokenizer.digest
    batch = read_texts(structure, kept, *as_bytes("the cat sat", "", "the " * 30, columns=120))
    assert batch[TOKENS].shape == (3, 12)
    ids = batch[TOKENS][0][batch[MASK][0]]
    assert kept.decode(ids.numpy()) == "the cat sat"
    assert len(ids) < len("the cat sat")
    assert batch[MASK].sum(1).tolist() == [len(ids), 0, 12]
    with pytest.raises(UsageError, match="made with it"):
        build_component(structure, EMBEDDING, 1)
    with pytest.raises(UsageError, match="made with it"):
        build_component(TINY, EMBEDDING, 1, tokenizer=b"x")
    assert tokenizer_of(build_component(TINY, EMBEDDING, 1)) is None  # type: ignore[arg-type]
