"""Vision paths: the published sizes, how new parts begin, what learns, and what is read of images."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.experiments.flop_counter import counting
from evodevo.multitask.paths.vision.input import prepare_images, read_images
from evodevo.multitask.paths.vision.model import VisionPath, build_component
from evodevo.multitask.paths.vision.spec import PRESETS, VisionStructure, path_flops, path_parameters

TINY = PRESETS["tiny"].changed(classes=5)


def images(structure: VisionStructure, batch: int = 3, seed: int = 0) -> Tensor:
    shape = (batch, structure.channels, structure.image_size, structure.image_size)
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def noisy(path: nn.Module, scale: float = 0.1) -> None:
    """Zeros and ones would hide mistakes."""
    generator = torch.Generator().manual_seed(9)
    with torch.no_grad():
        for parameter in path.parameters():
            parameter += scale * torch.randn(parameter.shape, generator=generator)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "pixels", "classes"), [("Ti3", 32, 2), ("L", 384, 1000)])
def test_published_sizes_are_built_and_counted(name: str, pixels: int, classes: int) -> None:
    structure = PRESETS[name].changed(image_size=pixels, classes=classes)
    with torch.device("meta"):
        path = VisionPath.fresh(structure, 0)
        assert sum(p.numel() for p in path.parameters()) == path_parameters(structure)
        with torch.no_grad(), counting(path) as counter:
            path(torch.empty(1, 3, pixels, pixels))
    assert counter.flops == path_flops(structure)


def test_a_new_head_answers_that_all_classes_are_equally_likely_and_alone_gets_a_gradient() -> None:
    path = VisionPath.fresh(TINY, 3)
    logits = path(images(TINY))
    assert torch.equal(logits, torch.zeros(3, TINY.classes))
    torch.nn.functional.cross_entropy(logits, torch.tensor([0, 1, 2])).backward()
    for role, part in path.components().items():
        norms = [float(p.grad.norm()) for p in part.parameters() if p.grad is not None]
        assert (max(norms) > 0) == (role == "head")


def test_how_new_components_begin() -> None:
    structure = PRESETS["Ti3"].changed(classes=7)
    block = build_component(structure, "encoderblock_0", 1).state_dict()
    for name in ("query", "key", "value", "out"):
        bound = (6 / (192 + 192)) ** 0.5
        assert block[f"{name}.weight"].abs().max() <= bound
        assert block[f"{name}.weight"].std() == pytest.approx(bound / 3**0.5, rel=0.02)
        assert not block[f"{name}.bias"].any()
    for name in ("inner", "outer"):
        assert block[f"{name}.weight"].std() == pytest.approx((2 / (192 + 768)) ** 0.5, rel=0.02)
        assert block[f"{name}.bias"].std() == pytest.approx(1e-6, rel=0.2)
    positions = build_component(PRESETS["Ti"], "posembed_input", 1).state_dict()["table"]
    assert positions.std() == pytest.approx(0.02, rel=0.02)
    assert not build_component(structure, "cls", 1).state_dict()["token"].any()
    assert not any(tensor.any() for tensor in build_component(structure, "head", 1).state_dict().values())
    patches = build_component(structure, "embedding", 1).state_dict()
    assert patches["project.weight"].std() == pytest.approx(768**-0.5, rel=0.02)


def test_samples_do_not_hear_each_other() -> None:
    path = VisionPath.fresh(TINY, 0).double()
    noisy(path)
    x = images(TINY, 4).double()
    torch.testing.assert_close(path(x)[1:3], path(x[1:3]))


def test_only_what_learns_changes_and_what_does_not_has_no_dropout() -> None:
    dropping = {"kind": "transformer", "heads": 2, "dropout": 0.5}
    structure = TINY.changed(blocks={"encoderblock_0": dropping, "encoderblock_1": dropping})
    path = VisionPath.fresh(structure, 0).train()
    noisy(path)
    parameters = path.learn(["encoderblock_1", "head"])
    assert {id(p) for p in parameters} == {id(p) for p in path.parameters() if p.requires_grad}
    assert not path.components()["encoderblock_0"].training
    assert path.components()["encoderblock_1"].training
    before = copy.deepcopy(path.state_dict())
    torch.nn.functional.cross_entropy(path(images(structure)), torch.tensor([0, 1, 2])).backward()
    torch.optim.SGD(parameters, 0.1).step()
    changed = {
        name.split(".")[1] for name, tensor in path.state_dict().items() if not torch.equal(tensor, before[name])
    }
    assert changed == {"encoderblock_1", "head"}
    with pytest.raises(UsageError, match="no component 'encoderblock_7'"):
        path.learn(["encoderblock_7"])


def test_grey_and_colour_images_of_any_size_are_read() -> None:
    grey = torch.randint(0, 256, (2, 8, 8, 1), dtype=torch.uint8)
    x = read_images(TINY, grey)
    assert x.shape == (2, 3, 16, 16)
    assert torch.equal(x[:, 0], x[:, 1])
    assert torch.equal(x[:, 0], x[:, 2])
    assert torch.equal(x, read_images(TINY, grey.expand(-1, -1, -1, 3)))
    assert torch.equal(x, prepare_images(TINY, grey.permute(0, 3, 1, 2).float()))
    native = read_images(TINY.changed(image_size=8), grey)
    torch.testing.assert_close(native[:, 0], grey[..., 0] / 127.5 - 1)
    ends = torch.tensor([0, 255], dtype=torch.uint8).view(2, 1, 1, 1).expand(-1, 20, 12, 1)
    torch.testing.assert_close(read_images(TINY, ends)[:, 0, 0, 0], torch.tensor([-1.0, 1.0]))
    one = read_images(TINY.changed(channels=1), ends.expand(-1, -1, -1, 3))
    torch.testing.assert_close(one, torch.tensor([-1.0, 1.0]).view(2, 1, 1, 1).expand(-1, 1, 16, 16))
    with pytest.raises(UsageError, match="bytes"):
        read_images(TINY, grey.float())
