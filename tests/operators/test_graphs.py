"""Operators as graphs of torch.export: any length where it is free, and no trace is left in the operator."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export

from evodevo.operators.attention import Rotary
from evodevo.operators.build import build_operator
from evodevo.operators.classes import OPERATORS
from evodevo.operators.spec import Dimensions

CLASSES = ["Rec-2", "GConv-2"]


class Sum(nn.Module):
    def __init__(self, operators: list[nn.Module]) -> None:
        super().__init__()
        self.operators = nn.ModuleList(operators)

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([operator(x).y for operator in self.operators]).sum(0)


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.slow
@pytest.mark.parametrize("long_filter", ["modal", "mlp"])
def test_one_graph_serves_every_length(long_filter: str) -> None:
    dims = Dimensions(width=32, head_size=8, long_filter=long_filter, max_length=100)
    torch.manual_seed(0)
    names = CLASSES if long_filter == "modal" else ["GConv-2"]
    model = Sum([build_operator(OPERATORS.get(name).spec, dims) for name in names]).requires_grad_(False)
    free = {0: Dim("samples", min=1, max=16), 1: Dim("tokens", min=1, max=100)}
    graph = export(model, (drawn(3, 40, 32),), dynamic_shapes=(free,)).module()
    for samples, tokens in ((1, 1), (2, 2), (1, 33), (2, 100)):
        x = drawn(samples, tokens, 32)
        torch.testing.assert_close(graph(x), model(x), rtol=0, atol=1e-5)


def test_positions_after_tracing_are_those_of_before() -> None:
    class Rotated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rotary = Rotary(8)

        def forward(self, x: Tensor, positions: Tensor) -> Tensor:
            return self.rotary(x, slice(0, x.shape[2])) + self.rotary(x, positions)

    model, x = Rotated(), drawn(2, 3, 5, 8)
    positions = torch.arange(5).expand(2, 5) + torch.tensor([[0], [7]])
    wanted = Rotated()(x, positions)
    graph = export(model, (x, positions)).module()
    assert torch.equal(model(x, positions), wanted), "nothing of the tracer is kept"
    assert torch.equal(graph(x, positions), wanted)
    long = drawn(1, 1, 300, 8)
    assert torch.equal(model.rotary(long, slice(0, 300)), Rotary(8)(long, slice(0, 300)))
