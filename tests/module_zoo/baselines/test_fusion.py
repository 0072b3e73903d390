"""Fusion in one vector, against the equations."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from evodevo.module_zoo.baselines.fusion import ConcatTrunk, GatedTrunk, LateTrunk, Perceptron
from evodevo.module_zoo.baselines.spec import BaselineStructure
from evodevo.module_zoo.encoders.model import EncodedModality


def structure(**more: Any) -> BaselineStructure:
    return BaselineStructure.model_validate({"width": 6, "heads": 1, "hidden": 10, "layers": 2, "dropout": 0.0, **more})


def sense(seed: int) -> EncodedModality:
    vector = torch.randn(3, 6, generator=torch.Generator().manual_seed(seed))
    return EncodedModality(torch.zeros(3, 4, 6), None, vector)


def reference(network: Perceptron, activation: nn.Module) -> nn.Sequential:
    """The same MLP as PyTorch's own layers."""
    layers: list[nn.Module] = []
    for layer in network.layers:
        layers += [layer, activation]
    return nn.Sequential(*layers, network.out)


def test_an_mlp_over_both() -> None:
    trunk = ConcatTrunk(structure(activation="relu", layers=3), 2)
    first, second = sense(0), sense(1)
    wanted = reference(trunk.mix, nn.ReLU())(torch.cat([first.vector, second.vector], -1))
    torch.testing.assert_close(trunk([first, second]).pooled, wanted)


def test_late_fusion_reads_what_each_network_says() -> None:
    trunk = LateTrunk(structure(activation="silu"), 2)
    senses = [sense(0), sense(1)]
    thought = trunk(senses)
    said = []
    for network, one, side in zip(trunk.each, senses, thought.sides, strict=True):
        assert isinstance(network, Perceptron)
        said.append(reference(network, nn.SiLU())(one.vector))
        torch.testing.assert_close(side, said[-1])
    torch.testing.assert_close(thought.pooled, reference(trunk.mix, nn.SiLU())(torch.cat(said, -1)))


def test_the_gated_unit_is_as_printed() -> None:
    """Arevalo et al. 2017, eqs. 1 to 5, one sample and one channel at a time."""
    trunk = GatedTrunk(structure(), 2)
    senses = [sense(0), sense(1)]
    assert trunk.gate is not None
    maps: list[Tensor] = [layer.weight for layer in trunk.each if isinstance(layer, nn.Linear)]
    h = torch.zeros(3, 6)
    for sample in range(3):
        both = torch.cat([one.vector[sample] for one in senses])
        for channel in range(6):
            first, second = (torch.tanh(m[channel] @ s.vector[sample]) for m, s in zip(maps, senses, strict=True))
            z = torch.sigmoid(trunk.gate.weight[channel] @ both)
            h[sample, channel] = z * first + (1 - z) * second
    torch.testing.assert_close(trunk(senses).pooled, trunk.mix(h))


def test_a_single_modality_has_nothing_to_gate() -> None:
    trunk, one = GatedTrunk(structure(), 1), sense(0)
    assert trunk.gate is None
    only = trunk.each[0]
    torch.testing.assert_close(trunk([one]).pooled, trunk.mix(torch.tanh(only(one.vector))))


def test_dropout_is_a_matter_of_training() -> None:
    network = Perceptron(6, structure(dropout=0.5))
    x = sense(0).vector
    assert torch.equal(network.eval()(x), network(x))
    assert not torch.equal(network.train()(x), network(x))
