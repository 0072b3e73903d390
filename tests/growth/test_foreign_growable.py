"""A kind of network that a package adds can grow by one row: procedure, caps, replay and report ask it alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest

from evodevo.errors import UsageError
from evodevo.experiments.recipe import Comparison, ExperimentSettings
from evodevo.growth.growable import GROWABLES
from evodevo.growth.recipes.growing import FIXED, growing_arms
from evodevo.growth.replay_run import replay
from evodevo.growth.report.reading import grown_network
from evodevo.growth.spec import GrowthSettings
from evodevo.growth.zoo.growable import GrowableZoo
from evodevo.module_zoo.cost import zoo_cost
from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.modules.zoo import start_zoo
from evodevo.module_zoo.spec import ZooRouterStructure, ZooStructure
from evodevo.networks.spec import NETWORKS, NetworkSpec
from evodevo.operators.cost import Cost
from evodevo.runs.evolve import begin
from evodevo.runs.recipe import ExecutionSettings
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec
from evodevo.testing.small_networks import settings as small_settings

WIDTH = 16
EVENTS = {"count": 2, "first": 0.2, "last": 0.7, "warm": 0.2, "horizon": 0.15, "looks": 0}
OPTIONS = {
    "events": EVENTS,
    "fitness": {"samples": 8},
    "prune": {"age": 0, "tolerance": 10.0, "least": 2, "distil_steps": 1},
    "allow": ["spawn"],
}


class CrewNetwork(NetworkSpec):
    """What a package would write: a kind of its own, which is no ``ModuleZooNetwork``."""

    kind: Literal["crew"] = "crew"
    structure: ZooStructure
    structure_cost: ClassVar[Callable[..., Cost]] = staticmethod(zoo_cost)

    def describe(self) -> list[str]:
        return ["A crew."]

    def build(self, inputs: tuple[InputSpec, ...], outputs: tuple[OutputSpec, ...]) -> ModuleZoo:
        return ModuleZoo(self.structure, inputs, outputs)


class GrowableCrew(GrowableZoo):
    """The row by which it grows; it refuses what a crew has not."""

    plural = "crews"
    role = "other"

    def check(self, growth: GrowthSettings) -> None:
        if growth.birth.inheritance == "split":
            raise UsageError("a crew does not split.")


@pytest.fixture(autouse=True)
def _rows() -> Iterator[None]:
    NETWORKS.add("crew", CrewNetwork)
    GROWABLES.add("crew", GrowableCrew)
    yield
    del NETWORKS._rows["crew"]
    del GROWABLES._rows["crew"]


def crew() -> CrewNetwork:
    return CrewNetwork(
        structure=ZooStructure(width=WIDTH, router=ZooRouterStructure(heads=2), modules=start_zoo(WIDTH)[:3])
    )


def grown_run(folder: Path, **options: Any) -> Any:
    arms = tuple(
        plan if plan.name == FIXED else plan.model_copy(update={"options": {**plan.options, **OPTIONS, **options}})
        for plan in growing_arms(crew(), ("random",))
    )
    assert {arm.role for arm in arms} == {"other"}
    settings = ExperimentSettings(
        experiment=Comparison(arms=arms, seeds=1, reference=FIXED),
        evaluation=small_settings({"training": {"budget": {"steps": 12}}}),
        execution=ExecutionSettings(executor="serial"),
    )
    more: dict[str, Any] = {"listener": None, "on_start": None, "cache_folder": folder}
    return begin("grow", "module_zoo.own", settings, store=folder / "runs", **more)


@pytest.mark.slow
def test_it_grows_and_its_growth_is_replayed(tmp_path: Path) -> None:
    run = grown_run(tmp_path)
    with run.archive:
        (one,) = [each for each in run.individuals() if each.genome.name != FIXED]
        born = set(one.fact["growth"]["modules"]) - {module.id for module in crew().structure.modules}
        assert born
        network = grown_network(one)
        assert type(network) is CrewNetwork
        assert {module.id for module in network.structure.modules} == set(one.fact["growth"]["modules"])
        assert replay(one).is_compared


def test_its_row_refuses_settings_before_anything_is_trained(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a crew does not split"):
        grown_run(tmp_path, birth={"inheritance": "split"})
