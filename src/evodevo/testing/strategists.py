"""The laws of every strategist, as tests to inherit, and zoos to try one on.

class TestMine(StrategistTests):
    def make_strategist(self, *, seed: int = 0) -> Strategist:
        return Mine(StrategistSettings(), seed=seed)
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load, save

from evodevo import randomness
from evodevo.errors import UsageError
from evodevo.growth.spec import REPLACE
from evodevo.growth.strategists.base import Strategist, StrategistState, Unroll
from evodevo.growth.strategists.edit_memory import EditMemory
from evodevo.growth.strategists.state import BIRTHS, Legal, ModuleState, State
from evodevo.growth.strategists.transition import Decision, Transition
from evodevo.module_zoo.modules.families import ARCHETYPES
from evodevo.module_zoo.modules.vector import VECTOR_SIZE


def some_zoo(count: int = 4, *, seed: int = 0) -> State:
    """A zoo of modules m0, m1, … whose numbers are drawn; its validation rises, and no two complete one another."""
    rng = np.random.default_rng(seed)
    families = ARCHETYPES.names()
    modules = tuple(
        ModuleState(
            id=f"m{place}",
            archetype=families[int(rng.integers(len(families)))],
            vector=tuple(float(number) for number in rng.random(VECTOR_SIZE)),
            parameters=int(rng.integers(1, 100_000)),
            flops=float(rng.integers(1, 100_000)),
            age=int(rng.integers(6)),
            spread=float(rng.random()),
            usage=float(rng.random()),
            impact=float(rng.normal()),
            contribution=float(rng.random()),
            fitness=float(rng.normal()),
            redundancy=float(rng.random()),
        )
        for place in range(count)
    )
    half = rng.random((count, count)) * 0.09
    complementarity = tuple(tuple(float(number) for number in row) for row in (half + half.T) / 2)
    return State(modules=modules, most=9, values=(0.5, 0.6, 0.7), complementarity=complementarity)


def everything(state: State) -> Legal:
    """All that could be legal in a zoo."""
    ids = tuple(module.id for module in state.modules)
    pairs = tuple((a, b) for a in ids for b in ids if a != b)
    return Legal(prune=ids, grow=ids, spawn=tuple(ARCHETYPES.names()), hybridise=pairs, rewarm=ids)


@st.composite
def situations(draw: st.DrawFn) -> tuple[State, Legal]:
    """Any zoo, and any part of what could be legal in it."""
    state = some_zoo(draw(st.integers(1, 12)), seed=draw(st.integers(0, 1000)))
    full = everything(state)
    some: dict[str, object] = {"births": draw(st.integers(0, 2)), "prunes": draw(st.integers(0, 1))}
    some["replaces"] = draw(st.sampled_from([None, *(module.id for module in state.modules)]))
    some["replacing_prunes"] = draw(st.booleans())
    for name in ("prune", "grow", "spawn", "hybridise", "rewarm"):
        every = getattr(full, name)
        some[name] = tuple(draw(st.lists(st.sampled_from(every), unique=True, max_size=6))) if every else ()
    some["in_place"] = tuple(
        (name, tuple(draw(st.lists(st.sampled_from(full.grow), unique=True, max_size=3))))
        for name in draw(st.lists(st.sampled_from(["widen", "deepen"]), unique=True))
    )
    others = tuple((name, family) for name in full.grow for family in full.spawn)
    some["replace"] = tuple(draw(st.lists(st.sampled_from(others), unique=True, max_size=3)))
    return state, full.model_copy(update=some)


def _leaving(decision: Decision) -> set[str]:
    """Ids of the modules that are gone after a sub-action."""
    if decision.action.operation in ("prune", REPLACE):
        return set(decision.action.modules)
    replaced = decision.legal.replaces
    return {replaced} if decision.action.operation in BIRTHS and replaced is not None else set()


def told(strategist: Strategist, events: Sequence[int]) -> list[Transition]:
    """Decisions of some events, each with a reward that depends on its number alone."""
    transitions = []
    for number in events:
        state = some_zoo(3 + number % 3, seed=number)
        decisions = strategist.decide(state, everything(state), randomness.generator(3, number))
        after = some_zoo(4, seed=number + 1) if number % 4 else None
        reward = ((number * 7) % 5 - 2) / 2
        transitions.append(Transition(state=state, decisions=decisions, reward=reward, cost=1.0, after=after))
    return transitions


def through_files(snapshot: StrategistState) -> StrategistState:
    """As it comes back from a store."""
    return StrategistState(load(save(dict(snapshot.tensors))), json.loads(json.dumps(dict(snapshot.data))))


def toy_unroll() -> Unroll:
    """Two weights, and gates that each scale one part of the loss."""
    weights = {"a": torch.tensor([0.5, -0.3]), "b": torch.tensor(0.2)}

    def loss(parameters: dict[str, torch.Tensor], gates: dict[str, torch.Tensor], goal: float) -> torch.Tensor:
        total = torch.stack(list(gates.values())).sum()
        return ((parameters["a"] * total).sum() + parameters["b"] - goal) ** 2

    return Unroll(weights, lambda p, g: loss(p, g, 1.0), lambda p, g: loss(p, g, 2.0))


class StrategistTests:
    """Inherit, and give ``make_strategist``."""

    def make_strategist(self, *, seed: int = 0) -> Strategist:
        """A fresh strategist of three sub-actions."""
        raise NotImplementedError

    def decisions(self, strategist: Strategist, events: Sequence[int] = range(12)) -> list[tuple[Decision, ...]]:
        """Its decisions at some events, without any reward."""
        return [transition.decisions for transition in told(strategist, events)]

    def test_each_sub_action_is_legal_after_those_before_it(self) -> None:
        strategist = self.make_strategist()

        @settings(max_examples=15, deadline=None)
        @given(situations(), st.integers(0, 1000))
        def law(situation: tuple[State, Legal], number: int) -> None:
            state, legal = situation
            decisions = strategist.decide(state, legal, randomness.generator(0, number))
            assert 1 <= len(decisions) <= strategist.actions
            gone: set[str] = set()
            for place, decision in enumerate(decisions):
                assert decision.legal == legal
                assert legal.allows(decision.action)
                assert decision.action.operation != "noop" or place == len(decisions) - 1
                assert not gone & set(decision.action.modules)
                gone |= _leaving(decision)
                legal = legal.after(decision.action)
            births = sum(decision.action.operation in ("grow", "spawn", "hybridise") for decision in decisions)
            assert births <= situation[1].births
            replacements = sum(decision.action.operation == REPLACE for decision in decisions)
            assert not replacements or (births, replacements) == (0, 1)
            assert sum(decision.action.operation == "prune" for decision in decisions) <= situation[1].prunes

        law()

    def test_it_does_nothing_where_nothing_is_legal(self) -> None:
        strategist = self.make_strategist()
        (only,) = strategist.decide(some_zoo(), Legal(), randomness.generator(0))
        assert only.action.operation == "noop"
        assert strategist.propose(some_zoo(), Legal(), randomness.generator(0)) == ()

    def test_equal_seeds_decide_equally_whatever_the_global_state(self) -> None:
        before = self.decisions(self.make_strategist(seed=4))
        state = torch.get_rng_state()
        torch.rand(7)
        strategist = self.make_strategist(seed=4)
        try:
            assert self.decisions(strategist) == before
            assert self.decisions(strategist) == before, "deciding changes nothing"
        finally:
            torch.set_rng_state(state)

    def test_it_draws_from_no_global_generator(self) -> None:
        before = torch.get_rng_state()
        strategist = self.make_strategist()
        strategist.update(told(strategist, range(3)))
        assert torch.equal(before, torch.get_rng_state())

    @pytest.mark.slow
    def test_what_was_learnt_goes_on_identically_in_another(self) -> None:
        first, second = self.make_strategist(seed=1), self.make_strategist(seed=2)
        first.update(told(first, range(6)))
        first.refine(some_zoo(), everything(some_zoo()), toy_unroll())
        second.load_state_dict(through_files(first.state_dict()))
        for events in (range(6, 10), range(10, 14)):
            mine, other = told(first, events), told(second, events)
            assert mine == other
            assert first.update(mine) == second.update(other)
        assert dict(first.state_dict().data) == dict(second.state_dict().data)
        for name, tensor in first.state_dict().tensors.items():
            assert torch.equal(tensor, second.state_dict().tensors[name]), name

    def test_what_was_learnt_is_its_own(self) -> None:
        strategist = self.make_strategist()
        kept = strategist.state_dict()
        before = {name: tensor.clone() for name, tensor in kept.tensors.items()}
        strategist.update(told(strategist, range(4)))
        assert all(torch.equal(before[name], tensor) for name, tensor in kept.tensors.items())

    def test_what_another_learnt_is_refused(self) -> None:
        strategist = self.make_strategist()
        with pytest.raises(UsageError):
            strategist.load_state_dict(StrategistState({"a": torch.zeros(1)}, {"strategist": "testing.other"}))

    def test_only_who_learns_changes(self) -> None:
        strategist = self.make_strategist()
        if not strategist.learns:
            assert strategist.update(told(strategist, range(3))) == {}
            assert strategist.remember(EditMemory()) == 0
            assert strategist.state_dict() == StrategistState()

    def test_a_meta_gradient_leaves_the_network_alone(self) -> None:
        strategist, unroll = self.make_strategist(), toy_unroll()
        before = {name: parameter.clone() for name, parameter in unroll.parameters.items()}
        loss = strategist.refine(some_zoo(), everything(some_zoo()), unroll)
        assert loss is None or np.isfinite(loss)
        for name, parameter in unroll.parameters.items():
            assert parameter.grad is None
            assert not parameter.requires_grad
            assert torch.equal(parameter, before[name])
