"""Text paths: what is stated is built and computed, padding counts nothing, what a path knew it keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from evodevo.errors import DataError, UsageError
from evodevo.experiments.flop_counter import counting
from evodevo.multitask.paths.blocks_spec import EMBEDDING, POSITIONS
from evodevo.multitask.paths.text.input import read_texts, texts_of, tokenizer_of
from evodevo.multitask.paths.text.model import (
    MASK,
    TOKENS,
    TextPath,
    build_component,
    component_from_state,
    resize_positions,
)
from evodevo.multitask.paths.text.spec import PRESETS, TextStructure, path_work, role_parameters
from evodevo.tasks.text.tokenizers import train_bpe

TINY = PRESETS["tiny"].changed(classes=5, length=12)
WIDE = TINY.changed(width=64, heads=4, layers=1)  # LIVs want 64 channels
LAYERS: dict[str, dict[str, Any]] = {
    "transformer": {"kind": "transformer", "heads": 2},
    "mlp": {"kind": "mlp", "hidden": 9},
    "convolution": {"kind": "convolution", "kernel": 9},
    "lstm": {"kind": "lstm"},
    "adapted": {"kind": "lstm", "width": 8},
    "SA-1": {"kind": "liv", "operator": "SA-1"},
    "Rec-1": {"kind": "liv", "operator": "Rec-1"},
    "GConv-1": {"kind": "liv", "operator": "GConv-1"},
    "h_model": {
        "kind": "h_model",
        "structure": {"width": 64, "hidden": [{"kind": "lstm"}], "iterations": 2, "causal": False},
    },
}
STRUCTURES = {
    "tiny": TINY,
    "headless": TINY.changed(classes=0),
    "no layers": TINY.changed(layers=0),
    **{name: WIDE.changed(blocks={"encoderblock_0": layer}) for name, layer in LAYERS.items()},
}


def noisy(path: nn.Module, scale: float = 0.1) -> None:
    """Zeros and ones would hide mistakes."""
    generator = torch.Generator().manual_seed(9)
    with torch.no_grad():
        for parameter in path.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator).to(parameter.dtype), alpha=scale)


def texts(lengths: list[int], columns: int, *, fill: int = 0, seed: int = 0) -> dict[str, Tensor]:
    """Random texts; what is none of them is ``fill``."""
    generator = torch.Generator().manual_seed(seed)
    most = max(lengths, default=0)
    ids = torch.randint(0, 256, (len(lengths), most), generator=generator)
    ids = torch.nn.functional.pad(ids, (0, columns - most))
    mask = torch.arange(columns) < torch.tensor(lengths)[:, None]
    return {TOKENS: torch.where(mask, ids, fill), MASK: mask}


def path_of(name: str, *, double: bool = True) -> TextPath:
    path = fresh(STRUCTURES[name])
    path = path.double() if double else path
    noisy(path)
    return path.eval()


def fresh(structure: TextStructure, seed: int = 0) -> TextPath:
    return TextPath(structure, {role: build_component(structure, role, seed) for role in structure.roles})


@pytest.mark.parametrize("name", STRUCTURES)
def test_stated_parameters_are_built_and_stated_products_computed(name: str) -> None:
    structure = STRUCTURES[name]
    path = fresh(structure).eval()
    built = {role: sum(p.numel() for p in part.parameters()) for role, part in path.components().items()}
    assert built == role_parameters(structure)
    assert list(built) == list(structure.roles)
    with torch.no_grad(), counting(path) as counter:
        path(texts([structure.length], structure.length))
    more = counter.flops - path_work(structure).products
    # The router of an H-Model takes the mean of what a mask leaves by a product, two for each place and each mean.
    assert more == 0 if name != "h_model" else 0 <= more <= 1e-4 * counter.flops


@pytest.mark.parametrize("name", STRUCTURES)
def test_padding_counts_nothing(name: str) -> None:
    path = path_of(name)
    lengths = [7, 3, 0, 1]
    plain, padded, other = texts(lengths, 7), texts(lengths, 12), texts(lengths, 12, fill=77)
    with torch.no_grad():
        answer = path(plain)
        torch.testing.assert_close(path(padded), answer)
        assert torch.equal(path(padded), path(other)), "what stands behind a text is not looked at"
        alone = torch.cat([path({key: value[row : row + 1] for key, value in plain.items()}) for row in range(4)])
        torch.testing.assert_close(alone, answer)
    tokens = path.represent(padded)
    assert tokens.mask is not None
    assert tokens.mask.sum(1).tolist() == [1 + length for length in lengths]


@pytest.mark.parametrize("name", sorted(STRUCTURES.keys() - {"no layers", "mlp", "h_model"}))
def test_the_class_token_hears_the_last_byte_through_any_layer(name: str) -> None:
    path = path_of(name)
    batch = texts([4], 12)  # a convolution of nine taps reaches four places
    other = {**batch, TOKENS: batch[TOKENS].clone()}
    other[TOKENS][0, 3] ^= 1
    assert not torch.allclose(path(batch), path(other), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["tiny", "lstm", "h_model"])
def test_an_inserted_block_changes_no_answer(name: str) -> None:
    path = path_of(name, double=False)
    structure = path.structure
    role = f"encoderblock_{structure.layers}"
    blocks = {**structure.model_dump(mode="json")["blocks"]}
    if name in LAYERS:
        blocks[role] = LAYERS[name]
    deeper = structure.changed(layers=structure.layers + 1, blocks=blocks)
    new = build_component(deeper, role, 5, identity=True)
    batch = texts([12, 5, 1], 12)
    with torch.no_grad():
        grown = TextPath(deeper, {**path.components(), role: new}).eval()
        assert torch.equal(grown(batch), path(batch))
        noisy(new)
        assert not torch.equal(grown(batch), path(batch)), "it is there"


@given(old=st.integers(1, 12), new=st.integers(1, 30))
@settings(max_examples=15, deadline=None)
def test_another_length_keeps_what_a_place_means(old: int, new: int) -> None:
    structure = TINY.changed(length=old)
    path = fresh(structure)
    noisy(path)
    state = path.components()[POSITIONS].state_dict()
    resized = resize_positions(state, new)
    other = structure.changed(length=new)
    part = component_from_state(other, POSITIONS, resized)
    changed = TextPath(other, {**path.components(), POSITIONS: part}).eval()
    both = min(old, new)
    batch = texts([both, both // 2], both)
    with torch.no_grad():
        assert torch.equal(changed(batch), path.eval()(batch))
    assert torch.equal(resize_positions(resized, both)["table"], resize_positions(state, both)["table"])


def test_weights_depend_on_seed_and_role_alone_and_come_back() -> None:
    first = build_component(TINY, "encoderblock_0", 5).state_dict()
    state = torch.random.get_rng_state()
    assert all(torch.equal(first[n], t) for n, t in build_component(TINY, "encoderblock_0", 5).state_dict().items())
    assert torch.equal(state, torch.random.get_rng_state())
    path = path_of("tiny", double=False)
    parts = {role: component_from_state(TINY, role, part.state_dict()) for role, part in path.components().items()}
    batch = texts([4, 12], 12)
    assert torch.equal(TextPath(TINY, parts)(batch), path(batch))
    with pytest.raises(DataError, match="of shape"):
        component_from_state(TINY.changed(length=9), POSITIONS, parts[POSITIONS].state_dict())
    with pytest.raises(DataError, match="unknown 'tokenizer'"):
        component_from_state(TINY, POSITIONS, {**parts[POSITIONS].state_dict(), "tokenizer": torch.zeros(3)})


@pytest.mark.parametrize("name", ["tiny", "lstm"])
def test_half_precision_answers_nearly_the_same(name: str) -> None:
    path = path_of(name, double=False)
    batch = texts([12, 5, 0], 12)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        half = path(batch)
    torch.testing.assert_close(half.float(), path(batch).detach(), rtol=0.1, atol=0.1)


@pytest.mark.slow
def test_a_path_is_exported_for_any_number_of_texts() -> None:
    path = path_of("tiny", double=False)
    samples = torch.export.Dim("samples", min=1, max=64)
    shapes = {TOKENS: {0: samples}, MASK: {0: samples}}
    exported = torch.export.export(path, (texts([12, 5], 12),), dynamic_shapes=(shapes,)).module()
    batch = texts([3, 12, 0, 1, 9], 12)
    torch.testing.assert_close(exported(batch), path(batch))


def test_what_it_cannot_read_is_refused() -> None:
    path = path_of("tiny", double=False)
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
    again = component_from_state(structure, EMBEDDING, embedding.state_dict())
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
