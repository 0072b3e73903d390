"""Recipes are whole runs that can begin, and what a user changes of them is checked."""

from __future__ import annotations

from typing import Any

import pytest

from evodevo import canonical
from evodevo.errors import UsageError
from evodevo.objectives.base import parse_objectives
from evodevo.recipes.base import RECIPES, EvolveSettings, resolve
from evodevo.settings import validate
from evodevo.spaces.backbone import BackboneSpace

BACKBONES = [name for name in RECIPES.names() if name.startswith("backbone.")]


@pytest.mark.parametrize("size", ["quick", "full"])
@pytest.mark.parametrize("name", RECIPES.names())
def test_each_recipe_says_what_it_is_and_its_settings_travel(name: str, size: str) -> None:
    recipe = RECIPES.get(name)
    assert recipe.name == name
    assert recipe.summary
    settings = resolve(name, size=size, driver=recipe.drivers[0], overrides={})
    values = canonical.loads(canonical.dumps(settings.model_dump(mode="json")))
    assert validate(type(settings), values, what="x") == settings
    assert settings.execution.executor == "processes", "isolation is the default"


@pytest.mark.parametrize("size", ["quick", "full"])
@pytest.mark.parametrize("name", BACKBONES)
def test_each_backbone_recipe_can_begin(name: str, size: str) -> None:
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


@pytest.mark.parametrize("name", BACKBONES)
def test_the_whole_thing_is_more_work(name: str) -> None:
    quick, full = (resolve(name, size=size, overrides={}) for size in ("quick", "full"))
    work = [
        one.study.population * one.study.generations * (one.evaluation.training.budget.tokens or 0)
        for one in (quick, full)
    ]
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
        ({"overrides": {"study": {"population": 1}}}, "population"),
        ({"overrides": {"study": 5}}, "study"),
        ({"overrides": {"study": {"mode": "fast"}}}, "generational"),
        ({"overrides": {"execution": {"executor": "ray"}}}, "processes"),
        ({"overrides": {"execution": {"workers": 0}}}, "workers"),
        ({"overrides": {"execution": {"threads": 0}}}, "threads"),
        ({"overrides": {"evaluation": {"training": {"budget": {"tokens": -5}}}}}, "tokens"),
        ({"overrides": {"evaluation": {"seconds": 0}}}, "seconds"),
    ],
)
def test_what_cannot_be_is_refused_with_the_place(arguments: dict[str, Any], words: str) -> None:
    values: dict[str, Any] = {"name": "backbone.demo", "size": "quick", "driver": "evolve", "overrides": {}}
    values |= arguments
    with pytest.raises(UsageError, match=words):
        resolve(values.pop("name"), **values)
