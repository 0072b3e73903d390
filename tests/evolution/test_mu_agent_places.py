"""Places of real paths: what their structures say, and the laws of sharing on them."""

from __future__ import annotations

import pytest

from evodevo.evolution.mu_agent_child import ChildPlan, ChildSettings, plan_child
from evodevo.evolution.mu_agent_components import ComponentSettings
from evodevo.evolution.mu_agent_mutation import MutationSettings
from evodevo.evolution.mu_agent_places import (
    multipath_needs,
    multipath_places,
    vision_child,
    vision_needs,
    vision_places,
)
from evodevo.evolution.mu_agent_supports import MultipathSettings, plan_multipath_child
from evodevo.randomness import generator
from evodevo.spaces.multipath import MultipathStructure
from evodevo.spaces.path import ComponentUse, Path, SubPath, Value
from evodevo.spaces.path_hyperparameters import multipath_hyperparameters, singlepath_hyperparameters
from evodevo.spaces.vision_path import PRESETS, structure_of

SPACE = singlepath_hyperparameters("tiny")
THIRD = singlepath_hyperparameters("ti3", "v3")


def vision(agent: str, classes: int, **values: Value) -> Path:
    hparams = SPACE.defaults() | values
    path = Path(agent=agent, number=0, task="a", classes=classes, hparams=hparams, mu=SPACE.default_mu())
    path = path.model_copy(update={"structure": PRESETS["tiny"].model_dump(mode="json")})
    uses = [ComponentUse(role=role, id=f"{agent}:{n}") for n, role in enumerate(structure_of(path).roles)]
    return path.model_copy(update={"components": tuple(uses)})


ROOT = vision("Root~r", 0)
ROOT_SIGNATURES = {role: structure_of(ROOT).signature(role) for role in structure_of(ROOT).roles}


def child(
    parent: Path, seed: int, settings: ChildSettings | None = None, *, classes: int = 10, own: bool = False
) -> ChildPlan:
    return plan_child(
        parent,
        vision_places(parent),
        own=own,
        needs=vision_needs(parent, classes),
        locked=lambda _: not own,
        space=SPACE,
        settings=settings or ChildSettings(),
        rng=generator(seed, "places"),
        ancestors=[vision_places(ROOT)],
    )


@pytest.mark.parametrize("seed", range(25))
def test_a_plan_fills_the_places_of_the_child_s_structure(seed: int) -> None:
    plan = child(ROOT, seed)
    structure = vision_child(ROOT, 10, plan.hparams)
    assert tuple(one.role for one in plan.components) == structure.roles
    assert structure.layers == plan.hparams["num_layers"]
    assert structure.image_size == plan.hparams["ds_image_size"]
    for one in plan.components:
        same = one.role in ROOT_SIGNATURES and ROOT_SIGNATURES[one.role] == structure.signature(one.role)
        if one.fate in ("reference", "clone"):
            assert same
        else:
            assert not same
    assert plan.components[-1].fate == "new"


def test_another_resolution_resizes_positions_and_shares_the_rest() -> None:
    settings = ChildSettings(
        mutation=MutationSettings(forced=("hp:ds_image_size", "clone:encoder_norm"), forbidden=("*",)),
        components=ComponentSettings(grids="parent"),
    )
    plan = child(ROOT, 1, settings)
    assert plan.hparams["ds_image_size"] in (8, 24)
    fates = {one.role: one.fate for one in plan.components}
    assert fates["posembed_input"] == "resize"
    assert {role for role, fate in fates.items() if fate == "reference"} == {
        "embedding",
        "cls",
        "encoderblock_0",
        "encoderblock_1",
        "encoderblock_2",
    }


def test_one_more_layer_is_inserted_and_one_less_is_dropped() -> None:
    shallow = vision("Vit~a", 10, num_layers=1)
    settings = ChildSettings(mutation=MutationSettings(forced=("hp:num_layers",), forbidden=("*",)))
    plans = [child(shallow, seed, settings, own=True) for seed in range(12)]
    assert {plan.hparams["num_layers"] for plan in plans} == {0, 2}
    for plan in plans:
        fates = {one.role: one.fate for one in plan.components}
        assert ("encoderblock_0" in fates) == (plan.hparams["num_layers"] == 2)
        assert fates.get("encoderblock_1", "insert") == "insert"
        assert fates["head"] == "clone"


def test_an_own_path_s_head_is_kept_only_for_as_many_classes() -> None:
    own = vision("Vit~a", 10)
    assert child(own, 1, own=True).components[-1].fate == "clone"
    assert child(own, 1, own=True, classes=9).components[-1].fate == "new"


def test_adapters_take_the_width_of_the_values() -> None:
    structure = vision_child(ROOT, 2, {"adapter_dim": 16, "num_layers": 2}, frozenset({1}))
    assert structure.adapters == {"residual_adapter_1": 16}
    wide = [place.signature for place in vision_needs(ROOT, 2)({"adapter_dim": 64}, frozenset({1}))]
    slim = [place.signature for place in vision_needs(ROOT, 2)({"adapter_dim": 16}, frozenset({1}))]
    assert sum(one != other for one, other in zip(wide, slim, strict=True)) == 1


def test_multipath_joints() -> None:
    space = multipath_hyperparameters()
    pool = [SubPath(agent=f"Vit~{name}", number=0) for name in "bcd"]
    main = SubPath(agent="Vit~a", number=0)
    structure = MultipathStructure(router_norm="layer")
    needs = multipath_needs(structure, 10, lambda _: 32)
    settings = MultipathSettings(mutation=MutationSettings(forced=("hp:num_paths",), forbidden=("*",)))

    def plan(parent: Path | None, seed: int) -> dict[str, str]:
        places = () if parent is None else multipath_places(parent, structure, [32] * (len(parent.paths) - 1))
        made = plan_multipath_child(
            parent, places, main=main, pool=pool, needs=needs, space=space, settings=settings, rng=generator(seed)
        )
        return {one.role: one.fate for one in made.components}

    uses = tuple(ComponentUse(role=role, id=f"MultiVit~a:{n}") for n, role in enumerate(("connector_1", "router")))
    parent = Path(
        agent="MultiVit~a",
        number=1,
        task="a",
        classes=10,
        kind="multipath",
        hparams=space.defaults(),
        mu=space.default_mu(),
        components=uses,
        paths=(main, pool[0]),
    )
    seen = [plan(parent, seed) for seed in range(20)]
    assert {"connector_1": "clone", "router": "clone"} in seen
    assert {"connector_1": "clone", "connector_2": "new", "router": "new"} in seen
    assert set(plan(None, 1).values()) == {"new"}
    assert set(plan(None, 1)) >= {"connector_1", "router"}
