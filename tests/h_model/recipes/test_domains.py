"""The arms of the recipe of many domains: who is in it, and that they cost alike."""

from __future__ import annotations

from typing import Any

import torch

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


def test_every_arm_runs_about_two_blocks_for_an_answer() -> None:
    task = DomainsTask.open(
        DomainsSettings.model_validate({"domains": 96, "samples": {"train": 8, "validation": 8, "test": 8}})
    )
    batch = {name: torch.from_numpy(array) for name, array in task.batch("train", 0, 0, 8).items()}
    ends = 2 * 32 * (task.inputs[0].size + 16)
    two_blocks = 2 * 4 * 32 * 32
    for arm in arms("full"):
        network = build_network(arm.network, task.inputs, task.outputs, seed=0).eval()
        with torch.no_grad(), counting(network) as counter:
            network(batch)
        blocks = (counter.flops / 8 - ends) / two_blocks
        assert (0.5 < blocks < 1.85) != (arm.name in DEARER), (arm.name, blocks)


def test_layers_of_half_the_units_are_as_many_parameters() -> None:
    task = DomainsTask.open(DomainsSettings())
    one, two = (
        next(arm.network.cost(inputs=task.inputs, outputs=task.outputs) for arm in arms("full") if name in arm.name)
        for name in ("top-1", "top-2")
    )
    assert 0 < two.parameters - one.parameters < 0.1 * one.parameters
