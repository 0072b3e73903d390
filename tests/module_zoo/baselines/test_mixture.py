"""Transformers whose feed-forward parts are mixtures; the mixtures themselves are tested in networks/mixtures."""

from __future__ import annotations

import pytest
import torch

from evodevo.module_zoo.baselines.mixture import MixtureTrunk
from evodevo.module_zoo.baselines.spec import BaselineStructure
from evodevo.module_zoo.encoders.model import EncodedModality


def test_losses_of_all_blocks_add_up() -> None:
    structure = BaselineStructure(style="switch", width=8, heads=2, hidden=12, experts=3, layers=3, dropout=0.0)
    trunk = MixtureTrunk(structure, 2).train()
    sense = EncodedModality(torch.randn(2, 5, 8), None, torch.zeros(2, 8))
    seen: list[float] = []
    for block in trunk.blocks:
        block.register_forward_hook(lambda _, __, output: seen.append(float(output[1]["balance"].detach())))
    thought = trunk([sense, sense])
    assert len(seen) == 3
    assert float(thought.terms["balance"].detach()) == pytest.approx(sum(seen))
    assert thought.tokens.shape == (2, 10, 8)
