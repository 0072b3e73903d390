"""Edits of backbones: what preserves answers does so in every class, what is copied is equal, and twins part."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from evodevo.backbone.model import Backbone
from evodevo.backbone.network import BackboneNetwork
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.backbone.spec import BackboneStructure
from evodevo.errors import UsageError
from evodevo.growth.backbone.base import BackboneEdit
from evodevo.growth.backbone.insert import InsertEdit
from evodevo.growth.backbone.lengthen import LengthenEdit
from evodevo.growth.backbone.remove import RemoveEdit
from evodevo.growth.backbone.spec import GrowthPlan
from evodevo.growth.backbone.stack import StackEdit
from evodevo.growth.backbone.weights import check_answers, copy_parts, silence
from evodevo.growth.backbone.widen import WidenEdit
from evodevo.networks.build import build_network
from evodevo.operators.classes import OPERATORS, liv_classes
from evodevo.settings import validate
from evodevo.tasks.text.language import windows_of
from evodevo.training.surgery import carry_state, state_of

VOCABULARY, LENGTH = 64, 16
PRESERVING: tuple[BackboneEdit, ...] = (
    WidenEdit(at=0.5),
    InsertEdit(at=0.5, liv="Rec-1", place=1),
    InsertEdit(at=0.5, liv="GMemless", place=0),
    InsertEdit(at=0.5, liv="SA-1-Diff"),
    LengthenEdit(at=0.5, tokens=8),
)
STACKED = (StackEdit(at=0.5), StackEdit(at=0.5, times=3))


def structure(genome: str, *, tied: bool = False, **space: Any) -> BackboneStructure:
    depth = len(genome.split())
    settings = validate(
        BackboneSettings, {"depth": depth, "dimensions": {"width": 32, "head_size": 8}, **space}, what="a space"
    )
    return BackboneStructure(space=settings, genome=genome, tied=tied)


def pair_of(name: str, **more: Any) -> BackboneStructure:
    """Two LIVs of a class, which share nothing."""
    number = next(row.number for row in liv_classes().values() if row.name == name)
    return structure(f"{number}.1.1.1.1 {number}.2.1.2.1", classes=(name,), **more)


def built(of: BackboneStructure, seed: int, noise: float = 0.0) -> Backbone:
    """A network; with noise its parameters are not those of an initialisation, whose norms are all 1."""
    network = build_network(BackboneNetwork(structure=of), *windows_of(VOCABULARY, LENGTH), seed)
    assert isinstance(network, Backbone)
    drawn = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(noise * torch.randn(parameter.shape, generator=drawn))
    return network


def tokens(count: int = 3) -> Tensor:
    return torch.randint(VOCABULARY, (count, LENGTH), generator=torch.Generator().manual_seed(3))


def edited(before: Backbone, edit: BackboneEdit, seed: int = 9) -> Backbone:
    after = built(edit.after(before.structure), seed)
    edit.fill(before, after, torch.Generator().manual_seed(seed))
    return after


@pytest.mark.parametrize("name", OPERATORS.names())
@pytest.mark.parametrize("tied", [False, True])
def test_every_class_answers_after_an_edit_as_before(name: str, tied: bool) -> None:
    before = built(pair_of(name, tied=tied), 1, noise=0.05)
    theirs = before.next_logits(tokens())
    for edit in PRESERVING:
        after = edited(before, edit)
        torch.testing.assert_close(after.next_logits(tokens()), theirs, rtol=1e-4, atol=1e-4, msg=edit.words())
        check_answers(before, after, tokens())


@pytest.mark.parametrize("width", [16, 32, 40, 48])
def test_hidden_channels_that_do_not_double_exactly_are_no_obstacle(width: int) -> None:
    sizes = {"width": width, "head_size": 8}
    before = built(structure("9.1.1.1.1 9.2.1.2.1", dimensions=sizes, classes=("GMemless",)), 1, noise=0.05)
    check_answers(before, edited(before, WidenEdit(at=0.5)), tokens())


@pytest.mark.parametrize(
    "edit", [*PRESERVING, StackEdit(at=0.5), StackEdit(at=0.5, times=3)], ids=lambda edit: edit.words()
)
def test_shared_features_and_residuals_stay_shared(edit: BackboneEdit) -> None:
    shared = structure("1.1.1.1.4 9.1.2.1.1 1.2.2.1.4 9.1.2.2.1")
    before = built(shared, 1, noise=0.05)
    assert any(
        owner != plan.position for plan in before.plans for owner in (*plan.origin.values(), *plan.weights.values())
    )
    after = edited(before, edit)
    if edit.preserves:
        check_answers(before, after, tokens())
    copies = len(after.plans) // len(before.plans)
    borrowed = sum(owner != plan.position for plan in after.plans for owner in plan.origin.values())
    assert borrowed == copies * sum(owner != plan.position for plan in before.plans for owner in plan.origin.values())


def test_a_stack_is_copies_and_with_all_but_the_first_silent_the_network_before() -> None:
    before = built(structure("1.1.1.1.1 9.1.1.1.1 5.1.1.1.1"), 1, noise=0.05)
    after = edited(before, StackEdit(at=0.5, times=3))
    old = before.state_dict()
    for name, values in after.state_dict().items():
        source = name
        if name.startswith(("blocks.", "bank.")):
            place, _, rest = name.partition(".")[2].partition("." if name.startswith("blocks.") else "_")
            joint = "." if name.startswith("blocks.") else "_"
            source = f"{name.partition('.')[0]}.{int(place) % 3}{joint}{rest}"
        assert torch.equal(values, old[source]), name
    assert not torch.allclose(after.next_logits(tokens()), before.next_logits(tokens()), atol=1e-3)
    for place in range(3, 9):
        silence(after, place)
    torch.testing.assert_close(after.next_logits(tokens()), before.next_logits(tokens()))


@pytest.mark.parametrize("name", OPERATORS.names())
def test_without_a_liv_it_is_the_network_in_which_that_one_is_silent(name: str) -> None:
    of = structure("1.1.1.1.1 9.1.1.1.1", classes=("SA-1", "GMemless"))
    before = built(InsertEdit(liv=name, place=1).after(of), 1, noise=0.05)
    edit = RemoveEdit(liv=name)
    after = edited(before, edit)
    place = [plan.row.name for plan in before.plans].index(name)
    assert len(after.plans) == len(before.plans) - 1
    assert not torch.allclose(after.next_logits(tokens()), before.next_logits(tokens()), atol=1e-3)
    silence(before, place)
    torch.testing.assert_close(after.next_logits(tokens()), before.next_logits(tokens()))


def test_what_a_removed_liv_shared_its_partners_keep() -> None:
    before = built(structure("1.1.2.1.1 9.1.1.1.1 1.1.2.1.1 1.1.2.1.1"), 1, noise=0.05)
    after = edited(before, RemoveEdit(liv="SA-1"))
    silence(before, 0)
    torch.testing.assert_close(after.next_logits(tokens()), before.next_logits(tokens()))
    assert any(owner != plan.position for plan in after.plans for owner in plan.weights.values()), "two share on"


def test_twins_part_in_fifty_steps_and_without_noise_they_do_not() -> None:
    def apart(noise: float) -> float:
        before = built(structure("1.1.1.1.1 9.1.1.1.1"), 1)
        after = edited(before, WidenEdit(at=0.5, noise=noise))
        optimizer = torch.optim.AdamW(after.parameters(), 1e-3)
        for _ in range(50):
            optimizer.zero_grad()
            after.loss({"text": tokens(), "next/target": tokens().roll(-1, 1)}).backward()
            optimizer.step()
        one, other = after.embedding.weight.chunk(2, 1)
        return float((one - other).detach().norm() / one.detach().norm())

    assert apart(1e-9) < 1e-3
    assert apart(0.5) > 1e-2


def test_moments_go_with_the_weights_that_they_belong_to() -> None:
    before = built(structure("1.1.1.1.1 9.1.1.1.1"), 1)
    optimizer = torch.optim.AdamW(before.parameters(), 1e-3)
    before.loss({"text": tokens(), "next/target": tokens().roll(-1, 1)}).backward()
    optimizer.step()
    named = dict(before.named_parameters())
    state = state_of(named, optimizer)
    shapes = {name: parameter.shape for name, parameter in named.items()}

    wide = built(WidenEdit(at=0.5).after(before.structure), 2)
    origins = WidenEdit(at=0.5).fill(before, wide, torch.Generator())
    carried = carry_state(state, shapes, origins)
    assert carried.keys() == dict(wide.named_parameters()).keys()
    for name, parameter in wide.named_parameters():
        moment, old = carried[name]["exp_avg"], state[name]["exp_avg"]
        assert moment.shape == parameter.shape
        naive = torch.zeros_like(parameter)
        for place in range(2 * old.shape[-1]):  # a double loop over blocks of the last axis, and of the first
            for rows in range(-(-parameter.shape[0] // old.shape[0])) if old.ndim > 1 else (0,):
                if place < parameter.shape[-1]:
                    begin = rows * old.shape[0] if old.ndim > 1 else 0
                    block = old[..., place % old.shape[-1]]
                    if old.ndim == 1:
                        naive[place] = block
                    else:
                        naive[begin : begin + old.shape[0], place] = block[: parameter.shape[0] - begin]
        inside = moment != 0
        assert torch.equal(moment[inside], naive[inside]), name

    deep = built(StackEdit(at=0.5).after(before.structure), 2)
    origins = StackEdit(at=0.5).fill(before, deep, torch.Generator())
    again = carry_state(state, shapes, origins)
    assert torch.equal(again["blocks.3.operator.out"]["exp_avg"], state["blocks.1.operator.out"]["exp_avg"])


def test_what_cannot_be_done_is_refused() -> None:
    start = structure("1.1.1.1.1 9.1.1.1.1")
    with pytest.raises(UsageError, match="LIV class"):
        InsertEdit(at=0.5, liv="Rek-1").after(start)
    with pytest.raises(UsageError, match="place 3"):
        InsertEdit(at=0.5, liv="Rec-1", place=3).after(start)
    with pytest.raises(UsageError, match="no LIV Rec-1 to remove; it has SA-1, GMemless"):
        RemoveEdit(liv="Rec-1").after(start)
    with pytest.raises(UsageError, match="keeps one LIV"):
        RemoveEdit(liv="GMemless").after(RemoveEdit(liv="SA-1").after(start))
    with pytest.raises(UsageError, match="in the order"):
        validate(GrowthPlan, {"edits": [{"kind": "widen", "at": 0.5}, {"kind": "stack", "at": 0.2}]}, what="a plan")
    with pytest.raises(UsageError, match="windows of 16 tokens cannot be cut into windows of 5"):
        GrowthPlan(tokens=5).lengths(16)


def test_an_edit_that_changes_answers_is_found() -> None:
    before = built(structure("1.1.1.1.1 9.1.1.1.1"), 1)
    after = built(InsertEdit(at=0.5, liv="Rec-1").after(before.structure), 2)
    copy_parts(before, after, {0: 0, 1: 1})  # and the new one is not silenced
    with pytest.raises(UsageError, match="changes answers by"):
        check_answers(before, after, tokens())


def test_an_inserted_class_joins_the_space() -> None:
    after = InsertEdit(at=0.5, liv="Rec-1").after(structure("1.1.1.1.1 9.1.1.1.1", classes=("SA-1", "GMemless")))
    assert after.space.classes == ("SA-1", "GMemless", "Rec-1")
    assert [plan.row.name for plan in after.plans()] == ["SA-1", "GMemless", "Rec-1"]
