"""PPO and REINFORCE learn what pays, and only that (docs/spec/architect_thyself.md#strategists)."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pytest
import torch

from evodevo import randomness
from evodevo.growth.spec import Operation
from evodevo.growth.strategists.base import create
from evodevo.growth.strategists.learned import LearnedStrategist
from evodevo.growth.strategists.ppo import generalised_advantages
from evodevo.growth.strategists.reinforce import baselined
from evodevo.growth.strategists.spec import LearningSettings, StrategistSettings
from evodevo.growth.strategists.state import Legal
from evodevo.growth.strategists.transition import Decision, Transition
from evodevo.testing.strategists import everything, some_zoo

torch.set_num_threads(1)
STATE = some_zoo()
LEGAL = everything(STATE)
LEARNED = ("ppo", "reinforce")


def build(name: str, **learning: object) -> LearnedStrategist:
    settings = StrategistSettings(learning=LearningSettings(**learning))  # type: ignore[arg-type]
    strategist = create(name, actions=1, settings=settings)
    assert isinstance(strategist, LearnedStrategist)
    return strategist


def chance(strategist: LearnedStrategist, operation: Operation, legal: Legal = LEGAL) -> float:
    choice = strategist.choice(STATE, legal)
    return sum(choice.probability(one) for one in legal.targets(operation))


def play(strategist: LearnedStrategist, sign: float, decisions: Iterable[int]) -> None:
    """``grow`` pays ``sign``, everything else nothing; each decision is told at once, as in a run."""
    for number in decisions:
        made = strategist.decide(STATE, LEGAL, randomness.generator(0, number))
        reward = sign * float(made[0].action.operation == "grow")
        strategist.update([Transition(state=STATE, decisions=made, reward=reward)])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "count"), [("reinforce", 120), ("ppo", 180)])
def test_what_pays_is_done_soon_and_nearly_always_within_200_decisions(name: str, count: int) -> None:
    strategist = build(name)
    before = chance(strategist, "grow")
    play(strategist, 1.0, range(60))
    assert chance(strategist, "grow") > 1.5 * before
    play(strategist, 1.0, range(60, count))
    assert before < 0.2
    assert chance(strategist, "grow") >= 0.9
    barred = LEGAL.model_copy(update={"grow": ()})
    assert all(strategist.choice(STATE, barred).probability(one) == 0 for one in LEGAL.targets("grow"))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "count"), [("reinforce", 80), ("ppo", 40)])
def test_what_costs_is_left(name: str, count: int) -> None:
    strategist = build(name, rate=1e-3)
    before = chance(strategist, "grow")
    play(strategist, -1.0, range(count))
    assert chance(strategist, "grow") < before / 2


@pytest.mark.parametrize("name", LEARNED)
def test_entropy_is_raised_not_lowered(name: str) -> None:
    """The paper's sign would make a policy without rewards ever surer."""
    strategist = build(name, entropy=1.0, rate=1e-2, reinforce_rate=1e-2)
    before = float(strategist.choice(STATE, LEGAL).entropy().detach())
    play(strategist, 0.0, range(20))
    assert float(strategist.choice(STATE, LEGAL).entropy().detach()) > before + 0.1


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNED)
def test_the_value_becomes_the_reward(name: str) -> None:
    strategist = build(name, rate=1e-2, reinforce_rate=1e-2, norm=100.0)
    made = strategist.decide(STATE, LEGAL, randomness.generator(0))
    for _ in range(25):
        strategist.update([Transition(state=STATE, decisions=made, reward=0.7)])
    assert float(strategist.policy.worth(STATE).detach()) == pytest.approx(0.7, abs=0.1)


@pytest.mark.parametrize(
    ("ratio", "advantage", "slope"),
    [(1.1, 2.0, 1.1 * 2), (1.3, 2.0, 0.0), (1.3, -2.0, 1.3 * -2), (0.7, 2.0, 0.7 * 2), (0.7, -2.0, 0.0)],
)
def test_what_has_moved_past_the_clip_is_pushed_no_further(ratio: float, advantage: float, slope: float) -> None:
    old = -1.5
    decision = Decision(legal=LEGAL, action=LEGAL.targets("noop")[0], log_probability=old)
    log = torch.tensor(old + math.log(ratio), requires_grad=True)
    gain = build("ppo")._gain(log, decision, advantage)
    assert float(gain.detach()) == pytest.approx(
        min(ratio * advantage, min(max(ratio, 0.8), 1.2) * advantage), rel=1e-5
    )
    (found,) = torch.autograd.grad(gain, log)
    assert float(found) == pytest.approx(slope, rel=1e-5)


def test_dear_networks_are_punished_while_the_mean_is_over_its_target() -> None:
    strategist = build("ppo", target_cost=100.0, multiplier_rate=0.5)
    made = strategist.decide(STATE, LEGAL, randomness.generator(0))
    logs = [strategist.update([Transition(state=STATE, decisions=made, reward=0.0, cost=150.0)]) for _ in range(3)]
    assert [one["multiplier"] for one in logs] == pytest.approx([0.25, 0.5, 0.75])
    for _ in range(9):
        strategist.update([Transition(state=STATE, decisions=made, reward=0.0, cost=50.0)])
    assert strategist.multiplier == 0


@pytest.mark.slow
def test_a_cost_that_growing_brings_turns_the_policy_away_from_it() -> None:
    strategist = build("reinforce", target_cost=1.0, multiplier_rate=0.5)
    free = build("reinforce")
    for one in (strategist, free):
        for number in range(40):
            made = one.decide(STATE, LEGAL, randomness.generator(0, number))
            grown = made[0].action.operation == "grow"
            one.update([Transition(state=STATE, decisions=made, reward=0.2 * grown, cost=3.0 if grown else 0.9)])
    assert chance(strategist, "grow") < chance(free, "grow")


@pytest.mark.slow
def test_the_multiplier_holds_the_mean_cost_at_its_target() -> None:
    """Eq. 80: growing pays, so that without a target it is nearly always done, and costs four times as much; half of
    the time it is affordable. Both that learn share the multiplier."""
    strategist, costs = build("reinforce", target_cost=1.0), []
    for number in range(400):
        made = strategist.decide(STATE, LEGAL, randomness.generator(0, number))
        grown = made[0].action.operation == "grow"
        costs.append(2.0 if grown else 0.5)
        strategist.update([Transition(state=STATE, decisions=made, reward=float(grown), cost=costs[-1])])
    assert 0.7 < sum(costs[100:]) / 300 < 1.1


def transitions(ends: tuple[bool, ...]) -> list[Transition]:
    return [Transition(state=STATE, decisions=(), reward=0.0, after=None if end else STATE) for end in ends]


@pytest.mark.parametrize("ends", [(False, False, True), (False, True, False), (False, False, False)])
def test_advantages_equal_their_definitions(ends: tuple[bool, ...]) -> None:
    rewards, worth, after = [1.0, -2.0, 0.5], [0.3, 0.1, -0.4], [0.1, -0.4, 0.9]
    gamma, trace, events = 0.9, 0.8, transitions(ends)
    delta = [rewards[t] + gamma * after[t] * (not ends[t]) - worth[t] for t in range(3)]
    naive = []
    for t in range(3):
        total, factor = 0.0, 1.0
        for k in range(t, 3):
            total += factor * delta[k]
            factor *= gamma * trace
            if ends[k]:
                break
        naive.append(total)
    assert generalised_advantages(events, rewards, worth, after, gamma, trace) == pytest.approx(naive)

    returns = []
    for t in range(3):
        total, factor = 0.0, 1.0
        for k in range(t, 3):
            total += factor * rewards[k]
            factor *= gamma
            if ends[k]:
                break
        else:
            total += factor * after[2]
        returns.append(total)
    advantages, found = baselined(events, rewards, worth, after, gamma)
    assert found == pytest.approx(returns)
    assert advantages == pytest.approx([one - value for one, value in zip(returns, worth, strict=True)])


def test_a_decision_knows_whether_the_heuristic_would_differ() -> None:
    strategist = build("ppo")
    made: list[Decision] = []
    for number in range(40):
        made += strategist.decide(STATE, LEGAL, randomness.generator(1, number))
    assert {one.prior.operation for one in made if one.prior} == {"noop"}
    assert [one.differs for one in made] == [one.action.operation != "noop" for one in made]
    assert 0 < sum(one.differs for one in made) < 40


def test_a_loss_that_is_no_number_changes_nothing() -> None:
    strategist = build("ppo")
    before = {name: one.clone() for name, one in strategist.policy.state_dict().items()}
    strategist._step([torch.full_like(one, float("nan")) for one in strategist.policy.parameters()])
    assert all(torch.equal(before[name], one) for name, one in strategist.policy.state_dict().items())


def test_nothing_told_is_nothing_learnt() -> None:
    assert build("ppo").update([]) == {}
