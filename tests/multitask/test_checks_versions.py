"""The rules of the other published versions are options; each of them runs."""

from __future__ import annotations

from typing import Any

import pytest

from evodevo.errors import UsageError
from evodevo.multitask.fork import fork
from evodevo.multitask.hyperparameters import MU, Version
from evodevo.multitask.settings import AgentSettings, CycleSettings, SystemSettings
from evodevo.multitask.system import System
from evodevo.settings import validate
from evodevo.storage import Store
from evodevo.testing.multitask.paths import Trainer, executor_of, small, tasks_of, told

VERSIONS: tuple[Version, ...] = ("paper", "v4", "v4b", "v3", "v2", "v1")
SMALL = {"structure": {"width": 8, "heads": 2, "hidden": 8}}


def system_of(version: Version, *, cycle: CycleSettings | None = None, multi: bool = True) -> System:
    settings = SystemSettings(version=version, cycle=cycle or small(8, 4))
    system = System.create(Store.memory(), "zoo", seed=5, settings=settings)
    system.add_root("VitTiny", "random_init", AgentSettings(classes=0, options=SMALL))
    for kind in ("VitTiny", "MultiVitTiny") if multi else ("VitTiny",):
        for task in ("a", "b"):
            system.add_agent(kind, task, AgentSettings(classes=3))
    return system


def run(system: System, cycles: int = 1) -> list[dict[str, Any]]:
    system.run(tasks_of(system), cycles, executor_of(Trainer(system.store)))
    rows = [one for name, one in told(system).items() if name.startswith("VitTiny~a/")]
    return sorted(rows, key=lambda one: int(one["genome"]["genes"]["number"]))


SLOW = [one if one == "v1" else pytest.param(one, marks=pytest.mark.slow) for one in VERSIONS]


@pytest.mark.parametrize("version", SLOW)
def test_every_published_version_runs(version: Version) -> None:
    system = system_of(version, cycle=small(4, 2))
    run(system)
    assert set(system.view().offers) == {one.name for one in system.agents()}
    for one in tasks_of(system):
        settings = validate(AgentSettings, one.settings, what="settings")
        assert settings.options.get("version", "paper") == version
        assert settings.cycle is not None
        assert (settings.cycle.samples, settings.cycle.generation_size) == (4, 2), "a system changes what it names"
    distinct = {c.id: c.parameters for one in system.view().offers.values() for c in one.components}
    assert sum(system.accounts().values()) == pytest.approx(sum(distinct.values()))


@pytest.mark.slow
def test_versions_differ_where_appendix_a_says() -> None:
    found = {version: run(system_of(version, multi=False), 2) for version in VERSIONS}

    def data(one: dict[str, Any]) -> dict[str, Any]:
        genes = one["genome"]["genes"]
        return {key: value for key, value in genes["hparams"].items() if key.startswith("ds_")}

    for version, rows in found.items():
        generations = [rows[place : place + 4] for place in range(0, 16, 4)]
        shared = all(data(one) == data(siblings[0]) for siblings in generations for one in siblings)
        assert shared == (version != "paper"), version
        reaches = {one["details"]["keep"] == "reaches" for one in rows}
        assert reaches == {version in ("v3", "v2")}
        entries = {len(one["genome"]["genes"]["mu"]) > 1 for one in rows}
        if version in ("v3", "v4"):
            assert entries == {True}, "every action has its entry at once"
        elif version in ("v1", "v2"):
            assert entries == {False}, "one rate for all"
    first = found["v1"][0]
    assert {part["role"] for part in first["details"]["parts"] if part["train"]} == {"head"}, "tried without mutation"
    assert {one["genome"]["genes"]["mu"][MU] for one in found["v1"]} == {0.1}
    assert any("residual_adapter" in part["role"] for one in found["v3"] for part in one["details"]["parts"])
    assert not any("residual_adapter" in part["role"] for one in found["v4"] for part in one["details"]["parts"])


def test_what_is_told_goes_before_a_version_and_an_agent_before_its_system() -> None:
    system = System.create(Store.memory(), "zoo", settings=SystemSettings(version="v3", training={"batch": 64}))
    other = system.add_agent("VitTiny", "other", AgentSettings(classes=3, options={"version": "v4b"}))
    plain = system.add_agent("VitTiny", "plain", AgentSettings(classes=3, training={"validations": 7}))
    large = system.add_agent("Vit", "large", AgentSettings(classes=3))
    ours = system.add_agent("VitTiny", "ours", AgentSettings(classes=3, options={"version": "paper"}))
    whole = {one.name: validate(AgentSettings, one.settings, what="s") for one in (other, plain, large, ours)}
    cycles = {name: one.cycle or CycleSettings() for name, one in whole.items()}
    assert [one.population.cap for one in cycles.values()] == [4, None, 16, 5]
    assert [one.retained for one in cycles.values()] == [4, 1, 1, 1]
    assert [one.training["batch"] for one in whole.values()] == [64] * 4
    assert (
        whole[plain.name].training | {"keep": "reaches", "validations": 7, "most_between": 51_200}
        == whole[plain.name].training
    )
    assert "keep" not in whole[ours.name].training
    own = CycleSettings(samples=2, generation_size=2)
    mine = system.add_agent("VitTiny", "mine", AgentSettings(classes=3, cycle=own))
    assert validate(AgentSettings, mine.settings, what="s").cycle == own
    with pytest.raises(UsageError, match="version"):
        system.add_agent("VitTiny", "wrong", AgentSettings(classes=3, options={"version": "v9"}))


def test_reaching_the_bar_is_one_rule_for_workers_records_and_words() -> None:
    """Every child is as good as its parent, and just as large: it is kept where reaching is enough."""
    fates = {}
    for keep in ("above", "reaches"):
        settings = SystemSettings(cycle=small(8, 2), training={"keep": keep})
        system = System.create(Store.memory(), "zoo", seed=5, settings=settings)
        fixed = {"num_layers": {"values": [1], "default": 1}, "ds_image_size": {"values": [16], "default": 16}}
        system.add_root("VitTiny", "random_init", AgentSettings(classes=0, options={**SMALL, "hyperparameters": fixed}))
        system.add_agent("VitTiny", "a", AgentSettings(classes=3, options={"hyperparameters": fixed}))
        trainer = Trainer(system.store)
        trainer.accuracy = lambda path, seed, step: 2 / 3
        system.run(tasks_of(system), 2, executor_of(trainer))
        rows = [one for name, one in told(system).items() if name.startswith("VitTiny~a/")]
        alike = [
            one
            for one in rows
            if one["details"]["bar"] is not None
            and one["results"][0][2]["score"] == pytest.approx(one["details"]["bar"], rel=1e-12)
        ]
        assert alike
        fates[keep] = {one["results"][0][4] for one in alike}
    assert fates == {"above": {"discarded"}, "reaches": {"kept"}}


@pytest.mark.slow
def test_a_copy_of_a_system_of_another_version_is_the_system() -> None:
    system = system_of("v3", cycle=small(4, 2))
    run(system)
    assert told(fork(system, "copy"))["publications"] == told(system)["publications"]
