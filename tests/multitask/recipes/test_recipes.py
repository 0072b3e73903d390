"""Recipes of multitask systems: the arms restrict what they say, the tasks are there, the budgets are equal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evodevo.errors import NotFoundError, UsageError
from evodevo.multitask.agent import AGENTS
from evodevo.multitask.genome import agent_name
from evodevo.multitask.hyperparameters import MU, singlepath_hyperparameters
from evodevo.multitask.paths.multipath_spec import ABLATIONS
from evodevo.multitask.paths.vision.spec import PRESETS
from evodevo.multitask.recipes.settings import CharactersSettings, FlatPlan, MultipathRecipeSettings, TaskPlan
from evodevo.multitask.recipes.tasks import BOTH, FEW_SUFFIX, FOLDERS, OFFLINE, OFFLINE_ROOT, PRETRAINING, tasks_of
from evodevo.multitask.recipes.variants import ARMS, ROOTS, restricted
from evodevo.multitask.search.child import ChildSettings
from evodevo.multitask.search.components import Place, plan_components
from evodevo.multitask.search.mutation import Mutator, matches
from evodevo.multitask.settings import CycleSettings
from evodevo.multitask.system import ROOT_TASK
from evodevo.randomness import generator
from evodevo.runs.resolve import resolve
from evodevo.tasks.multitask.task import MultitaskTask

DATA = Path(__file__).parents[4] / "shared" / "data"
ROLES = PRESETS["tiny"].changed(classes=3).roles
FREE = ("singlepath", "joint")
"""Arms whose mutations are not restricted."""


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("name", list(ARMS))
def test_arms_share_copy_or_begin_anew_as_they_say(name: Any, seed: int) -> None:
    settings = restricted(CycleSettings(), ARMS[name], ChildSettings()).child
    places = [Place(role, "fits", f"Vit~root:{number}") for number, role in enumerate(ROLES)]
    rates = singlepath_hyperparameters("tiny").rates
    mutator = Mutator({MU: 0.2}, rates, generator(seed), settings.mutation)
    needs = [Place(role, "fits") for role in ROLES]
    plans = plan_components(
        needs, places, own=False, locked=lambda _: True, mutator=mutator, settings=settings.components
    )
    fates = {one.role: one.fate for one in plans}
    assert fates.pop("head") == "new"
    if name == "scratch":
        assert set(fates.values()) == {"new"}
    elif name == "fine_tuning":
        assert set(fates.values()) == {"clone"}
    else:
        assert fates.pop("encoder_norm") == "clone", "always copied, as the paper does"
        assert name in FREE or set(fates.values()) == {"reference"}


@pytest.mark.parametrize(("kind", "first"), [("ConvTiny", 1), ("VitTiny", 0)])
def test_the_singlepath_agent_of_a_recipe_begins_as_its_class_does(kind: str, first: int) -> None:
    rules = AGENTS.get(kind).published("paper")
    assert rules is not None
    child = restricted(CycleSettings(samples=3), ARMS["singlepath"], rules.cycle.child).child
    assert (child.fine_tuned, child.adapted) == (first, 0)
    changed = restricted(CycleSettings(child=ChildSettings(adapted=2)), ARMS["singlepath"], rules.cycle.child).child
    assert (changed.fine_tuned, changed.adapted) == (first, 2), "the study's own settings go before"
    assert not restricted(CycleSettings(), ARMS["fine_tuning"], rules.cycle.child).child.firsts


def test_only_the_agents_that_share_build_on_other_tasks() -> None:
    root, other = agent_name("VitT3", f"{ROOT_TASK}/pretrain"), agent_name("VitT3", "mnist10k")
    for name, arm in ARMS.items():
        assert matches(root, arm.builds_on)
        assert matches(other, arm.builds_on) == (name in FREE)
    assert not matches(other, (ROOTS,))


def test_a_root_that_tasks_train_takes_cycles_that_are_there() -> None:
    def arms(**given: Any) -> tuple[str, ...]:
        settings = resolve("multitask.characters", driver="extend", overrides=given)
        assert isinstance(settings, CharactersSettings)
        return settings.arms

    assert arms() == tuple(ARMS)
    assert arms(study={"cycles": 1}) == tuple(name for name in ARMS if name != "joint")
    assert arms(study={"cycles": 2}, compared={"arms": ["joint"]}) == ("joint",)
    with pytest.raises(UsageError, match=r"takes half of the cycles; give study\.cycles = 2"):
        arms(study={"cycles": 1}, compared={"arms": ["joint"]})


@pytest.mark.parametrize("name", list(ARMS))
def test_all_arms_tune_the_same_hyperparameters_of_training(name: Any) -> None:
    forbidden = restricted(CycleSettings(), ARMS[name], ChildSettings()).child.mutation.forbidden
    tuned = [key for key in singlepath_hyperparameters("ti3").tuned if key.startswith(("opt_", "ds_", MU))]
    free = {key for key in tuned if not matches(f"hp:{key}", forbidden)}
    assert set(tuned) - free <= {"ds_image_size"}


@pytest.mark.slow
def test_questions_about_digits_hold_out_the_same_images(tmp_path: Path) -> None:
    held = []
    for plan in (OFFLINE_ROOT, *OFFLINE):
        task = MultitaskTask.open(plan.source, tmp_path)
        assert task.classes >= 2
        test = {task.fetch("test", np.asarray([place]))["image"].tobytes() for place in range(task.count("test"))}
        train = {task.fetch("train", np.asarray([place]))["image"].tobytes() for place in range(task.count("train"))}
        held.append((train, test))
    for train, _ in held:
        for _, test in held:
            assert not train & test, "what one task learns is no test of another"


def test_the_root_is_trained_on_no_task_of_the_table() -> None:
    for name in ("multitask.characters", "multitask.multipath"):
        settings = resolve(name, driver="extend", overrides={})
        assert isinstance(settings, CharactersSettings | MultipathRecipeSettings)
        assert settings.system.root.name not in {one.name for one in settings.system.tasks}


@pytest.mark.skipif(not DATA.is_dir(), reason="the development data are not here")
@pytest.mark.parametrize("size", ["quick", "full"])
def test_a_folder_of_data_is_the_tasks_of_the_issue(size: str) -> None:
    settings = resolve("multitask.characters", size=size, driver="extend", overrides={"data": str(DATA)})
    assert isinstance(settings, CharactersSettings)
    assert [one.name for one in settings.system.tasks] == [*FOLDERS, "digits"]
    assert settings.system.root.name == PRETRAINING
    assert all(one.source.data for one in settings.system.tasks if one.name != "digits")
    settings = resolve("multitask.multipath", size=size, driver="extend", overrides={"data": str(DATA)})
    assert isinstance(settings, MultipathRecipeSettings)
    assert settings.compared.targets == tuple(f"{name}{FEW_SUFFIX}" for name in BOTH)
    assert settings.study.copies == (10 if size == "full" else 2)


@pytest.mark.parametrize("offline", [True, False])
def test_tasks_with_few_samples_read_no_path_that_learned_the_whole_of_the_same_data(offline: bool) -> None:
    if not (offline or DATA.is_dir()):
        pytest.skip("the development data are not here")
    settings = resolve("multitask.multipath", driver="extend", overrides={} if offline else {"data": str(DATA)})
    assert isinstance(settings, MultipathRecipeSettings)
    plans = {one.name: one for one in settings.system.tasks}
    targets = [plans[name] for name in settings.compared.targets]
    assert targets
    for target in targets:
        assert target.source.few is not None
        assert target.reads
        whole = {name for name, one in plans.items() if one.source.few is None and _same_samples(one, target)}
        assert not whole & set(target.reads)
        for name in target.reads:
            assert plans[name].source.few is None
            assert plans[name].reads == (), "it begins with the root alone, and so with nothing of another task"
    assert all(not _same_samples(settings.system.root, target) for target in targets)


def _same_samples(one: TaskPlan, other: TaskPlan) -> bool:
    """Whether two tasks ask the same question about samples of one source, whatever the answers are called."""
    names = ("data", "question", "only")
    return all(getattr(one.source, name) == getattr(other.source, name) for name in names)


def test_few_samples_are_other_ones_in_each_copy_and_whole_sets_are_the_same() -> None:
    few = TaskPlan(name="a", source={"few": {"train": 3, "validation": 2}})
    draws = [few.of_copy(seed).source.few for seed in range(3)]
    assert [one.draw for one in draws if one is not None] == [0, 1, 2]
    whole = TaskPlan(name="a")
    assert whole.of_copy(7) == whole


def test_cycles_end_where_validation_is_flat() -> None:
    rule = FlatPlan(cycles=2, rise=0.005, most=6)
    assert not rule.ends([])
    assert not rule.ends([0.8])
    assert not rule.ends([0.8, 0.8]), "two cycles without a rise come after the first"
    assert rule.ends([0.8, 0.8, 0.8])
    assert rule.ends([0.7, 0.8, 0.801, 0.804])
    assert not rule.ends([0.7, 0.8, 0.801, 0.806])
    assert rule.ends([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]), "at most so many"


def test_a_folder_without_the_tasks_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mnist10k").mkdir()
    with pytest.raises(NotFoundError, match="notmnist10k"):
        tasks_of(str(tmp_path))


def test_every_ablation_of_the_paper_is_a_row() -> None:
    settings = resolve("multitask.multipath", driver="extend", overrides={})
    assert isinstance(settings, MultipathRecipeSettings)
    rows = {one.name: one for one in settings.compared.variants}
    assert set(ABLATIONS) <= set(rows)
    assert {one.agent for one in rows.values()} == {"multipath", "singlepath", "head"}
    assert rows["forced_support"].first is not None
    weights = {one.structure.main_weight for name, one in rows.items() if name.startswith("main_")}
    assert len(weights) >= 3


def test_tasks_have_names_of_their_own() -> None:
    twice = [{"name": "a"}, {"name": "a"}]
    with pytest.raises(UsageError, match="different names"):
        resolve("multitask.characters", driver="extend", overrides={"system": {"tasks": twice}})


@pytest.mark.skipif(not DATA.is_dir(), reason="the development data are not here")
def test_the_full_size_of_characters_is_the_one_of_its_page() -> None:
    settings = resolve("multitask.characters", size="full", driver="extend", overrides={"data": str(DATA)})
    assert isinstance(settings, CharactersSettings)
    training, space = settings.evaluation.training, settings.system.agent.hyperparameters
    assert training.least_between * training.validations / training.batch == 500
    assert (settings.study.copies, settings.study.cycles, settings.study.cycle.children) == (1, 2, 2)
    assert settings.study.cycle.score.base_flops == 0, "the question is about parameters"
    assert not space["block_width"]["tuned"]
