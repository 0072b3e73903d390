"""Convolutional paths: what is stated is built and counted, what is put into a path changes no answer, images of any
size are read, and samples are answered alone."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from evodevo.errors import DataError, UsageError
from evodevo.experiments.flop_counter import counting
from evodevo.multitask.hyperparameters import MU
from evodevo.multitask.paths.blocks_spec import ADAPTER, BLOCK, HEAD, NORM
from evodevo.multitask.paths.convolution.builder import BUILDER
from evodevo.multitask.paths.convolution.kind import CONVOLUTION, convolution_hyperparameters
from evodevo.multitask.paths.convolution.model import (
    ConvolutionPath,
    build_component,
    resize_block,
)
from evodevo.multitask.paths.convolution.spec import PRESETS, ConvolutionStructure, path_work, role_parameters
from evodevo.multitask.paths.images import read_images
from fixtures.block_paths import images, learned

SMALL = ConvolutionStructure(widths=(8, 16, 24), layers=3, image_size=16, classes=5)
ROLE = "encoderblock_1"


def grown(path: ConvolutionPath, structure: ConvolutionStructure) -> ConvolutionPath:
    """A path with wider or narrower blocks and more of them, as a child begins."""
    parts: dict[str, nn.Module] = {}
    for role in structure.roles:
        if role not in path.parts:
            parts[role] = build_component(structure, role, 7, identity=True)
            continue
        state = path.parts[role].state_dict()
        state = resize_block(structure, role, state, 7) if role.startswith(BLOCK) else state
        parts[role] = BUILDER.restore(structure, role, state)
    return ConvolutionPath(structure, parts).eval()


@pytest.mark.parametrize("side", [9, 16, 33])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"inner": 1.5},
        {"widths": (8,), "layers": 1},
        {"channels": 1, "stride": 1, "grid": 3},
        {"adapters": 0.25},
        {"adapters": 1.0, "widths": (24, 8), "layers": 2},
    ],
)
def test_stated_parameters_are_built_and_stated_products_computed(changes: dict[str, object], side: int) -> None:
    structure = SMALL.changed(**changes, image_size=side)
    path = ConvolutionPath.fresh(structure, 0).eval()
    assert {
        role: sum(one.numel() for one in part.parameters()) for role, part in path.components().items()
    } == role_parameters(structure)
    assert not dict(path.named_buffers()), "nothing is remembered of the samples of training"
    with torch.no_grad(), counting(path) as counter:
        represented = path.represent(images(structure, 1))
    assert counter.flops == path_work(structure.changed(classes=0)).total
    assert represented.pooled.shape == (1, structure.width)
    assert represented.tokens.shape[2] == structure.widths[-1]


def test_presets_have_about_the_sizes_that_they_are_called_by() -> None:
    sizes = {name: sum(role_parameters(preset).values()) for name, preset in PRESETS.items()}
    assert sizes["tiny"] == pytest.approx(25_000, rel=0.1)
    assert sizes["small"] == pytest.approx(200_000, rel=0.1)
    assert sizes["base"] == pytest.approx(1_000_000, rel=0.1)


def test_added_blocks_change_no_answer_and_learn() -> None:
    path = learned(ConvolutionPath.fresh(SMALL, 0))
    deeper = grown(path, SMALL.changed(layers=5))
    x = images(SMALL)
    assert torch.equal(deeper(x), path(x))
    parameters = deeper.learn(["encoderblock_4"])
    nn.functional.cross_entropy(deeper(x), torch.tensor([0, 1, 2])).backward()
    torch.optim.SGD(parameters, 0.1).step()
    assert not torch.allclose(deeper(x), path(x))


def test_adapters_follow_each_block_change_no_answer_and_learn_where_all_else_is_frozen() -> None:
    path = learned(ConvolutionPath.fresh(SMALL, 0))
    structure = CONVOLUTION.adapted_structure(SMALL, 0.5)
    assert structure.roles[:5] == ("embedding", "encoderblock_0", "adapter_0", ROLE, "adapter_1")
    adapted = grown(path, structure)
    x = images(SMALL)
    assert torch.equal(adapted(x), path(x))
    roles = [role for role in structure.roles if role.startswith(ADAPTER)]
    before = copy.deepcopy(path.state_dict())
    optimizer = torch.optim.SGD(adapted.learn(roles), 0.1)
    for _ in range(2):  # the first convolution of an adapter learns once the second is not zero
        optimizer.zero_grad()
        nn.functional.cross_entropy(adapted(x), torch.tensor([0, 1, 2])).backward()
        optimizer.step()
    fresh = {role: build_component(structure, role, 7, identity=True).state_dict() for role in roles}
    for role in roles:
        state = adapted.parts[role].state_dict()
        assert all(not torch.equal(state[name], fresh[role][name]) for name in ("first.weight", "second.weight")), role
    assert all(torch.equal(tensor, before[name]) for name, tensor in path.state_dict().items())


def test_a_path_without_adapters_is_stored_as_before_there_were_any() -> None:
    assert "adapters" not in SMALL.model_dump(mode="json")
    adapted = CONVOLUTION.adapted_structure(SMALL, 0.5)
    assert adapted.model_dump(mode="json")["adapters"] == 0.5
    assert CONVOLUTION.adapted_structure(adapted, 0.25) == adapted, "those that are there stay"
    assert all(SMALL.signature(role) == adapted.signature(role) for role in SMALL.roles)
    with pytest.raises(UsageError, match="no component 'adapter_0'"):
        SMALL.signature("adapter_0")


def test_wider_blocks_answer_as_before_and_their_new_channels_learn() -> None:
    path = learned(ConvolutionPath.fresh(SMALL, 0)).double()
    before = copy.deepcopy(path.state_dict())
    wide = SMALL.changed(inner=2.0)
    wider = grown(path, wide).double()
    x = images(SMALL).double()
    torch.testing.assert_close(wider(x), path(x))
    kept = SMALL.block(ROLE).hidden
    assert wide.block(ROLE).hidden == 2 * kept
    optimizer = torch.optim.SGD(wider.learn([ROLE]), 0.1)
    first = wider.parts[ROLE].state_dict()["first.weight"].clone()
    for _ in range(2):  # a channel learns once its way out does
        optimizer.zero_grad()
        nn.functional.cross_entropy(wider(x), torch.tensor([0, 1, 2])).backward()
        optimizer.step()
    state = wider.parts[ROLE].state_dict()
    assert state["second.weight"][:, kept:].any()
    assert not torch.equal(state["first.weight"][kept:], first[kept:])
    assert all(torch.equal(tensor, before[name]) for name, tensor in path.state_dict().items())
    # Back again: the first channels are what is left.
    again = grown(grown(path, wide).double(), SMALL).double()
    assert all(torch.equal(tensor, before[name]) for name, tensor in again.state_dict().items())


def test_blocks_of_other_inner_width_are_made_of_each_other_and_others_are_not() -> None:
    def told(structure: ConvolutionStructure, role: str) -> str:
        return CONVOLUTION.resizable(structure, role)

    wide, other = SMALL.changed(inner=2.0), SMALL.changed(widths=(8, 16, 32))
    assert SMALL.signature(ROLE) != wide.signature(ROLE)
    assert told(SMALL, ROLE) == told(wide, ROLE) != told(other, ROLE)
    assert told(SMALL, ROLE) != told(SMALL, "encoderblock_2"), "one halves the resolution"
    assert not any(told(SMALL, role) for role in ("embedding", NORM, HEAD))


def test_the_resolution_changes_no_component() -> None:
    larger = SMALL.changed(image_size=28)
    assert all(SMALL.signature(role) == larger.signature(role) for role in SMALL.roles)
    path = learned(ConvolutionPath.fresh(SMALL, 0))
    raw = torch.randint(0, 256, (3, 11, 30, 1), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    for structure in (SMALL, larger):
        same = ConvolutionPath(structure, path.components()).eval()
        assert same(read_images(structure, raw)).shape == (3, 5)
    with pytest.raises(UsageError, match=r"reads images of shape \(3, 28, 28\)"):
        same(images(SMALL))


def test_samples_are_answered_alone() -> None:
    path = learned(ConvolutionPath.fresh(SMALL, 0)).double()
    x = images(SMALL, 4).double()
    for mode in (True, False):
        torch.testing.assert_close(path.train(mode)(x)[1:3], path(x[1:3]))


def test_blocks_behind_a_frozen_one_learn_from_images_with_channels_last() -> None:
    """As a child does whose first convolution is shared; in this layout PyTorch's own group norm crashed."""
    path = learned(ConvolutionPath.fresh(SMALL, 0)).train()
    parameters = path.learn([ROLE, NORM, HEAD])
    x = images(SMALL).to(memory_format=torch.channels_last)
    nn.functional.cross_entropy(path(x), torch.tensor([0, 1, 2])).backward()
    assert all(one.grad is not None and one.grad.isfinite().all() for one in parameters)
    assert dict(path.named_parameters())["parts.embedding.project.weight"].grad is None


def test_a_new_head_answers_that_all_classes_are_equally_likely() -> None:
    path = ConvolutionPath.fresh(SMALL, 3)
    assert torch.equal(path(images(SMALL)), torch.zeros(3, 5))


def test_weights_of_another_component_are_refused() -> None:
    state = build_component(SMALL, ROLE, 0).state_dict()
    with pytest.raises(DataError, match="shape"):
        BUILDER.restore(SMALL.changed(inner=2.0), ROLE, state)
    with pytest.raises(DataError, match=r"lacks 'around\.weight'|unknown 'around\.weight'"):
        BUILDER.restore(SMALL, "encoderblock_2", state)
    with pytest.raises(UsageError, match="no component 'cls'"):
        build_component(SMALL, "cls", 0)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"widths": (8, 12)}, "multiples of group = 8"),
        ({"layers": 1}, "2 stages have a block each"),
        ({"image_size": 5}, "fewer than grid = 2"),
        ({"channels": 2}, "channels"),
    ],
)
def test_structures_that_make_no_path_are_refused(changes: dict[str, object], word: str) -> None:
    with pytest.raises(UsageError, match=word):
        SMALL.changed(**changes)


@pytest.mark.parametrize("size", PRESETS)
def test_every_list_of_values_holds_the_preset_and_makes_paths(size: str) -> None:
    space, preset = convolution_hyperparameters(size), PRESETS[size]
    assert MU in space.by_key
    for key, field in CONVOLUTION.fields.items():
        row = space.by_key[key]
        assert row.default == getattr(preset, field)
        for value in row.values:
            preset.changed(**{field: value}, classes=3)
    with pytest.raises(UsageError, match="no size 'huge'"):
        convolution_hyperparameters("huge")
