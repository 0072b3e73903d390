"""Graphs that torch.export makes of paths: layers of every kind, any number of samples, no trace of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.export.folder import write_export
from evodevo.export.torch_export import PT2, exported
from evodevo.export.verify import probes
from evodevo.multitask.paths.frozen import FrozenPath
from evodevo.multitask.paths.multipath.model import Multipath
from evodevo.multitask.paths.network.model import NetworkPath
from evodevo.multitask.run.dense_export import DensePath
from evodevo.testing.exporters import CLASSES, IMAGE, subject, vision_path
from fixtures.imports import small_structure


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
    with pytest.raises(UsageError, match=r"B~shapes/4 cannot be written as pt2: it decides by the numbers of each"):
        exported(Deciding(), subject(vision_path()))


@pytest.mark.slow
def test_a_multipath_with_an_imported_network_is_written(tmp_path: Path) -> None:
    imported = NetworkPath(small_structure())
    with torch.no_grad():
        for parameter in imported.parameters():
            parameter.normal_()
    frozen = [FrozenPath(vision_path(), reads="8/3"), FrozenPath(imported, reads="network")]
    joint = Multipath(frozen[0], frozen[1:], len(CLASSES), [8]).eval()
    joint.get_submodule("connector_1").weight.data.normal_()  # type: ignore[union-attr,operator]
    samples = torch.from_numpy(IMAGE.probe(3))
    with torch.no_grad():
        assert not torch.allclose(DensePath(joint)(samples), DensePath(vision_path())(samples), atol=0.1)
    made = write_export(PT2, subject(joint), tmp_path / "out")
    assert made.verified.difference <= 1e-5 * made.verified.scale
