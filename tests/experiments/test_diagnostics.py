"""What is measured inside a trained network does not depend on what was drawn before."""

from __future__ import annotations

import torch

from evodevo.experiments.diagnostics import gradient_norms
from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.modules.zoo import start_zoo
from evodevo.module_zoo.spec import ZooStructure
from evodevo.networks.towers.spec import ExtractorStructure
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec
from evodevo.testing.networks import small_batch

INPUTS = (InputSpec("image", "image", height=8, width=8, channels=1),)
OUTPUTS = (OutputSpec("answer", "class", 3),)


def test_the_norms_of_a_network_with_dropout_are_the_same_each_time_and_nothing_is_drawn_from_the_stream() -> None:
    torch.manual_seed(3)
    structure = ZooStructure(width=8, modules=start_zoo(8)[1:2], extractor=ExtractorStructure(blocks=0), dropout=0.5)
    zoo, batch = ModuleZoo(structure, INPUTS, OUTPUTS), small_batch(INPUTS, OUTPUTS, count=8)
    norms = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        state = torch.get_rng_state()
        norms.append(gradient_norms(zoo, batch))
        assert torch.equal(torch.get_rng_state(), state)
    assert norms[0] == norms[1]
    assert max(norms[0].values()) > 0
