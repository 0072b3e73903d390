"""Checks of generated source: what a row writes into ``model.py`` computes what its module computes."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from evodevo.networks.base import Network
from evodevo.networks.tensors import TensorNetwork
from evodevo.operators.base import Operator
from evodevo.operators.layers.base import LayerSpec
from evodevo.operators.source.rows import layer_source
from evodevo.operators.source.sheet import LINE, Program, SourceSheet
from evodevo.testing.networks import small_batch

TOLERANCE = 1e-5
"""Largest difference as a share of the largest number, or of 1 where all are smaller."""
_LAYER = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = {made}

    def forward(self, x, mask):
        return self.layer(x, mask)
"""


def run_text(text: str) -> nn.Module:
    """The ``Model()`` of a generated file, in evaluation mode, with weights that are not set."""
    assert "evodevo" not in text.partition('"""\n\n')[2], "nothing after the docstring names it"
    assert max(map(len, text.splitlines())) <= LINE + 4
    names: dict[str, Any] = {"__file__": "model.py"}
    exec(compile(text, "model.py", "exec"), names)  # noqa: S102 - our own text
    model = names["Model"]().eval()
    assert isinstance(model, nn.Module)
    return model


def run_program(program: Program) -> nn.Module:
    """The network of a program with its weights."""
    model = run_text(program.text)
    model.load_state_dict(dict(program.weights))
    return model


def check_layer(spec: LayerSpec, layer: Operator, width: int, *, causal: bool, residual: bool = True) -> None:
    """The source of a layer computes what the layer computes: all real, with holes, and with samples without anything.

    Args:
        spec: The layer's row.
        layer: What it builds.
        width: Channels d of the messages.
        causal, residual: Arguments with which it was built.
    """
    sheet = SourceSheet()
    made = layer_source(spec, sheet, width, causal=causal, residual=residual)
    model = run_text(sheet.text("A layer.", _LAYER.format(made=made)))
    model.layer.load_state_dict(layer.state_dict())  # type: ignore[union-attr]
    x = torch.randn(3, 14, width, generator=torch.Generator().manual_seed(1))
    holes = torch.rand(3, 14, generator=torch.Generator().manual_seed(2)) > 0.4
    short = torch.arange(14) < torch.tensor([14, 5, 0]).unsqueeze(1)
    for mask in (None, holes, short):
        with torch.no_grad():
            wanted, found = layer.eval()(x, mask=mask).y, model(x, mask)
        real = torch.ones(3, 14, dtype=torch.bool) if mask is None else mask
        _close(found[real], wanted[real], f"{spec.label}, causal={causal}")


def check_network(network: Network, program: Program, *, scale: float = 50.0, count: int = 4) -> None:
    """The source of a network answers as the network, with masks and without.

    Args:
        network: The network.
        program: Its source.
        scale: Factor of the logits' weights, which start so small that a difference could hide.
        count: Samples.
    """
    assert network.training is False
    model = run_program(program)
    with torch.no_grad():
        for one in (network, model):
            for name, parameter in one.named_parameters():
                if name.endswith("head.weight"):
                    parameter.mul_(scale)
    tensors = TensorNetwork(network)
    assert len(program.inputs) == len(tensors.names)
    for seed, padded in ((0, False), (1, True)):
        batch = small_batch(
            network.input_specs,
            network.output_specs,
            seed=seed,
            count=count,
            padded=padded and any("/mask" in name for name in tensors.names),
        )
        with torch.no_grad():
            wanted = network(batch)
            found = model(*(batch.get(name) for name in tensors.names))
        for spec, one in zip(network.output_specs, found, strict=True):
            _close(one, wanted[spec.name], f"output {spec.name}")


def _close(found: torch.Tensor, wanted: torch.Tensor, what: str) -> None:
    assert found.shape == wanted.shape, what
    limit = TOLERANCE * max(1.0, float(wanted.abs().max()))
    torch.testing.assert_close(found, wanted, rtol=0, atol=limit, msg=lambda words: f"{what}: {words}")
