"""The recipe of zoos that grow: who stands beside whom, what a user may change, and what earlier runs hand over."""

from __future__ import annotations

from typing import Any

import pytest

from evodevo.errors import UsageError
from evodevo.experiments.procedures import PROCEDURES
from evodevo.experiments.recipe import ExperimentSettings
from evodevo.experiments.settings import procedure_options, training_settings
from evodevo.growth.recipes.growing import FIXED, growing_arms, is_learned, strategist_of, with_edit_memory
from evodevo.growth.spec import GrowthSettings
from evodevo.growth.strategists.base import STRATEGISTS
from evodevo.module_zoo.modules.zoo import start_zoo
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.spec import ZooStructure
from evodevo.runs.recipe import Recipe, by_size
from evodevo.runs.resolve import resolve
from evodevo.settings import validate

NAME = "module_zoo.classifier"
OURS = tuple(name for name in STRATEGISTS.names() if not name.startswith("testing."))


def made(size: str = "quick", baselines: str | None = None, **changes: Any) -> ExperimentSettings:
    settings = resolve(NAME, size=size, driver="grow", baselines=baselines, overrides=changes)
    assert isinstance(settings, ExperimentSettings)
    return settings


def growth_of(settings: ExperimentSettings) -> dict[str, GrowthSettings]:
    """The growth of each arm, as its procedure sees it."""
    return {
        arm.name: validate(GrowthSettings, procedure_options(settings.evaluation, arm), what="growth")
        for arm in settings.experiment.trainings()
        if arm.procedure == "grow"
    }


@pytest.mark.parametrize("strategist", OURS)
def test_who_learns_stands_beside_random_heuristic_and_fixed(strategist: str) -> None:
    found = {one.strategist for one in growth_of(made(grow={"strategist": strategist})).values()}
    beside = {"random", "heuristic"} if is_learned(strategist) else set()
    assert found == {strategist, FIXED, *beside}


def test_arms_differ_in_their_growth_alone() -> None:
    settings = made(grow={"strategist": "ppo"})
    arms = settings.experiment.trainings()
    assert len({arm.network.model_dump_json() for arm in arms}) == 1
    assert len({training_settings(settings.evaluation, arm).model_dump_json() for arm in arms}) == 1
    assert len({arm.learning_rate for arm in arms}) == 1
    assert settings.experiment.reference == FIXED
    growth = growth_of(settings)
    assert growth[FIXED].events.count == 0
    assert growth[FIXED].strategist == FIXED
    assert {one.events.count for name, one in growth.items() if name != FIXED} == {GrowthSettings().events.count}


@pytest.mark.parametrize("size", ["quick", "full"])
def test_nobody_stops_before_its_budget_is_used_up(size: str) -> None:
    settings = made(size)
    assert settings.evaluation.select is not None
    assert settings.evaluation.select.patience is None
    assert settings.experiment.seeds == (3 if size == "full" else 1)
    for arm in settings.experiment.trainings():
        PROCEDURES.get(arm.procedure).check(settings.evaluation, arm)


def test_all_that_grow_are_changed_together_and_the_fixed_one_stays_fixed() -> None:
    growth = growth_of(made(grow={"events": {"count": 4, "looks": 3}, "prune": {"least": 5}}))
    for name, one in growth.items():
        assert one.events.count == (0 if name == FIXED else 4)
        assert (one.events.looks, one.prune.least) == (3, 5)
    assert growth_of(made(evaluation={"options": {"grow": {"events": {"count": 2}}}}, grow={"events": {"looks": 3}}))[
        "grown by ppo"
    ].events == GrowthSettings().events.model_copy(update={"count": 2, "looks": 3})


@pytest.mark.parametrize("named", ["reinforce, ppo", ["reinforce", "ppo"]])
def test_several_strategists(named: Any) -> None:
    arms = [arm.name for arm in made(grow={"strategist": named}).experiment.trainings()]
    assert arms == ["grown by reinforce", "grown by ppo", "grown by random", "grown by heuristic", FIXED]


def test_opponents_only_where_they_are_asked_for() -> None:
    assert all(arm.procedure == "grow" for arm in made("full").experiment.arms)
    roles = [arm.role for arm in made(baselines="quick").experiment.arms]
    assert roles[:4] == ["zoo"] * 4
    assert "opponent" in roles


def test_the_zoo_and_the_table_are_named_as_in_train() -> None:
    settings = made(zoo={"width": 16, "modules": "mlp,lstm"}, data="posts.csv", label="class", batch_size=4)
    assert settings.evaluation.task == "table"
    assert settings.evaluation.training.batch_size == 4
    structure = settings.experiment.arms[0].network.structure
    assert isinstance(structure, ZooStructure)
    assert [one.id for one in structure.modules] == ["mlp-1", "lstm-1"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"grow": {"strategist": "pop"}}, "Did you mean 'ppo'"),
        ({"grow": {"strategist": []}}, "needs a strategist"),
        ({"grow": {"strategist": 3}}, "several with commas"),
        ({"grow": 3}, "grow is a table of settings"),
        ({"gorw": {}}, "gorw"),
    ],
)
def test_what_cannot_be_meant(changes: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        made(**changes)


def test_growth_is_a_setting_of_grow_alone() -> None:
    with pytest.raises(UsageError, match="grow"):
        resolve(NAME, driver="train", overrides={"grow": {"events": {"count": 4}}})
    with pytest.raises(UsageError, match="serves evolve"):
        resolve("backbone.demo", driver="grow", overrides={})


def test_a_recipe_that_names_its_strategists_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    own = made()
    recipe = Recipe("testing.grown", "of its own", ("grow",), by_size(lambda size: own))
    monkeypatch.setattr("evodevo.runs.resolve.RECIPES", _Table(recipe))
    changed = resolve("testing.grown", driver="grow", overrides={"grow": {"events": {"count": 3}}})
    assert isinstance(changed, ExperimentSettings)
    assert growth_of(changed)["grown by ppo"].events.count == 3
    with pytest.raises(UsageError, match="name their strategists themselves"):
        resolve("testing.grown", driver="grow", overrides={"grow": {"strategist": "random"}})


class _Table:
    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe

    def get(self, name: str) -> Recipe:
        return self.recipe


def test_learned_arms_begin_with_the_edits_of_their_own_strategist_else_with_all() -> None:
    settings = made(grow={"strategist": "ppo,reinforce"})
    own, joined = "a" * 64, "b" * 64
    found = {name: one.edit_memory for name, one in growth_of(with_edit_memory(settings, {"ppo": own}, joined)).items()}
    assert found == {
        "grown by ppo": own,
        "grown by reinforce": joined,
        "grown by random": None,
        "grown by heuristic": None,
        FIXED: None,
    }


def test_who_decides_in_an_arm() -> None:
    settings = made(baselines="quick", evaluation={"options": {"grow": {"strategist": "random"}}})
    arms = {arm.name: arm for arm in settings.experiment.arms}
    assert strategist_of(settings.evaluation, arms["grown by ppo"]) == "ppo"
    assert strategist_of(settings.evaluation, arms["Switch"]) is None
    bare = arms["grown by ppo"].model_copy(update={"options": {}})
    assert strategist_of(settings.evaluation, bare) == "random"
    assert strategist_of(made().evaluation, bare) == GrowthSettings().strategist


def test_the_fixed_zoo_alone() -> None:
    structure = ZooStructure(width=16, modules=start_zoo(16))
    assert [one.name for one in growing_arms(ModuleZooNetwork(structure=structure), [FIXED])] == [FIXED]
