"""What may be done, and the sentence for what may not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evodevo.growth.fitness import FitnessHistory, ModuleHistory
from evodevo.growth.growable import TaskSizes
from evodevo.growth.legality import EventState, Ruling, refusal, rule
from evodevo.growth.resources import Resources
from evodevo.growth.spec import GrowthSettings, Operation
from evodevo.growth.zoo.growable import GrowableZoo
from evodevo.module_zoo.modules.zoo import PAPER, archetype, start_zoo
from evodevo.module_zoo.spec import ZooStructure
from evodevo.settings import validate
from evodevo.testing.networks import CLASS, TEXT

WIDTH = 16
STRUCTURE = GrowableZoo.of(ZooStructure(width=WIDTH, modules=start_zoo(WIDTH)))
IDS = tuple(module.id for module in STRUCTURE.modules)
TASK = TaskSizes((TEXT,), (CLASS,), batch=8)
HISTORY = FitnessHistory(
    modules={one: ModuleHistory(events=2, fitness=number / 10, impact=0.01) for number, one in enumerate(IDS)}
)
SITUATION = EventState(STRUCTURE, TASK, HISTORY)


def settings_of(**changes: Any) -> GrowthSettings:
    return validate(GrowthSettings, changes, what="growth")


def ruled(situation: EventState = SITUATION, **changes: Any) -> Ruling:
    return rule(situation, settings_of(**changes))


def test_everything_may_be_done() -> None:
    legal = ruled().legal
    assert legal.prune == legal.grow == legal.rewarm == IDS
    assert legal.spawn == PAPER
    assert len(legal.hybridise) == len(IDS) * (len(IDS) - 1)
    assert (legal.births, legal.prunes) == (1, 1)
    assert not legal.reasons


def test_switched_off_is_said() -> None:
    legal = ruled(allow=["grow"]).legal
    assert legal.operations == ("noop", "grow")
    assert set(legal.reasons) == {"prune", "spawn", "hybridise", "rewarm"}


def test_edits_in_place_are_closed_unless_they_are_named_and_say_who_does_not_admit_them() -> None:
    assert ruled().legal.in_place == ()
    legal = ruled(allow=["widen", "prune", "deepen"]).legal
    assert dict(legal.in_place) == {"widen": IDS, "deepen": ("transformer-1", "resnet1d-1")}
    assert legal.operations == ("noop", "prune", "widen", "deepen")
    assert "its kernels lie side by side" in legal.reasons["deepen:cnn-1"]
    assert "widen:cnn-1" not in legal.reasons
    warming = ruled(replace(SITUATION, warming=("mlp-1",)), allow=["widen"]).legal
    assert dict(warming.in_place)["widen"] == tuple(name for name in IDS if name != "mlp-1")
    assert "warms up" in warming.reasons["widen:mlp-1"]
    late = ruled(replace(SITUATION, left=0.05), allow=["widen"]).legal
    assert late.in_place == ()
    assert "5.0% of the budget is left" in late.reasons["widen"]


def test_a_larger_module_stays_below_the_caps() -> None:
    now = Resources.of(STRUCTURE, TASK)
    narrow = ruled(allow=["widen"], caps={"parameters": now.parameters + 200}).legal
    (widen,) = narrow.in_place
    assert set(widen[1]) < set(IDS)
    assert all("parameters" in narrow.reasons[f"widen:{name}"] for name in IDS if name not in widen[1])


def test_who_was_edited_is_busy_for_the_rest_of_the_event() -> None:
    legal = ruled(allow=["widen", "deepen", "prune"]).legal
    after = legal.after(legal.targets("widen")[0])
    name = legal.targets("widen")[0].modules[0]
    assert not any(name in names for _, names in after.in_place)
    assert name not in after.prune
    gone = legal.after(legal.targets("prune")[1])
    assert not any(legal.targets("prune")[1].modules[0] in names for _, names in gone.in_place)


def test_who_is_spared_may_not_be_pruned() -> None:
    legal = ruled(replace(SITUATION, spared={IDS[0]: "it is needed"})).legal
    assert legal.prune == IDS[1:]
    assert legal.reasons == {f"prune:{IDS[0]}": "it is needed"}


def test_nobody_is_born_while_a_child_warms_up() -> None:
    legal = ruled(replace(SITUATION, warming=(IDS[2],))).legal
    assert not {"grow", "spawn", "hybridise"} & set(legal.operations)
    assert "warms up" in legal.reasons["grow"] == legal.reasons["spawn"]
    assert IDS[2] not in legal.rewarm


def test_a_birth_needs_time() -> None:
    assert "grow" in ruled(replace(SITUATION, left=0.06)).legal.operations
    legal = ruled(replace(SITUATION, left=0.05)).legal
    assert "grow" not in legal.operations
    assert "5.0% of the budget is left" in legal.reasons["hybridise"]


@pytest.mark.parametrize(
    ("prune", "prunes"),
    [({"least": 5}, 1), ({"least": 6}, 0), ({"least": 1}, 1), ({"least": 2, "rule": "quantile"}, 4)],
)
def test_the_least_stays_and_the_quantile_may_take_several(prune: Any, prunes: int) -> None:
    assert ruled(prune=prune).legal.prunes == prunes


def test_room_limits_births() -> None:
    births = {most: ruled(events={"births": 3}, birth={"most": most}).legal.births for most in (7, 8, 12)}
    assert births == {7: 1, 8: 2, 12: 3}


FULL = {"most": len(IDS)}


def test_a_full_zoo_replaces_the_least_fit_who_is_not_missed() -> None:
    ruling = ruled(birth=FULL)
    assert ruling.replaces is None
    assert "the zoo is full (6 modules)" in ruling.legal.reasons["spawn"]
    full = ruled(replace(SITUATION, gain=0.01), birth=FULL)
    assert full.replaces == full.legal.replaces == IDS[0]
    modules = dict(HISTORY.modules)
    modules[IDS[0]] = modules[IDS[0]].model_copy(update={"impact": 0.02})
    ruling = ruled(replace(SITUATION, gain=0.01, history=FitnessHistory(modules=modules)), birth=FULL)
    assert ruling.replaces == IDS[1]
    assert ruling.legal.births == 1
    assert "grow" in ruling.legal.operations
    assert ruled(replace(SITUATION, gain=1.0)).replaces is None  # there is room
    over = ruled(replace(SITUATION, gain=1.0), birth={"most": 4}).legal
    assert over.births == 0
    assert "may have 4" in over.reasons["grow"]


@pytest.mark.parametrize(
    ("prune", "left"),
    [({"rule": "unused"}, 0), ({"rule": "standard"}, 1), ({"rule": "quantile"}, 3), ({"rule": "threshold"}, 3)],
)
@pytest.mark.parametrize("first", ["spawn", "grow", "hybridise"])
def test_a_birth_that_takes_an_unused_modules_place_is_the_one_cut_of_its_probe(
    first: Operation, prune: Any, left: int
) -> None:
    """Without the one that gave its place the others may be of use, and nobody has looked. The paper's rules cut on."""
    legal = ruled(replace(SITUATION, gain=1.0), birth=FULL, prune=prune).legal
    birth = next(action for action in legal.targets(first) if IDS[1] not in action.modules)
    after = legal.after(birth)
    assert legal.replaces == IDS[0]
    assert legal.prunes == max(left, 1)
    assert after.prunes == left
    assert bool(after.targets("prune")) == bool(left)
    assert IDS[1] in after.prune, "the rule itself would let it go"


def test_a_birth_with_room_leaves_the_cut() -> None:
    """Nobody went: where there is room, and where somebody was pruned before."""
    roomy = ruled(prune={"rule": "unused"}).legal
    assert roomy.after(roomy.targets("spawn")[0]).prunes == 1
    full = ruled(replace(SITUATION, gain=1.0), birth=FULL, prune={"rule": "quantile"}).legal
    cut = full.after(full.targets("prune")[1])
    assert cut.after(cut.targets("spawn")[0]).prunes == cut.prunes


def test_caps_forbid_what_would_break_them() -> None:
    """Heavy parents and families go, light ones stay."""
    used = Resources.of(STRUCTURE, TASK)
    room = 2000
    legal = ruled(caps={"parameters": used.parameters + room}).legal
    assert legal.grow
    assert len(legal.grow) < len(IDS)
    for one, module in zip(IDS, STRUCTURE.modules, strict=True):
        words = refusal(STRUCTURE, module.genotype, TASK, settings_of(caps={"parameters": used.parameters + room}).caps)
        assert (words is None) == (one in legal.grow)
        assert one in legal.grow or "over the cap of parameters" in legal.reasons[f"grow:{one}"]
    for first, second in legal.hybridise:
        assert first in legal.grow
        assert second in legal.grow
    assert set(legal.spawn) < set(PAPER)
    nothing = ruled(caps={"flops": float(used.flops)}).legal
    assert not {"grow", "spawn", "hybridise"} & set(nothing.operations)
    assert "prune" in nothing.operations


def test_who_is_replaced_makes_room_under_a_cap() -> None:
    used = Resources.of(STRUCTURE, TASK)
    heavy = max(STRUCTURE.modules, key=lambda module: Resources.of(STRUCTURE.with_modules((module,)), TASK).parameters)
    caps = settings_of(caps={"parameters": used.parameters}).caps
    assert refusal(STRUCTURE, heavy.genotype, TASK, caps) is not None
    assert refusal(STRUCTURE, heavy.genotype, TASK, caps, replaces=heavy.id) is None


def test_a_family_that_the_width_does_not_allow_is_refused_with_its_reason() -> None:
    legal = ruled(replace(SITUATION, families=("mlp", "unheard-of"))).legal
    assert legal.spawn == ("mlp",)
    assert "unheard-of" in legal.reasons["spawn:unheard-of"]


@given(
    st.sets(st.sampled_from(IDS)),
    st.sets(st.sampled_from(IDS)),
    st.floats(0, 1),
    st.integers(1, 9),
    st.integers(1, 9),
    st.sampled_from([0.0, 0.01, 1.0]),
)
def test_what_is_legal_keeps_every_law(
    warming: set[str], spared: set[str], left: float, most: int, least: int, gain: float
) -> None:
    situation = replace(SITUATION, warming=warming, spared=dict.fromkeys(spared, "no"), left=left, gain=gain)
    ruling = ruled(situation, birth={"most": most}, prune={"least": least})
    legal = ruling.legal
    assert not spared & set(legal.prune)
    assert len(IDS) - legal.prunes >= min(least, len(IDS))
    assert not legal.births or not warming
    if legal.births:
        assert len(IDS) + legal.births - (ruling.replaces is not None) <= most
    if ruling.replaces is not None:
        assert ruling.replaces not in warming
    for operation in ("grow", "spawn", "hybridise"):
        assert legal.targets(operation) or operation in legal.reasons


def test_a_child_may_be_named_like_another() -> None:
    """A module called as the child of an estimate is no obstacle."""
    modules = tuple(
        module.model_copy(update={"id": f"child{number}"}) for number, module in enumerate(STRUCTURE.modules)
    )
    structure = STRUCTURE.model_copy(update={"modules": modules})
    caps = settings_of(caps={"parameters": 1}).caps
    assert refusal(structure, archetype("mlp", WIDTH), TASK, caps)
