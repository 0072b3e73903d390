"""Senses of every kind of input, and who stands on which side."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from evodevo.errors import UsageError
from evodevo.experiments.flop_counter import counting
from evodevo.module_zoo.encoders.cost import senses_parameters, senses_work
from evodevo.module_zoo.encoders.model import EncodedModality, Senses
from evodevo.module_zoo.encoders.spec import Read, sides
from evodevo.module_zoo.spec import StatisticsStructure, ZooStructure
from evodevo.networks.towers.spec import ExtractorStructure
from evodevo.tasks.inputs import InputSpec
from evodevo.testing.encoders import SensesCase, SensesTests
from evodevo.testing.networks import small_batch

TEXT = InputSpec("text", "tokens", length=7, vocabulary=11)
QUESTION = InputSpec("question", "tokens", length=7, vocabulary=5)
IMAGE = InputSpec("image", "image", height=6, width=4, channels=3)
FACTS = InputSpec("facts", "vector", size=5)
SOUND = InputSpec("sound", "features", length=7, size=6)
SEEN = InputSpec("seen", "features", length=7, size=6, height=4, width=4, channels=1)
READ = InputSpec("read", "features", length=7, size=6, vocabulary=9)

CASES: dict[str, SensesCase] = {
    "image and text": SensesCase((IMAGE, TEXT)),
    "text": SensesCase((TEXT,), statistics=StatisticsStructure(kind="mean")),
    "image": SensesCase((IMAGE,), statistics=StatisticsStructure(kind="cls")),
    "vector": SensesCase((FACTS,)),
    "features": SensesCase((SOUND,), statistics=StatisticsStructure(rank=16, root=True)),
    "question and text": SensesCase((QUESTION, TEXT), ExtractorStructure(blocks=1, positions=False)),
    "all": SensesCase((IMAGE, TEXT, QUESTION, FACTS, SOUND), ExtractorStructure(blocks=1, patches="frozen")),
    "token-wise": SensesCase((IMAGE, TEXT), ExtractorStructure(blocks=2, self_attention=False)),
    "no blocks": SensesCase((FACTS, TEXT), ExtractorStructure(blocks=0)),
}


class TestSenses(SensesTests):
    @pytest.fixture(params=CASES.values(), ids=list(CASES))
    def case(self, request: pytest.FixtureRequest) -> SensesCase:
        return request.param


@pytest.mark.parametrize(
    ("inputs", "first", "second"),
    [
        ((TEXT, IMAGE), ["image"], ["text"]),
        ((TEXT,), [], ["text"]),
        ((IMAGE, FACTS), ["image"], ["facts"]),
        ((TEXT, FACTS), ["text"], ["facts"]),  # a vector alone does not ask
        ((TEXT, SOUND), ["sound"], ["text"]),
        ((IMAGE, TEXT, FACTS), ["image"], ["text", "facts"]),
        ((QUESTION, TEXT), ["question"], ["text"]),
        ((QUESTION, TEXT, FACTS), ["question"], ["text", "facts"]),
        ((FACTS, SOUND), ["sound"], ["facts"]),
        ((READ, SEEN), ["seen"], ["read"]),  # features stand where their origin would
        ((READ, TEXT), ["read"], ["text"]),
    ],
)
def test_who_stands_where(inputs: tuple[InputSpec, ...], first: list[str], second: list[str]) -> None:
    found = sides(inputs)
    assert [inputs[place].name for place in found.first] == first
    assert [inputs[place].name for place in found.second] == second


def build(inputs: tuple[InputSpec, ...], modality_dropout: float = 0.0, **changes: Any) -> Senses:
    torch.manual_seed(0)
    structure = ZooStructure(width=8, **changes)
    return Senses(structure, structure.statistics, inputs, modality_dropout)


def test_inputs_of_one_side_stand_one_after_the_other() -> None:
    senses = build((IMAGE, QUESTION, TEXT), dropout=0.0).eval()
    batch = small_batch((IMAGE, QUESTION, TEXT), (), length=4, padded=True)
    _, together = senses(batch)
    assert together.tokens.shape == (4, 8, 8)
    # The same parts, read alone, and moved by the embedding of their place.
    vectors = []
    for place, name in enumerate(("question", "text")):
        h, mask = senses.extractors[name](batch, 4)
        wanted = senses.projections[name](h) + senses.segments[0][place]
        torch.testing.assert_close(together.tokens[:, 4 * place : 4 * place + 4], wanted)
        assert torch.equal(together.mask[:, 4 * place : 4 * place + 4], batch[f"{name}/mask"])
        vectors.append(senses.statistics[name](h, mask))
    torch.testing.assert_close(together.vector, (vectors[0] + vectors[1]) / 2)


@pytest.mark.parametrize("on", [False, True])
def test_without_positions_order_says_nothing_and_without_attention_a_word_hears_no_other(on: bool) -> None:
    batch = small_batch((TEXT,), ())
    senses = build((TEXT,), extractor=ExtractorStructure(positions=on)).eval()
    one, two = (_text(senses(given)).vector for given in (batch, {"text": batch["text"].flip(1)}))
    assert torch.allclose(one, two, atol=1e-5) == (not on)
    other = {"text": batch["text"].clone()}
    other["text"][:, 0] = (other["text"][:, 0] + 1) % TEXT.vocabulary
    senses = build((TEXT,), extractor=ExtractorStructure(self_attention=on)).eval()
    one, two = (_text(senses(given)).tokens[:, 1:] for given in (batch, other))
    assert torch.equal(one, two) == (not on)


@pytest.mark.parametrize("activation", ["none", "relu"])
def test_without_a_function_the_mean_over_patches_is_that_of_the_mean_patch(activation: str) -> None:
    """So that a zoo without a module on linear patches knows no more of an image than sums of pixels."""
    extractor = ExtractorStructure.model_validate({"blocks": 0, "positions": False, "activation": activation})
    senses = build((IMAGE,), dropout=0.0, extractor=extractor).eval()
    side = senses.extractors["image"].patch
    drawn = torch.randint(0, 256, (4, IMAGE.height // side, side, IMAGE.width // side, side, IMAGE.channels))
    # Each pixel of a patch is exchanged with that at the same place of some other patch.
    order = torch.rand(drawn.shape).argsort(1)
    image = drawn.to(torch.uint8)
    mixed = image.gather(1, order)
    one, two = (
        senses({"image": given.reshape(4, IMAGE.height, IMAGE.width, IMAGE.channels)})[0] for given in (image, mixed)
    )
    assert one is not None
    assert two is not None
    assert not torch.equal(image, mixed)
    assert torch.allclose(one.tokens.mean(1), two.tokens.mean(1), atol=1e-5) == (activation == "none")


def _text(pair: tuple[EncodedModality | None, EncodedModality | None]) -> EncodedModality:
    return pair[1]


# What is read


@pytest.mark.parametrize("inputs", [(IMAGE, TEXT), (IMAGE, QUESTION, TEXT, FACTS)])
@pytest.mark.parametrize("reads", [frozenset({"tokens"}), frozenset({"vector"})])
def test_what_nobody_reads_is_neither_built_nor_done(inputs: tuple[InputSpec, ...], reads: frozenset[Read]) -> None:
    structure, batch = ZooStructure(width=8, dropout=0), small_batch(inputs, (), padded=True)
    whole = Senses(structure, structure.statistics, inputs).eval()
    part = Senses(structure, structure.statistics, inputs, reads=reads).eval()
    missing = part.load_state_dict(whole.state_dict(), strict=False)
    assert not missing.missing_keys
    unread = ("statistics.",) if "tokens" in reads else ("projections.", "segments.")
    assert {name.partition(".")[0] + "." for name in missing.unexpected_keys} <= set(unread)
    assert not [name for name, _ in part.named_parameters() if name.startswith(unread)]
    stated = senses_parameters(structure, structure.statistics, inputs, reads)
    assert sum(stated.values()) == sum(parameter.numel() for parameter in part.parameters())
    with torch.no_grad(), counting(part) as counter:
        part(small_batch(inputs, (), count=3, length=TEXT.length))
    assert counter.flops == 3 * senses_work(structure, structure.statistics, inputs, reads).products
    with torch.no_grad():
        for one, two in zip(part(batch), whole(batch), strict=True):
            assert one.tokens.shape == (*two.tokens.shape[:2], 8 if "tokens" in reads else 0)
            assert one.vector.shape == (4, 8 if "vector" in reads else 0)
            for name in reads:
                assert torch.equal(getattr(one, name), getattr(two, name))


# Modality dropout


def test_modality_dropout_takes_one_side_and_never_both() -> None:
    count = 4000
    senses = build((IMAGE, TEXT), 0.4)
    batch = small_batch((IMAGE, TEXT), (), count=count, length=2)
    batch["text/present"] = torch.arange(count) % 5 > 0  # these have the image alone
    image, text = (side.present for side in senses(batch) if side is not None)
    assert bool((image | text).all())
    whole = batch["text/present"]
    assert bool(image[~whole].all())
    for side in (image, text):
        assert float((~side & whole).sum() / whole.sum()) == pytest.approx(0.2, abs=0.03)


def test_modality_dropout_is_off_in_evaluation_and_without_a_second_side() -> None:
    batch = small_batch((IMAGE, TEXT), ())
    assert all(side is not None and side.present is None for side in build((IMAGE, TEXT), 0.9).eval()(batch))
    assert _text(build((TEXT,), 0.9)(batch)).present is None
    with pytest.raises(UsageError, match="modality_dropout"):
        build((IMAGE, TEXT), 0.1, missing=False)
    with pytest.raises(UsageError, match="at least one input"):
        build(())


def test_dropout_is_on_both_products() -> None:
    sense = _text(build((TEXT,), dropout=0.5)(small_batch((TEXT,), (), count=50)))
    assert 0.4 < float((sense.tokens == 0).float().mean()) < 0.6
    assert 0.3 < float((sense.vector == 0).float().mean()) < 0.7


def test_learning_rates_are_those_that_differ_and_frozen_patches_stay() -> None:
    extractors = {"image": ExtractorStructure(learning_rate=0.1)}
    assert build((IMAGE, TEXT), extractors=extractors).learning_rates() == {"extractors.image.": 0.1}
    senses = build((IMAGE, TEXT), extractor=ExtractorStructure(patches="frozen"))
    image, text = senses.extractors["image"], senses.extractors["text"]
    assert not any(parameter.requires_grad for parameter in image.embedding.parameters())
    assert all(parameter.requires_grad for parameter in text.parameters())


def test_samples_of_another_shape_are_refused() -> None:
    senses = build((IMAGE, TEXT, FACTS, SOUND))
    good = small_batch((IMAGE, TEXT, FACTS, SOUND), ())
    for name, wrong in (
        ("image", torch.zeros(4, 4, 4, 3, dtype=torch.uint8)),
        ("text", torch.zeros(4, 8, dtype=torch.long)),
        ("facts", torch.zeros(4, 6)),
        ("sound", torch.zeros(4, 3, 5)),
        ("sound", torch.zeros(4, 8, 6)),
    ):
        with pytest.raises(UsageError, match=name):
            senses(good | {name: wrong})
