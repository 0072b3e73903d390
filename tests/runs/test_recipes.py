"""Recipes are whole runs that can begin, and what a user changes of them is checked."""

from __future__ import annotations

from typing import Any

import pytest

from evodevo import canonical
from evodevo.backbone.search_settings import EvolveSettings
from evodevo.backbone.space import BackboneSpace
from evodevo.errors import UsageError
from evodevo.experiments.recipe import ExperimentSettings
from evodevo.experiments.settings import task_settings, training_settings
from evodevo.h_model.recipes.sweep import SWEEPS
from evodevo.h_model.recipes.variants import opponents
from evodevo.h_model.spec import HModelStructure
from evodevo.objectives.base import parse_objectives
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.runs.recipe import RECIPES
from evodevo.runs.resolve import resolve
from evodevo.settings import validate

BACKBONES = ["backbone.demo", "backbone.small"]


@pytest.mark.parametrize("name", RECIPES.names())
def test_each_recipe_says_what_it_is_and_its_settings_travel(name: str) -> None:
    recipe = RECIPES.get(name)
    assert recipe.name == name
    assert recipe.summary
    settings = resolve(name, size="quick", driver=recipe.drivers[0], overrides={})
    values = canonical.loads(canonical.dumps(settings.model_dump(mode="json")))
    assert validate(type(settings), values, what="x") == settings
    assert settings.execution.executor == "processes", "isolation is the default"


@pytest.mark.parametrize("name", BACKBONES)
def test_each_backbone_recipe_can_begin_and_the_whole_thing_is_more_work(name: str) -> None:
    work = []
    for size in ("quick", "full"):
        settings = resolve(name, size=size, overrides={})
        assert isinstance(settings, EvolveSettings)
        space = BackboneSpace(settings.space)
        for baseline in ("transformer++", "striped-mamba"):
            assert len(space.named(baseline)) == settings.space.depth
        assert len(parse_objectives(settings.evaluation.objectives)) >= 2
        assert settings.study.create().settings.population == settings.study.population
        budget = settings.evaluation.training.budget.tokens
        assert budget is not None
        assert budget >= 100 * settings.evaluation.training.batch_size * settings.evaluation.language.context_length
        assert settings.study.baselines
        assert settings.study.confirmations >= 2, "a spread needs two seeds"
        work.append(settings.study.population * settings.study.generations * budget)
    assert work[1] > 5 * work[0]


def test_overrides_reach_their_setting_and_leave_the_others() -> None:
    plain = resolve("backbone.demo", overrides={})
    changed = resolve("backbone.demo", overrides={"study": {"population": 5}, "space": {"dimensions": {"width": 128}}})
    assert changed.study.population == 5
    assert isinstance(changed, EvolveSettings)
    assert changed.space.dimensions.width == 128
    assert changed.study.generations == plain.study.generations
    assert changed.evaluation == plain.evaluation


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"name": "backbone.dmeo"}, "Did you mean 'backbone.demo'"),
        ({"name": ""}, "unknown recipe"),
        ({"size": "huge"}, "quick or full"),
        ({"driver": "train"}, "serves evolve, not train"),
        ({"overrides": {"study": {"populatoin": 5}}}, "populatoin.*did you mean 'population'"),
        ({"overrides": {"studdy": {}}}, "studdy"),
        ({"overrides": {"study": {"population": "many"}}}, "population"),
        ({"overrides": {"study": 5}}, "study"),
        ({"overrides": {"study": {"mode": "fast"}}}, "generational"),
        ({"overrides": {"execution": {"threads": 0}}}, "threads"),
        ({"overrides": {"evaluation": {"seconds": 0}}}, "seconds"),
    ],
)
def test_what_cannot_be_is_refused_with_the_place(arguments: dict[str, Any], words: str) -> None:
    values: dict[str, Any] = {"name": "backbone.demo", "size": "quick", "driver": "evolve", "overrides": {}}
    values |= arguments
    with pytest.raises(UsageError, match=words):
        resolve(values.pop("name"), **values)


CONTROLS: dict[str, tuple[set[str], set[str]]] = {
    "h_model.domains": ({"stack of two", "constant c = 1, one layer twice"}, {"stack of eight"}),
    "h_model.programs": (
        {
            "stack of three",
            "constant c = 1, one layer three times",
            "routes by random search, then learned",
            "given routes (the ceiling)",
        },
        {"stack of nine", "given routes, then learned by the router"},
    ),
    "h_model.tokens": (
        {"stack of five", "one layer four times", "Switch, four mixtures"},
        {"three blocks and two feed-forward layers", "three blocks and two Switch mixtures"},
    ),
}
"""Controls in both sizes, and those of the full one, of experiments whose opponents are not the paper's."""
PAPER_CONTROLS = {"Tr(I+H+O)", "constant c = 0.5"}, {"Tr(I+HT+O)", "Universal Transformer", "input-independent"}
EXPERIMENTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in RECIPES if RECIPES.get(name).drivers == ("train",) and name[:7] == "h_model"),
    *(("h_model.sweep", {"sweep": {"over": over}}) for over in SWEEPS),
]


@pytest.mark.parametrize(("name", "chosen"), EXPERIMENTS, ids=str)
def test_each_experiment_compares_with_its_controls(name: str, chosen: dict[str, Any]) -> None:
    """Quick: the H-Model and controls; full: all opponents, three rates, three seeds (3.6)."""
    quick, full = (resolve(name, size=size, driver="train", overrides=chosen) for size in ("quick", "full"))
    assert isinstance(quick, ExperimentSettings)
    assert isinstance(full, ExperimentSettings)
    always, in_full = CONTROLS.get(name, PAPER_CONTROLS)
    for settings in (quick, full):
        names = {plan.name for plan in settings.experiment.arms}
        assert any(plan.role == "h_model" for plan in settings.experiment.arms)
        assert always <= names
        for arm in settings.experiment.trainings():
            training_settings(settings.evaluation, arm)
            task_settings(settings.evaluation, arm.task)
    names = {plan.name for plan in full.experiment.arms}
    assert in_full <= names
    assert (len(quick.experiment.learning_rates), quick.experiment.seeds) == (1, 1)
    assert (len(full.experiment.learning_rates), full.experiment.seeds) == (3, 3)
    assert len(full.experiment.arms) >= len(quick.experiment.arms)
    assert quick.evaluation.task_settings.get("data") is None, "every recipe runs offline"


def test_opponents_are_matched_as_they_say() -> None:
    structure = HModelStructure(stream="paper", hidden=(TransformerLayer(),) * 3, iterations=5)
    plans = {plan.name: plan.network.structure for plan in opponents(structure, "full")}
    assert len(plans["Tr(I+H+O)"].layers) == 3
    assert len(plans["Tr(I+HT+O)"].layers) == 15
    assert (len(plans["Universal Transformer"].layers), plans["Universal Transformer"].repeats) == (3, 5)
    assert plans["constant c = 0.5"].router.head == "constant"
    assert plans["input-independent"].router.head == "independent"
    assert plans["constant c = 0.5"].model_copy(update={"router": structure.router}) == structure
