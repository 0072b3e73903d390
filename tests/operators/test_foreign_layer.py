"""A kind of layer that a package adds is as good as ours: every verb that the table of layers serves takes it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
import torch
from pydantic import Field, ValidationError
from torch import Tensor, nn

from evodevo.cli.application import run as command
from evodevo.experiments.recipe import Comparison, ExperimentSettings
from evodevo.experiments.trials import Variant
from evodevo.growth.replay_run import replay
from evodevo.h_model.cost import h_model_parameters
from evodevo.h_model.draw import h_model_drawing
from evodevo.h_model.network import HModelNetwork
from evodevo.h_model.recipes.search import HModelSearchSettings
from evodevo.h_model.space import HModelSpace
from evodevo.h_model.space_settings import HModelSpaceSettings
from evodevo.h_model.spec import HModelStructure
from evodevo.module_zoo.modules.build import build_module
from evodevo.module_zoo.modules.cost import genotype_parameters
from evodevo.module_zoo.modules.genotype_layer import GenotypeLayer
from evodevo.module_zoo.modules.nodes.base import BUILT_IN as NODE_TYPES
from evodevo.module_zoo.modules.nodes.layer import LayerNode
from evodevo.module_zoo.modules.spec import ModuleGenotype, ModuleGraph
from evodevo.module_zoo.modules.vector import ACTIVATIONS, VECTOR_SIZE, genotype_vector
from evodevo.module_zoo.modules.zoo import mutated_nodes, start_zoo
from evodevo.multitask.paths.text.spec import TextStructure
from evodevo.networks.stacks.spec import StackStructure
from evodevo.networks.stacks.stack import StackNetwork, stack_cost
from evodevo.operators.base import Operator, Output
from evodevo.operators.block import Block
from evodevo.operators.cost import Work
from evodevo.operators.layers.base import LAYERS, LayerSizes, LayerSpec
from evodevo.operators.layers.cost import layer_parameters
from evodevo.operators.layers.lstm import LSTMLayer
from evodevo.operators.layers.mlp import MLPLayer
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.randomness import generator
from evodevo.runs.evolve import begin, resume
from evodevo.runs.recipe import ExecutionSettings
from evodevo.search.settings import StudySettings
from evodevo.settings import validate
from evodevo.testing.layers import LayerCase, LayerTests
from evodevo.testing.small_networks import settings as small_settings

WIDTH = 16


class Squash(Operator):
    """y = g tanh(r x), a gain g for each channel."""

    causal = True
    streamable = True

    def __init__(self, width: int, reach: float) -> None:
        super().__init__()
        self.reach = reach
        self.gain = nn.Parameter(torch.randn(width))

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        shared: Mapping[str, Any] | None = None,
        state: dict[str, Any] | None = None,
    ) -> Output:
        """(B, S, d) -> (B, S, d)."""
        return Output(self.gain * (self.reach * x).tanh(), {}, state)

    def initial_state(self, batch: int, max_length: int, dtype: torch.dtype, device: torch.device) -> dict[str, Any]:
        """Nothing is kept."""
        return {}


class SquashLayer(LayerSpec):
    """What a package would write."""

    kind: Literal["squash"] = "squash"
    reach: float = Field(default=1.0, gt=0)

    kind_family: ClassVar[str] = "memoryless"

    def own_parameters(self, width: int, causal: bool) -> int:
        return 2 * width

    def own_work(self, width: int, length: int, *, causal: bool, visible: bool) -> Work:
        return Work(0, 2 * length * width)

    def build(self, width: int, *, causal: bool, residual: bool) -> Operator:
        return Block(Squash(width, self.reach), width, residual=residual)

    def sizes(self, width: int) -> str:
        return f"reach {self.reach:g}"

    @classmethod
    def sized(cls, sizes: LayerSizes) -> SquashLayer:
        return cls()

    def mutated(self, width: int, rng: np.random.Generator, chance: float) -> LayerSpec:
        return self.model_copy(update={"reach": 2 * self.reach}) if rng.random() < chance else self


@pytest.fixture(autouse=True)
def _row() -> Iterator[None]:
    LAYERS.add("squash", SquashLayer)
    yield
    del LAYERS._rows["squash"]


HIDDEN: tuple[LayerSpec, ...] = (SquashLayer(), TransformerLayer(heads=2), SquashLayer(reach=0.5, width=8))


@pytest.fixture
def structure() -> HModelStructure:
    """An H-Model with two of them."""
    return HModelStructure(stream="paper", width=WIDTH, hidden=HIDDEN, iterations=2, input_blocks=0, output_blocks=0)


class TestSquash(LayerTests):
    @pytest.fixture(params=[(None, False), (None, True), (8, True)], ids=str)
    def case(self, request: pytest.FixtureRequest) -> LayerCase:
        width, causal = request.param
        return LayerCase(SquashLayer(width=width), WIDTH, causal)


def test_a_field_of_layers_takes_it_from_json_and_gives_it_back(structure: HModelStructure) -> None:
    again = HModelStructure.model_validate_json(structure.model_dump_json())
    assert again == structure
    assert type(again.hidden[0]) is SquashLayer
    assert again.model_dump(mode="json") == structure.model_dump(mode="json")
    assert again.model_dump(mode="json")["hidden"][2]["reach"] == 0.5


def test_its_settings_are_as_strict_as_ours() -> None:
    with pytest.raises(ValidationError) as error:
        HModelStructure.model_validate_json('{"hidden": [{"kind": "squash", "reach": "far", "depth": 1}]}')
    places = [item["loc"] for item in error.value.errors()]
    assert places[:2] == [("hidden", 0, "squash", "reach"), ("hidden", 0, "squash", "depth")]


def test_who_is_no_row_is_refused() -> None:
    class OtherLayer(SquashLayer):
        kind: Literal["other"] = "other"  # type: ignore[assignment]

    with pytest.raises(ValidationError, match=r"expected tags: 'convolution', .*'squash'"):
        HModelStructure(stream="paper", hidden=(OtherLayer(),))
    with pytest.raises(ValidationError, match="'other'"):
        HModelStructure.model_validate_json('{"hidden": [{"kind": "other"}]}')


@pytest.mark.slow
def test_it_is_trained_killed_resumed_loaded_priced_and_shown(
    structure: HModelStructure, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Killed(BaseException):
        """As kill -9."""

    def die(kind: str, facts: Mapping[str, Any]) -> None:
        if kind == "evaluated":
            raise Killed

    stack = StackStructure(width=WIDTH, layers=HIDDEN, input_blocks=0, output_blocks=0)
    arms = (
        Variant(name="H-Model", network=HModelNetwork(structure=structure)),
        Variant(name="stack", network=StackNetwork(structure=stack)),
    )
    settings = ExperimentSettings(
        experiment=Comparison(arms=arms, seeds=1),
        evaluation=small_settings({"training": {"budget": {"steps": 3}}}),
        execution=ExecutionSettings(executor="serial"),
    )
    more: dict[str, Any] = {"on_start": None, "cache_folder": tmp_path}
    with pytest.raises(Killed):
        begin("train", "h_model.own", settings, store=tmp_path / "runs", listener=die, **more)
    run = resume("last", store=tmp_path / "runs")
    with run.archive:
        assert run.state == "finished"
        found = run.individuals()
        assert len(found) == 2
        for one in found:
            network = one.load()
            assert sum(isinstance(module, Squash) for module in network.modules()) == 2
            assert sum(parameter.numel() for parameter in network.parameters()) == one.fact["parameters"]
        names = [one.id for one in found]
    page = tmp_path / "page.html"
    for words in (["show", names[0]], ["show", names[1]], ["report", "last", "-o", str(page)]):
        assert command([*words, "--store", str(tmp_path / "runs")]) == 0, capsys.readouterr().err
    assert "squash" in page.read_text()


def test_it_has_a_price(structure: HModelStructure) -> None:
    with_adapters = 2 * 8 + (2 * WIDTH * 8 + WIDTH + 8)
    transformer = layer_parameters(TransformerLayer(heads=2), WIDTH, causal=False)
    assert h_model_parameters(structure)["hidden"] == 2 * WIDTH + transformer + with_adapters
    stack = StackStructure(width=WIDTH, layers=HIDDEN * 2, input_blocks=0, output_blocks=0)
    assert stack_cost(stack, length=8).parameters == 2 * h_model_parameters(structure)["hidden"]


def test_a_drawing_names_it(structure: HModelStructure) -> None:
    drawing = h_model_drawing(structure, title="mine", subtitle="")
    assert "squash" in drawing
    assert "reach 0.5" in drawing


@pytest.mark.slow
def test_it_is_evolved(structure: HModelStructure, tmp_path: Path) -> None:
    space = HModelSpaceSettings(
        hidden_range=(1, 3),
        iterations_range=(1, 2),
        layers=("squash", "transformer"),
        custom={"loud": SquashLayer(reach=3.0)},
        heads=2,
        structure=structure,
    )
    genomes, rng = HModelSpace(space), generator(5)
    genome = genomes.sample(rng)
    seen = set()
    for _ in range(40):
        genome = genomes.mutate(genome, rng)
        genomes.check(genome)
        seen |= set(genome.layers)
        assert genomes.from_json(json.loads(json.dumps(genomes.to_json(genome)))) == genome
    assert seen == {"squash", "transformer", "loud"}
    settings = HModelSearchSettings(
        space=space,
        evaluation=small_settings({"training": {"budget": {"steps": 2}}, "objectives": ("error", "executed_flops")}),
        study=StudySettings(population=2, generations=2, confirmations=0, baselines=False),
        execution=ExecutionSettings(executor="serial"),
    )
    more: dict[str, Any] = {"listener": None, "on_start": None, "cache_folder": tmp_path}
    run = begin("evolve", "h_model.small", settings, store=tmp_path / "runs", **more)
    with run.archive:
        assert run.state == "finished"
        evolved = [one for one in run.individuals() if {"squash", "loud"} & set(one.genome.layers)]
        assert evolved
        assert any(isinstance(module, Squash) for module in evolved[0].load().modules())


@pytest.mark.slow
def test_it_lives_in_an_h_model_that_grows(structure: HModelStructure, tmp_path: Path) -> None:
    _, mlp, _, _, _, squeeze = start_zoo(WIDTH)
    hidden = (SquashLayer(), GenotypeLayer(module=mlp), SquashLayer(width=8), GenotypeLayer(module=squeeze))
    events = {"count": 2, "first": 0.2, "last": 0.7, "warm": 0.2, "horizon": 0.15, "looks": 0}
    prune = {"age": 0, "tolerance": 10.0, "least": 2, "distil_steps": 1}
    options = {"strategist": "random", "events": events, "fitness": {"samples": 8}, "prune": prune}
    arm = Variant(
        name="grown",
        network=HModelNetwork(structure=structure.model_copy(update={"hidden": hidden})),
        procedure="grow",
        options=options,
    )
    settings = ExperimentSettings(
        experiment=Comparison(arms=(arm,), seeds=1),
        evaluation=small_settings({"training": {"budget": {"steps": 12}}}),
        execution=ExecutionSettings(executor="serial"),
    )
    more: dict[str, Any] = {"listener": None, "on_start": None, "cache_folder": tmp_path}
    run = begin("grow", "h_model.own", settings, store=tmp_path / "runs", **more)
    with run.archive:
        (one,) = run.individuals()
        done = replay(one)
        assert done.is_compared
        assert {"squash-0", "squash-2"} <= set(done.start)


def test_it_is_a_node_of_a_module() -> None:
    node = LayerNode(id="soft", layer=SquashLayer())
    graph = ModuleGraph(nodes=(node,), edges=(("in", "soft"), ("soft", "out")))
    genotype = ModuleGenotype(archetype="hybrid", width=WIDTH, graph=graph)
    assert ModuleGenotype.model_validate_json(genotype.model_dump_json()) == genotype
    built = build_module(genotype, seed=1)
    assert genotype_parameters(genotype) == sum(parameter.numel() for parameter in built.parameters()) == 2 * WIDTH
    assert len(genotype_vector(genotype)) == VECTOR_SIZE
    classic = graph.model_copy(update={"nodes": (LayerNode(id="soft", layer=MLPLayer()),)})
    counted, other = (
        genotype_vector(ModuleGenotype(archetype="hybrid", width=WIDTH, graph=one))
        for one in (classic, graph.model_copy(update={"nodes": (LayerNode(id="soft", layer=LSTMLayer()),)}))
    )
    kinds = slice(2 * len(NODE_TYPES) + len(ACTIVATIONS), -2 * 7 - 9)
    assert genotype_vector(genotype)[kinds] == counted[kinds] != other[kinds]
    (mutant,) = mutated_nodes(graph, WIDTH, generator(1), 100.0).nodes
    assert mutant == LayerNode(id="soft", layer=SquashLayer(reach=2.0))


def test_it_is_a_block_of_a_path() -> None:
    sizes = {"width": WIDTH, "heads": 2, "hidden": 16, "layers": 2, "length": 8}
    values = {**sizes, "blocks": {"encoderblock_1": {"kind": "squash", "reach": 2.0}}}
    structure = validate(TextStructure, values, what="path")
    assert structure.block("encoderblock_1") == SquashLayer(reach=2.0)
    assert validate(TextStructure, structure.model_dump(mode="json"), what="path") == structure
    plain = validate(TextStructure, sizes, what="path")
    assert structure.block("encoderblock_0") == plain.plain_block
