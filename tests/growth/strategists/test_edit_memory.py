"""The memory of edits across runs (docs/spec/architect_thyself.md#edit-memory)."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from evodevo.errors import UsageError
from evodevo.growth.edit_spec import Action
from evodevo.growth.spec import Operation
from evodevo.growth.strategists.base import create
from evodevo.growth.strategists.edit_memory import FORMAT, MOST, EditMemory
from evodevo.growth.strategists.learned import LearnedStrategist
from evodevo.growth.strategists.spec import MemorySettings, StrategistSettings
from evodevo.growth.strategists.transition import Decision, Transition
from evodevo.module_zoo.modules import zoo as zoo_archetypes
from evodevo.testing.strategists import everything, some_zoo, told

torch.set_num_threads(1)


def event(action: Action, reward: float, *, seed: int = 0, ending: bool = False) -> Transition:
    state = some_zoo(seed=seed)
    legal = everything(state)
    decisions = [Decision(legal=legal, action=action)]
    if ending:
        decisions.append(Decision(legal=legal.after(action), action=Action(operation="noop")))
    return Transition(state=state, decisions=tuple(decisions), reward=reward)


def memory_of(*events: Transition) -> EditMemory:
    memory = EditMemory()
    for one in events:
        memory = memory.with_event(one)
    return memory


GROW = Action(operation="grow", modules=("m1",))
PRUNE = Action(operation="prune", modules=("m2",))
OPERATIONS_TOLD: tuple[Operation, ...] = ("grow", "prune")
MIXED = memory_of(
    *(event(GROW, 1.0, seed=seed) for seed in range(3)), *(event(PRUNE, -1.0, seed=seed) for seed in range(3))
)


def test_text_comes_back() -> None:
    memory = memory_of(*told(create("random"), range(6)))
    child = zoo_archetypes.sample("mlp", 16, np.random.default_rng(0))
    memory = memory.with_event(event(GROW, 1.0), {0: child})
    assert memory.edits[-1].child == child
    assert EditMemory.loads(memory.dumps()) == memory
    assert len(memory.dumps().splitlines()) == len(memory.edits) + 1


def test_it_keeps_no_reasons_and_no_noop_that_only_ends_an_event() -> None:
    memory = memory_of(event(GROW, 1.0, ending=True), event(Action(operation="noop"), 0.5))
    assert [one.action.operation for one in memory.edits] == ["grow", "noop"]
    assert not any(one.legal.reasons for one in memory.edits)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ppo", "reinforce", "meta_gradient", "reinforce_meta"])
@pytest.mark.parametrize(
    "settings", [MemorySettings(epochs=0), MemorySettings(bias=0.0), MemorySettings()], ids=["lean", "imitate", "both"]
)
def test_a_rewarded_action_is_likelier_in_a_second_run(name: str, settings: MemorySettings) -> None:
    """In the second run the zoo is another one, and its modules may have the same ids only by chance."""
    first, second = (create(name, settings=StrategistSettings(memory=settings), seed=seed) for seed in (1, 1))
    assert isinstance(first, LearnedStrategist)
    assert isinstance(second, LearnedStrategist)
    second.remember(EditMemory.loads(MIXED.dumps()))
    for seed in (0, 50):
        state = some_zoo(5, seed=seed)
        legal = everything(state)
        choices = [one.choice(state, legal) for one in (first, second)]
        grow, prune = (
            [sum(one.probability(action) for action in legal.targets(name)) for one in choices]
            for name in OPERATIONS_TOLD
        )
        assert grow[1] > 1.1 * grow[0]
        assert prune[1] < prune[0]


@pytest.mark.slow
def test_only_what_was_better_than_usual_is_imitated() -> None:
    strategist = create("ppo")
    assert strategist.remember(MIXED) == 3
    assert strategist.remember(memory_of(event(PRUNE, -1.0))) == 0
    assert strategist.remember(EditMemory()) == 0
    usual = memory_of(*(event(GROW, 0.1, seed=seed) for seed in range(40)), event(PRUNE, 1.0))
    advantages = usual.advantages(4.0)
    assert advantages[-1] > 1
    assert all(one < 0 for one in advantages[:-1])


def test_the_lean_has_the_sign_of_the_reward_and_stays_within_its_bounds() -> None:
    lean = MIXED.lean(MemorySettings(bias=0.7))
    assert lean["grow"] > 0 > lean["prune"]
    assert all(abs(one) <= 0.7 for one in lean.values())
    assert {kind.partition(":")[0] for kind in lean} == {"grow", "prune"}
    few = memory_of(event(GROW, 1.0), event(PRUNE, -1.0)).lean(MemorySettings(bias=0.7))
    assert 0 < few["grow"] < lean["grow"]
    assert set(memory_of(event(GROW, 0.0)).lean(MemorySettings()).values()) == {0.0}


@pytest.mark.slow
def test_what_was_remembered_is_part_of_what_is_kept() -> None:
    strategist, other = create("ppo"), create("ppo", seed=5)
    strategist.remember(MIXED)
    other.load_state_dict(strategist.state_dict())
    assert isinstance(other, LearnedStrategist)
    assert other.lean == MIXED.lean(MemorySettings()) != {}


def head(**changes: object) -> str:
    lines = MIXED.dumps().splitlines()
    return "\n".join((json.dumps({**json.loads(lines[0]), **changes}), *lines[1:]))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (head(format="evodevo.edit_memory/2"), "evodevo.edit_memory/2.*reads 'evodevo.edit_memory/1'.*memory=false"),
        (head(vector=3), "by 3 numbers"),
        ("", "line 1"),
        ("[]\n", FORMAT),
        (head() + "\nnonsense", "line 8 is not valid JSON"),
        (head() + "\n{}", "line 8"),
        (head() + "\n3", "line 8 is no edit"),
        (head().replace('"modules":["m1"]', '"modules":["m9"]'), "m9"),
        (head().replace('"modules":["m1"]', '"modules":["m1","m2"]'), "not legal"),
    ],
)
def test_another_version_and_damage_are_one_clear_error(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        EditMemory.loads(text)


def test_the_oldest_edits_go_first() -> None:
    memory = EditMemory((MIXED.edits * (MOST // 6 + 1))[:MOST])
    assert len(memory.with_event(event(GROW, 5.0)).edits) == MOST
    assert memory.with_event(event(GROW, 5.0)).edits[-1].reward == 5.0
