"""Recipes of multitask systems: made once, gone on with, read when they are finished.

Arms differ as they say; variants of multipath agents begin alike, cost alike, and are compared in pairs.
"""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from evodevo import canonical
from evodevo.errors import NotFoundError, UsageError
from evodevo.execution.serial import SerialExecutor
from evodevo.experiments.paired import holm, paired_p
from evodevo.multitask.comparison.compared import courses_of
from evodevo.multitask.comparison.joint import joint_root
from evodevo.multitask.comparison.results import RecipeResult
from evodevo.multitask.comparison.runner import run_recipe
from evodevo.multitask.comparison.systems import RecipeSession, Spent
from evodevo.multitask.comparison.target import target_of, target_words
from evodevo.multitask.recipes.settings import FlatPlan
from evodevo.multitask.recipes.variants import ROOTS
from evodevo.multitask.recorded import deciding
from evodevo.multitask.schedule import is_joint, is_root
from evodevo.multitask.system import System
from evodevo.multitask.transfer.table import recorded
from evodevo.storage import Store

SMALL: dict[str, Any] = {
    "system": {
        "tasks": [
            {"name": "digits", "source": {"batch": 256}},
            {"name": "upper", "source": {"question": "upper_half", "batch": 256}},
        ],
        "root": {"name": "parity", "source": {"question": "parity", "batch": 256}},
        "agent": {
            "kind": "VitTiny",
            "structure": {"patch": 4, "width": 8, "hidden": 8},
            "hyperparameters": {"num_layers": {"values": [1, 2], "default": 1}},
        },
    },
    "study": {"cycles": 1, "extra": 1, "cycle": {"samples": 1, "generation_size": 1}},
    "evaluation": {"training": {"validations": 1, "most_between": 256, "least_between": 1}, "root_validations": 2},
}
Compared = tuple[Path, RecipeResult]
Finished = tuple[Path, RecipeResult, list[tuple[str, dict[str, Any]]]]
VARIANTS = [
    {"name": "full"},
    {"name": "no_router", "structure": {"aggregation": "sum"}},
    {"name": "forced", "first": "upper"},
    {"name": "singlepath", "agent": "singlepath"},
    {"name": "head", "agent": "head"},
]
COMPARED = {"targets": ["digits"], "variants": VARIANTS}


def recipe(name: str, folder: Path, overrides: dict[str, Any], **given: Any) -> RecipeResult:
    with SerialExecutor() as executor:
        settings = {**SMALL, **overrides}
        folders: dict[str, Any] = {"store": folder / "runs", "cache_folder": folder / "cache"}
        return run_recipe(name, overrides=settings, executor=executor, **folders, **given)


def characters(folder: Path, **given: Any) -> RecipeResult:
    return recipe("multitask.characters", folder, given.pop("more", {}), **given)


def multipath(folder: Path, compared: dict[str, Any]) -> RecipeResult:
    return recipe("multitask.multipath", folder, {"compared": compared, "study": {**SMALL["study"], "copies": 2}})


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder, heard = tmp_path_factory.mktemp("characters"), []
    result = characters(folder, listener=lambda kind, facts: heard.append((kind, facts)))
    return folder, result, heard


@pytest.mark.slow
def test_all_arms_see_equally_many_samples_and_all_tasks_are_measured(finished: Finished) -> None:
    _, result, _ = finished
    assert result.state == "finished"
    arms = {one["arm"]: one for one in result.document["arms"]}
    assert set(arms) == {"scratch", "fine_tuning", "frozen", "singlepath"}
    seen = {one["samples_seen"] for one in arms.values()}
    assert seen == {result.document["planned_samples"]} == {2 * 256}
    for one in arms.values():
        assert set(one["tasks"]) == {"digits", "upper"}
        assert one["accuracy"] == pytest.approx(sum(task["accuracy"] for task in one["tasks"].values()) / 2)
    assert result.document["root"]["samples_seen"] == 2 * 256
    canonical.loads(canonical.dumps(result.document))
    assert len(result.csv.splitlines()) == 1 + 4 * 2
    assert result.document["root"]["cpu_seconds"] > 0
    (table,) = [one for name, one in result.tables.items() if "Test accuracy" in name]
    shown = {row[0]: dict(zip(table.columns, row, strict=True))["CPU minutes"] for row in table.rows}
    assert shown == {f"({one['letter']}) {one['title']}": f"{one['cpu_seconds'] / 60:.1f}" for one in arms.values()}
    lines = list(csv.DictReader(io.StringIO(result.csv)))
    for name, one in arms.items():
        told = sum(float(line["cpu_seconds"]) for line in lines if line["arm"] == name)
        assert one["cpu_seconds"] > 0
        assert one["cpu_seconds"] == pytest.approx(told)


@pytest.mark.slow
def test_cpu_seconds_of_an_arm_are_those_of_its_children_and_of_their_probes(tmp_path: Path) -> None:
    cycle = {**SMALL["study"]["cycle"], "parents": {"fallback": "probed"}}
    more = {"study": {"cycles": 2, "cycle": cycle}, "compared": {"arms": ["singlepath"]}}
    result = characters(tmp_path, more=more)
    (arm,) = result.document["arms"]
    children, probes = 0.0, 0.0
    with Store.open(tmp_path / "runs") as store:
        system = System.open(store, f"{result.label}.singlepath.0")
        for agent in (one for one in system.agents() if not is_root(one)):
            results = store.systems.evaluations_of([row.id for row in store.individuals(agent.id)])
            answers = [one.extra.get("answer", {}) for of_one in results.values() for one in of_one]
            children += sum(answer.get("cpu_seconds", 0.0) for answer in answers)
            table = recorded(store, agent.id)
            assert table is not None
            probes += table.cpu_seconds or 0.0
    assert min(children, probes) > 0
    assert arm["cpu_seconds"] == pytest.approx(children + probes)


def test_what_one_child_did_not_say_is_not_said_of_an_arm() -> None:
    known, unknown = Spent(1, 0, 10, 2.0, 1.5), Spent(1, 1, 0, 1.0, None)
    assert (known + known).cpu_seconds == 3
    assert (known + unknown).cpu_seconds is (unknown + known).cpu_seconds is None
    assert (known + unknown).seconds == 3


@pytest.mark.slow
def test_what_every_cycle_published_is_measured_and_drawn(finished: Finished) -> None:
    folder, result, _ = finished
    found = result.document["curves"]
    arms = {f"({one['letter']}) {one['title']}": one for one in result.document["arms"]}
    assert set(found) == set(arms)
    for name, one in found.items():
        (test,), (validation,) = one["test"], one["validation"]
        assert len(test) == len(validation) == 1, "cycles"
        assert test[-1] == pytest.approx(arms[name]["accuracy"])
        assert validation[-1] == pytest.approx(arms[name]["validation_accuracy"])
    with Store.open(folder / "runs") as store:
        for one in store.systems.systems():
            published = {row.path_id for row in store.systems.publications(one.id) if row.path_id is not None}
            rows = store.systems.evaluations_of(published)
            looks = [sum(row.fidelity == "test" for row in rows[name]) for name in published]
            assert max(looks) <= 1, "test data are looked at once"
    text = result.page
    assert "Validation and test accuracy over cycles" in text
    for name in arms:
        assert name in text, name
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org", ""), "it is one file"


@pytest.mark.slow
def test_the_plan_is_told_before_anything_is_made(finished: Finished) -> None:
    _, _, heard = finished
    assert heard[0][0] == "plan"
    assert heard[0][1]["children"] == 1 + 4 * 2
    assert heard[0][1]["seconds"] > 0


@pytest.mark.slow
def test_arms_share_what_they_may(finished: Finished) -> None:
    folder, result, _ = finished
    label = result.label
    with Store.open(folder / "runs") as store:
        shared, sizes = {}, {}
        for arm in ("scratch", "fine_tuning", "frozen", "singlepath"):
            system = System.open(store, f"{label}.{arm}.0")
            roots = [one for one in system.agents() if is_root(one)]
            root = system.view().offers[roots[0].name]
            ours = {part.id for part in root.components}
            paths = [one for name, one in system.view().offers.items() if name != roots[0].name]
            shared[arm] = [{part.role for part in one.components if part.id in ours} for one in paths]
            sizes[arm] = [sum(part.parameters for part in one.components) for one in paths]
            assert root.parameters == result.document["root"]["parameters"]
    assert shared["scratch"] == shared["fine_tuning"] == [set(), set()]
    for roles in shared["frozen"]:
        assert roles == {"embedding", "cls", "posembed_input", "encoderblock_0"}, "all but the norm and the head"
    arms = {one["arm"]: one for one in result.document["arms"]}
    root_size = result.document["root"]["parameters"]
    assert arms["scratch"]["parameters"] == sum(sizes["scratch"])
    assert arms["fine_tuning"]["parameters"] == root_size + sum(sizes["fine_tuning"])
    assert arms["frozen"]["parameters"] < arms["fine_tuning"]["parameters"]
    assert arms["fine_tuning"]["share"] == 1
    target = result.document["target"]
    assert target["difference"] == pytest.approx(arms["singlepath"]["accuracy"] - arms["fine_tuning"]["accuracy"])
    assert target["not_inferior"] is target["low"] is target["high"] is None, "one copy has no interval"
    share = arms["singlepath"]["share"]
    assert target["share"] == share
    assert target["reached"] == (target["difference"] > 0 and share <= 0.53)
    assert target["stretch"] == (target["difference"] > 0 and share <= 0.265)


ABOVE = ((0.910, 0.911, 0.916), (0.905, 0.903, 0.909))
AROUND = ((0.90, 0.92, 0.91), (0.91, 0.90, 0.905))


@pytest.mark.parametrize(
    ("accuracies", "share", "reached", "stretch", "not_inferior"),
    [
        (ABOVE, 0.54, False, False, True),
        (ABOVE, 0.53, True, False, True),
        (ABOVE, 0.305, True, False, True),
        (ABOVE, 0.265, True, True, True),
        (AROUND, 0.2, True, True, False),
        (ABOVE[::-1], 0.2, False, False, False),
        (((0.909, 0.908), (0.910, 0.909)), 0.2, False, False, True),
        (((0.91,), (0.90,)), 0.2, True, True, None),
    ],
)
def test_the_target_allows_53_percent_of_the_parameters_and_the_stretch_goal_half_of_that(
    accuracies: Any, share: float, reached: bool, stretch: bool, not_inferior: bool | None
) -> None:
    target = target_of(*accuracies, share, share / 0.9)
    assert (target["reached"], target["stretch"], target["not_inferior"]) == (reached, stretch, not_inferior)
    assert (target["allowed_share"], target["stretch_share"]) == (0.53, 0.265)
    words = target_words("e", target)
    assert words.startswith("target reached" if reached else "target not reached")
    assert ("and the stretch goal:" in words) == stretch
    assert f"it has {100 * share:.1f} % of its parameters per task (at most 53.0 %, stretch goal 26.5 %)" in words
    assert ("so it is not inferior by more than 0.5 points" in words) == (not_inferior is True)
    assert ("which may be inferior by more than 0.5 points" in words) == (not_inferior is False)


@pytest.mark.slow
def test_a_finished_recipe_is_read_and_nothing_is_trained(finished: Finished, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, result, _ = finished

    monkeypatch.setattr(SerialExecutor, "submit", lambda *_: pytest.fail("a worker was asked for"))
    again = characters(folder)
    assert again == result


@pytest.mark.slow
def test_other_settings_have_other_systems(finished: Finished) -> None:
    folder, result, _ = finished
    other = characters(folder, more={"compared": {"arms": ["frozen"]}})
    assert other.label != result.label
    assert [one["arm"] for one in other.document["arms"]] == ["frozen"]
    assert other.document["target"] is None
    assert characters(folder, workers=7).label == result.label, "workers decide nothing"


@pytest.mark.slow
def test_whoever_stops_goes_on_and_finds_the_same(finished: Finished, tmp_path: Path) -> None:
    _, whole, _ = finished
    sessions: list[RecipeSession] = []
    children, stops = 0, 0

    def hear(kind: str, facts: dict[str, Any]) -> None:
        nonlocal children
        children += kind == "child"
        if kind == "child" and children % 3 == 0:
            sessions[-1].stop()

    while (result := characters(tmp_path, listener=hear, on_start=sessions.append)).state == "interrupted":
        stops += 1
        assert stops < 10
    assert stops >= 2
    for one in ("accuracy", "validation_accuracy", "parameters", "samples_seen", "tasks"):
        assert [arm[one] for arm in result.document["arms"]] == [arm[one] for arm in whole.document["arms"]], one
    assert result.document["differences"] == whole.document["differences"]


JOINED = {"study": {**SMALL["study"], "cycles": 2}, "compared": {"arms": ["fine_tuning", "joint"]}}


@pytest.mark.slow
def test_a_root_that_all_tasks_train_takes_the_place_of_half_of_the_cycles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_root: list[int] = []

    def noted(course: Any, system: Any, tasks: Any, samples: int) -> None:
        of_root.append(samples)
        joint_root(course, system, tasks, samples)

    monkeypatch.setattr("evodevo.multitask.comparison.characters.joint_root", noted)
    sessions: list[RecipeSession] = []
    plans: list[dict[str, Any]] = []
    children = 0

    def hear(kind: str, facts: dict[str, Any]) -> None:
        nonlocal children
        plans.extend([facts] if kind == "plan" else [])
        children += kind == "child"
        if kind == "child" and children in (6, 7):  # a joint root, and the first agent that begins with it
            sessions[-1].stop()

    stops = 0
    while (result := characters(tmp_path, more=JOINED, listener=hear, on_start=sessions.append)).state != "finished":
        stops += 1
    assert stops == 2
    assert set(of_root) == {result.document["planned_samples"]}, "its half, and that of children that train nothing"
    arms = {one["arm"]: one for one in result.document["arms"]}
    # Ten looks at least, so that a root of so few samples has steps of its own beyond its half.
    rounded = 10 * 64
    assert arms["fine_tuning"]["samples_seen"] == result.document["planned_samples"]
    assert abs(arms["joint"]["samples_seen"] - result.document["planned_samples"]) <= rounded
    assert (arms["fine_tuning"]["children"], arms["joint"]["children"]) == (4, 3)
    assert [plan["children"] for plan in plans] == [1 + 4 + 1 + 2, 2, 1]
    with Store.open(tmp_path / "runs") as store:
        system = System.open(store, f"{result.label}.joint.0")
        roots = [agent for agent in system.agents() if is_root(agent)]
        assert [is_joint(agent) for agent in roots] == [False, True]
        options = roots[1].settings["options"]
        assert [one["name"] for one in options["together"]] == ["digits", "upper"]
        found = system.view().offers
        shared = {part.id for part in found[roots[1].name].components}
        for name in ("digits", "upper"):
            parts = found[f"VitTiny~{name}"].components
            assert {part.id for part in parts} < shared, "its one child is the root and its head"
        cpu = sum(course_of_agent(store, agent.id) for agent in system.agents() if agent.name != roots[0].name)
        assert arms["joint"]["cpu_seconds"] == pytest.approx(cpu), "its root's among them"
        distinct = {part.id: part.parameters for offer in found.values() for part in offer.components}
        assert arms["joint"]["parameters"] == sum(distinct.values()), "both roots' among them"
    target = result.document["joint_target"]
    assert target["difference"] == pytest.approx(arms["joint"]["accuracy"] - arms["fine_tuning"]["accuracy"])
    assert any("(e) is" in words for words in result.notes)


def course_of_agent(store: Store, agent: str) -> float:
    results = store.systems.evaluations_of([row.id for row in store.individuals(agent)])
    decided = [deciding(of_one) for of_one in results.values()]
    probes = recorded(store, agent)
    own = 0.0 if probes is None else probes.cpu_seconds or 0.0
    return own + sum(one.extra["answer"]["cpu_seconds"] for one in decided if one is not None)


def test_an_arm_that_the_cycles_have_no_room_for_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"takes half of the cycles; give study\.cycles = 2"):
        characters(tmp_path, more={"compared": {"arms": ["joint"]}})
    assert not (tmp_path / "runs").exists(), "nothing was made"


def test_data_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="mnist10k"):
        run_recipe("multitask.characters", store=tmp_path / "runs", overrides={"data": str(tmp_path)})
    assert not (tmp_path / "runs").exists(), "nothing was made"


def test_recipes_of_other_commands_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="serves evolve"):
        run_recipe("backbone.demo", store=tmp_path / "runs")


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    folder = tmp_path_factory.mktemp("multipath")
    return folder, multipath(folder, COMPARED)


@pytest.mark.slow
def test_every_variant_has_its_row_and_the_same_budget(compared: Compared) -> None:
    _, result = compared
    document = result.document
    canonical.loads(canonical.dumps(document))
    rows = {one["variant"]: one["targets"] for one in document["variants"]}
    assert list(rows) == ["base", *(one["name"] for one in VARIANTS)]
    for name, targets in rows.items():
        assert len(targets["digits"]["copies"]) == 2
        assert targets["digits"]["accuracy"] == pytest.approx(np.mean(targets["digits"]["copies"]))
        assert targets["mean"]["copies"] == targets["digits"]["copies"], "of one target it is that target"
        seen = targets["digits"]["samples_seen"]
        assert seen == (0 if name == "base" else 2 * document["planned_samples"][name]["digits"])
    assert rows["full"]["digits"]["p"] is None
    assert 0 < rows["full"]["digits"]["main_weight"] < 1
    assert rows["full"]["digits"]["of"] == 2
    for name in ("no_router", "singlepath", "head"):
        assert rows[name]["digits"]["main_weight"] is None, "there is no router"
    assert {one["control"] for one in document["controls"]} == {"singlepath", "head", "base"}
    means = {one["control"]: one for one in document["controls"] if one["target"] == "mean"}
    for name, one in means.items():
        gap = np.mean(rows["full"]["mean"]["copies"]) - np.mean(rows[name]["mean"]["copies"])
        assert one["mean"] == pytest.approx(gap)
        assert one["low"] <= one["mean"] <= one["high"]
    claimed = [means[name]["p"] for name in ("singlepath", "head")]
    assert [means[name]["adjusted"] for name in ("singlepath", "head")] == holm(claimed)
    assert "adjusted" not in means["base"]
    assert len(result.csv.splitlines()) == 1 + 2 * (1 + len(VARIANTS))


@pytest.mark.slow
def test_variants_continue_the_same_systems(compared: Compared) -> None:
    folder, result = compared
    with Store.open(folder / "runs") as store:
        for seed in (0, 1):
            base = System.open(store, f"{result.label}.base.{seed}")
            before = base.recorded()
            for variant in VARIANTS:
                system = System.open(store, f"{result.label}.{variant['name']}.{seed}")
                assert system.recorded()[: len(before)] == before
                assert len(system.recorded()) == len(before) + 1
            forced = System.open(store, f"{result.label}.forced.{seed}").view().offers["MultiVitTiny~digits"]
            assert forced.path.paths[1].agent == "VitTiny~upper"
            head = System.open(store, f"{result.label}.head.{seed}").view().offers["VitTiny~digits.head"]
            main = base.view().offers["VitTiny~digits"]
            theirs = {part.role: part.id for part in main.components}
            new = [part.role for part in head.components if part.id != theirs[part.role]]
            assert new == ["head"], "all but the head is the main path's"
        digests = [System.open(store, f"{result.label}.base.{seed}").view().offers for seed in (0, 1)]
        assert digests[0]["VitTiny~digits"].components[0].digest != digests[1]["VitTiny~digits"].components[0].digest


@pytest.mark.slow
def test_a_page_names_what_paths_were_chosen_by(compared: Compared) -> None:
    _, result = compared
    assert "validation accuracy, higher" in result.page
    other = replace(result, chosen_by="likelihood").page
    assert "validation likelihood, higher" in other
    assert "validation accuracy" not in other


FEW_TARGET = {
    "name": "digits_few",
    "source": {"batch": 16, "few": {"train": 4, "validation": 4}},
    "reads": ["upper"],
    "training": {"steps": 8, "objective": "likelihood"},
}
FLAT: dict[str, Any] = {
    "system": {
        **SMALL["system"],
        "tasks": [{**SMALL["system"]["tasks"][1], "reads": []}, FEW_TARGET],
    },
    "study": {**SMALL["study"], "copies": 2, "flat": {"cycles": 1, "rise": 0.0, "most": 3}},
    "compared": {
        "targets": ["digits_few"],
        "variants": [{"name": "full", "extra": 2}, {"name": "singlepath", "agent": "singlepath"}],
    },
}


@pytest.mark.slow
def test_targets_run_until_validation_is_flat_and_variants_go_on_from_there(tmp_path: Path) -> None:
    sessions: list[RecipeSession] = []
    children = 0

    def hear(kind: str, facts: dict[str, Any]) -> None:
        nonlocal children
        children += kind == "child"
        if kind == "child" and children % 4 == 0:
            sessions[-1].stop()

    while (
        result := recipe("multitask.multipath", tmp_path, FLAT, listener=hear, on_start=sessions.append)
    ).state == "interrupted":
        assert len(sessions) < 20
    assert len(sessions) > 1
    assert "validation likelihood, higher" in result.page, "by which its children were selected"
    whole = recipe("multitask.multipath", tmp_path / "whole", FLAT)
    assert result.document["controls"] == whole.document["controls"]
    draws = set()
    with Store.open(tmp_path / "runs") as store:
        for seed in (0, 1):
            base = System.open(store, f"{result.label}.base.{seed}")
            agents = {one.name: one for one in base.agents()}
            target, other = agents["VitTiny~digits_few"], agents["VitTiny~upper"]
            courses = courses_of(base, target)
            assert FlatPlan(cycles=1, rise=0.0, most=3).ends(courses)
            assert not FlatPlan(cycles=1, rise=0.0, most=3).ends(courses[:-1])
            assert len(courses_of(base, other)) == 1
            assert target.settings["training"]["steps"] == 8
            assert set(target.settings["builds_on"]) == {ROOTS, target.name, other.name}
            assert set(other.settings["builds_on"]) == {ROOTS, other.name}, "it reads no other task"
            draws.add(target.settings["task"]["few"]["draw"])
            full = System.open(store, f"{result.label}.full.{seed}")
            multi = next(one for one in full.agents() if one.name == "MultiVitTiny~digits_few")
            assert len(courses_of(full, multi)) == 2, "so many further cycles"
            single = System.open(store, f"{result.label}.singlepath.{seed}")
            again = next(one for one in single.agents() if one.name == target.name)
            assert len(courses_of(single, again)) == len(courses) + 1
    assert draws == {0, 1}, "each copy has other samples"
    planned = result.document["planned_samples"]
    assert planned["full"]["digits_few"] == 2 * planned["singlepath"]["digits_few"] == 2 * 8 * 16
    rows = {one["variant"]: one["targets"]["digits_few"] for one in result.document["variants"]}
    assert rows["singlepath"]["samples_seen"] == 2 * 8 * 16


def test_p_is_that_of_a_paired_test_and_silent_where_nothing_varies() -> None:
    ours, theirs = [0.8, 0.82, 0.79, 0.85], [0.78, 0.81, 0.79, 0.8]
    gaps = np.asarray(ours) - np.asarray(theirs)
    t = gaps.mean() / (gaps.std(ddof=1) / 2)
    assert paired_p(ours, theirs) == pytest.approx(2 * stats.t.sf(abs(t), 3))
    assert paired_p([0.5], [0.4]) is None
    assert paired_p([0.5, 0.6], [0.4, 0.5]) is None


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"targets": ["digits", "nobody"], "variants": VARIANTS}, "nobody"),
        ({"targets": ["digits"], "variants": VARIANTS, "reference": "none"}, "none"),
        ({"targets": ["digits"], "variants": [*VARIANTS, {"name": "other", "first": "who"}]}, "who"),
    ],
)
def test_unknown_names_are_refused_before_anything_is_made(more: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        multipath(tmp_path, compared=more)
    assert not (tmp_path / "runs").exists()
