"""A kind of node that a package adds is as good as a built-in one, from its JSON to a zoo that grows with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pytest
import torch
from pydantic import Field, ValidationError
from torch import Tensor, nn

from evodevo.experiments.evaluate import evaluate_network
from evodevo.experiments.trials import Trial
from evodevo.growth.spec import BirthSettings
from evodevo.growth.zoo.birth import ModuleParent, inherit, rebuild, same_nodes
from evodevo.growth.zoo.splice import splice
from evodevo.module_zoo.draw import module_drawing
from evodevo.module_zoo.modules.attributes import Factor, Kind
from evodevo.module_zoo.modules.build import build_module
from evodevo.module_zoo.modules.families import ARCHETYPES, Archetype, family_of
from evodevo.module_zoo.modules.nodes.base import NODES, SIZE, JoinNode, NodeSpec
from evodevo.module_zoo.modules.nodes.base_model import WholeSequence
from evodevo.module_zoo.modules.nodes.inheritance import Map, Match, affine_matches, leading, repeated
from evodevo.module_zoo.modules.nodes.joins import SumNode
from evodevo.module_zoo.modules.repair import repair_graph
from evodevo.module_zoo.modules.spec import INPUT, OUTPUT, ModuleGraph, ZooModule
from evodevo.module_zoo.modules.vector import genotype_vector
from evodevo.module_zoo.modules.zoo import archetype, mutate, random_zoo, start_zoo, with_lineage, words
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.settings import ModuleZooSpaceSettings
from evodevo.module_zoo.space import ModuleZooSpace
from evodevo.module_zoo.spec import ZooRouterStructure, ZooStructure
from evodevo.networks.saved import load_network
from evodevo.operators.base import Operator
from evodevo.operators.cost import Work
from evodevo.randomness import generator
from evodevo.storage.blobs import FolderPool
from evodevo.testing.small_networks import problem
from evodevo.testing.zoo_modules import NodeTests, assert_runs
from evodevo.training.parts import part_digest

WIDTH = 16


class GLUNode(NodeSpec):
    """A gated linear unit at each position, (W1 z) sigmoid(W2 z) mapped back."""

    type: Literal["glu"] = "glu"
    hidden: int = Field(default=6, ge=1, le=1 << 16)

    mutations: ClassVar[Mapping[str, Kind]] = {"hidden": SIZE}
    counts_as: ClassVar[str] = "feed_forward"
    opaque: ClassVar[bool] = False

    def parameters(self, width: int) -> int:
        return 3 * width * self.hidden + 2 * self.hidden + width

    def work(self, width: int, length: int) -> Work:
        return Work(6 * length * width * self.hidden, length * self.hidden)

    @property
    def position_wise(self) -> bool:
        return True

    def build(self, width: int) -> Operator:
        return GLU(width, self.hidden)

    def tensor_matches(self, parent: Self, read: Map, widths: tuple[int, int]) -> dict[str, Match]:
        hidden = leading(self.hidden, parent.hidden)
        both = repeated(hidden, 2, parent.hidden, 2)
        return affine_matches("inner", both, read) | affine_matches("out", read, hidden)

    @property
    def silencing_tensors(self) -> tuple[str, ...]:
        return ("out.weight", "out.bias")

    @property
    def detail(self) -> str:
        return f"{self.hidden} gated"

    @property
    def family(self) -> str:
        return "memoryless"


class GLU(WholeSequence):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.inner = nn.Linear(width, 2 * hidden)
        self.out = nn.Linear(hidden, width)

    def _read(self, x: Tensor, mask: Tensor | None) -> Tensor:
        y: Tensor = self.out(nn.functional.glu(self.inner(x)))
        return y


class MeanNode(JoinNode):
    """The mean of all that comes in."""

    type: Literal["mean"] = "mean"

    def join(self, values: list[Tensor]) -> Tensor:
        return torch.stack(values).mean(0)


def glu_graph(width: int, given: Mapping[str, Any]) -> ModuleGraph:
    hidden = max(1, round(given["hidden_factor"] * width))
    nodes = (GLUNode(id="glu", hidden=hidden), MeanNode(id="mean"))
    return ModuleGraph(nodes=nodes, edges=((INPUT, "glu"), ("glu", "mean"), (INPUT, "mean"), ("mean", OUTPUT)))


@pytest.fixture(autouse=True, scope="module")
def _rows() -> Iterator[None]:
    """The rows, as a package that is enabled adds them; gone afterwards."""
    NODES.add("glu", GLUNode)
    NODES.add("mean", MeanNode)
    ARCHETYPES.add("glu", Archetype("GLU", {"hidden_factor": Factor(0.25, 4.0, 1.0)}, glu_graph))
    yield
    del NODES._rows["glu"], NODES._rows["mean"], ARCHETYPES._rows["glu"]


class TestForeignNodes(NodeTests):
    @pytest.fixture(params=["glu", "mean"])
    def node(self, request: pytest.FixtureRequest) -> NodeSpec:
        return NODES.get(request.param)(id="node")


def glu(name: str, **attributes: Any) -> ZooModule:
    return ZooModule(id=name, genotype=with_lineage(archetype("glu", WIDTH, **attributes), name))


def test_a_graph_names_what_is_wrong_and_without_its_row_refuses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    text = archetype("glu", WIDTH).graph.model_dump_json()
    with pytest.raises(ValidationError, match=r"nodes\.0\.glu\.hidden"):
        ModuleGraph.model_validate_json('{"nodes": [{"id": "a", "type": "glu", "hidden": 0}]}')
    monkeypatch.delitem(NODES._rows, "glu")
    with pytest.raises(ValidationError, match="'glu' found using 'type' does not match"):
        ModuleGraph.model_validate_json(text)


def test_it_is_drawn_at_random_mutated_and_told_in_text() -> None:
    drawn = random_zoo(WIDTH, 12, generator(0), ("glu", "mlp"))
    assert any(node.type == "glu" for module in drawn for node in module.genotype.graph.nodes)
    free = archetype("glu", WIDTH).model_copy(update={"archetype": "hybrid", "attributes": {}})
    assert words(free) == "hybrid, glu, mean"
    mutants = {mutate(free, generator(seed)).graph.nodes[0].hidden for seed in range(12)}
    assert len(mutants) > 6
    space = ModuleZooSpace(ModuleZooSpaceSettings(archetypes=("glu", "mlp")))
    genome = space.sample(generator(1))
    for seed in range(6):
        genome = space.mutate(genome, generator(seed))
        assert space.parse(space.print(genome)) == genome
        assert space.from_json(space.to_json(genome)) == genome


def test_its_vector_and_its_drawing_show_it() -> None:
    genotype = archetype("glu", WIDTH)
    assert genotype_vector(genotype) != genotype_vector(archetype("glu", WIDTH, hidden_factor=4.0))
    assert family_of(genotype) == "memoryless"
    assert "16 gated" in module_drawing(genotype, title="a module")


def test_repair_brings_its_inputs_to_one_width() -> None:
    narrow = NODES.get("projection")(id="narrow", width=5)
    graph = ModuleGraph(
        nodes=(narrow, MeanNode(id="mean")),
        edges=(("in", "narrow"), ("in", "mean"), ("narrow", "mean"), ("mean", "out")),
    )
    mended = repair_graph(graph, WIDTH)
    assert [node.type for node in mended.nodes] == ["projection", "projection", "mean"]
    assert SumNode(id="s").zero_is_neutral
    assert not MeanNode(id="m").zero_is_neutral, "a new branch of zeros beside it would change the answer"


def test_hybrids_with_it_are_modules_and_inherit() -> None:
    parents = {"a": glu("a"), "b": ZooModule(id="b", genotype=with_lineage(archetype("mlp", WIDTH), "b"))}
    states = {name: dict(build_module(module.genotype, 1).state_dict()) for name, module in parents.items()}
    how = BirthSettings(splice="insert")
    genotypes = {name: module.genotype for name, module in parents.items()}
    given = {name: ModuleParent(genotypes[name], state, part_digest(state)) for name, state in states.items()}
    weights = {parent.digest: parent.state for parent in given.values()}
    for seed in range(3):
        made = splice(parents["a"], parents["b"], np.random.default_rng(seed), how)
        assert_runs(made.child)
        newborn = build_module(made.child, seed)
        record = inherit(newborn, made.child, given, how, made.correspondence, seed)
        assert {one.parent for one in record} >= {"a", "b"}
        again = rebuild(made.child, seed, record, weights.__getitem__, before=genotypes, how=how)
        assert all(torch.equal(again[name], value) for name, value in newborn.state_dict().items())


def test_more_units_answer_as_before() -> None:
    parent, child = archetype("glu", WIDTH), archetype("glu", WIDTH, hidden_factor=2.5)
    own, newborn = build_module(parent, 1).eval(), build_module(child, 2).eval()
    given = {"own": ModuleParent(parent, own.state_dict())}
    record = inherit(newborn, child, given, BirthSettings(), same_nodes(child, parent, "own"), 2)
    assert {one.rule for one in record} == {"copied", "padded"}
    x = torch.randn(2, 5, WIDTH)
    with torch.no_grad():
        torch.testing.assert_close(newborn(x).y, own(x).y, rtol=0, atol=1e-5)


# Training


OPTIONS: dict[str, Any] = {
    "strategist": "random",
    "events": {"count": 2, "first": 0.2, "last": 0.7, "warm": 0.1, "horizon": 0.1},
    "fitness": {"samples": 16},
    "prune": {"age": 0, "distil_steps": 1, "tolerance": 10.0, "least": 2},
}


@pytest.mark.slow
def test_it_is_trained_and_grown_stored_loaded_and_resumed(tmp_path: Path) -> None:
    modules = (glu("glu-1"), glu("glu-2", hidden_factor=0.5), *start_zoo(WIDTH)[1:2])
    structure = ZooStructure(width=WIDTH, modules=modules, router=ZooRouterStructure(heads=2))
    network = ModuleZooNetwork(structure=structure)
    arm = Trial(name="growing", network=network, learning_rate=1e-2, procedure="grow", options=OPTIONS)
    given = problem({"training": {"budget": {"steps": 12}, "checkpoint_every": 3}}, tmp_path)
    told: list[dict[str, Any]] = []
    whole = given.read(evaluate_network(given.payload(arm, 5, None), told.append))
    assert whole.reason is None, whole.detail
    grown, _ = load_network(FolderPool(tmp_path), whole.blobs["weights"])
    found = grown.structure.modules
    assert found != modules
    assert any(node.type == "glu" for module in found for node in module.genotype.graph.nodes)
    middle = [one["checkpoint"] for one in told if "checkpoint" in one][-1]
    resumed = given.read(evaluate_network(given.payload(arm, 5, middle), told.append))
    assert not any("restarted" in one for one in told)
    assert resumed.blobs["weights"] == whole.blobs["weights"]
