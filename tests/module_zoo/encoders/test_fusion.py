"""Fusions of every kind: the laws, the paper's equations in plain loops, and what an image can say in each."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, get_args

import pytest
import torch
from torch import Tensor

from evodevo.module_zoo.encoders.fusion import Fused, Fusion, buckets
from evodevo.module_zoo.encoders.model import EncodedModality
from evodevo.module_zoo.spec import FusionStructure
from evodevo.testing.encoders import WIDTH, FusionTests, both_sides, build_fusion

KINDS: tuple[Any, ...] = get_args(FusionStructure.model_fields["kind"].annotation)
LITERAL = FusionStructure(kind="paper", projection=False, temperature="one", norm=False)
"""Section D as it is printed."""
VARIANTS: dict[str, FusionStructure] = {
    **{kind: FusionStructure(kind=kind) for kind in KINDS},
    "literal": LITERAL,
    "text asks": FusionStructure(query="text", norm=False, gate="channel"),
    "concat, no norm, channel": FusionStructure(kind="concat", norm=False, gate="channel"),
    "symmetric, own values, text asks": FusionStructure(kind="symmetric", values="own", query="text"),
    "gmu, half": FusionStructure(kind="gmu", gate="half"),
    "relative positions": FusionStructure(relative_positions=True, values="own", gate="half"),
    "symmetric, relative positions": FusionStructure(
        kind="symmetric", relative_positions=True, norm=False, gate="channel"
    ),
    "beside the query": FusionStructure(concat_query=True, query="text"),
    "one head": FusionStructure(heads=1, temperature="one"),
    "rank 3": FusionStructure(kind="bilinear", rank=3, norm=False, gate="channel"),
}


class TestFusion(FusionTests):
    @pytest.fixture(params=VARIANTS.values(), ids=list(VARIANTS))
    def structure(self, request: pytest.FixtureRequest) -> FusionStructure:
        return request.param

    def test_the_text_is_heard(self, structure: FusionStructure) -> None:
        fusion = build_fusion(structure)
        images, texts = both_sides()
        other = replace(texts, tokens=texts.tokens.flip(0))
        moved = (fusion(images, texts).vector - fusion(images, other).vector).detach()
        assert float(moved.abs().amax(1).min()) > 1e-3


# As printed


@torch.no_grad()
@pytest.mark.parametrize("heads", [1, 4])
def test_the_printed_form_is_equations_39_to_43(heads: int) -> None:
    fusion = build_fusion(LITERAL.model_copy(update={"heads": heads}))
    images, texts = both_sides(masked=True)
    fused = fusion(images, texts)
    for row, (here, there) in enumerate(zip(images.mask, texts.mask, strict=True)):
        tokens, vector = by_the_book(fusion, images.tokens[row][here], texts.tokens[row][there], heads)
        torch.testing.assert_close(fused.tokens[row][here], tokens)
        torch.testing.assert_close(fused.vector[row], vector)


def by_the_book(fusion: Fusion, images: Tensor, texts: Tensor, heads: int) -> tuple[Tensor, Tensor]:
    """Equations 39 to 43 for one sample, one number at a time."""
    attention, gate = fusion.attentions[0], fusion.gate
    size = WIDTH // heads
    fused = torch.zeros(len(images), WIDTH, dtype=torch.float64)
    for head in range(heads):
        part = slice(head * size, (head + 1) * size)
        w_q, w_k, w_v = (one.weight[part] for one in (attention.query, attention.key, attention.value))
        for i, image in enumerate(images):
            scores = [float((w_q @ image) @ (w_k @ text)) / math.sqrt(size) for text in texts]
            total = sum(math.exp(score) for score in scores)
            for score, text in zip(scores, texts, strict=True):
                fused[i, part] += math.exp(score) / total * (w_v @ text)
    both = torch.cat([images.mean(0), texts.mean(0)])
    g = torch.sigmoid((gate.map.weight @ both + gate.map.bias).squeeze())
    return fused, g * fused.mean(0) + (1 - g) * texts.mean(0)


# What the image can say (docs/spec/architect_thyself.md#fusion)


def with_one_token(structure: FusionStructure) -> tuple[Fused, Fused, EncodedModality]:
    """Two different images with the same text of one token."""
    fusion = build_fusion(structure)
    images, texts = both_sides()
    lone = replace(texts, tokens=texts.tokens[:, :1])
    other = replace(images, tokens=images.tokens.flip(0) * 2)
    return fusion(images, lone), fusion(other, lone), lone


def test_as_printed_one_token_of_text_hides_the_image_but_for_one_number() -> None:
    """With the learned gate, f stays on the line between two vectors that are made from the text alone."""
    for norm in (True, False):
        one, two, _ = with_one_token(LITERAL.model_copy(update={"norm": norm, "gate": "half"}))
        torch.testing.assert_close(one.tokens, two.tokens)
        torch.testing.assert_close(one.vector, two.vector)
    one, two, lone = with_one_token(LITERAL)
    torch.testing.assert_close(one.tokens, two.tokens)
    ends = one.tokens.mean(1), lone.tokens[:, 0]
    for fused in (one, two):
        along = ends[0] - ends[1]
        share = ((fused.vector - ends[1]) * along).sum(1, keepdim=True) / along.square().sum(1, keepdim=True)
        assert bool(((share > 0) & (share < 1)).all())
        torch.testing.assert_close(fused.vector, ends[1] + share * along)


@pytest.mark.parametrize("kind", ["asym_residual", "symmetric", "concat", "gmu", "bilinear"])
def test_otherwise_the_image_is_seen(kind: Any) -> None:
    one, two, _ = with_one_token(FusionStructure(kind=kind, gate="half"))
    assert float((one.tokens - two.tokens).detach().abs().amax((1, 2)).min()) > 0.01
    assert float((one.vector - two.vector).detach().abs().amax(1).min()) > 0.01


# Switches


def test_attention_is_that_of_pytorch() -> None:
    attention = build_fusion(FusionStructure(temperature="one")).attentions[0]
    reference = torch.nn.MultiheadAttention(WIDTH, 4, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        reference.in_proj_weight.copy_(
            torch.cat([one.weight for one in (attention.query, attention.key, attention.value)])
        )
        reference.in_proj_bias.zero_()
        reference.out_proj.load_state_dict(attention.project.state_dict())
    images, texts = both_sides(masked=True)
    wanted, _ = reference(images.tokens, texts.tokens, texts.tokens, key_padding_mask=~texts.mask)
    torch.testing.assert_close(attention(images.tokens, texts.tokens, texts.mask), wanted)


@torch.no_grad()
@pytest.mark.parametrize("relative_positions", [False, True])
def test_who_has_nothing_real_to_say_answers_nothing(relative_positions: bool) -> None:
    """Neither padding nor how much of it there is reaches the image of an empty text."""
    fusion = build_fusion(FusionStructure(projection=False, norm=False, relative_positions=relative_positions))
    images, texts = both_sides(masked=False)
    empty = torch.zeros(texts.tokens.shape[:2], dtype=torch.bool)
    fused = fusion(images, replace(texts, mask=empty))
    assert torch.equal(fused.tokens, images.tokens)
    shorter = fusion(images, replace(texts, tokens=texts.tokens[:, :1], mask=empty[:, :1]))
    torch.testing.assert_close(shorter.vector, fused.vector)


def test_temperature_sharpens() -> None:
    fusion = build_fusion(FusionStructure())
    attention = fusion.attentions[0]
    images, texts = both_sides()
    with torch.no_grad():
        attention.log_temperature.fill_(math.log(1e-6))
        mixed = attention(images.tokens, texts.tokens, None)
        query, key, value = (
            one.unflatten(-1, (4, 2)).transpose(1, 2)
            for one in (attention.query(images.tokens), attention.key(texts.tokens), attention.value(texts.tokens))
        )
        nearest = (query @ key.mT).argmax(-1, keepdim=True).expand(-1, -1, -1, 2)
        hardest = attention.project(value.gather(2, nearest).transpose(1, 2).flatten(2))
    torch.testing.assert_close(mixed, hardest)


def test_who_asks_can_be_swapped_and_has_its_own_values_or_stands_beside_what_was_fused() -> None:
    images, texts = both_sides(masked=True)
    one = build_fusion(FusionStructure(query="text"))(images, texts)
    two = build_fusion(FusionStructure())(texts, images)
    torch.testing.assert_close(one.tokens, two.tokens)
    torch.testing.assert_close(one.vector, two.vector)
    images, texts = both_sides(masked=True)
    own = build_fusion(FusionStructure(values="own"))
    one, two = own(images, texts), own(images, replace(texts, tokens=texts.tokens.flip(0)))
    torch.testing.assert_close(one.tokens, two.tokens)
    assert not torch.allclose(one.vector, two.vector)
    plain = build_fusion(FusionStructure())(images, texts)
    beside = build_fusion(FusionStructure(concat_query=True))(images, texts)
    torch.testing.assert_close(beside.tokens, torch.cat([plain.tokens, images.tokens], 1))
    torch.testing.assert_close(beside.vector, plain.vector)
    with pytest.raises(ValueError, match="count=2"):
        Fusion(WIDTH, FusionStructure(), 1)(images, texts)


@pytest.mark.parametrize("kind", KINDS)
def test_gates_start_at_one_half(kind: Any) -> None:
    images, texts = (replace(one, tokens=one.tokens.float()) for one in both_sides())
    fused = []
    for gate in ("sample", "channel", "half"):
        torch.manual_seed(0)
        fusion = Fusion(WIDTH, FusionStructure(kind=kind, gate=gate))
        state = {name: torch.full_like(p, 0.1) for name, p in fusion.named_parameters() if not name.startswith("gate")}
        fusion.load_state_dict(state, strict=False)
        fused.append(fusion(images, texts))
    for other in fused[1:]:
        torch.testing.assert_close(fused[0].vector, other.vector)


def test_relative_positions_tell_patches_apart() -> None:
    """Equal texts and images: only the distance can make a difference."""
    images, texts = both_sides()
    same = replace(images, tokens=images.tokens[:, :1].expand(-1, 5, -1))
    for relative in (False, True):
        fused = build_fusion(FusionStructure(relative_positions=relative, norm=False))(same, texts)
        assert torch.allclose(fused.tokens[:, 0], fused.tokens[:, 1]) == (not relative)
    start = Fusion(WIDTH, FusionStructure(relative_positions=True))
    assert not any(parameter.any() for name, parameter in start.named_parameters() if ".bias.weight" in name)


@pytest.mark.slow
def test_buckets_are_those_of_t5() -> None:
    reference = pytest.importorskip("transformers.models.t5.modeling_t5").T5Attention
    distances = torch.arange(-300, 301)
    wanted = reference._relative_position_bucket(distances, bidirectional=True, num_buckets=32, max_distance=128)
    assert torch.equal(buckets(distances), wanted)
