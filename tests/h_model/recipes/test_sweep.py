"""``h_model.sweep``: each sweep varies what it says, beside its controls; anything else is refused in words."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from evodevo.errors import UsageError
from evodevo.experiments.recipe import ExperimentSettings
from evodevo.h_model.recipes.sweep import ALPHAS, RATES, SWEEPS, SweepSettings
from evodevo.h_model.spec import HModelStructure
from evodevo.runs.resolve import resolve


def swept(over: str, size: str = "full") -> ExperimentSettings:
    settings = resolve("h_model.sweep", size=size, driver="train", overrides={"sweep": {"over": over}})
    assert isinstance(settings, ExperimentSettings)
    return settings


def arms(over: str, name: str) -> list[tuple[dict[str, Any], Any]]:
    """(cell, structure) of the arms of that name, in the full size."""
    return [(arm.cell, arm.network.structure) for arm in swept(over).experiment.arms if arm.name == name]  # type: ignore[attr-defined]


def test_alpha_crosses_alphas_with_rates_and_anneals() -> None:
    grid = arms("alpha", "H-Model, alpha")
    assert [(cell["alpha"], cell["rate"]) for cell, _ in grid] == list(product(ALPHAS, RATES))
    assert all((model.alpha, model.alpha_rate) == (cell["alpha"], cell["rate"]) for cell, model in grid)
    annealed = arms("alpha", "H-Model, annealed")
    assert [(model.alpha, model.alpha_end) for _, model in annealed] == [(1.0, 0.1), (3.0, 0.1)]
    assert [probe.name for probe in swept("alpha").evaluation.probes] == ["top-1", "top-2", "c above 0.5"]


def test_depth_has_stacks_of_as_many_blocks_with_and_without_residuals() -> None:
    deep = arms("depth", "H-Model, deep")
    assert [model.iterations for _, model in deep] == [cell["T"] for cell, _ in deep] == [1, 2, 6, 8, 12, 16]
    for name, residual in (("stack", True), ("stack without residuals", False)):
        stacks = arms("depth", name)
        assert [len(stack.layers) for _, stack in stacks] == [len(model.hidden) * model.iterations for _, model in deep]
        assert all(stack.residual == residual for _, stack in stacks)
    ((_, random),) = arms("depth", "H-Model, random T")
    assert (random.regularisation.iterations_min, random.regularisation.iterations_max) == (2, 8)
    assert [probe.iterations for probe in swept("depth").evaluation.probes] == [2, 8, 16]


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        ("H-Model, equal routers", [("transformer", None)] * 3 + [("convolution", None)] * 3),
        (
            "H-Model, channel routers of convolutions",
            [("transformer", None)] * 3 + [("convolution", "channel")] * 3,
        ),
        ("H-Model, transformers alone", [("transformer", None)] * 6),
        ("H-Model, convolutions alone", [("convolution", None)] * 6),
    ],
)
def test_mixture_has_both_kinds_of_layers_with_equal_and_unequal_routers_and_each_alone(
    name: str, layers: list[tuple[str, str | None]]
) -> None:
    ((_, model),) = arms("mixture", name)
    assert isinstance(model, HModelStructure)
    assert [(layer.kind, layer.router) for layer in model.hidden] == layers
    assert swept("mixture").evaluation.task == "image_text"


def test_stream_has_the_same_layers_in_both() -> None:
    printed, carried = arms("stream", "H-Model, paper's stream"), arms("stream", "H-Model, carried stream")
    assert [len(model.hidden) for _, model in printed] == [cell["H"] for cell, _ in printed] == [2, 4]
    assert [(len(model.hidden), model.carried.m) for _, model in carried] == [(2, 1), (2, 2), (4, 1), (4, 2), (4, 4)]
    layers = {len(model.hidden): model.hidden for _, model in printed}
    for cell, model in carried:
        assert (model.stream, model.iterations, model.hidden) == ("carried", 4, layers[int(cell["H"])])
    assert {model.stream for _, model in printed} == {"paper"}


def test_what_it_sweeps_is_one_of_four_and_alpha_unless_chosen() -> None:
    assert list(SWEEPS) == SweepSettings.model_json_schema()["properties"]["over"]["enum"]
    plain = resolve("h_model.sweep", driver="train", overrides={})
    assert plain == swept("alpha", "quick")
    assert len({swept(over).experiment.title for over in SWEEPS}) == len(SWEEPS)  # type: ignore[attr-defined]
    for part, words in (
        ({"over": "width"}, "over: input should be 'alpha', 'depth', 'mixture' or 'stream', got 'width'"),
        ({"under": 1}, "unknown key 'under'; known: over"),
        ("depth", "sweep is a table of settings"),
    ):
        with pytest.raises(UsageError, match=words):
            resolve("h_model.sweep", driver="train", overrides={"sweep": part})
    with pytest.raises(UsageError, match="leave --baselines out"):
        resolve("h_model.sweep", driver="train", overrides={}, baselines="all")
