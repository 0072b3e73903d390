"""Sharing: what is locked is never trained, what is not is never referenced, and who fills a gap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pytest

from evodevo.multitask.hyperparameters import MU, singlepath_hyperparameters
from evodevo.multitask.paths import blocks_spec as path_blocks
from evodevo.multitask.search.components import (
    BLOCKS,
    HEAD,
    POSITIONS,
    ComponentPlan,
    ComponentSettings,
    Place,
    plan_components,
)
from evodevo.multitask.search.mutation import MutationSettings, Mutator
from evodevo.randomness import generator

ROLES = ["embedding", "cls", "posembed_input", "encoderblock_0", "encoderblock_1", "encoder_norm", "head"]
NEEDS = [Place(role, "fits") for role in ROLES]
RATES = singlepath_hyperparameters("tiny").rates


def path(agent: str, *, roles: Sequence[str] = ROLES, **signatures: str) -> list[Place]:
    return [Place(role, signatures.get(role, "fits"), f"{agent}:{number}") for number, role in enumerate(roles)]


def plan(
    parent: Sequence[Place],
    *,
    own: bool = False,
    locked: bool = True,
    seed: int = 1,
    rate: float = 0.3,
    forced: tuple[str, ...] = ("clone:encoder_norm",),
    forbidden: tuple[str, ...] = (),
    settings: ComponentSettings | None = None,
    ancestors: Sequence[Sequence[Place]] = (),
    fresh: frozenset[str] = frozenset(),
) -> tuple[dict[str, ComponentPlan], Mutator]:
    mutator = Mutator({MU: rate}, RATES, generator(seed, "plan"), MutationSettings(forced=forced, forbidden=forbidden))
    plans = plan_components(
        NEEDS,
        parent,
        own=own,
        locked=lambda _: locked,
        mutator=mutator,
        settings=settings or ComponentSettings(),
        ancestors=ancestors,
        fresh=fresh,
    )
    assert [one.role for one in plans] == ROLES
    return {one.role: one for one in plans}, mutator


def test_roles_are_those_of_vision_paths() -> None:
    assert (path_blocks.HEAD, path_blocks.POSITIONS, f"{path_blocks.BLOCK}*") == (HEAD, POSITIONS, BLOCKS)


@pytest.mark.parametrize("seed", range(30))
def test_a_child_of_a_stranger_references_what_no_action_copied(seed: int) -> None:
    plans, mutator = plan(path("Vit~b"), seed=seed)
    applied = {one.action for one in mutator.decisions if one.applied}
    for number, role in enumerate(ROLES[:-1]):
        assert plans[role].source == f"Vit~b:{number}"
        assert plans[role].fate == ("clone" if f"clone:{role}" in applied else "reference")
        assert plans[role].trained == (plans[role].fate != "reference")
    assert plans["encoder_norm"].fate == "clone"
    assert (plans["head"].fate, plans["head"].source) == ("new", None)


@pytest.mark.parametrize("seed", range(10))
def test_what_may_be_trained_is_always_copied_and_draws_nothing(seed: int) -> None:
    plans, mutator = plan(path("Vit~a"), own=True, locked=False, seed=seed, forbidden=("clone:*",), forced=())
    assert {one.fate for one in plans.values()} == {"clone"}
    assert mutator.decisions == []


def test_an_own_path_that_others_adopted_is_frozen_with_its_head() -> None:
    plans, mutator = plan(path("Vit~a"), own=True, forbidden=("clone:*",), forced=())
    assert {one.fate for one in plans.values()} == {"reference"}
    assert [one.action for one in mutator.decisions] == [f"clone:{role}" for role in ROLES]


def test_full_fine_tuning_and_a_frozen_root_are_restrictions_of_the_same_agent() -> None:
    everything, _ = plan(path("Root~r"), forced=("clone:*",))
    assert {one.fate for one in everything.values()} == {"clone", "new"}
    nothing, _ = plan(path("Root~r"), forced=(), forbidden=("clone:*",))
    assert {role for role, one in nothing.items() if one.trained} == {"head"}


@pytest.mark.parametrize("blocks", ["insert", "new"])
def test_an_added_layer(blocks: Literal["insert", "new"]) -> None:
    shallow = [role for role in ROLES if role != "encoderblock_1"]
    ancestors = [path("Vit~b", encoderblock_1="other shape"), path("Root~r")]
    settings = ComponentSettings(blocks=blocks)
    plans, _ = plan(path("Vit~a", roles=shallow), settings=settings, ancestors=ancestors)
    assert (plans["encoderblock_1"].fate, plans["encoderblock_1"].source) == (blocks, None)


def test_a_position_embedding_of_another_resolution() -> None:
    parent = path("Vit~a", posembed_input="grid 1")
    ancestors = [path("Vit~b", posembed_input="grid 2"), path("Vit~c"), path("Root~r", posembed_input="grid 3")]
    for given, settings, fate, source in (
        (ancestors, ComponentSettings(), "clone", "Vit~c:2"),
        (ancestors[::2], ComponentSettings(), "resize", "Root~r:2"),
        ([], ComponentSettings(), "resize", "Vit~a:2"),
        (ancestors, ComponentSettings(grids="parent"), "resize", "Vit~a:2"),
    ):
        plans, _ = plan(parent, settings=settings, ancestors=given)
        assert (plans["posembed_input"].fate, plans["posembed_input"].source) == (fate, source)
        assert plans["posembed_input"].trained
    nowhere, _ = plan([place for place in parent if place.role != "posembed_input"])
    assert nowhere["posembed_input"].fate == "new"


def test_a_head_for_other_classes_is_new_whatever_ancestors_have() -> None:
    plans, _ = plan(path("Vit~a", head="3 classes"), own=True, ancestors=[path("Vit~a")])
    assert plans["head"].fate == "new"


def test_what_begins_anew_is_neither_copied_nor_asked_about() -> None:
    plans, mutator = plan(path("Vit~b"), fresh=frozenset({"cls"}))
    assert (plans["cls"].fate, plans["cls"].source) == ("new", None)
    assert "clone:cls" not in {one.action for one in mutator.decisions}


def test_nothing_is_taken_of_others_where_a_pattern_fits_all() -> None:
    mutator = Mutator({MU: 0.2}, RATES, generator(0), MutationSettings())
    for own, expected in ((False, {"new"}), (True, {"clone"})):
        plans = plan_components(
            NEEDS,
            path("VitTiny~a"),
            own=own,
            locked=lambda _: False,
            mutator=mutator,
            settings=ComponentSettings(head=("*",)),
        )
        assert {one.fate for one in plans} == expected


def test_what_nobody_has_trained_is_copied_and_a_block_of_another_width_is_made_of_the_parent_s() -> None:
    mutator = Mutator({MU: 0.02}, RATES, generator(1, "plan"), MutationSettings(forced=(), forbidden=()))
    needs = [
        Place("embedding", "fits"),
        Place("encoderblock_0", "wide", resizable="a block"),
        Place("encoderblock_1", "wide", resizable="another"),
        Place("encoder_norm", "fits"),
    ]
    parent = [
        Place("embedding", "fits", "root:0"),
        Place("encoderblock_0", "narrow", "root:1", resizable="a block"),
        Place("encoderblock_1", "narrow", "root:2", resizable="a block"),
        Place("encoder_norm", "fits", "other:3"),
    ]
    plans = plan_components(
        needs,
        parent,
        own=False,
        locked=lambda _: True,
        mutator=mutator,
        settings=ComponentSettings(),
        untrained=lambda component: component.startswith("root:"),
    )
    assert [(one.fate, one.source) for one in plans] == [
        ("clone", "root:0"),
        ("resize", "root:1"),
        ("insert", None),
        ("reference", "other:3"),
    ]
    assert "nobody has trained it" in plans[0].reason
