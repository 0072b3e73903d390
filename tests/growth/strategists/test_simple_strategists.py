"""Those that learn nothing: fixed, random, heuristic."""

from __future__ import annotations

import collections

import pytest

from evodevo import randomness
from evodevo.growth.edit_spec import Action
from evodevo.growth.strategists.base import create
from evodevo.growth.strategists.heuristic import prior, rule
from evodevo.growth.strategists.spec import HeuristicSettings
from evodevo.growth.strategists.state import Legal, State, same_target
from evodevo.testing.strategists import everything, some_zoo

SETTINGS = HeuristicSettings()
FLAT = (0.7, 0.7, 0.7)


def chosen(state: State, legal: Legal) -> Action:
    return rule(state, legal, SETTINGS)


def with_modules(state: State, **changes: object) -> State:
    return state.model_copy(update={"modules": tuple(one.model_copy(update=changes) for one in state.modules)})


def test_fixed_never_acts() -> None:
    state = some_zoo()
    for number in range(20):
        assert create("fixed").propose(state, everything(state), randomness.generator(number)) == ()


def test_edits_in_place_are_chosen_on_a_plateau_where_they_are_open_and_first_by_fitness() -> None:
    state = some_zoo().model_copy(update={"values": FLAT})
    fittest = max(state.modules, key=lambda one: one.fitness)
    full = everything(state).model_copy(update={"hybridise": (), "spawn": ()})
    assert chosen(state, full).operation == "grow"
    ids = tuple(one.id for one in state.modules)
    opened = full.model_copy(update={"in_place": (("widen", ids), ("deepen", ids))})
    assert same_target(chosen(state, opened), Action(operation="widen", modules=(fittest.id,)))
    assert chosen(state.model_copy(update={"values": (0.5, 0.6, 0.7)}), opened).operation == "noop"
    assert set(prior(state, opened, SETTINGS).operations) == set(opened.operations) > {"widen", "deepen"}


def test_enlarge_takes_every_module_once_and_nothing_else() -> None:
    state = some_zoo()
    legal = everything(state).model_copy(update={"in_place": (("deepen", ("m1",)), ("widen", ("m0", "m1", "m3")))})
    actions = create("enlarge", actions=9).propose(state, legal, randomness.generator(0))
    assert sorted((one.operation, one.modules) for one in actions) == [
        ("deepen", ("m1",)),
        ("widen", ("m0",)),
        ("widen", ("m3",)),
    ]
    assert create("enlarge").propose(state, everything(state), randomness.generator(0)) == ()


@pytest.mark.slow
def test_random_is_uniform_over_operations_then_over_their_targets() -> None:
    state = some_zoo(3)
    legal = everything(state).model_copy(update={"rewarm": ("m2",), "spawn": ()})
    strategist, draws = create("random", actions=1), 4000
    made = [strategist.decide(state, legal, randomness.generator(0, number))[0] for number in range(draws)]
    counts = collections.Counter((one.action.operation, one.action.modules) for one in made)
    assert len(counts) == 1 + 3 + 3 + 6 + 1
    for (operation, _), count in counts.items():
        expected = draws / 5 / len(legal.targets(operation))
        assert abs(count - expected) < 5 * expected**0.5
    scales = [one.action.scale for one in made if one.action.operation == "grow"]
    assert 0.25 <= min(scales) < 0.5
    assert 2 < max(scales) <= 4


def test_the_least_fit_candidate_goes_first() -> None:
    state = some_zoo().model_copy(update={"values": FLAT})
    modules = [one.model_copy(update={"candidate": one.id in ("m1", "m3")}) for one in state.modules]
    modules[1] = modules[1].model_copy(update={"fitness": -5.0})
    modules[0] = modules[0].model_copy(update={"fitness": -9.0})
    state = state.model_copy(update={"modules": tuple(modules)})
    assert same_target(chosen(state, everything(state)), Action(operation="prune", modules=("m1",)))
    assert chosen(state, Legal(prune=("m0",))).operation == "noop", "who is no candidate stays"


def test_the_best_pair_above_the_bar_has_a_child_in_the_frame_of_the_fitter() -> None:
    state = some_zoo(3)
    matrix = ((0.0, 0.2, 0.05), (0.2, 0.0, 0.4), (0.05, 0.4, 0.0))
    modules = tuple(one.model_copy(update={"fitness": float(place)}) for place, one in enumerate(state.modules))
    state = state.model_copy(update={"complementarity": matrix, "modules": modules})
    action = chosen(state, everything(state))
    assert same_target(action, Action(operation="hybridise", modules=("m2", "m1")))
    low = state.model_copy(update={"complementarity": ((0.0, 0.1, 0.1),) * 3})
    assert chosen(low, everything(low)).operation == "noop"


def test_a_plateau_spawns_what_is_missing_then_grows_from_the_fittest() -> None:
    state = with_modules(some_zoo(), archetype="mlp").model_copy(update={"values": FLAT})
    legal = everything(state)
    spawned = chosen(state, legal)
    assert spawned.operation == "spawn"
    assert spawned.archetype != "mlp"
    grown = chosen(state, legal.model_copy(update={"spawn": ("mlp",)}))
    fittest = max(state.modules, key=lambda one: one.fitness).id
    assert same_target(grown, Action(operation="grow", modules=(fittest,)))
    rising = state.model_copy(update={"values": (0.5, 0.6, 0.7)})
    assert chosen(rising, legal).operation == "noop"
    once = state.model_copy(update={"values": (0.5, 0.7, 0.7)})
    assert chosen(once, legal).operation == "spawn"
    assert chosen(once, legal.model_copy(update={"spawn": ()})).operation == "noop", "growth waits for two events"
    assert chosen(state.model_copy(update={"budget": 0.01}), legal).operation == "noop"


@pytest.mark.parametrize("values", [FLAT, (0.5, 0.6, 0.7)])
def test_the_prior_raises_what_the_rule_chooses(values: tuple[float, ...]) -> None:
    state = some_zoo().model_copy(update={"values": values})
    legal = everything(state)
    given = prior(state, legal, SETTINGS)
    assert max(given.operations, key=lambda one: given.operations[one]) == given.action.operation
    assert list(given.operations) == list(legal.operations)
    for operation, logits in given.targets.items():
        assert len(logits) == len(legal.targets(operation))
    prune = dict(zip((one.modules[0] for one in legal.targets("prune")), given.targets["prune"], strict=True))
    grow = dict(zip((one.modules[0] for one in legal.targets("grow")), given.targets["grow"], strict=True))
    by_fitness = [one.id for one in sorted(state.modules, key=lambda one: one.fitness)]
    assert sorted(grow, key=lambda one: grow[one]) == by_fitness
    assert sorted(prune, key=lambda one: -prune[one]) == by_fitness
