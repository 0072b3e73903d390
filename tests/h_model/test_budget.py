"""A budget of FLOPs is kept, and spent on the layers that are heard most (docs/spec/h_model.md#skipping)."""

from __future__ import annotations

import pytest
import torch

from evodevo.h_model.cost import layer_flops
from evodevo.h_model.model import HModel
from evodevo.h_model.spec import HModelStructure
from evodevo.networks.routing.spec import InferenceStructure
from evodevo.operators.layers.mlp import MLPLayer
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec

INPUTS = (InputSpec("text", "tokens", length=6, vocabulary=11),)
OUTPUTS = (OutputSpec("answer", "class", 3),)
STRUCTURE = HModelStructure(
    width=16, hidden=(TransformerLayer(), MLPLayer(), TransformerLayer(feedforward=128), MLPLayer()), iterations=3
)


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.9, 1.0])
def test_each_sample_stays_within_its_budget(share: float) -> None:
    torch.manual_seed(0)
    model = HModel(STRUCTURE, INPUTS, OUTPUTS).eval()
    for router in model.core.routers:
        torch.nn.init.normal_(router.outer.weight, std=2.0)
    prices = torch.tensor(layer_flops(STRUCTURE, 6), dtype=torch.float64)
    everything = float(prices.sum()) * STRUCTURE.iterations
    model.inference = InferenceStructure(mode="budget", flops=share * everything)
    trace = model.trace({"text": torch.randint(11, (9, 6))})
    spent = (torch.from_numpy(trace.called).double() * prices).sum((1, 2))
    assert (spent <= share * everything * (1 + 1e-6)).all()
    if share == 1.0:
        assert trace.called.all()
    if share == 0.0:
        assert not trace.called.any()
    if share == 0.5:
        assert (spent > 0).all()
