"""Vision paths: the published sizes, how new parts begin, what learns, what is read, and what is put into a path."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.experiments.flop_counter import counting
from evodevo.multitask.paths.images import prepare_images, read_images
from evodevo.multitask.paths.vision.builder import BUILDER
from evodevo.multitask.paths.vision.expansion import at_image_size, expand_block, resize_positions
from evodevo.multitask.paths.vision.model import VisionPath, build_component
from evodevo.multitask.paths.vision.spec import PRESETS, VisionStructure, path_flops, path_parameters
from fixtures.block_paths import images, learned

TINY = PRESETS["tiny"].changed(classes=5)


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
    path = learned(VisionPath.fresh(TINY, 0)).double()
    x = images(TINY, 4).double()
    torch.testing.assert_close(path(x)[1:3], path(x[1:3]))


def test_only_what_learns_changes_and_what_does_not_has_no_dropout() -> None:
    dropping = {"kind": "transformer", "heads": 2, "dropout": 0.5}
    structure = TINY.changed(blocks={"encoderblock_0": dropping, "encoderblock_1": dropping})
    path = learned(VisionPath.fresh(structure, 0)).train()
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


# What is put into a path that has learned changes nothing at first

ROLE = "encoderblock_1"
EXPANSIONS: dict[str, dict[str, int]] = {
    "hidden": {"hidden": 100},
    "heads": {"heads": 5},
    "values": {"value_width": 21},
    "keys": {"key_width": 24},
    "all": {"hidden": 65, "heads": 3, "value_width": 17, "key_width": 40},
}


def with_component(path: VisionPath, structure: VisionStructure, role: str, part: nn.Module) -> VisionPath:
    parts = {name: one for name, one in path.components().items() if name in structure.roles}
    return VisionPath(structure, {**parts, role: part}).eval()


@pytest.mark.parametrize("fill", [None, 42.0])
@pytest.mark.parametrize("name", EXPANSIONS)
def test_a_wider_block_answers_the_same(name: str, fill: float | None) -> None:
    path = learned(VisionPath.fresh(TINY, 0))
    state = {key: tensor.clone() for key, tensor in path.components()[ROLE].state_dict().items()}
    structure, wider = expand_block(TINY, ROLE, state, 3, fill=fill, **EXPANSIONS[name])
    grown = with_component(path, structure, ROLE, BUILDER.restore(structure, ROLE, wider))
    x = images(TINY)
    torch.testing.assert_close(grown(x), path(x), rtol=1e-5, atol=1e-6)
    assert path_parameters(structure) > path_parameters(TINY)
    for key, tensor in path.components()[ROLE].state_dict().items():
        assert torch.equal(tensor, state[key]), "the old block must stay as it was"
    differing = [role for role in structure.roles if structure.signature(role) != TINY.signature(role)]
    assert differing == [ROLE]


@pytest.mark.parametrize("name", EXPANSIONS)
def test_what_is_new_learns(name: str) -> None:
    path = learned(VisionPath.fresh(TINY, 0))
    structure, wider = expand_block(TINY, ROLE, path.components()[ROLE].state_dict(), 3, **EXPANSIONS[name])
    block = BUILDER.restore(structure, ROLE, wider)
    grown = with_component(path, structure, ROLE, block)
    parameters = grown.learn([ROLE])
    before = {key: tensor.clone() for key, tensor in block.state_dict().items()}
    optimiser = torch.optim.SGD(parameters, 0.1)
    for _ in range(2):  # where one factor begins at zero, the other learns from the second step on
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(grown(images(TINY)), torch.tensor([0, 1, 2])).backward()
        optimiser.step()
    sizes = {"hidden": ["inner", "outer"], "heads": ["query", "key", "value", "out"]}
    sizes |= {"value_width": ["value", "out"], "key_width": ["query", "key"]}
    old = TINY.block(ROLE)
    for size in EXPANSIONS[name]:
        for part in sizes[size]:
            moved = block.state_dict()[f"{part}.weight"] - before[f"{part}.weight"]
            assert float(_new(moved, part, old, structure.block(ROLE)).abs().sum()) > 0


def _new(tensor: Tensor, part: str, old: Any, new: Any) -> Tensor:
    """Entries that the smaller block does not have."""
    old_width, new_width = (one.value_width if part in ("value", "out") else one.key_width for one in (old, new))
    if part == "inner":
        return tensor[old.hidden :]
    if part == "outer":
        return tensor[:, old.hidden :]
    by_head = (tensor.T if part == "out" else tensor).reshape(new.heads, new_width, -1).clone()
    by_head[: old.heads, :old_width] = 0
    return by_head


def test_nothing_is_taken_away_and_only_blocks_of_a_transformer_grow() -> None:
    state = build_component(TINY, ROLE, 0).state_dict()
    with pytest.raises(UsageError, match="has hidden 64; 63 would take"):
        expand_block(TINY, ROLE, state, 0, hidden=63)
    lstm = TINY.changed(blocks={ROLE: {"kind": "lstm"}})
    for structure, role in ((lstm, ROLE), (TINY, "encoder_norm")):
        with pytest.raises(UsageError, match=f"'{role}' is none"):
            expand_block(structure, role, state, 0, heads=4)


@pytest.mark.parametrize(("side", "grid"), [(2, 5), (5, 2), (4, 7), (1, 3), (3, 1), (4, 4)])
def test_positions_are_resized_and_the_class_token_is_not(side: int, grid: int) -> None:
    table = torch.randn(1 + side**2, 6)
    resized = resize_positions({"table": table}, grid)["table"]
    assert resized.shape == (1 + grid**2, 6)
    assert torch.equal(resized[0], table[0])
    old, new = (one[1:].view(size, size, 6) for one, size in ((table, side), (resized, grid)))
    assert new.min() >= table[1:].min()
    assert new.max() <= table[1:].max()
    if grid == 1 or side == 1:
        torch.testing.assert_close(new.mean((0, 1)), old[side // 2, side // 2])
    else:
        for row in (0, -1):
            torch.testing.assert_close(new[row, row], old[row, row])


def test_resizing_agrees_with_the_zoom_of_the_published_code() -> None:
    ndimage = pytest.importorskip("scipy.ndimage")
    table = torch.randn(1 + 16, 3, dtype=torch.float64)
    for grid in (2, 6, 7):
        zoomed = ndimage.zoom(table[1:].view(4, 4, 3).numpy(), (grid / 4, grid / 4, 1), order=1)
        resized = resize_positions({"table": table}, grid)["table"][1:].view(grid, grid, 3)
        torch.testing.assert_close(resized, torch.from_numpy(zoomed))


def test_a_path_at_another_image_size_shares_all_but_its_positions() -> None:
    path = learned(VisionPath.fresh(TINY, 0))
    states = {role: part.state_dict() for role, part in path.components().items()}
    structure, changed = at_image_size(TINY, states, 32)
    assert {role for role in states if states[role] is not changed[role]} == {"posembed_input"}
    larger = with_component(
        path, structure, "posembed_input", BUILDER.restore(structure, "posembed_input", changed["posembed_input"])
    )
    assert larger(images(structure)).shape == (3, 5)
    assert [role for role in structure.roles if structure.signature(role) != TINY.signature(role)] == ["posembed_input"]
    with pytest.raises(UsageError, match="patches of 4"):
        at_image_size(TINY, states, 18)
