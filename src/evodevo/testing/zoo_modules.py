"""The laws of every module of a zoo and of every kind of node, as tests to inherit.

    class TestMyFamily(ModuleTests):
        @pytest.fixture
        def genotype(self) -> ModuleGenotype:
            return archetype("my_family", 16)


    class TestMyNode(NodeTests):
        @pytest.fixture
        def node(self) -> NodeSpec:
            return MyNode(id="node", units=5)

Legend: B samples, L positions, d width of the zoo, w channels that a node reads.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from evodevo.experiments.flop_counter import counting
from evodevo.module_zoo.modules.build import build_module
from evodevo.module_zoo.modules.cost import genotype_parameters, genotype_work
from evodevo.module_zoo.modules.graph import genotype_hash
from evodevo.module_zoo.modules.nodes.base import NODES, NodeSpec
from evodevo.module_zoo.modules.nodes.inheritance import leading
from evodevo.module_zoo.modules.nodes.projection import ProjectionNode
from evodevo.module_zoo.modules.repair import repair_graph
from evodevo.module_zoo.modules.spec import HYBRID, INPUT, OUTPUT, ModuleGenotype, ModuleGraph
from evodevo.module_zoo.modules.vector import VECTOR_SIZE, genotype_distance, genotype_vector
from evodevo.module_zoo.modules.zoo import check_genotype, crossover, mutate, repair, with_lineage, words
from evodevo.operators.base import Operator
from evodevo.randomness import generator
from evodevo.testing.layers import MapCase, MapTests
from evodevo.testing.layers import holes as holes

POSITIONS = 11
GARBAGE = 100.0
CHILDREN = 12
"""Number of mutants, and of pairs of children, that each test reads."""


def module_of(genotype: ModuleGenotype, seed: int = 0) -> Operator:
    """The module in float64 and evaluation mode; gates that start at 0 are moved, so that nothing is silent."""
    module = build_module(genotype, seed=seed).to(torch.float64).eval()
    source = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=source, dtype=parameter.dtype))
    return module


def inputs_of(genotype: ModuleGenotype, positions: int = POSITIONS, batch: int = 3, seed: int = 1) -> Tensor:
    """(B, L, d) of unit size."""
    source = torch.Generator().manual_seed(seed)
    return torch.randn(batch, positions, genotype.width, generator=source, dtype=torch.float64)


def assert_runs(genotype: ModuleGenotype) -> None:
    """It is valid, builds, runs forwards and backwards, and states its parameters."""
    check_genotype(genotype)
    module = build_module(genotype, seed=0).train()
    x = inputs_of(genotype, 5, 2).float().requires_grad_()
    mask = torch.ones(2, 5, dtype=torch.bool)
    mask[0, 3:] = False
    y = module(x, mask=mask).y
    assert y.shape == x.shape
    assert bool(y.isfinite().all())
    wanted = [x, *module.parameters()]
    for gradient in torch.autograd.grad(y[mask].square().sum(), wanted, allow_unused=True):
        assert gradient is None or bool(gradient.isfinite().all())
    assert sum(parameter.numel() for parameter in module.parameters()) == genotype_parameters(genotype)
    again = ModuleGenotype.model_validate_json(genotype.model_dump_json())
    assert again == genotype
    assert genotype_hash(again) == genotype_hash(genotype)


@dataclass(frozen=True)
class ModuleCase(MapCase):
    """A module under test."""

    genotype: ModuleGenotype
    width: int

    def build(self, seed: int = 0) -> Operator:
        """See ``module_of``."""
        return module_of(self.genotype, seed)


class ModuleTests(MapTests):
    """Inherit, and give the fixture ``genotype``."""

    garbage = GARBAGE

    @pytest.fixture
    def genotype(self) -> ModuleGenotype:
        """The module under test; a subclass overrides it, with ``params`` for a table of them."""
        raise NotImplementedError

    @pytest.fixture
    def case(self, genotype: ModuleGenotype) -> ModuleCase:
        """The module as a map of sequences."""
        return ModuleCase(genotype, genotype.width)

    # Genotype

    def test_it_is_valid_and_runs(self, genotype: ModuleGenotype) -> None:
        assert_runs(genotype)
        assert repair(genotype) is genotype
        assert repair_graph(genotype.graph, genotype.width) is genotype.graph
        assert words(genotype)

    def test_mutation_is_closed(self, genotype: ModuleGenotype) -> None:
        mutant = genotype
        for seed in range(CHILDREN):
            mutant = mutate(mutant, generator(seed, "mutation"))
            assert mutant == mutate(mutant, generator(seed), scale=0)
            assert mutant.archetype == genotype.archetype
            assert mutant.width == genotype.width
            check_genotype(mutant)
        assert_runs(mutant)

    def test_crossover_is_closed_and_keeps_equal_parents(self, genotype: ModuleGenotype) -> None:
        other = mutate(mutate(genotype, generator(0), 2.0), generator(1), 2.0)
        for seed in range(CHILDREN):
            for child in crossover(genotype, other, generator(seed)):
                check_genotype(child)
        same = crossover(genotype, genotype, generator(3), share=0.5)
        if not str(genotype.attributes.get("operator", "")).startswith("T"):  # children of equal H-Models may differ
            assert [genotype_hash(child) for child in same] == [genotype_hash(genotype)] * 2

    def test_children_keep_the_lineage_of_their_nodes(self, genotype: ModuleGenotype) -> None:
        parent = with_lineage(genotype, "ancestor-1")
        assert genotype_hash(parent) == genotype_hash(genotype)
        lines = {node.id: node.lineage for node in parent.graph.nodes}
        child = mutate(parent, generator(5))
        for node in child.graph.nodes:
            assert node.lineage == lines.get(node.id, "")

    def test_the_vector_and_the_distance(self, genotype: ModuleGenotype) -> None:
        vector = genotype_vector(genotype)
        assert len(vector) == VECTOR_SIZE
        assert all(0 <= number <= 1 for number in vector)
        assert genotype_distance(genotype, genotype) == 0
        other = mutate(genotype, generator(2), 2.0)
        assert genotype_distance(genotype, other) == genotype_distance(other, genotype)

    # Module

    def test_it_looks_both_ways_and_keeps_no_state(self, case: ModuleCase) -> None:
        module = case.build()
        assert not module.causal
        assert not module.streamable

    def test_every_parameter_has_an_influence(self, genotype: ModuleGenotype) -> None:
        module = module_of(genotype)
        parameters = dict(module.named_parameters())
        loss = module(inputs_of(genotype)).y.square().sum()
        gradients = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
        silent = [
            name
            for name, gradient in zip(parameters, gradients, strict=True)
            if gradient is None or not float(gradient.abs().max())
        ]
        assert not silent

    def test_the_seed_alone_decides_the_parameters(self, genotype: ModuleGenotype) -> None:
        state = torch.random.get_rng_state()
        first, again, other = (dict(build_module(genotype, seed=seed).named_parameters()) for seed in (0, 0, 1))
        assert torch.equal(state, torch.random.get_rng_state())
        assert all(torch.equal(first[name], again[name]) for name in first)
        assert any(not torch.equal(first[name], other[name]) for name in first)

    # Cost

    def test_stated_work_is_counted(self, genotype: ModuleGenotype) -> None:
        module = build_module(genotype, seed=0).eval()
        for length in (1, POSITIONS):
            with torch.no_grad(), counting(module) as counter:
                module(torch.zeros(1, length, genotype.width))
            assert genotype_work(genotype, length).products == counter.flops


FAMILIES = ("attention", "memoryless", "convolution", "recurrence", "other")


def hybrid_of(node: NodeSpec, width: int) -> ModuleGenotype:
    """A module of this node, which reads the input, and of a projection back to d."""
    back = ProjectionNode(id="back", width=width)
    edges = ((INPUT, node.id), (node.id, "back"), ("back", OUTPUT))
    return ModuleGenotype(archetype=HYBRID, width=width, graph=ModuleGraph(nodes=(node, back), edges=edges))


class NodeTests(ModuleTests):
    """Laws of one kind of node, alone and as a part of a module; inherit, and give the fixture ``node``.

    Attributes:
        width: w, at which the node can be.
    """

    width = 16

    @pytest.fixture
    def node(self) -> NodeSpec:
        """The node under test; a subclass overrides it, with ``params`` for a table of them."""
        raise NotImplementedError

    @pytest.fixture
    def genotype(self, node: NodeSpec) -> ModuleGenotype:
        """A module with the node."""
        return hybrid_of(node, self.width)

    def test_it_is_a_row_and_survives_json(self, node: NodeSpec) -> None:
        assert NODES.get(node.type) is type(node)
        graph = hybrid_of(node, self.width).graph
        assert ModuleGraph.model_validate_json(graph.model_dump_json()) == graph
        assert type(node).model_validate_json(node.model_dump_json()) == node

    def test_its_own_cost_is_counted(self, node: NodeSpec) -> None:
        if node.joins:
            assert node.parameters(self.width) == node.work(self.width, POSITIONS).total == 0
            return
        module = node.build(self.width).eval()
        assert node.parameters(self.width) == sum(parameter.numel() for parameter in module.parameters())
        for length in (1, POSITIONS):
            with torch.no_grad(), counting(module) as counter:
                y = module(torch.zeros(1, length, self.width)).y
            assert node.work(self.width, length).products == counter.flops
            assert y.shape == (1, length, node.answer_width([self.width]))

    def test_a_position_wise_node_reads_no_other_position(self, node: NodeSpec) -> None:
        if node.joins or not node.position_wise:
            return
        genotype = hybrid_of(node, self.width)
        module, x = module_of(genotype), inputs_of(genotype)
        other = x.clone()
        other[:, 3] = GARBAGE
        with torch.no_grad():
            before, after = module(x).y, module(other).y
        kept = [position for position in range(POSITIONS) if position != 3]
        assert torch.equal(before[:, kept], after[:, kept])

    def test_mutants_are_allowed_and_repeatable(self, node: NodeSpec) -> None:
        assert set(node.mutations) <= set(type(node).model_fields) - {"id", "lineage", "type"}
        assert node.mutated(self.width, generator(0), 0) == node
        for seed in range(CHILDREN):
            mutant = node.mutated(self.width, generator(seed, "node"), 1.0)
            assert mutant == node.mutated(self.width, generator(seed, "node"), 1.0)
            assert type(node).model_validate_json(mutant.model_dump_json()) == mutant
            assert (mutant.id, mutant.lineage, mutant.type) == (node.id, node.lineage, node.type)

    def test_repair_finds_a_node_that_can_be_there(self, node: NodeSpec) -> None:
        for width in (1, 7, self.width):
            fitted = node.fitted(width)
            if fitted is not None and not fitted.joins:
                assert fitted.answer_width([width]) >= 1
                assert fitted.fitted(width) == fitted

    def test_a_copy_inherits_every_tensor_as_it_is(self, node: NodeSpec) -> None:
        if node.joins or node.opaque:
            return
        read = leading(self.width, self.width)
        matches = node.tensor_matches(node, read, (self.width, self.width))
        tensors = node.build(self.width).state_dict()
        assert set(matches) == set(tensors)
        for name, match in matches.items():
            assert match.source == name
            assert match.maps == tuple(leading(size, size) for size in tensors[name].shape)
            assert len(match.reads) == tensors[name].dim()

    def test_silenced_it_answers_zero(self, node: NodeSpec) -> None:
        if node.joins or not node.silencing_tensors:
            return
        module = node.build(self.width).eval()
        with torch.no_grad():
            for name in node.silencing_tensors:
                module.state_dict()[name].zero_()
            assert not bool(module(torch.randn(2, POSITIONS, self.width)).y.any())

    def test_a_drawing_has_its_name_and_family(self, node: NodeSpec) -> None:
        assert node.label
        assert node.family in FAMILIES
        assert isinstance(node.detail, str)
