from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evodevo.growth.edit_spec import Action
from evodevo.growth.spec import OPERATIONS
from evodevo.growth.strategists.base import create
from evodevo.growth.strategists.choice import PolicyOutput, gate_name
from evodevo.growth.strategists.heuristic import prior
from evodevo.growth.strategists.learned import LearnedStrategist
from evodevo.growth.strategists.spec import HeuristicSettings, StrategistSettings
from evodevo.growth.strategists.state import Legal, State
from evodevo.testing.strategists import everything, situations, some_zoo

torch.set_num_threads(1)


def learned(*, moved: bool = True) -> LearnedStrategist:
    """A strategist whose policy has learnt something, if only noise."""
    strategist = create("ppo")
    assert isinstance(strategist, LearnedStrategist)
    source = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in strategist.policy.parameters():
            if moved:
                parameter += 0.1 * torch.randn(parameter.shape, generator=source)
    return strategist


STRATEGIST = learned()


def actions(legal: Legal) -> list[Action]:
    return [one for name in legal.operations for one in legal.targets(name)]


@settings(deadline=None, max_examples=15)
@given(situations())
def test_what_is_legal_shares_all_probability_and_the_rest_has_exactly_none(situation: tuple[State, Legal]) -> None:
    state, legal = situation
    choice = STRATEGIST.choice(state, legal)
    assert sum(choice.probability(one) for one in actions(legal)) == pytest.approx(1, abs=1e-5)
    for one in actions(everything(state)):
        assert legal.allows(one) == (choice.probability(one) > 0)
        assert legal.allows(one) or choice.probability(one) == 0.0


@settings(deadline=None, max_examples=15)
@given(situations(), st.data())
@torch.no_grad()
def test_the_order_of_modules_does_not_matter(situation: tuple[State, Legal], data: st.DataObject) -> None:
    state, legal = situation
    other = state.permuted(data.draw(st.permutations(range(len(state.modules)))))
    turned = legal.model_copy(update={name: getattr(legal, name)[::-1] for name in ("prune", "grow", "hybridise")})
    one, two = STRATEGIST.choice(state, legal), STRATEGIST.choice(other, turned)
    for action in actions(legal):
        assert two.probability(action) == pytest.approx(one.probability(action), rel=1e-3, abs=1e-6)
        assert float(two.log_probability(action)) == pytest.approx(float(one.log_probability(action)), abs=1e-3)
    assert float(two.entropy()) == pytest.approx(float(one.entropy()), abs=1e-4)
    worth = float(STRATEGIST.policy.worth(state).detach())
    assert float(STRATEGIST.policy.worth(other).detach()) == pytest.approx(worth, abs=1e-4)
    gates = two.gates(other)
    for name, gate in one.gates(state).items():
        assert float(gates[name]) == pytest.approx(float(gate), abs=1e-4)


def test_each_module_matters() -> None:
    """A policy that read nothing would be equivariant too."""
    state = some_zoo()
    changed = state.modules[2].model_copy(update={"fitness": 3.0, "usage": 2.0})
    other = state.model_copy(update={"modules": (*state.modules[:2], changed, state.modules[3])})
    legal = everything(state)
    with_prior = prior(state, legal, STRATEGIST.settings.heuristic)
    one: PolicyOutput = STRATEGIST.policy(state, legal, with_prior, {})
    two: PolicyOutput = STRATEGIST.policy(other, legal, with_prior, {})
    assert all(abs(one.probability(a) - two.probability(a)) > 1e-7 for a in actions(legal))


def test_before_anything_is_learnt_it_is_the_heuristic_as_a_distribution() -> None:
    fresh, state = learned(moved=False), some_zoo().model_copy(update={"values": (0.7, 0.7, 0.7)})
    legal = everything(state)
    given_prior = prior(state, legal, fresh.settings.heuristic)
    choice = fresh.choice(state, legal)
    whole = sum(math.exp(one) for one in given_prior.operations.values())
    for name in legal.operations:
        inner = sum(math.exp(one) for one in given_prior.targets[name])
        for action, logit in zip(legal.targets(name), given_prior.targets[name], strict=True):
            expected = math.exp(given_prior.operations[name]) / whole * math.exp(logit) / inner
            assert choice.probability(action) == pytest.approx(expected, rel=1e-4)
    assert float(fresh.policy.worth(state).detach()) == 0


def test_entropy_is_that_of_all_actions() -> None:
    state = some_zoo(3)
    choice = STRATEGIST.choice(state, everything(state))
    chances = [choice.probability(one) for one in actions(everything(state))]
    naive = -sum(one * math.log(one) for one in chances)
    assert float(choice.entropy().detach()) == pytest.approx(naive, rel=1e-4)


@pytest.mark.slow
def test_draws_follow_the_probabilities() -> None:
    state = some_zoo(2)
    legal = everything(state).model_copy(update={"spawn": ()})
    choice, rng, draws = STRATEGIST.choice(state, legal), np.random.default_rng(0), 3000
    made = [choice.sample(rng) for _ in range(draws)]
    for action in actions(legal):
        count = sum((one.operation, one.modules) == (action.operation, action.modules) for one in made)
        expected = draws * choice.probability(action)
        assert abs(count - expected) < 5 * max(expected, 1) ** 0.5
    assert all(0.25 <= one.scale <= 4 and 0 < one.mix < 1 for one in made)


@pytest.mark.parametrize("operation", ["grow", "hybridise"])
def test_the_density_of_mix_and_scale_integrates_to_one(operation: str) -> None:
    state = some_zoo(2)
    legal = everything(state)
    choice = STRATEGIST.choice(state, legal)
    action = legal.targets(OPERATIONS[OPERATIONS.index(operation)])[0]  # type: ignore[call-overload]
    points = (np.arange(400) + 0.5) / 400
    moved = [
        action.model_copy(update={"mix": float(one)} if operation == "hybridise" else {"scale": 4 ** (2 * one - 1)})
        for one in points
    ]
    density = np.mean([math.exp(float(choice.log_probability(one).detach())) for one in moved])
    assert density == pytest.approx(choice.probability(action), rel=0.05)


@torch.no_grad()
def test_gates_say_what_the_likeliest_action_says() -> None:
    for seed in range(8):
        state = some_zoo(3, seed=seed)
        legal = everything(state).model_copy(update={"prune": ("m0", "m1")})
        choice = STRATEGIST.choice(state, legal)
        gates, mode = choice.gates(state), choice.mode()
        assert float(gates["m2"]) == 1, "who may not go stays"
        assert all(0 <= float(one) <= 1 for one in gates.values())
        if mode.operation == "prune":
            assert float(gates[mode.modules[0]]) < 0.5
        elif mode.operation in ("grow", "spawn", "hybridise"):
            assert float(gates[gate_name(mode)]) > 0.5
        elif mode.operation == "noop":
            assert all((float(one) > 0.5) == (name in ("m0", "m1", "m2")) for name, one in gates.items())


def test_a_family_that_it_does_not_know_has_the_heuristics_logit() -> None:
    state = some_zoo()
    choice = STRATEGIST.choice(state, Legal(spawn=("testing.unknown", "mlp")))
    assert choice.probability(Action(operation="spawn", archetype="testing.unknown")) > 0


@pytest.mark.parametrize(("head", "place"), [("frame", 0), ("donor", 1)])
@torch.no_grad()
def test_each_parent_of_a_hybrid_is_judged_in_its_role(head: str, place: int) -> None:
    strategist, state = learned(moved=False), some_zoo(3).model_copy(update={"complementarity": ()})
    getattr(strategist.policy, head).weight.fill_(0.5)
    legal = everything(state)
    choice = strategist.choice(state, legal)
    by_role: dict[str, set[float]] = {}
    for action in legal.targets("hybridise"):
        by_role.setdefault(action.modules[place], set()).add(round(choice.probability(action), 7))
    assert all(len(found) == 1 for found in by_role.values()), "the other parent plays no part"
    assert len(set.union(*by_role.values())) == 3


@pytest.mark.parametrize("eta", [0.0, 1.0, 2.5])
def test_untaught_parents_are_chosen_by_the_softmax_of_their_standardised_fitness(eta: float) -> None:
    """Eqs. 23, 73: whatever the unit of fitness."""
    given = StrategistSettings(heuristic=HeuristicSettings(selection=eta))
    strategist = create("ppo", settings=given)
    assert isinstance(strategist, LearnedStrategist)
    for unit in (1.0, 40.0):
        state = some_zoo(6, seed=3)
        modules = tuple(one.model_copy(update={"fitness": unit * one.fitness - 3}) for one in state.modules)
        state = state.model_copy(update={"modules": modules})
        legal = everything(state)
        values = np.array([one.fitness for one in modules])
        weights = np.exp(eta * (values - values.mean()) / values.std())
        choice = strategist.choice(state, legal)
        found = np.array([choice.probability(one) for one in legal.targets("grow")])
        np.testing.assert_allclose(found / found.sum(), weights / weights.sum(), rtol=1e-4)
