"""What stands between the senses and the answers of opponents, against the equations and PyTorch's own attention."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from evodevo.module_zoo.baselines.fusion import ConcatTrunk, GatedTrunk, LateTrunk, Perceptron
from evodevo.module_zoo.baselines.spec import BaselineStructure
from evodevo.module_zoo.baselines.streams import CrossModality, CrossModalityTrunk, StreamAttention, TwoStreamTrunk
from evodevo.module_zoo.baselines.trunk import Trunk
from evodevo.module_zoo.encoders.model import EncodedModality

STREAMS = (TwoStreamTrunk, CrossModalityTrunk)


def structure(**more: Any) -> BaselineStructure:
    return BaselineStructure.model_validate({"width": 8, "heads": 2, "hidden": 12, "layers": 2, "dropout": 0.0, **more})


def sense(length: int, seed: int) -> EncodedModality:
    source = torch.Generator().manual_seed(seed)
    return EncodedModality(torch.randn(3, length, 8, generator=source), None, torch.randn(3, 8, generator=source))


# One vector


def reference(network: Perceptron, activation: nn.Module) -> nn.Sequential:
    """The same MLP as PyTorch's own layers."""
    layers: list[nn.Module] = []
    for layer in network.layers:
        layers += [layer, activation]
    return nn.Sequential(*layers, network.out)


def test_an_mlp_reads_both_and_late_fusion_what_each_network_says() -> None:
    trunk, first, second = ConcatTrunk(structure(activation="relu", layers=3), 2), sense(5, 0), sense(7, 1)
    wanted = reference(trunk.mix, nn.ReLU())(torch.cat([first.vector, second.vector], -1))
    torch.testing.assert_close(trunk([first, second]).pooled, wanted)
    network = Perceptron(8, structure(dropout=0.5))
    assert torch.equal(network.eval()(first.vector), network(first.vector))
    assert not torch.equal(network.train()(first.vector), network(first.vector)), "dropout is a matter of training"
    trunk = LateTrunk(structure(activation="silu"), 2)
    senses = [sense(5, 0), sense(7, 1)]
    thought = trunk(senses)
    said = []
    for network, one, side in zip(trunk.each, senses, thought.sides, strict=True):
        said.append(reference(network, nn.SiLU())(one.vector))
        torch.testing.assert_close(side, said[-1])
    torch.testing.assert_close(thought.pooled, reference(trunk.mix, nn.SiLU())(torch.cat(said, -1)))


def test_the_gated_unit_is_as_printed() -> None:
    """Arevalo et al. 2017, eqs. 1 to 5, one sample and one channel at a time."""
    trunk = GatedTrunk(structure(), 2)
    senses = [sense(5, 0), sense(7, 1)]
    maps: list[Tensor] = [layer.weight for layer in trunk.each if isinstance(layer, nn.Linear)]
    h = torch.zeros(3, 8)
    for sample in range(3):
        both = torch.cat([one.vector[sample] for one in senses])
        for channel in range(8):
            first, second = (torch.tanh(m[channel] @ s.vector[sample]) for m, s in zip(maps, senses, strict=True))
            z = torch.sigmoid(trunk.gate.weight[channel] @ both)
            h[sample, channel] = z * first + (1 - z) * second
    torch.testing.assert_close(trunk(senses).pooled, trunk.mix(h))
    lone, one = GatedTrunk(structure(), 1), sense(5, 0)
    assert lone.gate is None, "a single modality has nothing to gate"
    torch.testing.assert_close(lone([one]).pooled, lone.mix(torch.tanh(lone.each[0](one.vector))))


# Streams


@pytest.mark.parametrize("padded", [False, True])
def test_cross_attention_is_multi_head_attention(padded: bool) -> None:
    mine, theirs = StreamAttention(8, 2, 0.0), nn.MultiheadAttention(8, 2, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([mine.query.weight, mine.context.weight]))
        theirs.in_proj_bias.copy_(torch.cat([mine.query.bias, mine.context.bias]))
        theirs.out_proj.load_state_dict(mine.out.state_dict())
    x, other = torch.randn(3, 5, 8), torch.randn(3, 7, 8)
    mask = torch.arange(7) < torch.tensor([7, 2, 4])[:, None] if padded else None
    wanted = theirs(x, other, other, key_padding_mask=None if mask is None else ~mask)[0]
    torch.testing.assert_close(mine(x, other, mask), wanted)


@pytest.mark.parametrize("trunk", STREAMS)
def test_who_has_nothing_real_to_say_is_not_heard(trunk: type[Trunk]) -> None:
    """Padding of an empty text is read by nobody, however much of it there is and whatever stands in it."""
    built = trunk(structure(), 2)
    real = torch.arange(7) < torch.tensor([[0], [3], [7]])
    for first_empty in (False, True):
        answers = []
        for seed, more in ((1, 0), (2, 4)):
            mask = torch.cat([real, torch.zeros(3, more, dtype=torch.bool)], 1)
            tokens = torch.cat([sense(7, 1).tokens, torch.zeros(3, more, 8)], 1)
            one = EncodedModality(
                torch.where(mask[..., None], tokens, sense(7 + more, seed).tokens), mask, torch.zeros(3, 8)
            )
            thought = built([one, sense(5, 0)] if first_empty else [sense(5, 0), one])
            heard = thought.tokens if thought.mask is None else thought.tokens[thought.mask]
            answers.append((thought.pooled, heard))
        torch.testing.assert_close(*answers)


def test_a_product_of_two_streams_answers_or_the_second_modality_across() -> None:
    """ViLBERT: where one stream says nothing, nothing is said."""
    trunk = TwoStreamTrunk(structure(), 2)
    thought = trunk([sense(5, 0), sense(7, 1)])
    assert thought.tokens.shape == (3, 12, 8)
    assert thought.pooled.any()
    pooler = trunk.poolers[1]
    with torch.no_grad():
        pooler.weight.zero_()
        pooler.bias.fill_(-1.0)
    assert not trunk([sense(5, 0), sense(7, 1)]).pooled.any()
    # LXMERT: the tokens are those of the text side, and the first side's last blocks would be for nobody.
    trunk = CrossModalityTrunk(structure(layers=3), 2)
    assert trunk([sense(5, 0), sense(7, 1)]).tokens.shape == (3, 7, 8)
    assert [len(layer.thinks) for layer in trunk.layers if isinstance(layer, CrossModality)] == [2, 2, 1]


@pytest.mark.parametrize("trunk", STREAMS)
def test_a_single_modality_is_a_transformer_over_it(trunk: type[Trunk]) -> None:
    built = trunk(structure(), 1)
    assert not [one for one in built.modules() if isinstance(one, StreamAttention)]
    assert built([sense(5, 0)]).tokens.shape == (3, 5, 8)
