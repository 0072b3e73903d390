"""What is put into a path that has learned changes nothing at first: layers, heads, channels, units."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.multitask.paths.vision.expansion import at_image_size, expand_block, resize_positions
from evodevo.multitask.paths.vision.model import VisionPath, build_component, component_from_state
from evodevo.multitask.paths.vision.spec import PRESETS, VisionStructure, path_parameters

STRUCTURE = PRESETS["tiny"].changed(classes=5)
ROLE = "encoderblock_1"
EXPANSIONS: dict[str, dict[str, int]] = {
    "hidden": {"hidden": 100},
    "heads": {"heads": 5},
    "values": {"value_width": 21},
    "keys": {"key_width": 24},
    "all": {"hidden": 65, "heads": 3, "value_width": 17, "key_width": 40},
}


def images(size: int) -> Tensor:
    return torch.rand((3, 3, size, size), generator=torch.Generator().manual_seed(1)) * 2 - 1


def learned(structure: VisionStructure) -> VisionPath:
    """A path no number of which is one that new parts begin with."""
    path = VisionPath.fresh(structure, 0).eval()
    generator = torch.Generator().manual_seed(9)
    with torch.no_grad():
        for parameter in path.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    return path


def with_component(path: VisionPath, structure: VisionStructure, role: str, part: nn.Module) -> VisionPath:
    parts = {name: one for name, one in path.components().items() if name in structure.roles}
    return VisionPath(structure, {**parts, role: part}).eval()


@pytest.mark.parametrize("fill", [None, 42.0])
@pytest.mark.parametrize("name", EXPANSIONS)
def test_a_wider_block_answers_the_same(name: str, fill: float | None) -> None:
    path = learned(STRUCTURE)
    state = {key: tensor.clone() for key, tensor in path.components()[ROLE].state_dict().items()}
    structure, wider = expand_block(STRUCTURE, ROLE, state, 3, fill=fill, **EXPANSIONS[name])
    grown = with_component(path, structure, ROLE, component_from_state(structure, ROLE, wider))
    x = images(16)
    torch.testing.assert_close(grown(x), path(x), rtol=1e-5, atol=1e-6)
    assert path_parameters(structure) > path_parameters(STRUCTURE)
    for key, tensor in path.components()[ROLE].state_dict().items():
        assert torch.equal(tensor, state[key]), "the old block must stay as it was"
    differing = [role for role in structure.roles if structure.signature(role) != STRUCTURE.signature(role)]
    assert differing == [ROLE]


@pytest.mark.parametrize("name", EXPANSIONS)
def test_what_is_new_learns(name: str) -> None:
    path = learned(STRUCTURE)
    structure, wider = expand_block(STRUCTURE, ROLE, path.components()[ROLE].state_dict(), 3, **EXPANSIONS[name])
    block = component_from_state(structure, ROLE, wider)
    grown = with_component(path, structure, ROLE, block)
    parameters = grown.learn([ROLE])
    before = {key: tensor.clone() for key, tensor in block.state_dict().items()}
    optimiser = torch.optim.SGD(parameters, 0.1)
    for _ in range(2):  # where one factor begins at zero, the other learns from the second step on
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(grown(images(16)), torch.tensor([0, 1, 2])).backward()
        optimiser.step()
    sizes = {"hidden": ["inner", "outer"], "heads": ["query", "key", "value", "out"]}
    sizes |= {"value_width": ["value", "out"], "key_width": ["query", "key"]}
    old = STRUCTURE.block(ROLE)
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
    state = build_component(STRUCTURE, ROLE, 0).state_dict()
    with pytest.raises(UsageError, match="has hidden 64; 63 would take"):
        expand_block(STRUCTURE, ROLE, state, 0, hidden=63)
    lstm = STRUCTURE.changed(blocks={ROLE: {"kind": "lstm"}})
    for structure, role in ((lstm, ROLE), (STRUCTURE, "encoder_norm")):
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
    path = learned(STRUCTURE)
    states = {role: part.state_dict() for role, part in path.components().items()}
    structure, changed = at_image_size(STRUCTURE, states, 32)
    assert {role for role in states if states[role] is not changed[role]} == {"posembed_input"}
    larger = with_component(
        path, structure, "posembed_input", component_from_state(structure, "posembed_input", changed["posembed_input"])
    )
    assert larger(images(32)).shape == (3, 5)
    assert [role for role in structure.roles if structure.signature(role) != STRUCTURE.signature(role)] == [
        "posembed_input"
    ]
    with pytest.raises(UsageError, match="patches of 4"):
        at_image_size(STRUCTURE, states, 18)
