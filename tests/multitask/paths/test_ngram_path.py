"""Bags of n-grams: vectors are those of a naive loop over bytes, what is stated is built, what is put into a path
changes no answer, padding and other texts change nothing."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from evodevo.errors import DataError, UsageError
from evodevo.experiments.flop_counter import counting
from evodevo.multitask.hyperparameters import MU
from evodevo.multitask.paths.blocks_spec import BLOCK, EMBEDDING, HEAD, NORM
from evodevo.multitask.paths.mlp.model import resize_block
from evodevo.multitask.paths.mlp.spec import path_work
from evodevo.multitask.paths.ngrams.builder import BUILDER
from evodevo.multitask.paths.ngrams.kind import NGRAMS, ngram_hyperparameters
from evodevo.multitask.paths.ngrams.model import NgramBag, NgramPath, build_component
from evodevo.multitask.paths.ngrams.spec import PRESETS, NgramStructure, role_parameters, work_of
from evodevo.multitask.paths.text.model import MASK, TOKENS
from fixtures.block_paths import learned

SMALL = NgramStructure(width=12, buckets=101, length=20, layers=2, classes=5)
ROLE = "encoderblock_1"


def batch(*texts: bytes, length: int | None = None) -> dict[str, Tensor]:
    """Texts as a task hands them out, padded with bytes that the mask leaves out."""
    length = max(map(len, texts)) if length is None else length
    ids = torch.full((len(texts), length), 7)
    mask = torch.zeros(len(texts), length, dtype=torch.bool)
    for place, text in enumerate(texts):
        ids[place, : len(text)] = torch.tensor(list(text), dtype=torch.long)
        mask[place, : len(text)] = True
    return {TOKENS: ids, MASK: mask}


def naive(bag: NgramBag, structure: NgramStructure, text: bytes) -> Tensor:
    """The vector of a text, n-gram by n-gram."""
    table, total, count = bag.table.detach().double(), torch.zeros(structure.width).double(), 0
    whole = b" " + text.lower() + b" "
    for size in range(structure.shortest, structure.longest + 1):
        for begin in range(len(whole) - size + 1):
            code = 0
            for byte in whole[begin : begin + size]:
                code = (code * 1_000_003 + byte + 1) % (2**31 - 1)
            total += table[code * 2_654_435_761 % (2**31 - 1) % structure.buckets]
            count += 1
    return total / max(count, 1) ** 0.5


def grown(path: NgramPath, structure: NgramStructure) -> NgramPath:
    """A path with wider blocks and more of them, as a child begins."""
    parts: dict[str, nn.Module] = {}
    for role in structure.roles:
        if role not in path.parts:
            parts[role] = build_component(structure, role, 7, identity=True)
            continue
        state = path.parts[role].state_dict()
        state = resize_block(structure.behind, role, state, 7) if role.startswith(BLOCK) else state
        parts[role] = BUILDER.restore(structure, role, state)
    return NgramPath(structure, parts).eval()


@given(texts=st.lists(st.binary(max_size=20), min_size=1, max_size=4), shortest=st.integers(1, 4))
def test_a_text_has_the_vectors_of_its_ngrams(texts: list[bytes], shortest: int) -> None:
    structure = SMALL.changed(shortest=shortest)
    bag = NgramPath.fresh(structure, 0).parts[EMBEDDING]
    assert isinstance(bag, NgramBag)
    # ``bytes.lower`` knows the capitals of ASCII alone, too.
    wanted = torch.stack([naive(bag, structure, text) for text in texts])
    torch.testing.assert_close(bag.double()(batch(*texts, length=20)), wanted)


def test_buckets_are_used_evenly() -> None:
    bag = NgramPath.fresh(SMALL.changed(buckets=256, length=4000), 0).parts[EMBEDDING]
    assert isinstance(bag, NgramBag)
    words = b" ".join(str(number * number).encode() for number in range(700))[:4000]
    found = torch.cat([buckets[there] for buckets, there in bag.hashed(*batch(words).values())])
    share = torch.bincount(found.unique() % 16, minlength=16) / found.unique().numel()
    assert found.unique().numel() > 240
    assert share.max() < 2 / 16


@given(text=st.binary(max_size=18), more=st.integers(0, 6), other=st.binary(max_size=20))
def test_padding_and_other_texts_change_no_answer(text: bytes, more: int, other: bytes) -> None:
    path = learned(NgramPath.fresh(SMALL, 0)).double()
    with torch.no_grad():
        alone = path(batch(text, length=len(text)))
        beside = path(batch(text, other, length=max(min(len(text) + more, 20), len(other))))[:1]
    torch.testing.assert_close(alone, beside)


def test_a_text_without_any_ngram_is_answered() -> None:
    path = learned(NgramPath.fresh(SMALL, 0))
    missing = {TOKENS: torch.zeros(1, 0, dtype=torch.long), MASK: torch.zeros(1, 0, dtype=torch.bool)}
    assert torch.isfinite(path(missing)).all()
    assert torch.equal(path(missing), path(batch(b"", length=5)))


@pytest.mark.parametrize("changes", [{}, {"inner": 2.0}, {"layers": 0}, {"shortest": 1, "longest": 1}])
def test_stated_parameters_are_built_and_stated_work_is_done(changes: dict[str, object]) -> None:
    structure = SMALL.changed(**changes)
    path = NgramPath.fresh(structure, 0).eval()
    assert {
        role: sum(one.numel() for one in part.parameters()) for role, part in path.components().items()
    } == role_parameters(structure)
    full = batch(b"x" * structure.length)
    with torch.no_grad(), counting(path) as counter:
        represented = path.represent(full)
    bag = path.parts[EMBEDDING]
    assert isinstance(bag, NgramBag)
    added = sum(int(there.sum()) for _, there in bag.hashed(full[TOKENS], full[MASK])) * structure.width
    headless = structure.changed(classes=0)
    assert counter.flops == path_work(headless.behind).total
    assert counter.flops + added == work_of(headless).total
    assert represented.pooled.shape == (1, structure.width)


def test_presets_have_about_the_sizes_that_they_are_called_by() -> None:
    sizes = {name: sum(role_parameters(preset).values()) for name, preset in PRESETS.items()}
    assert sizes["tiny"] == pytest.approx(66_000, rel=0.01)
    assert sizes["small"] == pytest.approx(1_049_000, rel=0.01)


def test_added_and_wider_blocks_answer_as_before() -> None:
    path = learned(NgramPath.fresh(SMALL, 0)).double()
    texts = batch(b"a first text", b"another", b"", b"Third one")
    for structure in (SMALL.changed(layers=4), SMALL.changed(inner=2.0)):
        torch.testing.assert_close(grown(path, structure).double()(texts), path(texts))
    wide = SMALL.changed(inner=2.0)
    assert SMALL.signature(ROLE) != wide.signature(ROLE)
    assert NGRAMS.resizable(SMALL, ROLE) == NGRAMS.resizable(wide, ROLE) != ""
    assert not any(NGRAMS.resizable(SMALL, role) for role in (EMBEDDING, NORM, HEAD))


def test_hyperparameters_are_those_of_texts() -> None:
    space = ngram_hyperparameters("small")
    assert [key for key in space.by_key if key.startswith("ds_")] == ["ds_length"]
    defaults = space.defaults()
    assert (defaults["opt_lr"], defaults["opt_momentum"], defaults["ds_length"], defaults["num_layers"]) == (
        0.5, 0.9, 256, 0,
    )  # fmt: skip
    assert MU in space.by_key
    with pytest.raises(UsageError, match=r"no size 'huge'.*tiny, small"):
        ngram_hyperparameters("huge")


def test_what_does_not_fit_is_refused() -> None:
    path = NgramPath.fresh(SMALL, 0)
    with pytest.raises(UsageError, match="texts of 20 bytes at most"):
        path(batch(b"x" * 21))
    with pytest.raises(UsageError, match="n-grams of 4 to 3 bytes are none"):
        SMALL.changed(shortest=4, longest=3)
    with pytest.raises(UsageError, match="no component 'cls'"):
        SMALL.signature("cls")
    with pytest.raises(DataError, match="shape"):
        BUILDER.restore(SMALL.changed(buckets=7), EMBEDDING, path.parts[EMBEDDING].state_dict())
