"""Recipes of networks that grow: who stands beside whom under one budget, and what a user may change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evodevo.errors import UsageError
from evodevo.experiments.problem import NetworkProblem
from evodevo.experiments.procedures import PROCEDURES
from evodevo.experiments.recipe import Comparison, ExperimentSettings
from evodevo.experiments.settings import PAPER_SELECTION, procedure_options, task_settings, training_settings
from evodevo.experiments.trials import Variant
from evodevo.growth.h_model.growable import GrowableHModel
from evodevo.growth.recipes.growing import FIXED, growing_arms, learns, strategist_of, with_edit_memory
from evodevo.growth.recipes.h_model import STARTS
from evodevo.growth.recipes.proof import CONTROL, PLAINLY
from evodevo.growth.recipes.proof_data import TRIALS, trial_of
from evodevo.growth.recipes.raced import GROWN
from evodevo.growth.spec import GrowthSettings
from evodevo.growth.strategists.base import STRATEGISTS
from evodevo.h_model.network import HModelNetwork
from evodevo.module_zoo.baselines.network import BaselineNetwork
from evodevo.module_zoo.modules.families import PAPER
from evodevo.module_zoo.modules.zoo import start_zoo
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.plain_surroundings import PLAIN_SURROUNDINGS
from evodevo.module_zoo.spec import ZooStructure
from evodevo.runs.recipe import Recipe, by_size
from evodevo.runs.resolve import resolve
from evodevo.settings import changes_of_new_runs, merge, renewed, validate
from evodevo.training.settings import paper_training

DATA = Path(__file__).parents[4] / "shared" / "data"
OURS = tuple(name for name in STRATEGISTS.names() if not name.startswith("testing."))
SIZES = pytest.mark.parametrize("size", ["quick", "full"])


def recipe(name: str, driver: Any) -> Callable[..., Any]:
    """Its settings, with a user's changes."""

    def made(size: str = "quick", baselines: str | None = None, **changes: Any) -> Any:
        settings = resolve(name, size=size, driver=driver, baselines=baselines, overrides=changes)
        assert isinstance(settings, ExperimentSettings)
        return settings

    return made


trained = recipe("module_zoo.classifier", "train")
grown_by_default = recipe("module_zoo.classifier", "grow")


def grown(size: str = "quick", baselines: str | None = None, **changes: Any) -> Any:
    """The growth of a classifier by a strategist that is named; PPO where a test names none."""
    given = changes.get("grow", {})
    named = {"strategist": "ppo", **given} if isinstance(given, dict) else given
    return grown_by_default(size, baselines, **{**changes, "grow": named})


def names(settings: Any) -> list[str]:
    return [plan.name for plan in settings.experiment.arms]


def growth_of(settings: ExperimentSettings) -> dict[str, GrowthSettings]:
    """The growth of each arm, as its procedure sees it."""
    return {
        arm.name: validate(GrowthSettings, procedure_options(settings.evaluation, arm), what="growth")
        for arm in settings.experiment.trainings()
        if arm.procedure == "grow"
    }


# The classifier


@SIZES
def test_all_arms_have_the_same_budget(size: str) -> None:
    settings = trained(size)
    assert names(settings)[0] == "zoo", "the first arm is the reference"
    for arm in settings.experiment.trainings():
        assert training_settings(settings.evaluation, arm).budget == settings.evaluation.training.budget
        task_settings(settings.evaluation, arm.task)
    assert settings.evaluation.select.metric == "auc"
    assert settings.evaluation.task_settings == {}, "it runs offline, on data that are always there"


def test_baselines() -> None:
    assert names(trained(baselines="none")) == ["zoo"]
    quick, every = (names(trained(baselines=one)) for one in ("quick", "all"))
    assert len(quick) == 6
    assert set(quick) < set(every)
    assert len(every) >= 18
    assert names(trained()) == quick
    assert names(trained("full")) == every
    assert trained("full").experiment.seeds == 3


def test_the_zoo_may_be_changed_and_its_opponents_change_with_it() -> None:
    settings = trained(
        zoo={"width": 32, "modules": ["mlp", "lstm"], "extractor": {"blocks": 1}, "router": {"top_k": 1}}
    )
    zoo, *others = (plan.network.structure for plan in settings.experiment.arms)
    assert [module.id for module in zoo.modules] == ["mlp-1", "lstm-1"]
    assert zoo.router.top_k == 1
    assert {one.width for one in others} == {32}
    assert {one.extractor for one in others} == {zoo.extractor}
    with pytest.raises(UsageError, match="did you mean 'top_k'"):
        trained(zoo={"router": {"topk": 1}})


def test_columns_of_a_table_need_no_room() -> None:
    evaluation = trained(data="posts.csv", image="path", text="caption", label="class", patience=3).evaluation
    columns = {"data": "posts.csv", "image": "path", "text": "caption", "label": "class"}
    assert (evaluation.task, evaluation.task_settings) == ("table", columns)
    assert evaluation.select.patience == 3
    assert evaluation.exchange
    with pytest.raises(UsageError, match="Did you mean 'label'"):
        trained(data="posts.csv", lable="class")


def test_the_papers_settings() -> None:
    paper = recipe("module_zoo.paper", "train")
    settings = paper("full")
    structure = settings.experiment.arms[0].network.structure
    assert (structure.width, len(structure.modules), structure.dropout) == (512, 9, 0.1)
    assert settings.evaluation.training == paper_training(10_000)
    assert settings.evaluation.select == PAPER_SELECTION
    assert settings.experiment.seeds == 3
    assert settings.experiment.learning_rates == (5e-5,)
    assert settings.evaluation.task_settings["size"] == [224, 224]
    assert settings.evaluation.task_settings["length"] == 128
    own = paper(zoo={"extractors": {"text": {"path": "here"}}}, data="posts.csv", label="class").evaluation
    assert own.task_settings["data"] == "posts.csv"
    assert own.task_settings["size"] == [224, 224]


def test_the_paper_grows_by_its_own_rules() -> None:
    arms = growth_of(recipe("module_zoo.paper", "grow")())
    assert set(arms) == {"grown by ppo", "grown by random", "grown by heuristic", FIXED}
    paper = arms["grown by ppo"]
    assert (paper.prune.rule, paper.prune.quantile) == ("quantile", 0.15)
    assert (paper.events.warm_rate, paper.birth.entry) == (0.1, "gate")
    assert (paper.fitness.kind, paper.fitness.price, paper.reward.price) == ("contribution", "parameters", "start")
    assert paper.fitness.inform


# Zoos that grow


@SIZES
def test_a_classifier_races_then_grows_unless_a_strategist_is_named(size: str) -> None:
    settings = grown_by_default(size, zoo={"width": 16})
    options = growth_of(settings)
    assert list(options) == [GROWN, FIXED]
    assert settings.experiment.reference == FIXED
    assert len({arm.network.model_dump_json() for arm in settings.experiment.arms}) == 1
    structure = settings.experiment.arms[0].network.structure
    assert structure.width == 16
    around = {name: getattr(structure, name) for name in PLAIN_SURROUNDINGS}
    assert ZooStructure(**around) == ZooStructure(**PLAIN_SURROUNDINGS), "little is in the way of the data"
    grows, fixed = options[GROWN], options[FIXED]
    assert grows.race.identity
    assert grows.race.share == 0.15
    assert grows.forks.required, "no edit that no fork confirms"
    assert (grows.events.count, fixed.events.count) == (1, 0)
    assert fixed.strategist == FIXED, "which never races"
    assert settings.evaluation.select.patience is None
    for arm in settings.experiment.trainings():
        PROCEDURES.get(arm.procedure).check(settings.evaluation, arm)
    beside = grown_by_default(baselines="quick")
    assert [arm.role for arm in beside.experiment.arms][:2] == ["zoo"] * 2
    assert "opponent" in [arm.role for arm in beside.experiment.arms]


@pytest.mark.parametrize("name", ["module_zoo.classifier", "module_zoo.growth_proof", "h_model.growing"])
def test_new_runs_say_by_which_rules_they_grow(name: str) -> None:
    """In full: the defaults of the fields are those of stored runs, which say nothing."""
    made = grown() if name == "module_zoo.classifier" else recipe(name, "grow")()
    new = changes_of_new_runs(GrowthSettings())
    if name == "h_model.growing":  # nothing is there to stand beside
        del new["birth"]
    given = made.evaluation.options["grow"]
    assert merge(given, new) == given
    for growth in growth_of(made).values():
        assert growth.prune.rule == "unused"
        assert growth.birth.entry == ("gate" if name == "h_model.growing" else "beside")
        assert growth.events.warm_rate == 1.0
        assert growth.fitness.inform, "the impact half of the contribution reaches the router"
        assert "rewarm" not in growth.allow
    before = validate(GrowthSettings, {}, what="a stored run")
    assert (before.prune.rule, before.birth.entry, before.events.warm_rate) == ("standard", "gate", 0.1)
    assert (before.fitness.price, before.reward.price, before.fitness.inform) == ("parameters", "start", False)
    assert "rewarm" in before.allow


def test_the_growth_of_a_classifier_begins_with_a_race_and_that_of_the_paper_with_all_modules() -> None:
    def race_of(name: str, driver: Any) -> Any:
        made = resolve(name, driver=driver, overrides={})
        assert isinstance(made, ExperimentSettings)
        arm = made.experiment.arms[0]
        return validate(GrowthSettings, procedure_options(made.evaluation, arm), what="options").race

    race = race_of("module_zoo.classifier", "grow")
    assert (race.share, race.singles, race.judge, race.identity) == (0.15, 1.0, "loss", True)
    (arm, *_) = grown().experiment.arms
    race = growth_of(grown())[arm.name].race
    assert (race.share, race.singles, race.judge, race.identity) == (0.15, 1.0, "trend", False)
    assert race_of("module_zoo.paper", "grow").share == 0
    assert race_of("h_model.growing", "grow").share == 0


@pytest.mark.parametrize("strategist", OURS)
def test_who_learns_stands_beside_random_heuristic_and_fixed(strategist: str) -> None:
    found = {one.strategist for one in growth_of(grown(grow={"strategist": strategist})).values()}
    assert found == {strategist, FIXED, *({"random", "heuristic"} if learns(strategist) else set())}


def test_arms_differ_in_their_growth_alone() -> None:
    settings = grown(grow={"strategist": "ppo"})
    arms = settings.experiment.trainings()
    assert len({arm.network.model_dump_json() for arm in arms}) == 1
    assert len({training_settings(settings.evaluation, arm).model_dump_json() for arm in arms}) == 1
    assert len({arm.learning_rate for arm in arms}) == 1
    assert settings.experiment.reference == FIXED
    growth = growth_of(settings)
    assert growth[FIXED].events.count == 0
    assert growth[FIXED].strategist == FIXED
    assert {one.events.count for name, one in growth.items() if name != FIXED} == {GrowthSettings().events.count}


@SIZES
def test_nobody_stops_before_its_budget_is_used_up(size: str) -> None:
    settings = grown(size)
    assert settings.evaluation.select is not None
    assert settings.evaluation.select.patience is None
    assert settings.experiment.seeds == (3 if size == "full" else 1)
    for arm in settings.experiment.trainings():
        PROCEDURES.get(arm.procedure).check(settings.evaluation, arm)


def test_all_that_grow_are_changed_together_and_the_fixed_one_stays_fixed() -> None:
    growth = growth_of(grown(grow={"events": {"count": 4, "looks": 3}, "prune": {"least": 5}}))
    for name, one in growth.items():
        assert one.events.count == (0 if name == FIXED else 4)
        assert (one.events.looks, one.prune.least) == (3, 5)
    both = grown(evaluation={"options": {"grow": {"events": {"count": 2}}}}, grow={"events": {"looks": 3}})
    usual = renewed(GrowthSettings()).events
    assert growth_of(both)["grown by ppo"].events == usual.model_copy(update={"count": 2, "looks": 3})


@pytest.mark.parametrize("named", ["reinforce, ppo", ["reinforce", "ppo"]])
def test_several_strategists(named: Any) -> None:
    arms = [arm.name for arm in grown(grow={"strategist": named}).experiment.trainings()]
    assert arms == ["grown by reinforce", "grown by ppo", "grown by random", "grown by heuristic", FIXED]


def test_opponents_only_where_they_are_asked_for() -> None:
    assert all(arm.procedure == "grow" for arm in grown("full").experiment.arms)
    roles = [arm.role for arm in grown(baselines="quick").experiment.arms]
    assert roles[:4] == ["zoo"] * 4
    assert "opponent" in roles


def test_the_zoo_and_the_table_are_named_as_in_train() -> None:
    settings = grown(zoo={"width": 16, "modules": "mlp,lstm"}, data="posts.csv", label="class", batch_size=4)
    assert settings.evaluation.task == "table"
    assert settings.evaluation.training.batch_size == 4
    assert [one.id for one in settings.experiment.arms[0].network.structure.modules] == ["mlp-1", "lstm-1"]


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
        grown(**changes)


def test_growth_is_a_setting_of_grow_alone() -> None:
    with pytest.raises(UsageError, match="grow"):
        trained(grow={"events": {"count": 4}})
    with pytest.raises(UsageError, match="serves evolve"):
        recipe("backbone.demo", "grow")()


def test_a_recipe_that_names_its_strategists_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    own = grown_by_default(grow={"strategist": "ppo"})
    row = Recipe("testing.grown", "of its own", ("grow",), by_size(lambda size: own))

    class Table:
        def get(self, name: str) -> Recipe:
            return row

    monkeypatch.setattr("evodevo.runs.resolve.RECIPES", Table())
    named = recipe("testing.grown", "grow")
    assert growth_of(named(grow={"events": {"count": 3}}))["grown by ppo"].events.count == 3
    with pytest.raises(UsageError, match="name their strategists themselves"):
        named(grow={"strategist": "random"})


def test_arms_that_learn_begin_with_the_edits_of_their_own_strategist_else_with_all() -> None:
    own, joined = "a" * 64, "b" * 64
    settings = with_edit_memory(grown(grow={"strategist": "thompson"}), {"thompson": own, "random": own}, joined)
    told = growth_of(settings)["grown by thompson"].edit_memory
    assert told == joined, "a gain is one whoever chose the edit"
    settings = with_edit_memory(grown(grow={"strategist": "ppo,reinforce"}), {"ppo": own}, joined)
    found = {name: one.edit_memory for name, one in growth_of(settings).items()}
    others = dict.fromkeys(("grown by random", "grown by heuristic", FIXED))
    assert found == {"grown by ppo": own, "grown by reinforce": joined, **others}


def test_who_decides_in_an_arm() -> None:
    settings = grown(baselines="quick", evaluation={"options": {"grow": {"strategist": "random"}}})
    arms = {arm.name: arm for arm in settings.experiment.arms}
    assert strategist_of(settings.evaluation, arms["grown by ppo"]) == "ppo"
    assert strategist_of(settings.evaluation, arms["Switch"]) is None
    bare = arms["grown by ppo"].model_copy(update={"options": {}})
    assert strategist_of(settings.evaluation, bare) == "random"
    assert strategist_of(grown().evaluation, bare) == GrowthSettings().strategist


def test_the_fixed_zoo_alone() -> None:
    structure = ZooStructure(width=16, modules=start_zoo(16))
    assert [one.name for one in growing_arms(ModuleZooNetwork(structure=structure), [FIXED])] == [FIXED]


# H-Models that grow


@pytest.mark.parametrize("driver", ["train", "grow"])
@SIZES
def test_all_h_models_begin_alike_and_are_checked(driver: str, size: str) -> None:
    settings = recipe("h_model.growing", driver)(size)
    arms = settings.experiment.arms
    assert set(names(settings)) == {"grown by ppo", "grown by random", "grown by heuristic", FIXED}
    starts = {str(plan.cell["start"]) for plan in arms}
    assert len(starts) == (1 if size == "quick" else len(STARTS))
    for name in starts:
        assert len({plan.network.model_dump_json() for plan in arms if plan.cell["start"] == name}) == 1
    for arm in settings.experiment.trainings():
        PROCEDURES.get("grow").check(settings.evaluation, arm)
        training_settings(settings.evaluation, arm)
        assert isinstance(arm.network, HModelNetwork)
        pool = GrowableHModel.of(arm.network.structure)
        assert tuple(one.genotype.archetype for one in pool.modules) == STARTS[str(arm.cell["start"])]
        assert not pool.opaque


def test_users_choose_strategists_opponents_and_events_of_h_models() -> None:
    models = recipe("h_model.growing", "grow")
    settings = models(grow={"strategist": "heuristic", "events": {"count": 4}})
    assert names(settings) == ["grown by heuristic", FIXED]
    assert settings.evaluation.options["grow"]["events"]["count"] == 4
    assert settings.evaluation.options["grow"]["birth"] == {"most": 6}
    assert names(models(baselines="quick"))[-2:] == ["Tr(I+H+O)", "constant c = 0.5"]


# The proof


def proof(data: str | None = None, size: str = "full", **changes: Any) -> Any:
    """On this data set: fair arms, and a control that lacks families and nothing else."""
    given = {} if data is None else {"evaluation": {"task_settings": {"data": data}}}
    return recipe("module_zoo.growth_proof", "grow")(size, **{**given, **changes})


def without(experiment: Comparison, cell: Any) -> Comparison:
    """The arms of other cells."""
    return experiment.model_copy(update={"arms": tuple(arm for arm in experiment.arms if arm.cell != cell)})


def zoo_of(plan: Variant) -> ZooStructure:
    assert isinstance(plan.network, ModuleZooNetwork)
    return plan.network.structure


@pytest.mark.parametrize(("data", "size"), [(None, "quick"), *((data, "full") for data in (None, *TRIALS))])
def test_all_arms_of_the_proof_may_compute_as_much(data: str | None, size: str) -> None:
    settings = proof(data, size)
    for arm in settings.experiment.trainings():
        budget = training_settings(settings.evaluation, arm).budget
        assert budget == settings.evaluation.training.budget
        assert budget.flops is not None
        assert (budget.steps, budget.seconds, budget.tokens) == (None, None, None), "FLOPs alone end a training"
    assert len({arm.learning_rate for arm in settings.experiment.trainings()}) == 1
    assert settings.evaluation.select is not None
    assert settings.evaluation.select.patience is None, "who stops early would compute less"
    primary = settings.model_copy(update={"experiment": without(settings.experiment, PLAINLY)})
    for name, growth in growth_of(primary).items():
        assert (growth.events.count == 0) == (name == FIXED)
        assert (growth.forks.share > 0) == name.endswith(", forked")
        assert name.removeprefix("raced, then ").removesuffix(", forked") in (
            growth.strategist,
            "edited around",
            f"grown by {growth.strategist}",
        )
        assert (growth.race.share > 0) == name.startswith("raced")


@pytest.mark.parametrize("data", [None, "easy_vqa", "fashion_mnist"])
def test_the_primary_experiment_has_all_arms_of_the_proof(data: str | None) -> None:
    settings = proof(data)
    primary = [plan for plan in settings.experiment.arms if not plan.cell]
    grown_ones = ["grown by ppo", "grown by random", "grown by heuristic", "raced, then grown by heuristic"]
    grown_ones += ["raced, then grown by random", "raced, then grown by random, forked"]
    grown_ones += ["raced, then edited around, forked"]
    assert [plan.name for plan in primary] == [*grown_ones, "fixed", "raced", "Switch", "ST-MoE", "Soft MoE"]
    assert settings.experiment.reference == "fixed"
    assert settings.experiment.seeds == 5
    zoos = [zoo_of(plan) for plan in primary if plan.role == "zoo"]
    assert all(zoo == zoos[0] for zoo in zoos)
    assert tuple(module.genotype.archetype for module in zoos[0].live) == PAPER


def test_the_control_differs_in_its_modules_alone() -> None:
    arms = proof().experiment.arms
    control = {plan.name: plan for plan in arms if plan.cell == CONTROL}
    primary = {plan.name: plan for plan in arms if not plan.cell}
    assert set(control) == {"grown by ppo", "fixed"}
    for name, plan in control.items():
        ours, theirs = (zoo_of(one).model_copy(update={"modules": ()}) for one in (plan, primary[name]))
        assert ours == theirs
        assert [module.genotype.archetype for module in zoo_of(plan).live] == ["mlp", "squeeze_excite"]
        assert plan.model_copy(update={"cell": {}, "network": primary[name].network}) == primary[name]


@pytest.mark.parametrize("data", [None, "nlvr"])
def test_a_cell_has_what_new_runs_do_beside_its_race_and_all_modules(data: str | None) -> None:
    settings = proof(data)
    arms = {plan.name: plan for plan in settings.experiment.arms if plan.cell == PLAINLY}
    random = "raced, then grown by random, forked"
    assert list(arms) == [GROWN, "raced", FIXED, random]
    assert len({plan.network.model_dump_json() for plan in arms.values()}) == 1
    assert zoo_of(arms[FIXED]).extractor.activation == "relu"
    alone = settings.experiment.model_copy(update={"arms": tuple(arms.values())})
    growth = growth_of(settings.model_copy(update={"experiment": alone}))
    assert growth[GROWN].race == growth["raced"].race
    assert growth[GROWN].race.model_copy(update={"partial": True}) == growth_of(grown_by_default())[GROWN].race
    assert growth[GROWN].forks == growth_of(grown_by_default())[GROWN].forks
    assert [name for name, one in growth.items() if one.events.count] == [GROWN, random]
    assert (growth[random].race, growth[random].strategist) == (growth[GROWN].race, "random")
    assert (growth[random].forks.paired, growth[random].forks.share) == (True, 0.15)


def test_small_data_sets_tell_a_direction_with_few_arms() -> None:
    for name in ("sib200_6", "nlvr"):
        settings = proof(name)
        primary = without(settings.experiment, PLAINLY).arms
        told = ["grown by ppo", "raced, then edited around, forked", "fixed", "raced"]
        assert [plan.name for plan in primary] == told
        assert settings.experiment.seeds < proof("easy_vqa").experiment.seeds
        assert any("direction" in one for one in settings.experiment.caveats)


def test_one_arm_is_edited_around_its_modules_and_no_further() -> None:
    growth = growth_of(proof())["raced, then edited around, forked"]
    assert growth.opened_around == growth.allow == ("map_positions", "add_readout")
    assert growth.events.count == len(growth.allow)
    assert (growth.forks.paired, growth.forks.average, growth.forks.orders) == (True, 0.5, 0)
    assert growth.race == growth_of(proof())["raced, then grown by heuristic"].race


def test_what_a_user_changes_holds_for_all_zoos_of_the_proof() -> None:
    settings = proof(zoo={"width": 16}, grow={"events": {"count": 3}})
    assert {zoo_of(plan).width for plan in settings.experiment.arms if plan.role == "zoo"} == {16}
    new = changes_of_new_runs(GrowthSettings())
    assert settings.evaluation.options["grow"] == merge(new, {"events": {"count": 3}})


def test_data_that_nobody_knows_want_a_task() -> None:
    with pytest.raises(UsageError, match="--task"):
        proof("posts.csv")
    settings = proof(evaluation={"task": "table", "task_settings": {"data": "posts.csv"}})
    assert settings.evaluation.task == "table"
    assert settings.evaluation.task_settings == {"data": "posts.csv"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sib200_6", "easy_vqa", "nlvr", "fashion_mnist"])
def test_the_data_of_the_proof_are_read_into_four_splits_as_expected(name: str, tmp_path: Path) -> None:
    if not (DATA / name).is_dir():
        pytest.skip(f"needs the data set {name}")
    settings, trial = proof(str(DATA / name)), trial_of(str(DATA / name))
    arms = settings.experiment.trainings()
    problem = NetworkProblem(lambda arm: arm, settings.evaluation, cache_folder=tmp_path, arms=arms)
    assert "architecture" in problem.task.splits, "the reward never sees what selects the model"
    kinds = [[(one.name, one.modality) for one in each] for each in (trial.inputs, problem.task.inputs)]
    assert kinds[0] == kinds[1]
    assert trial.outputs[0].size == problem.task.outputs[0].size
    wanted = settings.experiment.arms[0].network.cost(inputs=trial.inputs, outputs=trial.outputs).parameters
    for plan in settings.experiment.arms:
        if isinstance(plan.network, BaselineNetwork):
            found = plan.network.cost(inputs=trial.inputs, outputs=trial.outputs).parameters
            assert abs(found - wanted) <= 0.2 * wanted, plan.name
