"""Hyper-connections: the plain stack at the start, and a loop over streams with any weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from evodevo.experiments.flop_counter import counting
from evodevo.networks.build import build_network
from evodevo.networks.stacks.hyper_connections import HyperConnectionsNetwork
from evodevo.networks.stacks.hyper_connections_model import HyperConnection, HyperStack
from evodevo.networks.stacks.spec import HyperConnectionsStructure, StackStructure
from evodevo.networks.stacks.stack import StackNetwork
from evodevo.operators.layers.mlp import MLPLayer
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.operators.liv import NORM_EPSILON
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec

WORDS = InputSpec("words", "tokens", length=5, vocabulary=11)
ANSWER = OutputSpec("answer", "class", 3)
LAYERS = (TransformerLayer(heads=2), MLPLayer(hidden=12), MLPLayer(hidden=6))


def structure(**changes: Any) -> HyperConnectionsStructure:
    values = {"width": 8, "layers": LAYERS, "streams": 2, "repeats": 2, "iteration_embedding": True, **changes}
    return HyperConnectionsStructure.model_validate(values)


def network(**changes: Any) -> HyperStack:
    built = build_network(HyperConnectionsNetwork(structure=structure(**changes)), (WORDS,), (ANSWER,), seed=0)
    assert isinstance(built, HyperStack)
    return built.double().eval()


def elsewhere(model: HyperStack) -> HyperStack:
    """With connections that are not those of the start."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.connections.parameters():
            parameter += 0.5 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
    return model


def batch(count: int = 4) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(3)
    lengths = torch.tensor([5, 3, 1, 4])[:count]
    words = torch.randint(11, (count, 5), generator=generator)
    return {"words": words, "words/mask": torch.arange(5) < lengths[:, None], "answer/target": torch.arange(count) % 3}


@pytest.mark.parametrize("streams", [1, 2, 5])
@pytest.mark.parametrize("dynamic", [False, True])
def test_it_begins_as_the_plain_stack(streams: int, dynamic: bool) -> None:
    model = network(streams=streams, dynamic=dynamic)
    plain = StackStructure.model_validate(structure().model_dump(exclude={"streams", "dynamic"}))
    stack = build_network(StackNetwork(structure=plain), (WORDS,), (ANSWER,), seed=0).double().eval()
    stack.load_state_dict({name: value for name, value in model.state_dict().items() if "connections" not in name})
    with torch.no_grad():
        torch.testing.assert_close(model(batch()), stack(batch()), atol=1e-12, rtol=1e-12)


def test_each_layer_begins_with_a_stream_of_its_own() -> None:
    """A_m begins as the unit vector of (layer mod n)."""
    begun = [connection.inward.tolist() for connection in network(streams=2).connections]
    assert begun == [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]


def matrices(connection: HyperConnection, streams: list[Tensor]) -> tuple[list[float], list[list[float]], list[float]]:
    """B, A_r and A_m of one position, number by number, from its streams (d,)."""
    count = len(streams)
    into, across = connection.inward.tolist(), connection.across.tolist()
    out = connection.outward.tolist()
    if connection.dynamic is not None:
        scale_b, scale_a = connection.scales.tolist()
        for i, stream in enumerate(streams):
            seen = stream / (stream.square().mean() + NORM_EPSILON).sqrt()
            said = torch.tanh(connection.dynamic @ seen).tolist()
            out[i] += scale_b * said[0]
            into[i] += scale_a * said[1]
            for j in range(count):
                across[i][j] += scale_a * said[2 + j]
    return out, across, into


@pytest.mark.parametrize("dynamic", [False, True])
@torch.no_grad()
def test_it_is_the_loop_over_streams(dynamic: bool) -> None:
    """H' = A_r^T H + B^T T(A_m^T H); layers that look at one position alone."""
    layers = (MLPLayer(hidden=12), MLPLayer(hidden=6))
    model = elsewhere(network(layers=layers, streams=3, dynamic=dynamic))
    x = torch.randn(2, 4, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    expected = torch.zeros_like(x)
    for sample in range(2):
        for place in range(4):
            streams = [x[sample, place]] * 3
            for t in range(2):
                streams = [stream + model.embedding.vector(t) for stream in streams]
                for layer, connection in zip(model.layers, model.connections, strict=True):
                    assert isinstance(connection, HyperConnection)
                    out, across, into = matrices(connection, streams)
                    read = sum(into[i] * streams[i] for i in range(3))
                    made = layer(read.view(1, 1, 8)).y.view(8) - read
                    streams = [sum(across[i][j] * streams[i] for i in range(3)) + out[j] * made for j in range(3)]
            expected[sample, place] = sum(streams) / 3
    torch.testing.assert_close(model.update(x, None)[0], expected, atol=1e-11, rtol=1e-11)


@pytest.mark.parametrize("dynamic", [False, True])
def test_stated_work_is_counted(dynamic: bool) -> None:
    model = network(streams=3, dynamic=dynamic)
    words = {"words": torch.zeros(2, 5, dtype=torch.long)}
    with torch.no_grad(), counting(model) as counter:
        model(words)
    stated = HyperConnectionsNetwork(structure=structure(streams=3, dynamic=dynamic)).cost(
        inputs=(WORDS,), outputs=(ANSWER,), batch=2
    )
    assert stated.executed_flops == counter.flops


def test_connections_learn() -> None:
    model = network(streams=2, dynamic=True).train()
    model.loss(batch()).backward()
    for name, parameter in model.connections.named_parameters():
        moved = bool(parameter.grad is not None and parameter.grad.abs().sum() > 0)
        assert moved != name.endswith("scales"), name
    model = elsewhere(model)
    model.zero_grad()
    model.loss(batch()).backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in model.connections.parameters())


def test_residuals_are_not_taken_away_too() -> None:
    with pytest.raises(ValidationError, match="take the place of residual ones"):
        structure(residual=False)
