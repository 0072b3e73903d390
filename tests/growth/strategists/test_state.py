from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from evodevo.growth.edit_spec import Action
from evodevo.growth.spec import OPERATIONS
from evodevo.growth.strategists.state import Legal, ModuleState, State
from evodevo.testing.strategists import everything, situations, some_zoo


@given(situations())
def test_what_is_listed_is_what_is_allowed(situation: tuple[State, Legal]) -> None:
    _, legal = situation
    assert "noop" in legal.operations
    for operation in OPERATIONS:
        targets = legal.targets(operation)
        assert (operation in legal.operations) == bool(targets)
        assert all(legal.allows(one.model_copy(update={"mix": 0.1, "scale": 3.0})) for one in targets)


@given(situations(), st.data())
def test_what_is_legal_only_shrinks(situation: tuple[State, Legal], data: st.DataObject) -> None:
    _, legal = situation
    action = data.draw(st.sampled_from([one for name in legal.operations for one in legal.targets(name)]))
    left = legal.after(action)
    for operation in OPERATIONS:
        assert set(map(repr, left.targets(operation))) <= set(map(repr, legal.targets(operation)))
    if action.operation == "prune":
        assert not any(action.modules[0] in one.modules for name in OPERATIONS for one in left.targets(name))


def test_a_parent_stays_for_the_event() -> None:
    legal = everything(some_zoo()).model_copy(update={"births": 2})
    left = legal.after(Action(operation="grow", modules=("m1",)))
    assert "m1" not in left.prune
    assert "m1" in left.grow
    assert left.births == 1


@given(situations(), st.data())
def test_who_was_replaced_is_gone_and_whoever_went_first_made_room(
    situation: tuple[State, Legal], data: st.DataObject
) -> None:
    """A full zoo: only the first birth of an event takes a place, and only if nobody was pruned before it."""
    state, legal = situation
    replaced = data.draw(st.sampled_from([one.id for one in state.modules]))
    legal = legal.model_copy(update={"replaces": replaced})
    action = data.draw(st.sampled_from([one for name in OPERATIONS for one in legal.targets(name)]))
    left = legal.after(action)
    if action.operation in ("grow", "spawn", "hybridise"):
        assert left.replaces is None
        assert left.prunes == max(legal.prunes - legal.replacing_prunes, 0)
        assert not any(replaced in one.modules for name in OPERATIONS for one in left.targets(name))
    else:
        assert left.replaces == (None if action.operation == "prune" else replaced)
        others = [one for one in legal.targets("grow") if one.modules != action.modules]
        assert {one.modules for one in others} <= {one.modules for one in left.targets("grow")} or not left.births


def test_what_earlier_runs_stored_reads_as_it_did_and_is_stored_as_it_was() -> None:
    """Their births in a full zoo left the pruning; the field is written only where it holds."""
    stored = {"prune": ["m0", "m1"], "grow": ["m0", "m1", "m2"], "replaces": "m0", "prunes": 1}
    legal = Legal.model_validate_json(json.dumps(stored))
    assert legal.after(Action(operation="grow", modules=("m2",))).targets("prune")
    assert "replacing_prunes" not in legal.model_dump()


def test_values_and_their_changes() -> None:
    state = some_zoo().model_copy(update={"values": (9.0, 9.0, 0.5, 0.5, 0.6, 0.6, 0.6)})
    assert state.slopes == pytest.approx((0, 0.1, 0, 0))
    assert state.plateaued(2, 0.0)
    assert not state.plateaued(3, 0.0)
    assert state.plateaued(3, 0.2)
    assert not state.model_copy(update={"values": (0.5,)}).plateaued(1, 1.0)


def test_another_order_is_the_same_zoo() -> None:
    state = some_zoo(3)
    other = state.permuted((2, 0, 1))
    assert [one.id for one in other.modules] == ["m2", "m0", "m1"]
    assert other.complement("m0", "m2") == state.complement("m0", "m2") != 0


@pytest.mark.parametrize(
    "changes",
    [{"complementarity": ((0.0,),)}, {"modules": (ModuleState(id="a", archetype="mlp", vector=()),) * 2}],
)
def test_what_does_not_fit_together_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        State(**{"modules": some_zoo(2).modules, "most": 9, **changes})


def test_plain_data_comes_back() -> None:
    state = some_zoo()
    legal = everything(state)
    assert State.model_validate_json(state.model_dump_json()) == state
    assert Legal.model_validate_json(legal.model_dump_json()) == legal
