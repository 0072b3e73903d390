"""Multipath models over vision paths of different resolutions (docs/spec/munet.md#sub-path-inputs)."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.multitask.paths.blocks_spec import HEAD
from evodevo.multitask.paths.frozen import FrozenPath
from evodevo.multitask.paths.multipath.model import Multipath
from evodevo.multitask.paths.vision.model import VisionPath
from evodevo.multitask.paths.vision.spec import VisionStructure

CLASSES = 3
SMALL = VisionStructure(width=16, heads=2, hidden=32, layers=2, image_size=16, patch=8, classes=CLASSES)
LARGE = VisionStructure(width=16, heads=4, hidden=32, layers=1, image_size=32, patch=16)


def paths() -> tuple[VisionPath, VisionPath]:
    main = VisionPath.fresh(SMALL, 0)
    with torch.no_grad():
        generator = torch.Generator().manual_seed(0)
        for parameter in main.components()[HEAD].parameters():
            parameter.normal_(generator=generator)
    return main.eval(), VisionPath.fresh(LARGE, 1).eval()


def images(batch: int = 4) -> dict[int, Tensor]:
    """The same pictures at both sizes."""
    native = torch.rand(batch, 3, 32, 32, generator=torch.Generator().manual_seed(1)) * 2 - 1
    return {32: native, 16: nn.functional.avg_pool2d(native, 2)}


def joined(main: VisionPath, support: VisionPath) -> Multipath:
    return Multipath(FrozenPath(main, reads=16), [FrozenPath(support, reads=32)], CLASSES, (support.structure.width,))


def test_each_path_represents_what_it_does_alone() -> None:
    """docs/spec/munet.md#sub-path-inputs."""
    main, support = paths()
    batch = images()
    with torch.no_grad():
        wanted = {"main": main(batch[16]), "support_1": support(batch[32])}
    found = joined(main, support).train().represent_paths(batch)
    assert {name: value.shape for name, value in found.items()} == {"main": (4, CLASSES), "support_1": (4, 16)}
    for name, value in wanted.items():
        assert torch.equal(found[name], value)
    with pytest.raises(UsageError, match="32"):
        joined(main, support)({16: batch[16]})


@pytest.mark.slow
def test_a_multipath_model_is_exported_for_any_number_of_samples() -> None:
    found = joined(*paths()).eval()
    samples = torch.export.Dim("samples", min=1, max=64)
    with torch.no_grad():
        found.get_submodule("connector_1").weight.normal_()  # type: ignore[operator,union-attr]
        shapes = ({size: {0: samples} for size in (32, 16)},)
        program = torch.export.export(found, (images(2),), dynamic_shapes=shapes)
        torch.testing.assert_close(program.module()(images(5)), found(images(5)))
