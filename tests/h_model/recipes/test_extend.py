"""The arms of the recipe of a fourth domain: who is in it, and that the carried stream differs in nothing else."""

from __future__ import annotations

import pytest

from evodevo.experiments.recipe import ExperimentSettings
from evodevo.experiments.trials import Variant
from evodevo.h_model.network import structure_of_h_model
from evodevo.h_model.procedures.extend_procedure import ExtendSettings
from evodevo.runs.recipe import Baselines, Size
from evodevo.runs.resolve import resolve
from evodevo.settings import validate

CARRIED = "H-Model, carried stream"


def arms(size: Size = "quick", baselines: Baselines | None = None) -> tuple[Variant, ...]:
    settings = resolve("h_model.extend", size=size, driver="train", baselines=baselines, overrides={})
    assert isinstance(settings, ExperimentSettings)
    return settings.experiment.arms


@pytest.mark.parametrize("size", ["quick", "full"])
def test_baselines_are_chosen(size: Size) -> None:
    bare, usual, every = ([arm.name for arm in arms(size, one)] for one in ("none", "quick", "all"))
    assert [arm.name for arm in arms(size)] == (usual if size == "quick" else every)
    assert every[: len(usual)] == usual
    assert usual[: len(bare)] == bare
    assert all(name.startswith("H-Model") for name in bare)
    assert "Tr(I+H+O)" in usual
    assert "constant c = 0.5" in usual
    assert not [name for name in usual if name.startswith(CARRIED)]
    assert ("input-independent" in every) == (size == "full")
    assert len(set(every)) == len(every)


@pytest.mark.parametrize("size", ["quick", "full"])
def test_arms_of_the_carried_stream_are_those_of_the_papers(size: Size) -> None:
    every = {arm.name: arm for arm in arms(size, "all")}
    named = [name for name in every if name.startswith(CARRIED)]
    assert {name.removeprefix(CARRIED) for name in named} == {"", ", layers of its own", ", all fine-tuned", ", fixed"}
    for name in named:
        arm, twin = every[name], every[name.replace(CARRIED, "H-Model")]
        assert arm.options == twin.options
        validate(ExtendSettings, arm.options, what=name)
        ours, theirs = structure_of_h_model(arm.network), structure_of_h_model(twin.network)
        assert ours is not None
        assert theirs is not None
        assert (ours.stream, theirs.stream) == ("carried", "paper")
        assert ours.regularisation.balance == 0.02
        changed = {"stream": "paper", "regularisation": theirs.regularisation}
        assert ours.model_copy(update=changed) == theirs
