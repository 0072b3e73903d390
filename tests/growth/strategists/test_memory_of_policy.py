"""Runs in sequence are one course of a policy's training (docs/spec/architect_thyself.md#edit-memory)."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from safetensors.torch import save

from evodevo import randomness
from evodevo.errors import EvodevoError, UnsafeFileError, UsageError
from evodevo.growth.rewards import RewardScale
from evodevo.growth.spec import Operation
from evodevo.growth.strategists.base import StrategistState, create
from evodevo.growth.strategists.learned import LearnedStrategist
from evodevo.growth.strategists.memory_of_policy import FORMAT, PolicyMemory
from evodevo.growth.strategists.spec import LearningSettings, StrategistSettings
from evodevo.growth.strategists.transition import Transition
from evodevo.storage.tensor_header import read_metadata
from evodevo.testing.strategists import everything, some_zoo, told, toy_unroll

torch.set_num_threads(1)
POLICIES = ("ppo", "reinforce", "meta_gradient", "reinforce_meta")
STATE = some_zoo()
LEGAL = everything(STATE)
SMALL = StrategistSettings(learning=LearningSettings(width=4))


def build(
    name: str, *, seed: int = 0, settings: StrategistSettings | None = None, actions: int = 3
) -> LearnedStrategist:
    strategist = create(name, seed=seed, settings=settings, actions=actions)
    assert isinstance(strategist, LearnedStrategist)
    return strategist


def trained(name: str, events: Sequence[int] = range(3), **given: Any) -> LearnedStrategist:
    strategist = build(name, **given)
    strategist.update(told(strategist, events))
    strategist.refine(STATE, LEGAL, toy_unroll())
    return strategist


def memory_of(strategist: LearnedStrategist, scale: RewardScale | None = None, runs: int = 1) -> PolicyMemory:
    return PolicyMemory(strategist.name, strategist.state_dict(), scale or RewardScale(), runs)


def same(first: StrategistState, second: StrategistState) -> bool:
    """Bit for bit."""
    return (
        first.data == second.data
        and first.tensors.keys() == second.tensors.keys()
        and all(torch.equal(tensor, second.tensors[name]) for name, tensor in first.tensors.items())
    )


# A file


@pytest.mark.parametrize("name", POLICIES)
def test_the_next_run_begins_where_the_last_one_ended_bit_for_bit(name: str) -> None:
    """Weights of policy and value, moments and steps of Adam, and the scale of rewards."""
    first, second = trained(name), build(name, seed=9)
    scale = RewardScale(count=3, squares=0.1 + 0.2)
    data = memory_of(first, scale, 4).dumps()
    back = PolicyMemory.loads(data)
    assert (back.scale, back.runs, back.strategist) == (scale, 4, name)
    assert back.dumps() == data
    assert not same(first.state_dict(), second.state_dict())
    second.load_state_dict(back.state)
    assert same(first.state_dict(), second.state_dict())
    steps = [one for key, one in second.state_dict().tensors.items() if key.startswith("optimizer.step.")]
    assert steps
    assert all(one > 0 for one in steps)
    # And whatever comes then is learned alike.
    mine, other = told(first, range(5, 8)), told(second, range(5, 8))
    assert mine == other
    assert first.update(mine) == second.update(other)
    assert same(first.state_dict(), second.state_dict())
    assert len(data) < 250_000


def with_head(data: bytes, **changes: object) -> bytes:
    head = json.loads(read_metadata(io.BytesIO(data), len(data), "it")["evodevo"])
    return save(dict(PolicyMemory.loads(data).state.tensors), metadata={"evodevo": json.dumps({**head, **changes})})


def with_tensors(data: bytes, tensors: dict[str, torch.Tensor]) -> bytes:
    return save(tensors, metadata=read_metadata(io.BytesIO(data), len(data), "it"))


DATA = memory_of(trained("ppo", settings=SMALL)).dumps()
TENSORS = dict(PolicyMemory.loads(DATA).state.tensors)


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (b"", UnsafeFileError, "not a safetensors file"),
        (DATA[:-1], UnsafeFileError, "holds"),
        (DATA[: len(DATA) // 2], UnsafeFileError, "the policy of an earlier run"),
        (save(TENSORS), UnsafeFileError, "do not name a format"),
        (save(TENSORS, metadata={"evodevo": "{"}), UsageError, "JSON"),
        (save(TENSORS, metadata={"evodevo": "[]"}), UsageError, FORMAT),
        (with_head(DATA, format="evodevo.policy_memory/2"), UsageError, "policy_memory/2.*continues=false"),
        (with_head(DATA, runs=0), UsageError, "runs"),
        (with_head(DATA, scale={"count": -1}), UsageError, "count"),
        (with_tensors(DATA, {**TENSORS, "a": torch.tensor([float("nan")])}), UsageError, "a holds NaN"),
    ],
)
def test_another_version_and_damage_are_one_clear_error(data: bytes, error: type[EvodevoError], words: str) -> None:
    with pytest.raises(error, match=words):
        PolicyMemory.loads(data)


def test_what_is_no_number_is_not_kept() -> None:
    state = StrategistState({"a": torch.tensor([float("inf")])}, {})
    with pytest.raises(UsageError, match="NaN or infinity"):
        PolicyMemory("ppo", state).dumps()


# Whose it is


@pytest.mark.parametrize("other", ["reinforce", "thompson", "random"])
def test_another_strategist_is_refused(other: str) -> None:
    memory = PolicyMemory.loads(DATA)
    with pytest.raises(UsageError, match=f"'ppo'; '{other}' cannot go on.*continues=false"):
        memory.check(other)
    with pytest.raises(UsageError):
        create(other, settings=SMALL).load_state_dict(memory.state)


STEP = next(name for name in TENSORS if name.startswith("optimizer.step."))
SQUARES = next(name for name in TENSORS if name.startswith("optimizer.exp_avg_sq."))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"policy.value.weight": torch.zeros(1, 5)}, "does not fit its policy: policy.value.weight"),
        ({"policy.more": torch.zeros(1)}, "does not fit its policy: policy.more"),
        ({STEP: torch.tensor(-1.0)}, "damaged: optimizer.step"),
        ({SQUARES: -1 - TENSORS[SQUARES]}, "damaged: optimizer.exp_avg_sq"),
        ({"policy.value.weight": TENSORS["policy.value.weight"].double()}, "damaged: policy.value.weight"),
    ],
)
def test_a_state_that_does_not_fit_changes_nothing(changes: dict[str, torch.Tensor], words: str) -> None:
    strategist = trained("ppo", settings=SMALL, seed=2)
    before = strategist.state_dict()
    state = PolicyMemory.loads(with_tensors(DATA, {**TENSORS, **changes})).state
    with pytest.raises(UsageError, match=words):
        strategist.load_state_dict(state)
    assert same(before, strategist.state_dict())


def test_another_width_is_refused() -> None:
    with pytest.raises(UsageError, match="does not fit its policy"):
        build("ppo").load_state_dict(PolicyMemory.loads(DATA).state)


# Its mathematics


SHIFTS = ("pointer.bias", "frame.bias", "donor.bias")
"""They shift all targets of an operation alike: no slope but rounding, which Adam makes as large as any other."""


def step_by_hand(
    name: str, start: StrategistState, transition: Transition, *, adam: bool = True
) -> dict[str, torch.Tensor]:
    """Parameters after the update on one event that ends a training: eqs. 81 and 97 and Adam, written out.

    Args:
        name: ``ppo`` or ``reinforce``.
        start: State from which it goes on.
        transition: The event, with one decision.
        adam: Whether the moments of Adam go on, too.
    """
    model = build(name)
    model.load_state_dict(start)
    settings, (decision,) = model.settings.learning, transition.decisions
    parameters = dict(model.policy.named_parameters())
    kept = start.tensors if adam else {}
    zero = torch.zeros(())
    moments = {
        key: [kept.get(f"optimizer.{moment}.{key}", zero).clone() for moment in ("exp_avg", "exp_avg_sq", "step")]
        for key in parameters
    }
    value = float(model.policy.worth(transition.state).detach())
    advantage = transition.reward - value  # nothing comes after the end
    for _ in range(settings.epochs if name == "ppo" else 1):
        choice = model.choice(transition.state, decision.legal)
        log = choice.log_probability(decision.action)
        ratio = torch.exp(log - decision.log_probability)
        clipped = ratio.clamp(1 - settings.clip, 1 + settings.clip)
        gain = torch.minimum(ratio * advantage, clipped * advantage) if name == "ppo" else log * advantage
        error = (model.policy.worth(transition.state) - transition.reward) ** 2
        loss = settings.baseline * error - gain - settings.entropy * choice.entropy()
        slopes: Sequence[torch.Tensor | None] = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
        norm = torch.sqrt(sum(((slope**2).sum() for slope in slopes if slope is not None), zero))
        factor = min(1.0, settings.norm / (float(norm) + 1e-6))
        rate = settings.rate if name == "ppo" else settings.reinforce_rate
        with torch.no_grad():
            for (key, parameter), slope in zip(parameters.items(), slopes, strict=True):
                if slope is None:
                    continue
                mean, square, count = moments[key]
                count = count + 1
                mean = 0.9 * mean + 0.1 * factor * slope
                square = 0.999 * square + 0.001 * (factor * slope) ** 2
                moments[key] = [mean, square, count]
                unbiased = mean / (1 - 0.9**count)
                parameter.sub_(rate * unbiased / (torch.sqrt(square / (1 - 0.999**count)) + 1e-8))
    return {key: parameter.detach() for key, parameter in parameters.items()}


@pytest.mark.parametrize("name", ["ppo", "reinforce"])
def test_an_update_of_the_next_run_is_the_step_of_the_objective_from_the_kept_state(name: str) -> None:
    kept = PolicyMemory.loads(memory_of(trained(name, range(4))).dumps())
    strategist = build(name, seed=3, actions=1)
    strategist.load_state_dict(kept.state)
    decisions = strategist.decide(STATE, LEGAL, randomness.generator(8))
    transition = Transition(state=STATE, decisions=decisions, reward=0.8)
    strategist.update([transition])
    expected = step_by_hand(name, kept.state, transition)
    anew = step_by_hand(name, kept.state, transition, adam=False)
    found = {key: one.detach() for key, one in strategist.policy.named_parameters()}
    for key, parameter in found.items():
        if key in SHIFTS:
            continue
        assert torch.allclose(parameter, expected[key], rtol=1e-4, atol=2e-6), key
    moved = max(float((found[key] - anew[key]).abs().max()) for key in found)
    assert moved > 1e-4, "the moments of Adam matter"


# What it is for


def chance(strategist: LearnedStrategist, operation: Operation) -> float:
    choice = strategist.choice(STATE, LEGAL)
    return sum(choice.probability(one) for one in LEGAL.targets(operation))


def course(name: str, runs: int, *, carried: bool) -> list[float]:
    """Probability of ``grow``, which alone pays, at the end of each of these runs of three events.

    Each run has a seed of its own, as first weights and draws have.
    """
    chances: list[float] = []
    data: bytes | None = None
    for run in range(runs):
        strategist = build(name, seed=run, actions=1)
        if carried and data is not None:
            strategist.load_state_dict(PolicyMemory.loads(data).state)
        for event in range(3):
            made = strategist.decide(STATE, LEGAL, randomness.generator(run, event))
            reward = float(made[0].action.operation == "grow")
            strategist.update([Transition(state=STATE, decisions=made, reward=reward)])
        data = memory_of(strategist).dumps()
        chances.append(chance(strategist, "grow"))
    return chances


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ppo", "reinforce"])
def test_over_many_runs_what_pays_becomes_likely_and_only_where_the_policy_goes_on(name: str) -> None:
    prior = chance(build(name), "grow")
    on, anew = course(name, 60, carried=True), course(name, 20, carried=False)
    print(prior, on[::10], on[-1], max(anew))
    assert on[-1] > 0.5 > 4 * prior
    assert max(anew) < 1.25 * prior
