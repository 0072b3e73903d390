"""The opponents of a zoo: who they are, that they are as large as the zoo, and that they share its senses."""

from __future__ import annotations

from typing import get_args

import pytest

from evodevo.errors import UsageError
from evodevo.module_zoo.baselines.ensemble import ModuleEnsembleNetwork
from evodevo.module_zoo.baselines.network import BaselineNetwork
from evodevo.module_zoo.baselines.spec import FusionStyle
from evodevo.module_zoo.modules.zoo import start_zoo, table_3_zoo
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.recipes.baselines import ANSWER, IMAGE, QUICK, STYLES, TEXT, matched, opponents
from evodevo.module_zoo.spec import ZooRouterStructure, ZooStructure
from evodevo.networks.mixtures.spec import MixtureStyle
from evodevo.networks.spec import NetworkSpec
from evodevo.networks.towers.spec import ExtractorStructure
from evodevo.tasks.inputs import InputSpec

STRUCTURE = ZooStructure(
    width=64, modules=start_zoo(64), extractor=ExtractorStructure(blocks=1), dropout=0.2, missing=False
)
TASKS = {"image and text": (IMAGE, TEXT), "text": (TEXT,), "vector": (InputSpec("facts", "vector", size=12),)}


def parameters(network: NetworkSpec, inputs: tuple[InputSpec, ...]) -> int:
    cost = network.cost(inputs=inputs, outputs=(ANSWER,))
    return cost.parameters + cost.embedding_parameters


def test_every_opponent_of_the_specification_is_there() -> None:
    arms = opponents(STRUCTURE, "all")
    searches = [arm.procedure for arm in arms if arm.procedure != "train"]
    assert searches == ["best_single", "darts", "enas", "random_pools"]
    styles = [arm.network.structure.style for arm in arms if isinstance(arm.network, BaselineNetwork)]
    assert styles == [*get_args(FusionStyle), *get_args(MixtureStyle)]
    assert sum(isinstance(arm.network, ModuleEnsembleNetwork) for arm in arms) == 1
    kinds = [arm.network.structure.router.kind for arm in arms if isinstance(arm.network, ModuleZooNetwork)]
    assert {"mean", "mlp_gate"} < set(kinds)
    assert len({arm.name for arm in arms}) == len(arms) == 18
    assert {arm.role for arm in arms} == {"zoo", "opponent", "control"}
    quick = opponents(STRUCTURE, "quick")
    assert len(quick) == len(QUICK) == 5
    assert all(arm in arms for arm in quick)
    assert opponents(STRUCTURE, "none") == ()
    with pytest.raises(UsageError, match="quick"):
        opponents(STRUCTURE, "quik")


@pytest.mark.parametrize(("width", "task"), list(zip((32, 64, 96), TASKS, strict=True)))
@pytest.mark.parametrize("style", STYLES)
def test_networks_are_as_large_as_the_zoo(style: FusionStyle | MixtureStyle, width: int, task: str) -> None:
    inputs = TASKS[task]
    zoo = ZooStructure(width=width, modules=start_zoo(width), extractor=ExtractorStructure(blocks=1))
    spec = BaselineNetwork(structure=matched(style, zoo, inputs, (ANSWER,)))
    wanted = parameters(ModuleZooNetwork(structure=zoo), inputs)
    assert abs(parameters(spec, inputs) - wanted) <= 0.1 * wanted


@pytest.mark.parametrize("style", STYLES)
def test_networks_share_what_is_not_theirs(style: FusionStyle | MixtureStyle) -> None:
    found = matched(style, STRUCTURE)
    assert (found.width, found.extractor, found.dropout, found.missing) == (64, STRUCTURE.extractor, 0.2, False)
    assert found.experts == len(STRUCTURE.live)


def test_a_tower_is_not_opened_to_plan_a_run() -> None:
    """The matched sizes leave the shared extractors out: a folder may be missing until the run begins."""
    tower = ExtractorStructure(kind="hugging_face", path="/nowhere/at/all")
    found = matched("switch", STRUCTURE.model_copy(update={"extractors": {"text": tower}}))
    assert found.extractors == {"text": tower}
    assert found.hidden == matched("switch", STRUCTURE).hidden


def test_a_zoo_is_not_its_own_opponent_and_seeds_choose_the_random_one() -> None:
    names = {arm.name for arm in opponents(STRUCTURE, "all")}
    paper = STRUCTURE.model_copy(update={"modules": table_3_zoo(64), "router": ZooRouterStructure(kind="mean")})
    assert names - {arm.name for arm in opponents(paper, "all")} == {"fixed zoo of Table 3", "mean of all modules"}

    def pool(seed: int) -> object:
        (arm,) = (arm for arm in opponents(STRUCTURE, "all", seed) if arm.name == "random zoo")
        return arm.network.structure.modules

    assert pool(0) == pool(0)
    assert pool(0) != pool(1)
