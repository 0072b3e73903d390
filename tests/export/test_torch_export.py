"""Graphs that torch.export makes of paths: layers of every kind, any number of samples, no trace of this machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.export.torch_export import exported
from evodevo.export.verify import probes
from evodevo.testing.exporters import subject, vision_path


@pytest.mark.slow
@pytest.mark.parametrize(
    "layer",
    [{"kind": "convolution"}, {"kind": "liv", "operator": "SA-1", "head_size": 4}, {"kind": "lstm", "width": 4}],
    ids=lambda layer: layer["kind"],
)
def test_a_layer_of_the_library_is_followed_for_any_number_of_samples(layer: dict[str, Any]) -> None:
    whole = subject(vision_path(1, blocks={"encoderblock_0": layer}))
    program = exported(whole.network, whole).module()
    for batch in probes(whole.input, (1, 2, 40)):
        with torch.no_grad():
            answer = program(torch.from_numpy(batch)).numpy()
        np.testing.assert_allclose(answer, whole.answer(batch), rtol=1e-4, atol=1e-4)


class Deciding(nn.Module):
    """What no fixed graph holds: it asks the numbers."""

    def forward(self, images: Tensor) -> Tensor:
        x = images.float().mean((1, 2, 3))
        return x.expand(3, -1).T if x.max() > 1 else -x.expand(3, -1).T


@pytest.mark.slow
def test_what_cannot_be_followed_is_refused_with_a_reason() -> None:
    with pytest.raises(UsageError, match=r"B~shapes/4 cannot be written as pt2: torch.export cannot follow"):
        exported(Deciding(), subject(vision_path()))
