"""Vision paths: what is stated is built and computed, components are shared and not copied, new parts begin right."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from evodevo.errors import DataError, UsageError
from evodevo.experiments.flop_counter import counting
from evodevo.multitask.paths.vision.input import prepare_images, read_images
from evodevo.multitask.paths.vision.model import VisionPath, build_component, component_from_state
from evodevo.multitask.paths.vision.spec import (
    PRESETS,
    VisionStructure,
    path_flops,
    path_parameters,
    path_work,
    role_parameters,
)

TINY = PRESETS["tiny"].changed(classes=5)
WIDE = PRESETS["tiny"].changed(width=64, heads=4, layers=1, classes=3)  # LIVs want 64 channels
LAYERS: dict[str, dict[str, Any]] = {
    "transformer": {"kind": "transformer", "heads": 2},
    "mlp": {"kind": "mlp", "hidden": 9},
    "convolution": {"kind": "convolution", "kernel": 9},
    "lstm": {"kind": "lstm"},
    "adapted": {"kind": "lstm", "width": 8},
    "SA-1": {"kind": "liv", "operator": "SA-1"},
    "Rec-1": {"kind": "liv", "operator": "Rec-1"},
    "GConv-1": {"kind": "liv", "operator": "GConv-1"},
    "h_model": {
        "kind": "h_model",
        "structure": {"width": 64, "hidden": [{"kind": "mlp"}], "iterations": 2, "causal": False},
    },
}


def images(structure: VisionStructure, batch: int = 3, seed: int = 0) -> Tensor:
    shape = (batch, structure.channels, structure.image_size, structure.image_size)
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def noisy(path: nn.Module, scale: float = 0.1) -> None:
    """Zeros and ones would hide mistakes."""
    generator = torch.Generator().manual_seed(9)
    with torch.no_grad():
        for parameter in path.parameters():
            parameter += scale * torch.randn(parameter.shape, generator=generator)


def mixed(name: str) -> VisionStructure:
    return WIDE.changed(blocks={"encoderblock_0": LAYERS[name]}, image_size=16)


STRUCTURES = {
    "tiny": TINY,
    "headless": PRESETS["tiny"],
    "no layers": TINY.changed(layers=0),
    "uneven": TINY.changed(
        blocks={"encoderblock_1": {"kind": "vit", "heads": 3, "key_width": 5, "value_width": 7, "hidden": 11}}
    ),
    "grey": TINY.changed(channels=1, image_size=8),
    **{name: mixed(name) for name in LAYERS},
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_stated_parameters_are_built(name: str) -> None:
    structure = STRUCTURES[name]
    path = VisionPath.fresh(structure, 0)
    built = {role: sum(p.numel() for p in part.parameters()) for role, part in path.components().items()}
    assert built == role_parameters(structure)
    assert list(built) == list(structure.roles)


@pytest.mark.parametrize("name", STRUCTURES)
def test_stated_products_are_computed(name: str) -> None:
    structure = STRUCTURES[name]
    path = VisionPath.fresh(structure, 0).eval()
    with torch.no_grad(), counting(path) as counter:
        path(images(structure, 1))
    assert counter.flops == path_work(structure).products


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


def test_weights_depend_on_seed_and_role_alone() -> None:
    torch.manual_seed(1)
    first = build_component(TINY, "encoderblock_0", 5).state_dict()
    state = torch.random.get_rng_state()
    build_component(TINY, "encoderblock_1", 5)
    again = build_component(TINY, "encoderblock_0", 5).state_dict()
    assert torch.equal(state, torch.random.get_rng_state())
    assert all(torch.equal(first[name], again[name]) for name in first)
    for role, seed in (("encoderblock_1", 5), ("encoderblock_0", 6)):
        assert not torch.equal(first["query.weight"], build_component(TINY, role, seed).state_dict()["query.weight"])


def test_a_component_is_shared_and_not_copied() -> None:
    first = VisionPath.fresh(TINY, 0)
    other_task = TINY.changed(classes=3)
    parts = {**first.components(), "head": build_component(other_task, "head", 1)}
    second = VisionPath(other_task, parts)
    assert all(second.components()[role] is part for role, part in first.components().items() if role != "head")
    assert second(images(TINY)).shape == (3, 3)


def test_a_headless_path_answers_the_class_token_of_the_path_with_the_head() -> None:
    path = VisionPath.fresh(TINY, 0)
    noisy(path)
    parts = path.components()
    headless = VisionPath(TINY.changed(classes=0), {r: p for r, p in parts.items() if r != "head"})
    x = images(TINY)
    token = headless(x)
    assert token.shape == (3, TINY.width)
    assert torch.equal(token, path.represent(x).pooled)
    assert torch.equal(path.represent(x).tokens[:, 0], token)
    assert torch.equal(parts["head"](token), path(x))
    assert headless(x[:0]).shape == (0, TINY.width)


def test_samples_do_not_hear_each_other() -> None:
    path = VisionPath.fresh(TINY, 0).double()
    noisy(path)
    x = images(TINY, 4).double()
    torch.testing.assert_close(path(x)[1:3], path(x[1:3]))


@pytest.mark.parametrize("name", sorted(LAYERS.keys() - {"mlp", "h_model"}))
def test_the_class_token_hears_the_last_patch_through_any_layer(name: str) -> None:
    structure = mixed(name).changed(blocks={"encoderblock_0": LAYERS[name]}, image_size=8)
    path = VisionPath.fresh(structure, 0).eval()
    noisy(path)
    x = images(structure, 1)
    other = x.clone()
    other[..., -4:, -4:] *= -1  # the last patch, farthest from the class token
    assert not torch.allclose(path(x), path(other), rtol=1e-6, atol=1e-7)


def test_an_h_model_that_hears_one_way_is_refused() -> None:
    spec = copy.deepcopy(LAYERS["h_model"])
    spec["structure"]["causal"] = True
    with pytest.raises(UsageError, match="causal = false"):
        build_component(WIDE.changed(blocks={"encoderblock_0": spec}), "encoderblock_0", 0)


def test_stored_weights_come_back() -> None:
    path = VisionPath.fresh(TINY, 0)
    noisy(path)
    parts = {role: component_from_state(TINY, role, part.state_dict()) for role, part in path.components().items()}
    x = images(TINY)
    assert torch.equal(VisionPath(TINY, parts)(x), path(x))


@pytest.mark.parametrize("name", ["tiny", "lstm", "Rec-1", "h_model"])
def test_a_component_from_weights_is_a_copy_that_learns(name: str) -> None:
    structure = STRUCTURES[name]
    for role in structure.roles:
        source = build_component(structure, role, 4)
        before = copy.deepcopy(source.state_dict())
        part = component_from_state(structure, role, source.state_dict())
        assert {p.dtype for p in part.parameters()} == {torch.float32}
        assert all(p.requires_grad and p.device.type == "cpu" for p in part.parameters())
        with torch.no_grad():
            for parameter in part.parameters():
                parameter += 1
        assert all(torch.equal(tensor, before[key]) for key, tensor in source.state_dict().items())


def test_half_precision_answers_nearly_the_same() -> None:
    for name in ("tiny", "lstm"):
        path = VisionPath.fresh(STRUCTURES[name], 0).eval()
        noisy(path)
        x = images(STRUCTURES[name])
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            half = path(x)
        torch.testing.assert_close(half.float(), path(x).detach(), rtol=0.1, atol=0.1)


def test_weights_of_another_structure_are_refused() -> None:
    state = build_component(TINY, "head", 0).state_dict()
    with pytest.raises(DataError, match=r"'head' has 'project\.bias' of shape \(5,\), and this path needs \(6,\)"):
        component_from_state(TINY.changed(classes=6), "head", state)
    with pytest.raises(DataError, match=r"'head' lacks 'project\.bias'"):
        component_from_state(TINY, "head", {"project.weight": state["project.weight"]})
    with pytest.raises(DataError, match=r"'head' has an unknown 'extra'"):
        component_from_state(TINY, "head", {**state, "extra": torch.zeros(1)})


def test_a_path_needs_all_its_components_and_no_others() -> None:
    parts = VisionPath.fresh(TINY, 0).components()
    with pytest.raises(UsageError, match="lacks the component 'encoderblock_3'"):
        VisionPath(TINY.changed(layers=4), parts)
    with pytest.raises(UsageError, match="no place for the component 'encoderblock_2'"):
        VisionPath(TINY.changed(layers=2), parts)
    with pytest.raises(UsageError, match="'posembed_input' has 544 parameters, and this path needs 2080"):
        VisionPath(TINY.changed(image_size=32), parts)
    with pytest.raises(UsageError, match=r"\(3, 16, 16\); \(3, 8, 8\) were given"):
        VisionPath(TINY, parts)(torch.zeros(2, 3, 8, 8))


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
