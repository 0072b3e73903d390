"""A kind of aggregation that a package adds is as good as ours: every verb of the H-Model takes it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from pydantic import Field, ValidationError
from torch import Tensor, nn

from evodevo.experiments.recipe import Comparison, ExperimentSettings
from evodevo.experiments.trials import Variant
from evodevo.growth.replay_run import replay
from evodevo.h_model.aggregations.base import AGGREGATIONS, AggregationSizes, AggregationSpec
from evodevo.h_model.aggregations.module import Aggregation, weighted_sum
from evodevo.h_model.cost import h_model_cost, h_model_parameters
from evodevo.h_model.draw import h_model_drawing
from evodevo.h_model.extension import add_node, remove_node
from evodevo.h_model.model import HModel
from evodevo.h_model.network import HModelNetwork
from evodevo.h_model.recipes.search import HModelSearchSettings
from evodevo.h_model.space import HModelSpace
from evodevo.h_model.space_settings import HModelSpaceSettings
from evodevo.h_model.spec import HModelStructure
from evodevo.module_zoo.modules.genotype_layer import GenotypeLayer
from evodevo.module_zoo.modules.zoo import start_zoo
from evodevo.networks.build import build_network
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.randomness import generator
from evodevo.runs.archive import Run
from evodevo.runs.evolve import begin, resume
from evodevo.runs.recipe import ExecutionSettings
from evodevo.search.settings import StudySettings
from evodevo.testing.networks import CLASS, TEXT, small_batch
from evodevo.testing.small_networks import settings as small_settings
from fixtures.evaluations import Killed

WIDTH = 16


class Echo(Aggregation):
    """X_j = g_j sum_i c_ij (h_i + e_i) / power, where e is 0 for inputs."""

    by_target = ("gain",)
    by_source = ("echo",)

    def __init__(self, sizes: AggregationSizes, power: float) -> None:
        super().__init__()
        self.power = power
        self.gain = nn.Parameter(torch.ones(sizes.targets, 1))
        self.echo = nn.Parameter(torch.randn(sizes.hidden, sizes.width))

    def forward(self, messages: Tensor, weights: Tensor, masks: Tensor | None, *, of_input: bool) -> Tensor:
        named = messages if of_input else messages + self.echo[:, None]
        return weighted_sum(named, weights.to(messages.dtype)) * self.gain[-weights.shape[-1] :, None] / self.power


class EchoAggregation(AggregationSpec):
    """What a package would write."""

    kind: Literal["echo"] = "echo"
    power: float = Field(default=2.0, gt=0)

    def parameters(self, sizes: AggregationSizes) -> int:
        return sizes.targets + sizes.hidden * sizes.width

    def products(self, width: int, length: int, sources: int, targets: int, *, per_position: bool) -> int:
        return 2 * sources * targets * length * width

    def build(self, sizes: AggregationSizes) -> Echo:
        return Echo(sizes, self.power)


@pytest.fixture(autouse=True)
def _row(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("evodevo.experiments.evaluate.look_inside", lambda *_: {})
    AGGREGATIONS.add("echo", EchoAggregation)
    yield
    del AGGREGATIONS._rows["echo"]


def trained_as(*arms: Variant, steps: int = 2) -> ExperimentSettings:
    return ExperimentSettings(
        experiment=Comparison(arms=arms, seeds=1),
        evaluation=small_settings({"training": {"budget": {"steps": steps}}}),
        execution=ExecutionSettings(executor="serial"),
    )


def begun(tmp_path: Path, kind: str, recipe: str, settings: Any, listener: Any = None) -> Run:
    more: dict[str, Any] = {"on_start": None, "cache_folder": tmp_path}
    return begin(kind, recipe, settings, store=tmp_path / "runs", listener=listener, **more)


def structure(**more: Any) -> HModelStructure:
    hidden = (TransformerLayer(heads=2),) * 2
    plain = {"width": WIDTH, "hidden": hidden, "iterations": 2, "input_blocks": 0, "output_blocks": 0}
    return HModelStructure(stream="paper", **{**plain, "aggregation": EchoAggregation(power=3.0), **more})


def model_of(given: HModelStructure) -> HModel:
    model = build_network(HModelNetwork(structure=given), (TEXT,), (CLASS,), 0)
    assert isinstance(model, HModel)
    return model.eval()


def test_files_hold_its_settings_and_its_name_where_they_are_defaults() -> None:
    given = structure()
    assert given.model_dump(mode="json")["aggregation"] == {"kind": "echo", "power": 3.0}
    assert HModelStructure.model_validate_json(given.model_dump_json()) == given
    plain = structure(aggregation="echo")
    assert plain.aggregation == EchoAggregation()
    assert plain.model_dump(mode="json")["aggregation"] == "echo"
    with pytest.raises(ValidationError, match="power"):
        HModelStructure.model_validate_json('{"aggregation": {"kind": "echo", "power": 0.0}}')
    with pytest.raises(ValidationError, match="'attention', 'echo', 'sum'"):
        HModelStructure.model_validate_json('{"aggregation": "other"}')
    assert "aggregation echo" in h_model_drawing(given, title="mine", subtitle="")


def test_what_it_costs_is_what_is_built() -> None:
    given, model = structure(), model_of(structure())
    parts = h_model_parameters(given, (TEXT,), (CLASS,))
    assert parts["aggregation"] == sum(one.numel() for one in model.core.aggregation.parameters()) > 0
    assert sum(parts.values()) == sum(parameter.numel() for parameter in model.parameters())
    attention = structure(aggregation="attention")
    flops = [h_model_cost(one, inputs=(TEXT,), outputs=(CLASS,)).flops for one in (given, attention)]
    assert flops[0] < flops[1]


@torch.no_grad()
def test_its_rows_follow_when_layers_come_and_go() -> None:
    """A layer that is not enabled and one that goes again change no answer; so both tables keep their order."""
    model, batch = model_of(structure()), small_batch((TEXT,), count=4)
    before = model(batch)["answer"]
    add_node(model, TransformerLayer(heads=2), at=1, enabled=False, seed=3)
    assert (len(model.core.aggregation.gain), len(model.core.aggregation.echo)) == (3 + 1, 3)
    assert not model.core.aggregation.echo[1].any()
    torch.testing.assert_close(model(batch)["answer"], before)
    remove_node(model, 1)
    torch.testing.assert_close(model(batch)["answer"], before)


@pytest.mark.slow
def test_it_is_trained_killed_resumed_and_loaded(tmp_path: Path) -> None:
    def die(kind: str, facts: Mapping[str, Any]) -> None:
        if kind == "evaluated":
            raise Killed

    arms = tuple(
        Variant(name=f"power {power:g}", network=HModelNetwork(structure=structure(aggregation=aggregation)))
        for power, aggregation in ((2.0, EchoAggregation()), (3.0, EchoAggregation(power=3.0)))
    )
    with pytest.raises(Killed):
        begun(tmp_path, "train", "h_model.own", trained_as(*arms), die)
    run = resume("last", store=tmp_path / "runs")
    with run.archive:
        assert run.state == "finished"
        powers = [one.load().get_submodule("core.aggregation").power for one in run.individuals()]
        assert sorted(powers) == [2.0, 3.0]  # type: ignore[type-var]


@pytest.mark.slow
def test_it_is_evolved(tmp_path: Path) -> None:
    space = HModelSpaceSettings(
        hidden_range=(1, 2),
        iterations_range=(1, 2),
        layers=("transformer",),
        heads=2,
        aggregations=("sum", "echo"),
        structure=structure(aggregation="sum"),
    )
    genomes, rng = HModelSpace(space), generator(5)
    genome, seen = genomes.sample(rng), set()
    for _ in range(40):
        genome = genomes.mutate(genome, rng)
        genomes.check(genome)
        seen.add(genome.aggregation)
        assert genomes.parse(genomes.print(genome)) == genome
        assert genomes.from_json(json.loads(json.dumps(genomes.to_json(genome)))) == genome
    assert seen == {"sum", "echo"}
    settings = HModelSearchSettings(
        space=space.model_copy(update={"aggregations": ("echo",)}),
        evaluation=small_settings({"training": {"budget": {"steps": 2}}, "objectives": ("error", "executed_flops")}),
        study=StudySettings(population=2, generations=1, confirmations=0, baselines=False),
        execution=ExecutionSettings(executor="serial"),
    )
    run = begun(tmp_path, "evolve", "h_model.small", settings)
    with run.archive:
        assert run.state == "finished"
        assert isinstance(run.individuals()[0].load().get_submodule("core.aggregation"), Echo)


@pytest.mark.slow
def test_it_lives_in_an_h_model_that_grows(tmp_path: Path) -> None:
    hidden = tuple(GenotypeLayer(module=start_zoo(WIDTH)[place]) for place in (1, 2, 5))
    events = {"count": 2, "first": 0.2, "last": 0.7, "warm": 0.2, "horizon": 0.15, "looks": 0}
    prune = {"age": 0, "tolerance": 10.0, "least": 2, "distil_steps": 1}
    options = {"strategist": "random", "events": events, "fitness": {"samples": 8}, "prune": prune}
    network = HModelNetwork(structure=structure(hidden=hidden))
    grown = Variant(name="grown", network=network, procedure="grow", options=options)
    run = begun(tmp_path, "grow", "h_model.own", trained_as(grown, steps=10))
    with run.archive:
        (one,) = run.individuals()
        assert replay(one).is_compared
