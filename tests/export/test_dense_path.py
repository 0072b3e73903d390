"""One module from bytes to logits: what a reader does outside and a path inside, together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from evodevo.errors import UsageError
from evodevo.export.image_input import ImageInput
from evodevo.export.torch_export import share_equal
from evodevo.export.verify import probes
from evodevo.multitask.paths.images import read_images
from evodevo.multitask.paths.multipath.model import Multipath
from evodevo.multitask.run.dense_export import DensePath
from evodevo.testing.exporters import CLASSES, IMAGE, convolution_path, multipath, vision_path


def batch(image: ImageInput = IMAGE, size: int = 5) -> torch.Tensor:
    return torch.from_numpy(probes(image, (size,))[0])


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("make", [vision_path, convolution_path])
@torch.no_grad()
def test_a_path_reads_bytes_of_any_size_and_channels(make: Any, channels: int) -> None:
    path = make(4)
    raw = batch(ImageInput(11, 7, channels))
    assert torch.equal(DensePath(path)(raw), path(read_images(path.structure, raw)))


@torch.no_grad()
def test_a_multipath_hears_all_of_its_paths_each_at_its_own_size() -> None:
    joint, raw = multipath(skip_below=0.9), batch()
    inputs = {str(one.reads): read_images(one.module.structure, raw) for one in joint.paths.values()}
    sparse = joint.route(inputs)
    assert not sparse.ran.all(), "it would skip some"
    joint.structure = joint.structure.model_copy(update={"skip_below": 0.0})
    assert torch.equal(DensePath(joint)(raw), joint(inputs))
    assert not torch.allclose(sparse.logits, joint(inputs))


@torch.no_grad()
def test_what_several_paths_share_is_there_once_and_answers_are_the_same() -> None:
    joint, raw = multipath(), batch()
    dense = DensePath(joint)
    before = dense(raw)
    distinct = {one.detach().numpy().tobytes(): one.numel() for one in joint.parameters() if one.numel() > 1}
    assert share_equal(dense) <= sum(distinct.values()) + 1
    assert torch.equal(dense(raw), before)
    # The headless twin of the main path adds nothing.
    twin = {name for name, _ in dense.named_parameters(remove_duplicate=False) if ".support_1." in name}
    assert twin
    assert not twin & {name for name, _ in dense.named_parameters()}


@pytest.mark.parametrize(
    ("network", "word"),
    [
        (vision_path(classes=0), "head"),
        (nn.Linear(2, 2), "Linear"),
        (Multipath(vision_path(), [nn.Linear(3, 4)], len(CLASSES), [4]), "Linear"),
    ],
)
def test_what_cannot_be_exported_is_named(network: nn.Module, word: str) -> None:
    with pytest.raises(UsageError, match=word):
        DensePath(network)


def test_probes_are_the_same_everywhere_and_hold_both_ends() -> None:
    first, again = probes(IMAGE, (1, 3)), probes(IMAGE, (1, 3))
    assert [one.shape for one in first] == [(1, 6, 9, 3), (3, 6, 9, 3)]
    assert all(np.array_equal(one, other) for one, other in zip(first, again, strict=True))
    assert all((one.min(), one.max()) == (0, 255) for one in first)
