"""What comes before and after the layers of a network with one sequence of positions."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from evodevo.networks.build import build_network
from evodevo.networks.inputs import Messages
from evodevo.networks.stacks.recursion import RecursionNetwork
from evodevo.networks.stacks.spec import RecursionStructure
from evodevo.networks.stream import merged
from evodevo.operators.layers.mlp import MLPLayer
from evodevo.testing.networks import CLASS, TEXT, small_batch


@given(inputs=st.integers(1, 3), masked=st.booleans(), seed=st.integers(0, 99))
def test_the_stream_is_the_mean_of_the_inputs_that_are_there(inputs: int, masked: bool, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(2, inputs, 4, 3, generator=generator, dtype=torch.float64)
    masks = torch.rand(2, inputs, 4, generator=generator) < 0.6 if masked else None
    if masks is not None:
        values = values * masks.unsqueeze(-1)
    x, mask = merged(Messages(values, masks, {}))
    assert (mask is None) == (not masked)
    for sample in range(2):
        for place in range(4):
            here = [n for n in range(inputs) if masks is None or masks[sample, n, place]]
            if mask is not None:
                assert bool(mask[sample, place]) == bool(here)
            wanted = sum((values[sample, n, place] for n in here), torch.zeros(3, dtype=torch.float64))
            torch.testing.assert_close(x[sample, place], wanted / max(len(here), 1), rtol=1e-12, atol=1e-12)


def test_a_representation_is_0_where_there_is_no_position() -> None:
    structure = RecursionStructure(width=8, layers=(MLPLayer(),), iteration_embedding=True)
    network = build_network(RecursionNetwork(structure=structure), (TEXT,), (CLASS,), 0).eval()
    with torch.no_grad():
        seen = network.represent(small_batch((TEXT,), (CLASS,), count=4, padded=True))
    assert seen.mask is not None
    assert not seen.mask.all()
    assert not seen.tokens[~seen.mask].any()
    assert seen.tokens[seen.mask].any(-1).all()
