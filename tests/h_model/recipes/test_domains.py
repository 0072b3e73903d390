"""The arms of the recipe of many domains: who is in it, and that they cost alike."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from evodevo.errors import UsageError
from evodevo.experiments.flop_counter import counting
from evodevo.experiments.recipe import ExperimentSettings
from evodevo.experiments.trials import Variant
from evodevo.networks.build import build_network
from evodevo.runs.recipe import Baselines, Size
from evodevo.runs.resolve import resolve
from evodevo.tasks.reasoning.domains import DomainsSettings, DomainsTask

DEARER = ("H-Model, paper's stream, top-1 in use", "stack of eight")
"""Arms that run more than two blocks for an answer, and are said to."""


def arms(size: Size = "quick", baselines: Baselines | None = None, **changes: Any) -> tuple[Variant, ...]:
    settings = resolve("h_model.domains", size=size, driver="train", baselines=baselines, overrides=changes)
    assert isinstance(settings, ExperimentSettings)
    return settings.experiment.arms


def names(*chosen: Any) -> list[str]:
    return [arm.name for arm in arms(*chosen)]


def test_baselines_are_chosen() -> None:
    bare, usual, every = (names("quick", one) for one in ("none", "quick", "all"))
    assert names("quick") == usual
    assert names("full") == [*every, "stack of eight"]
    assert usual == [*bare, "mixture of experts in a loop, top-1"]
    assert every[: len(usual)] == usual
    kinds = [arm.network.kind for arm in arms("quick", "all")]
    assert set(kinds) == {"h_model", "stack", "mixture", "hyper_connections", "recursion"}


@pytest.mark.parametrize(
    ("layer", "block", "most"),
    [("mlp", 4 * 32 * 32, 1.85), ("transformer", 4 * 32 * 32 + 8 * 32 * 32 + 4 * 32, 1.35)],
)
def test_every_arm_runs_about_two_blocks_for_an_answer(layer: str, block: int, most: float) -> None:
    task = DomainsTask.open(
        DomainsSettings.model_validate({"domains": 96, "samples": {"train": 8, "validation": 8, "test": 8}})
    )
    batch = {name: torch.from_numpy(array) for name, array in task.batch("train", 0, 0, 8).items()}
    ends = 2 * 32 * (task.inputs[0].size + 16)
    for arm in arms("full", blocks={"layer": layer}):
        network = build_network(arm.network, task.inputs, task.outputs, seed=0).eval()
        with torch.no_grad(), counting(network) as counter:
            network(batch)
        blocks = (counter.flops / 8 - ends) / (2 * block)
        assert (0.5 < blocks < most) != (arm.name in DEARER), (arm.name, blocks)


@pytest.mark.parametrize("layer", ["mlp", "transformer"])
def test_twice_the_half_layers_are_as_many_parameters(layer: str) -> None:
    task = DomainsTask.open(DomainsSettings())
    one, two = (
        next(
            arm.network.cost(inputs=task.inputs, outputs=task.outputs)
            for arm in arms("full", blocks={"layer": layer})
            if name in arm.name
        )
        for name in ("carried stream, top-1", "carried stream, top-2")
    )
    assert 0 < two.parameters - one.parameters < 0.1 * one.parameters


def test_wide_experts_are_as_many_parameters_as_layers_with_attention() -> None:
    task = DomainsTask.open(DomainsSettings())
    costs = {
        arm.name: arm.network.cost(inputs=task.inputs, outputs=task.outputs)
        for arm in arms("quick", "all", blocks={"layer": "transformer"})
    }
    routed, wide = costs["H-Model, carried stream, top-1"], costs["mixture of wide experts in a loop, top-1"]
    assert 0.95 < wide.parameters / routed.parameters < 1.0
    assert 0.95 < wide.executed_flops / routed.executed_flops < 1.0


def test_all_arms_are_built_of_the_chosen_layer() -> None:
    for arm in arms("full", blocks={"layer": "transformer"}):
        structure = arm.network.structure
        if arm.network.kind == "mixture":
            assert structure.heads == (None if "wide" in arm.name else 4)
        else:
            kinds = {layer.kind for layer in getattr(structure, "layers", None) or structure.hidden}
            assert kinds == {"transformer"}
    assert arms(blocks={"layer": "mlp"}) == arms()
    with pytest.raises(UsageError, match="'mlp' or 'transformer'"):
        arms(blocks={"layer": "lstm"})
