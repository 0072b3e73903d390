"""Contrastive alignment against naive sums, with matches, duplicates, and a temperature that stays in its bounds."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from evodevo.module_zoo.encoders.alignment import Alignment, numbered


def pair(count: int = 6, seed: int = 0) -> tuple[Tensor, Tensor]:
    source = torch.Generator().manual_seed(seed)
    one, two = (torch.randn(count, 8, generator=source, dtype=torch.float64) for _ in range(2))
    return one, two


def nats(loss: Tensor) -> float:
    return float(loss.detach())


def naive(images: Tensor, texts: Tensor, tau: float, positives: list[set[int]]) -> float:
    """Equation 38, text to image, the mean over positives where there are several."""
    total = 0.0
    for text, own in zip(texts, positives, strict=True):
        sims = [float(text @ image / (text.norm() * image.norm())) / tau for image in images]
        partition = sum(math.exp(sim) for sim in sims)
        total += sum(-math.log(math.exp(sims[one]) / partition) for one in own) / len(own)
    return total / len(texts)


def test_one_direction_is_as_printed_and_both_are_their_mean() -> None:
    images, texts = pair()
    own = [{row} for row in range(6)]
    printed, turned = naive(images, texts, 0.2, own), naive(texts, images, 0.2, own)
    assert nats(Alignment(0.2, both=False)(images, texts)) == pytest.approx(printed)
    assert nats(Alignment(0.2)(images, texts)) == pytest.approx((printed + turned) / 2), "the loss of CLIP"
    assert nats(Alignment(0.2)(texts, images)) == pytest.approx((printed + turned) / 2)
    same = torch.tensor([0, 0, 1, 2, 3, 4]), torch.tensor([0, 1, 2, 2, 3, 4])
    positives = [{0, 1}, {0, 1}, {2, 3}, {2, 3}, {4}, {5}]
    found = nats(Alignment(0.2, both=False)(images, texts, same=same))
    assert found == pytest.approx(naive(images, texts, 0.2, positives)), "equal texts or images are positives"


def test_equal_samples_have_equal_numbers_and_are_no_negatives_of_each_other() -> None:
    """Twice the same pair: with their numbers given, the loss can reach log 2, and no less."""
    images = torch.eye(4, 8).repeat(2, 1)
    same = (numbered(images), numbered(images))
    assert nats(Alignment(0.01)(images, images, same=same)) == pytest.approx(math.log(2), abs=1e-4)
    raw = torch.tensor([[[1, 2], [2, 1]], [[2, 1], [1, 2]], [[1, 2], [2, 1]]])
    for one in (raw, raw.half(), raw.double(), raw.to(torch.uint8)):
        found = numbered(one)
        assert found[0] == found[2] != found[1]
    assert numbered(torch.tensor([3, 1, 3])).tolist() == [1, 0, 1]
    assert numbered(torch.empty(3, 0)).tolist() == [0, 0, 0]


def test_only_matched_pairs_count() -> None:
    images, texts = pair()
    matched = torch.tensor([True, False, True, True, False, True])
    alignment = Alignment(0.2)
    same = (torch.arange(6), torch.arange(6) // 2)
    wanted = alignment(images[matched], texts[matched], same=(same[0][matched], same[1][matched]))
    assert torch.equal(alignment(images, texts, matched, same), wanted)
    assert torch.equal(alignment(images, texts, torch.ones(6, dtype=torch.bool)), alignment(images, texts))
    for count in (0, 1):
        loss = alignment(images, texts, torch.arange(6) < count)
        assert loss.shape == ()
        assert nats(loss) == 0, "fewer than two pairs say nothing"


def test_the_temperature_is_learned_and_bounded_and_finds_back() -> None:
    alignment = Alignment(0.07)
    assert float(alignment.temperature.detach()) == pytest.approx(0.07)
    images, texts = pair()
    for start, bound in ((1e-4, 0.01), (30.0, 1.0)):
        with torch.no_grad():
            alignment.log_temperature.fill_(math.log(start))
        assert float(alignment.temperature.detach()) == pytest.approx(bound)
        (gradient,) = torch.autograd.grad(alignment(images, texts), alignment.log_temperature)
        assert float(gradient.abs()) > 0


def test_it_is_finite_for_zeros_and_in_half_precision() -> None:
    alignment = Alignment()
    images = torch.zeros(3, 8, requires_grad=True)
    loss = alignment(images, torch.zeros(3, 8))
    assert float(loss.detach()) == pytest.approx(math.log(3))
    (gradient,) = torch.autograd.grad(loss, images)
    assert bool(gradient.isfinite().all())
    assert alignment(images.bfloat16(), images.bfloat16()).dtype == torch.float32
