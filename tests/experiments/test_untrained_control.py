"""The untrained control of a probe has routers that react, or every gain would flatter."""

from __future__ import annotations

import torch

from evodevo.h_model.model import HModel
from evodevo.h_model.spec import HModelStructure
from evodevo.h_model.trace.diagnose import with_random_routers
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec

INPUTS = (InputSpec("text", "tokens", length=6, vocabulary=11),)
OUTPUTS = (OutputSpec("answer", "class", 3),)


def test_random_routers_tell_inputs_apart_where_new_ones_do_not() -> None:
    torch.manual_seed(0)
    model = HModel(HModelStructure(width=16, hidden=(TransformerLayer(),) * 3, iterations=2), INPUTS, OUTPUTS)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    batch = {"text": torch.randint(11, (20, 6))}
    assert model.trace(batch).routes().std(0).max() < 1e-6
    control = with_random_routers(model, seed=1)
    routes = control.trace(batch).routes()
    assert routes.std(0).max() > 1e-3
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items()), "a copy"
    changed = {name for name, value in control.state_dict().items() if not torch.equal(before[name], value)}
    assert changed
    assert all("routers" in name and name.endswith("outer.weight") for name in changed)
    assert (with_random_routers(model, seed=1).trace(batch).routes() == routes).all()
