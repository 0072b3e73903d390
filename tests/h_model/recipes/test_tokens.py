"""The arms of the recipe of routes for tokens: who is in it, and that they cost alike."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from evodevo.experiments.flop_counter import counting
from evodevo.experiments.recipe import ExperimentSettings
from evodevo.experiments.trials import Variant
from evodevo.networks.build import build_network
from evodevo.runs.recipe import Baselines, Size
from evodevo.runs.resolve import resolve
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec

TEXT = InputSpec("text", "tokens", length=64, vocabulary=256)
NEXT = OutputSpec("next", "tokens", 256, of="text")


def arms(size: Size = "quick", baselines: Baselines | None = None, **changes: Any) -> tuple[Variant, ...]:
    settings = resolve("h_model.tokens", size=size, driver="train", baselines=baselines, overrides=changes)
    assert isinstance(settings, ExperimentSettings)
    return settings.experiment.arms


def test_baselines_are_chosen() -> None:
    bare, usual, every = ([arm.name for arm in arms("quick", one)] for one in ("none", "quick", "all"))
    assert [arm.name for arm in arms()] == usual
    assert [arm.name for arm in arms("full")] == every
    assert every[: len(usual)] == usual
    assert usual[: len(bare)] == bare
    assert "Switch, four mixtures" in set(usual) - set(bare)


@pytest.mark.parametrize("size", ["quick", "full"])
def test_every_arm_costs_a_token_about_as_much(size: Size) -> None:
    """What an answer executes, counted, is that of the stack of five within a tenth, and what is stated is no less."""
    batch = {"text": torch.randint(256, (1, TEXT.length), generator=torch.Generator().manual_seed(0))}
    executed = {}
    for arm in arms(size, "all"):
        network = build_network(arm.network, (TEXT,), (NEXT,), seed=0).eval()
        with torch.no_grad(), counting(network) as counter:
            network(batch)
        executed[arm.name] = counter.flops
        assert counter.flops <= 1.02 * arm.network.cost(inputs=(TEXT,), outputs=(NEXT,)).executed_flops
    usual = executed["stack of five"]
    assert all(0.9 < flops / usual < 1.1 for flops in executed.values()), executed


def test_what_routes_has_as_many_parameters() -> None:
    costs = {arm.name: arm.network.cost(inputs=(TEXT,), outputs=(NEXT,)) for arm in arms("quick", "all")}
    own = costs["H-Model, carried stream, top-1"]
    for name in ("Switch, four mixtures", "three blocks and two Switch mixtures"):
        assert costs[name].parameters == pytest.approx(own.parameters, rel=0.02)
