"""Rules of the published agents: row by row, where ours differ, and both run (docs/spec/munet.md)."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from evodevo.errors import UsageError
from evodevo.multitask.agent import AGENTS
from evodevo.multitask.fork import fork
from evodevo.multitask.hyperparameters import Version
from evodevo.multitask.rules import check_takes_effect, whole_settings
from evodevo.multitask.search.child import ChildSettings
from evodevo.multitask.search.parents import ParentSettings
from evodevo.multitask.search.score import cost
from evodevo.multitask.search.supports import MultipathSettings
from evodevo.multitask.search.versions import Rules, multipath_rules, singlepath_rules
from evodevo.multitask.settings import AgentSettings, CycleSettings, SystemSettings
from evodevo.multitask.stored import agent_settings
from evodevo.multitask.system import System
from evodevo.multitask.training.values import PathTrainingSettings
from evodevo.settings import merge, validate
from evodevo.storage import Store
from evodevo.testing.multitask.paths import PathTrainer, executor_of, small, tasks_of, told

VERSIONS: tuple[Version, ...] = get_args(Version)
EVERY = {one: singlepath_rules(one) for one in VERSIONS}


@pytest.mark.parametrize("rules", [f(version) for f in (singlepath_rules, multipath_rules) for version in VERSIONS])
def test_rules_survive_storage(rules: Rules) -> None:
    assert validate(CycleSettings, rules.cycle.model_dump(mode="json"), what="rules") == rules.cycle
    validate(PathTrainingSettings, dict(rules.training), what="training")


def test_appendix_a() -> None:
    cycles = {name: one.cycle for name, one in EVERY.items()}
    rows = {
        name: (
            one.population.cap,
            one.population.prune,
            one.retained,
            one.child.components.blocks,
            one.child.components.grids,
            one.child.data,
            one.parents.fallback,
        )
        for name, one in cycles.items()
    }
    assert rows == {
        "paper": (5, "top", 1, "insert", "ancestor", "child", "probed"),
        "v4b": (4, "stochastic", 4, "new", "parent", "generation", "uniform"),
    }
    assert {one.child.mutation.forced for one in cycles.values()} == {("clone:encoder_norm",)}


@pytest.mark.parametrize(("size", "batch"), [("l", 16), ("b", 256), ("ti3", 512)])
def test_budgets_of_the_table(size: str, batch: int) -> None:
    """docs/spec/munet.md#differences-between-versions: batch, samples between looks, looks, their samples, children."""
    rules = singlepath_rules("v4b", size)
    course = validate(PathTrainingSettings, dict(rules.training), what="training")
    found = (course.batch, course.most_between, course.validations, course.validation_cap, rules.cycle.samples)
    assert found == (batch, 300_000, 4, 10_000, 16)
    assert course.momentum_format == "bfloat16"


def test_costs() -> None:
    root = (1e6, 1e9)
    assert cost(1e6, 1e9, EVERY["paper"].cycle.score, root).factor == pytest.approx(0.98**2)
    assert cost(2.2e9, 3.8e12, EVERY["v4b"].cycle.score, root).factor == pytest.approx(0.99**2)


def test_a_multipath_agent_forces_nothing() -> None:
    for version in VERSIONS:
        child = multipath_rules(version).options.get("child", {})
        settings = validate(MultipathSettings, child, what="multipath")
        assert settings.mutation.forced == ()


SMALL = {"structure": {"width": 8, "heads": 2, "hidden": 8}}


def system_of(version: Version, *, cycle: CycleSettings | None = None, multi: bool = True) -> System:
    settings = SystemSettings(version=version, cycle=cycle or small(8, 4))
    system = System.create(Store.memory(), "zoo", seed=5, settings=settings)
    system.add_root("VitTiny", "random_init", AgentSettings(classes=0, options=SMALL))
    for kind in ("VitTiny", "MultiVitTiny") if multi else ("VitTiny",):
        for task in ("a", "b"):
            system.add_agent(kind, task, AgentSettings(classes=3))
    return system


def run(system: System) -> list[dict[str, Any]]:
    system.run(tasks_of(system), 1, executor_of(PathTrainer(system.store)))
    rows = [one for name, one in told(system).items() if name.startswith("VitTiny~a/")]
    return sorted(rows, key=lambda one: int(one["genome"]["genes"]["number"]))


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS[::-1])
def test_every_version_runs_and_is_copied(version: Version) -> None:
    system = system_of(version, cycle=small(4, 2))
    run(system)
    assert told(fork(system, "copy"))["publications"] == told(system)["publications"]
    assert set(system.view().offers) == {one.name for one in system.agents()}
    for one in tasks_of(system):
        settings = agent_settings(one)
        assert settings.options.get("version", "paper") == version
        assert settings.cycle is not None
        assert (settings.cycle.samples, settings.cycle.generation_size) == (4, 2), "a system changes what it names"
    distinct = {c.id: c.parameters for one in system.view().offers.values() for c in one.components}
    assert sum(system.accounts().values()) == pytest.approx(sum(distinct.values()))


@pytest.mark.slow
def test_children_of_a_generation_share_data_values_in_the_published_code_alone() -> None:
    def data(one: dict[str, Any]) -> dict[str, Any]:
        genes = one["genome"]["genes"]
        return {key: value for key, value in genes["hparams"].items() if key.startswith("ds_")}

    for version in VERSIONS:
        rows = run(system_of(version, multi=False))
        generations = [rows[:4], rows[4:]]
        shared = all(data(one) == data(siblings[0]) for siblings in generations for one in siblings)
        assert shared == (version == "v4b"), version
        assert any(data(one) != data(rows[0]) for one in rows), "they move"


def test_what_is_told_goes_before_a_version_and_an_agent_before_its_system() -> None:
    system = System.create(Store.memory(), "zoo", settings=SystemSettings(version="v4b", training={"batch": 64}))
    plain = system.add_agent("VitTiny", "plain", AgentSettings(classes=3, training={"validations": 7}))
    ours = system.add_agent("VitTiny", "ours", AgentSettings(classes=3, options={"version": "paper"}))
    whole = {one.name: agent_settings(one) for one in (plain, ours)}
    cycles = [one.cycle or CycleSettings() for one in whole.values()]
    assert [one.population.cap for one in cycles] == [4, 5]
    assert [one.retained for one in cycles] == [4, 1]
    assert [one.training["batch"] for one in whole.values()] == [64] * 2
    assert whole[plain.name].training == {"momentum_format": "bfloat16", "batch": 64, "validations": 7}
    assert whole[ours.name].training == {"batch": 64, "first_look": True, "least_steps": 500}
    own = CycleSettings(samples=2, generation_size=2)
    mine = system.add_agent("VitTiny", "mine", AgentSettings(classes=3, cycle=own))
    assert agent_settings(mine).cycle == own
    for version in ("v9", "v3"):
        with pytest.raises(UsageError, match="version"):
            system.add_agent("VitTiny", "wrong", AgentSettings(classes=3, options={"version": version}))


def test_a_setting_that_is_only_recorded_where_it_is_used_can_be_changed_by_a_system() -> None:
    parents = ParentSettings(temperature=0.5)
    system = System.create(Store.memory(), "zoo", settings=SystemSettings(cycle=CycleSettings(parents=parents)))
    own = agent_settings(system.add_agent("VitTiny", "a", AgentSettings(classes=3))).cycle
    assert own is not None
    assert own.parents.temperature == 0.5


@pytest.mark.parametrize("asked", [0, 1, 3])
def test_first_children_train_all_of_their_parent_with_its_values(asked: int) -> None:
    child = ChildSettings(fine_tuned=asked)
    system = system_of("paper", cycle=small(4, 2, child=child), multi=False)
    run(system)
    system.run(tasks_of(system), 2, executor_of(PathTrainer(system.store)))
    rows = [one for name, one in told(system).items() if name.startswith("VitTiny~a/")]
    rows.sort(key=lambda one: int(one["genome"]["genes"]["number"]))
    assert len(rows) == 8
    for number, row in enumerate(rows):
        decisions = row["details"]["story"]["plan"]["decisions"]
        plain = {(one["action"].partition(":")[0], one["why"]) for one in decisions}
        # What its own agent alone uses is trained without a decision.
        assert (plain <= {("hp", "forbidden"), ("clone", "forced")}) == (number < asked), number
        assert not row["details"]["story"]["plan"]["moves"] or number >= asked


@pytest.mark.parametrize(("fine_tuned", "asked"), [(1, 1), (2, 2)])
def test_the_children_after_those_share_their_parent_s_blocks_and_train_adapters(fine_tuned: int, asked: int) -> None:
    child = ChildSettings(fine_tuned=fine_tuned, adapted=asked, adapter_width=0.5)
    system = System.create(Store.memory(), "zoo")
    root = AgentSettings(classes=0, options={"root": "checkpoint", "checkpoint": "builtin:characters"})
    system.add_root("ConvSmall", "checkpoint", root.model_copy(update={"root": True}))
    system.add_agent("ConvSmall", "a", AgentSettings(classes=3, cycle=small(4, 2, child=child)))
    system.run(system.agents(), 1, executor_of(PathTrainer(system.store)))
    rows = [one for name, one in told(system).items() if name.startswith("ConvSmall~a/")]
    rows.sort(key=lambda one: int(one["genome"]["genes"]["number"]))
    for number, row in enumerate(rows):
        plan = row["details"]["story"]["plan"]
        fates = {part["role"]: part["fate"] for part in plan["components"]}
        adapted = fine_tuned <= number < fine_tuned + asked
        if number < fine_tuned + asked:
            assert row["genome"]["genes"]["structure"].get("adapters", 0) == 0.5 * adapted
        if adapted:
            assert {fate for role, fate in fates.items() if role.startswith("adapter_")} <= {"insert", "clone"}
            assert {fate for role, fate in fates.items() if role.startswith(("encoderblock_", "embedding"))} == {
                "reference"
            }
            assert (fates["encoder_norm"], fates["head"]) in {("clone", "new"), ("clone", "clone")}
            assert not plan["moves"]


@pytest.mark.parametrize(("shift", "unshifted"), [(0.1, 1), (0.1, 2), (0.0, 1)])
def test_the_children_after_the_fine_tuned_ones_move_no_images(shift: float, unshifted: int) -> None:
    moved = {"hyperparameters": {"ds_shift": {"values": [0.0, 0.1], "default": shift}}}
    child = ChildSettings(fine_tuned=1, unshifted=unshifted)
    system = System.create(Store.memory(), "zoo")
    root = AgentSettings(classes=0, options={"root": "checkpoint", "checkpoint": "builtin:characters", **moved})
    system.add_root("ConvSmall", "checkpoint", root.model_copy(update={"root": True}))
    system.add_agent("ConvSmall", "a", AgentSettings(classes=3, options=moved, cycle=small(4, 2, child=child)))
    system.run(system.agents(), 1, executor_of(PathTrainer(system.store)))
    rows = [one for name, one in told(system).items() if name.startswith("ConvSmall~a/")]
    rows.sort(key=lambda one: int(one["genome"]["genes"]["number"]))
    for number, row in enumerate(rows[: 1 + unshifted if shift else 1]):
        genes, plan = row["genome"]["genes"], row["details"]["story"]["plan"]
        assert genes["hparams"]["ds_shift"] == (0.0 if number else shift)
        assert "reference" not in {part["fate"] for part in plan["components"]}
        assert not plan["moves"]
    if not shift:
        plan = rows[1]["details"]["story"]["plan"]
        assert any(one["why"] not in ("forbidden", "forced") for one in plan["decisions"]), "drawn, as without it"


@pytest.mark.parametrize("trained", [True, False])
@pytest.mark.parametrize(("unshifted", "asked"), [(1, 1), (0, 2)])
def test_the_children_after_those_begin_at_random_where_another_path_is_trained(
    unshifted: int, asked: int, trained: bool
) -> None:
    moved = {"hyperparameters": {"ds_shift": {"values": [0.0, 0.1], "default": 0.1}}}
    child = ChildSettings(fine_tuned=1, unshifted=unshifted, from_scratch=asked)
    # One after another, so that the agent has a path of its own when they are planned.
    system = System.create(Store.memory(), "zoo")
    options = {"root": "checkpoint", "checkpoint": "builtin:characters"} if trained else {"root": "random_init"}
    root = AgentSettings(classes=0, options={**options, **moved})
    system.add_root("ConvSmall", str(options["root"]), root.model_copy(update={"root": True}))
    system.add_agent("ConvSmall", "a", AgentSettings(classes=3, options=moved, cycle=small(4, 1, child=child)))
    system.run(system.agents(), 1, executor_of(PathTrainer(system.store)))
    rows = [one for name, one in told(system).items() if name.startswith("ConvSmall~a/")]
    rows.sort(key=lambda one: int(one["genome"]["genes"]["number"]))
    of_first = rows[0]["genome"]["genes"]["hparams"]
    begin = ["fine_tuned", *["unshifted"] * unshifted, *["from_scratch"] * (asked * trained)]
    recorded = [row["details"]["story"].get("begins") for row in rows]
    assert recorded == [*begin, None, None, None][: len(rows)]
    for number, row in enumerate(rows):
        plan, first = row["details"]["story"]["plan"], 1 + unshifted
        fates = {part["fate"] for part in plan["components"]}
        if trained and first <= number < first + asked:
            assert fates == {"new"}
            assert not plan["moves"]
            assert row["genome"]["genes"]["hparams"] == of_first, "its images are moved as the agent's are"
        else:
            assert fates != {"new"}
    assert "from_scratch" not in CycleSettings().model_dump(mode="json")["child"], "records from before stay the same"


def test_convolutional_agents_begin_with_one_child_that_trains_all_and_pay_less_for_size() -> None:
    system = System.create(Store.memory(), "zoo")
    rules = {}
    for kind in ("ConvTiny", "VitTiny"):
        cycle = agent_settings(system.add_agent(kind, "a", AgentSettings(classes=3))).cycle
        assert cycle is not None
        rules[kind] = cycle.child.fine_tuned, cycle.score.scale
    assert rules == {"ConvTiny": (1, 0.995), "VitTiny": (0, 0.98)}, "of transformers they are the paper's"
    assert "fine_tuned" not in CycleSettings().model_dump(mode="json")["child"], "records from before stay the same"


@pytest.mark.parametrize(
    ("kind", "given", "refused"),
    [
        ("ConvSmall", {"child": {"from_scratch": 0}}, "cycle.child.from_scratch = 0 .* ConvSmall their own 1"),
        ("ConvSmall", {"child": {"from_scratch": 2, "unshifted": 0}}, "cycle.child.unshifted = 0 .* their own 1"),
        ("ConvSmall", {"score": {"scale": 0.98}}, "their own 0.995; give it with each task"),
        ("ConvSmall", {"samples": 16}, "their own 8"),
        ("ConvSmall", {"score": {"scale": 0.9}, "samples": 4}, None),
        ("ConvSmall", {"child": {"components": {"head": ["head"]}}}, None),
        ("VitTiny", {"child": {"from_scratch": 0}, "score": {"scale": 0.98}}, None),
    ],
)
def test_a_change_of_a_system_is_that_of_its_agents_or_refused(
    kind: str, given: dict[str, Any], refused: str | None
) -> None:
    settings = validate(SystemSettings, {"cycle": given}, what="settings")
    cycle = whole_settings(AGENTS.get(kind), settings, AgentSettings(classes=3)).cycle
    assert cycle is not None
    # Counts of first children are not written where they are 0.
    whole = merge({"child": {"from_scratch": 0}}, cycle.model_dump(mode="json"))
    if refused is None:
        check_takes_effect(AGENTS.get(kind), settings, given)
        assert merge(whole, given) == whole
        return
    assert merge(whole, given) != whole
    with pytest.raises(UsageError, match=refused):
        check_takes_effect(AGENTS.get(kind), settings, given)
