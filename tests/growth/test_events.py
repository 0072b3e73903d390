"""Every edit of a growth is an event in the store: once, whatever interruptions there are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evodevo.experiments.recipe import Comparison, ExperimentSettings
from evodevo.experiments.trials import Variant
from evodevo.module_zoo.modules.zoo import start_zoo
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.spec import ZooRouterStructure, ZooStructure
from evodevo.runs.archive import Archive, Run
from evodevo.runs.evolve import resume
from evodevo.runs.recipe import RECIPES, Recipe, by_size
from evodevo.runs.train import experiment
from evodevo.settings import merge
from evodevo.testing.small_networks import settings

SERIAL: dict[str, Any] = {"execution": {"executor": "serial"}}
OPTIONS: dict[str, Any] = {
    "strategist": "random",
    "events": {"count": 3, "first": 0.2, "last": 0.7, "warm": 0.1, "horizon": 0.1},
    "fitness": {"samples": 24},
    "prune": {"age": 0, "distil_steps": 2, "tolerance": 10.0, "least": 2},
}


class Killed(BaseException):
    """As kill -9."""


def made(size: Any) -> ExperimentSettings:
    structure = ZooStructure(width=16, modules=start_zoo(16)[:4], router=ZooRouterStructure(heads=2))
    arm = Variant(
        name="growing", network=ModuleZooNetwork(structure=structure), procedure="grow", options=OPTIONS, role="zoo"
    )
    training = {"budget": {"steps": 20}, "checkpoint_every": 3}
    return ExperimentSettings(
        experiment=Comparison(arms=(arm,), learning_rates=(1e-2,)), evaluation=settings({"training": training})
    )


@pytest.fixture(scope="module", autouse=True)
def _recipe() -> Iterator[None]:
    RECIPES.add(
        "module_zoo.testing_events", Recipe("module_zoo.testing_events", "for tests", ("train",), by_size(made))
    )
    yield
    del RECIPES._rows["module_zoo.testing_events"]


def told(run: Run) -> list[dict[str, Any]]:
    return [dict(one.payload) for one in run.archive.store.events(run.id) if one.type == "growth"]


def growth(run: Run) -> dict[str, Any]:
    (one,) = run.individuals()
    found: dict[str, Any] = merge(one.fact["growth"], {"overhead": {"seconds": 0, "seconds_share": 0}})
    return found


@pytest.mark.slow
def test_edits_are_events_and_a_kill_changes_nothing(tmp_path: Path) -> None:
    whole = experiment("module_zoo.testing_events", overrides=SERIAL, store=tmp_path / "whole")
    events = told(whole)
    assert [one["name"] for one in events] == [
        f"{what} {number}" for number in (1, 2, 3) for what in ("event", "reward")
    ]
    edits = [
        {name: value for name, value in edit.items() if name != "tensors"}
        for one in events
        for edit in one.get("event", {}).get("edits", ())
    ]
    assert edits == growth(whole)["edits"]
    assert all(set(one) >= {"action", "seed", "before", "after"} for one in edits)
    named = [source for one in events for edit in one.get("event", {}).get("edits", ()) for source in edit["tensors"]]
    assert named
    pool = whole.archive.store.blobs
    assert all(pool.size(source["digest"]) for source in named if source.get("digest"))

    parts, shown = tmp_path / "parts", 0

    def die(kind: str, facts: dict[str, Any]) -> None:
        nonlocal shown
        if kind == "progress" and "growth" in facts:
            shown += 1
            if shown in (1, 3):
                raise Killed

    with pytest.raises(Killed):
        experiment("module_zoo.testing_events", overrides=SERIAL, store=parts, listener=die)
    with pytest.raises(Killed):
        resume("last", store=parts, listener=die)
    last = resume("last", store=parts)
    assert told(last) == events
    assert growth(last) == growth(whole)
    with Archive(parts) as archive:
        assert archive.store.check(deep=True).ok
