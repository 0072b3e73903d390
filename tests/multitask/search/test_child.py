"""Plans of children: what is inherited, what a generation shares, and that a plan explains itself."""

from __future__ import annotations

import numpy as np
import pytest

from evodevo import canonical
from evodevo.errors import UsageError
from evodevo.multitask.genome import ComponentUse, Path, Value
from evodevo.multitask.hyperparameters import MU, Hyperparameters, singlepath_hyperparameters
from evodevo.multitask.search.child import ChildPlan, ChildSettings, SharedData, plan_child, shared_data
from evodevo.multitask.search.components import Place
from evodevo.multitask.search.mutation import MutationSettings, entry
from evodevo.randomness import generator

SPACE = singlepath_hyperparameters("tiny")


def needs(values: object) -> list[Place]:
    assert isinstance(values, dict)
    inside = [Place(f"encoderblock_{number}", "block") for number in range(values["num_layers"])]
    grid = Place("posembed_input", str(values["ds_image_size"]))
    return [Place("embedding", ""), grid, *inside, Place("encoder_norm", ""), Place("head", "2")]


def grown(agent: str, number: int, space: Hyperparameters, **values: Value) -> tuple[Path, list[Place]]:
    hparams = space.defaults() | values
    places = [
        Place(one.role, one.signature, f"{agent}:{number * 100 + place}") for place, one in enumerate(needs(hparams))
    ]
    uses = tuple(ComponentUse(role=one.role, id=one.id or "") for one in places)
    path = Path(
        agent=agent, number=number, task="a", classes=2, hparams=hparams, mu=space.default_mu(), components=uses
    )
    return path, places


PARENT, PLACES = grown("Vit~b", 3, SPACE, opt_lr=0.5, num_layers=2)


def child(seed: int = 1, shared: SharedData | None = None, parent: Path = PARENT, **mutation: object) -> ChildPlan:
    settings = ChildSettings(mutation=MutationSettings.model_validate(mutation))
    rng = generator(seed, "child")
    return plan_child(
        parent,
        PLACES,
        own=False,
        needs=needs,
        locked=lambda _: True,
        space=SPACE,
        settings=settings,
        rng=rng,
        shared=shared,
    )


@pytest.mark.parametrize("seed", range(40))
def test_a_child_differs_from_its_parent_by_what_was_decided(seed: int) -> None:
    one = child(seed)
    before: dict[str, object] = {**PARENT.hparams, MU: PARENT.mu[MU]}
    after: dict[str, object] = {**one.hparams, MU: one.mu[MU]}
    moved = {move.key: move for move in one.moves}
    assert {f"hp:{key}" for key in moved} == {action for action in one.applied if action.startswith("hp:")}
    for key, value in before.items():
        assert after[key] == (moved[key].after if key in moved else value)
    rows = SPACE.by_key
    assert all(abs(rows[key].index(move.after) - rows[key].index(move.before)) <= 1 for key, move in moved.items())
    actions = [decision.action for decision in one.decisions]
    assert actions[: len(SPACE.tuned)] == [f"hp:{key}" for key in SPACE.tuned]
    assert actions[0] == "hp:_mu_"
    assert all(decision.rate in (None, one.mu[MU]) for decision in one.decisions[1:])
    assert {place.role for place in one.components} == {place.role for place in needs(one.hparams)}
    assert one.mu == PARENT.mu | {MU: one.mu[MU]} | {
        entry(decision.action): decision.after for decision in one.decisions if decision.after is not None
    }


def test_the_same_draws_give_the_same_child_and_a_plan_is_plain_data() -> None:
    assert child(7) == child(7)
    assert len({canonical.dumps(child(seed).to_json()) for seed in range(10)}) == 10
    stored = canonical.loads(canonical.dumps(child(7).to_json()))
    assert stored["parent"] == "Vit~b/3"
    assert stored["components"][0]["source"] == "Vit~b:300"


def test_forbidden_actions_change_nothing() -> None:
    one = child(forbidden=("hp:*", "clone:*"), forced=())
    assert (one.hparams, one.mu) == (PARENT.hparams, PARENT.mu)
    assert one.applied == ()


def test_values_that_a_parent_lacks_are_defaults_and_a_strange_one_is_refused() -> None:
    one = child(parent=PARENT.model_copy(update={"hparams": {"num_layers": 2}, "mu": {}}), forbidden=("hp:*",))
    assert one.hparams == SPACE.defaults() | {"num_layers": 2}
    assert one.mu[MU] == 0.2
    for update in ({"hparams": {"num_layers": 99}}, {"mu": {entry("clone:cls"): 0.5}}):
        with pytest.raises(UsageError, match=r"num_layers|_mu_"):
            child(parent=PARENT.model_copy(update=update))


def test_a_first_generation_shares_the_defaults() -> None:
    shared = shared_data(SPACE, None, generator(1), MutationSettings())
    assert shared == SharedData({key: value for key, value in SPACE.defaults().items() if key.startswith("ds_")}, {})


def test_a_generation_shares_what_the_best_path_s_values_became() -> None:
    best = PARENT.model_copy(
        update={
            "hparams": PARENT.hparams | {"ds_hue_delta": 0.05},
            "mu": {MU: 0.02, entry("hp:ds_hue_delta"): 0.3, entry("clone:cls"): 0.1},
        }
    )
    moved = []
    for seed in range(300):
        shared = shared_data(SPACE, best, generator(seed, "shared"), MutationSettings())
        assert all(key.startswith("ds_") for key in shared.hparams)
        assert all(key.startswith("_mu_|hp:ds_") for key in shared.mu)
        # The default global rate, not the best path's.
        assert {decision.rate for decision in shared.decisions} == {0.2}
        assert shared.mu[entry("hp:ds_hue_delta")] in (0.28, 0.3)
        moved.append(shared.hparams["ds_hue_delta"] != 0.05)
        one = child(seed, shared)
        assert shared.hparams.items() <= one.hparams.items()
        assert shared.mu.items() <= one.mu.items()
        assert not any("hp:ds_" in decision.action for decision in one.decisions)
    assert abs(np.mean(moved) - 0.3) < 0.08
