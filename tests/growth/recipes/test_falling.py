"""The experiment on a cap that falls: who obeys which cap, and who has how many FLOPs."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from evodevo.errors import UsageError
from evodevo.experiments.procedures import PROCEDURES
from evodevo.experiments.recipe import ExperimentSettings
from evodevo.experiments.settings import procedure_options, task_settings, training_settings
from evodevo.growth.caps.smaller import kinds_under, only
from evodevo.growth.growable import TaskSizes
from evodevo.growth.procedures.settings import check_grow
from evodevo.growth.recipes.falling import FALLS, OBEYS, RETRAINED, SMALL, with_identity
from evodevo.growth.recipes.proof_data import GENERATED
from evodevo.growth.resources import Resources
from evodevo.growth.spec import GrowthSettings
from evodevo.growth.zoo.growable import GrowableZoo
from evodevo.module_zoo.procedures.room import IDENTITY
from evodevo.module_zoo.procedures.search_settings import RaceOptions, training_after
from evodevo.runs.resolve import resolve
from evodevo.settings import merge, validate
from evodevo.tasks.base import TASKS

ARMS = [OBEYS, f"{OBEYS}, grown by heuristic", SMALL, RETRAINED, "fixed"]


def falling(size: str = "full", **changes: Any) -> ExperimentSettings:
    settings = resolve("module_zoo.falling_cap", size=size, driver="grow", overrides=changes)
    assert isinstance(settings, ExperimentSettings)
    return settings


@pytest.mark.parametrize("size", ["quick", "full"])
@pytest.mark.parametrize("budget", [None, 3e11])
def test_who_has_how_many_flops_and_which_cap(size: str, budget: float | None) -> None:
    changes = {} if budget is None else {"evaluation": {"training": {"budget": {"flops": budget}}}}
    settings = falling(size, **changes)
    trials = {trial.name: trial for trial in settings.experiment.trainings() if trial.seed == 0}
    assert list(trials) == ARMS
    options = {name: procedure_options(settings.evaluation, trial) for name, trial in trials.items()}
    for name in (OBEYS, f"{OBEYS}, grown by heuristic", "fixed"):
        check_grow(settings.evaluation, trials[name])
    grown = {
        name: validate(GrowthSettings, given, what=name)
        for name, given in options.items()
        if trials[name].procedure == "grow"
    }
    last = grown[OBEYS].caps.lowest.limits["flops"]
    assert grown["fixed"].caps.lowest.limits == {}
    assert grown[OBEYS].caps == grown[f"{OBEYS}, grown by heuristic"].caps
    assert (grown[OBEYS].strategist, grown[OBEYS].events.count) == ("fixed", 0)
    raced = {name: validate(RaceOptions, options[name], what=name) for name in (SMALL, RETRAINED)}
    assert {race.flops for race in raced.values()} == {last}
    whole = {training_settings(settings.evaluation, trial).budget.flops for trial in trials.values()}
    assert len(whole) == 1
    (flops,) = whole
    assert flops is not None
    assert budget is None or flops == budget
    late = training_settings(settings.evaluation, trials[RETRAINED])
    left = training_after(late, raced[RETRAINED].begin).budget.flops
    assert left == pytest.approx(flops * (1 - grown[OBEYS].caps.falls[-1].at))
    assert raced[RETRAINED].model_copy(update={"begin": 0.0}) == raced[SMALL]


def test_every_network_of_so_many_modules_is_under_the_cap_and_the_whole_is_not() -> None:
    settings = falling()
    (trial, *_) = settings.experiment.trainings()
    caps = validate(GrowthSettings, procedure_options(settings.evaluation, trial), what="options").caps
    zoo = GrowableZoo.of(trial.network.structure)  # type: ignore[union-attr]
    sizes = TaskSizes(GENERATED.inputs, GENERATED.outputs)
    names = [module.id for module in zoo.live]
    assert Resources.of(zoo, sizes).excess(caps.after(1)) is not None
    for number, (_, count) in enumerate(FALLS, 1):
        costs = [Resources.of(only(zoo, ids), sizes).flops for ids in combinations(names, count)]
        assert max(costs) == caps.after(number).limits["flops"]


@pytest.mark.parametrize("size", ["quick", "full"])
def test_a_size_pays_for_its_races_and_a_budget_that_does_not_is_refused_at_the_start(size: str) -> None:
    """Of the arms from scratch, too, which would find it out while they run."""

    def check(settings: ExperimentSettings) -> None:
        task = TASKS.get(settings.evaluation.task).open(task_settings(settings.evaluation, {}), None)
        for trial in settings.experiment.trainings():
            PROCEDURES.get(trial.procedure).check_task(settings.evaluation, trial, task)

    few = {"evaluation": {"task_settings": {"questions": 4}}}
    check(falling(size, **few))
    with pytest.raises(UsageError, match=f"{SMALL}: the budget has no room for a race of two networks under"):
        check(falling(size, **merge(few, {"evaluation": {"training": {"budget": {"flops": 1e9}}}})))


def test_the_network_without_a_module_is_among_those_that_may_be_left() -> None:
    settings = falling()
    for trial in settings.experiment.trainings():
        structure = trial.network.structure  # type: ignore[union-attr]
        assert [module.id for module in structure.live].count(IDENTITY) == 1
        assert structure.readout, "what is read without a module goes through a layer"
    assert with_identity(structure) == structure
    zoo, sizes = GrowableZoo.of(structure), TaskSizes(GENERATED.inputs, GENERATED.outputs)
    (trial, *_) = settings.experiment.trainings()
    caps = validate(GrowthSettings, procedure_options(settings.evaluation, trial), what="options").caps
    assert (IDENTITY,) in kinds_under(zoo, sizes, caps.after(1), {})[1]
    cheapest = min(zoo.live, key=lambda module: Resources.of(only(zoo, [module.id]), sizes).flops)
    assert cheapest.id == IDENTITY


def test_a_zoo_that_is_too_small_is_refused() -> None:
    with pytest.raises(UsageError, match="the cap falls to 3 modules, and the zoo has 3"):
        falling(zoo={"modules": "mlp,squeeze_excite"})


def test_it_names_its_arms_itself() -> None:
    with pytest.raises(UsageError, match="leave --baselines out"):
        resolve("module_zoo.falling_cap", size="quick", driver="grow", baselines="all", overrides={})
