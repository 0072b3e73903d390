"""Modules and nodes of a zoo keep the laws of ``testing.zoo_modules`` and are what their equations say."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.errors import GenomeError, UsageError
from evodevo.module_zoo.modules.build import GraphModule, build_module, part_name
from evodevo.module_zoo.modules.nodes.base import BUILT_IN, NODES, NodeSpec
from evodevo.module_zoo.modules.spec import HYBRID, ModuleGenotype, ModuleGraph
from evodevo.module_zoo.modules.zoo import ARCHETYPES, archetype, crossover, sample, table_3_zoo
from evodevo.operators.layers.liv import LIVLayer
from evodevo.randomness import generator
from evodevo.testing.zoo_modules import ModuleTests, NodeTests, assert_runs, holes, inputs_of, module_of
from module_zoo.modules.graphs import graph, hybrid_of, node

WIDTH = 16


def hybrid() -> ModuleGenotype:
    """Every type of node, at three widths."""
    text = (
        "in>norm norm>attention norm>narrow narrow>pop attention>keys keys>both pop>both both>feed.forward "
        "feed.forward>back back>type type>liv in>sum liv>sum attention>sum sum>out"
    )
    made = graph(
        text,
        node("attention", "attention", heads=2),
        node("narrow", "convolution", width=8, kernel=5, activation="silu", dropout=0.2),
        node("pop", "lstm", hidden=6, layers=2, dropout=0.1),
        node("keys", "squeeze_excite", reduction=2),
        node("feed.forward", "feed_forward", hidden=20, outer="sigmoid", dropout=0.1),
        node("back", "projection", width=WIDTH),
        node("liv", "layer", layer=LIVLayer(operator="Rec-1", head_size=4)),
        norm="norm",
        both="concat",
        type="gate",
        sum="sum",
    )
    return hybrid_of(made, WIDTH)


GENOTYPES = {
    **{name: archetype(name, WIDTH) for name in ARCHETYPES},
    "lstm-one-way": archetype("lstm", WIDTH, both_ways=False, layers=2),
    "operator-h-model": archetype("operator", WIDTH, operator="T2 a1 r1 sum dense | tr mlp conv"),
    "hybrid": hybrid(),
}


class TestEveryModule(ModuleTests):
    @pytest.fixture(params=sorted(GENOTYPES))
    def genotype(self, request: pytest.FixtureRequest) -> ModuleGenotype:
        return GENOTYPES[request.param]


SETTINGS = {"layer": {"layer": LIVLayer(operator="Rec-1", head_size=4)}}
"""Of kinds that have no defaults for all."""


class TestEveryKind(NodeTests):
    @pytest.fixture(params=BUILT_IN)
    def node(self, request: pytest.FixtureRequest) -> NodeSpec:
        return NODES.get(request.param)(id="node", **SETTINGS.get(request.param, {}))


def test_the_built_in_rows_keep_their_order() -> None:
    assert set(BUILT_IN) <= set(NODES.names())
    # Trained routers and strategists read vectors in this order.
    assert (
        *("attention", "feed_forward", "convolution", "lstm", "squeeze_excite", "norm", "projection", "gate"),
        *("layer", "sum", "concat"),
    ) == BUILT_IN


# Against the equations


def layer_norm(x: Tensor, module: GraphModule, name: str) -> Tensor:
    norm = module.part(name).norm
    return F.layer_norm(x, (x.shape[-1],), norm.weight, norm.bias)


def attention(x: Tensor, mask: Tensor, module: GraphModule, name: str, heads: int) -> Tensor:
    """PyTorch's own, with the same weights."""
    part = module.part(name)
    reference = nn.MultiheadAttention(WIDTH, heads, batch_first=True, dtype=x.dtype)
    with torch.no_grad():
        reference.in_proj_weight.copy_(part.project.weight)
        reference.in_proj_bias.copy_(part.project.bias)
        reference.out_proj.weight.copy_(part.out.weight)
        reference.out_proj.bias.copy_(part.out.bias)
    return reference(x, x, x, key_padding_mask=~mask, need_weights=False)[0]


def feed_forward(x: Tensor, module: GraphModule, name: str) -> Tensor:
    part = module.part(name)
    return F.gelu(x @ part.inner.weight.T + part.inner.bias) @ part.outer.weight.T + part.outer.bias


@pytest.mark.parametrize("form", ["parallel", "sequential", "paper"])
def test_a_transformer_is_attention_and_feed_forward(form: str) -> None:
    genotype = archetype("transformer", WIDTH, form=form, heads=4)
    module, x = module_of(genotype), inputs_of(genotype)
    mask = holes(x)
    with torch.no_grad():
        if form == "paper":  # eq. 46, no residual and no norm
            wanted = attention(x, mask, module, "block1.attention", 4) + feed_forward(x, module, "block1.feed_forward")
        elif form == "parallel":
            z = layer_norm(x, module, "block1.norm")
            mixed = attention(z, mask, module, "block1.attention", 4)
            wanted = x + mixed + feed_forward(z, module, "block1.feed_forward")
        else:
            z = layer_norm(x, module, "block1.attention_norm")
            middle = x + attention(z, mask, module, "block1.attention", 4)
            z = layer_norm(middle, module, "block1.feed_forward_norm")
            wanted = middle + feed_forward(z, module, "block1.feed_forward")
        torch.testing.assert_close(module(x, mask=mask).y[mask], wanted[mask], rtol=0, atol=1e-9)


def test_an_mlp_is_equation_45() -> None:
    genotype = archetype("mlp", WIDTH, outer="sigmoid")
    module, x = module_of(genotype), inputs_of(genotype)
    part = module.part("block1.feed_forward").inside
    reference = nn.Sequential(part.inner, nn.GELU(), part.outer, nn.Sigmoid())
    torch.testing.assert_close(module(x).y, reference(x), rtol=0, atol=1e-12)
    plain = module_of(archetype("mlp", WIDTH))
    torch.testing.assert_close(plain(x).y, feed_forward(x, plain, "block1.feed_forward"), rtol=0, atol=1e-12)


def test_an_lstm_reads_real_positions_as_if_alone() -> None:
    genotype = archetype("lstm", WIDTH, layers=2)
    module, x = module_of(genotype), inputs_of(genotype)
    part, mask = module.part("lstm"), holes(x)
    with torch.no_grad():
        y = module(x, mask=mask).y
        for row in range(len(x)):
            states, _ = part.lstm(x[row][mask[row]].unsqueeze(0))
            torch.testing.assert_close(y[row][mask[row]], part.out(states)[0], rtol=0, atol=1e-9)


def convolved(x: Tensor, mask: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """One sample (L, w), tap by tap."""
    kernel, length = weight.shape[-1], len(x)
    y = bias.expand(length, -1).clone()
    for here, tap in itertools.product(range(length), range(kernel)):
        there = here + tap - kernel // 2
        if 0 <= there < length and bool(mask[there]):
            y[here] += weight[:, :, tap] @ x[there]
    return y


def test_a_cnn_puts_kernels_side_by_side() -> None:
    assert node("c", "convolution", kernel=1).position_wise
    assert not node("c", "convolution", kernel=3).position_wise
    genotype = archetype("cnn", WIDTH, kernels=(1, 5, 9))
    module, x = module_of(genotype), inputs_of(genotype)
    mask = holes(x)
    with torch.no_grad():
        y = module(x, mask=mask).y
        for row in range(len(x)):
            parts = [module.part(f"kernel{kernel}").convolution for kernel in (1, 5, 9)]
            found = [F.gelu(convolved(x[row], mask[row], one.weight, one.bias)) for one in parts]
            wanted = x[row] + module.part("projection").map(torch.cat(found, -1))
            torch.testing.assert_close(y[row][mask[row]], wanted[mask[row]], rtol=0, atol=1e-9)


def test_a_resnet_silences_masked_positions_after_every_convolution() -> None:
    genotype = archetype("resnet1d", WIDTH, depth=1, width_factor=0.5)
    module, x = module_of(genotype), inputs_of(genotype)
    mask = holes(x)
    first, second = (module.part(f"block1.{name}").convolution for name in ("first", "second"))
    with torch.no_grad():
        y, z = module(x, mask=mask).y, layer_norm(x, module, "block1.norm")
        for row in range(len(x)):
            inner = F.gelu(convolved(z[row], mask[row], first.weight, first.bias))
            wanted = x[row] + convolved(inner, mask[row], second.weight, second.bias)
            torch.testing.assert_close(y[row][mask[row]], wanted[mask[row]], rtol=0, atol=1e-9)


def test_squeeze_and_excite_weighs_channels_by_the_mean_over_real_positions() -> None:
    genotype = archetype("squeeze_excite", WIDTH)
    module, x = module_of(genotype), inputs_of(genotype)
    part, mask = module.part("squeeze_excite"), holes(x)
    with torch.no_grad():
        y = module(x, mask=mask).y
        for row in range(len(x)):
            mean = x[row][mask[row]].mean(0)
            weights = torch.sigmoid(part.excite(torch.relu(part.squeeze(mean))))
            torch.testing.assert_close(y[row][mask[row]], (x[row] * weights)[mask[row]], rtol=0, atol=1e-9)


# Graphs


def test_an_inserted_gate_at_zero_is_silent_and_concat_reads_in_the_order_of_its_edges() -> None:
    made = graph("in>sum in>new new>gate gate>sum sum>out", new="feed_forward", gate="gate", sum="sum")
    module = build_module(hybrid_of(made, 8), seed=0)
    x = torch.randn(2, 3, 8)
    assert torch.equal(module(x).y, x)
    module(x).y.square().sum().backward()
    assert module.part("gate").weight.grad.abs().min() > 0
    module = build_module(hybrid_of(ModuleGraph(), 4))
    x = torch.randn(2, 3, 4)
    assert torch.equal(module(x).y, x)
    assert not list(module.parameters())
    back = node("back", "projection", width=4)
    made = graph("in>a a>both in>both both>back back>out", node("a", "gate", start=2.0), back, both="concat")
    module, x = build_module(hybrid_of(made, 4), seed=0), torch.randn(1, 2, 4)
    torch.testing.assert_close(module(x).y, module.part("back").map(torch.cat([2 * x, x], -1)))


def test_dropout_is_on_while_training_alone() -> None:
    x = torch.randn(4, 6, WIDTH)
    for name in ("transformer", "mlp", "resnet1d", "lstm", "cnn"):
        for more in ({"layers": 2}, {"layers": 1}) if name == "lstm" else ({},):
            module = build_module(archetype(name, WIDTH, dropout=0.5, **more), seed=0)
            assert not torch.equal(module.train()(x).y, module(x).y), name
            assert torch.equal(module.eval()(x).y, module(x).y), name


def test_modules_that_cannot_be_are_refused_and_names_of_parts_are_unique() -> None:
    with pytest.raises(GenomeError, match="'out' has 0 edges"):
        build_module(hybrid_of(graph(""), 8))
    wide, wider = (node(name, "projection", width=1 << 16) for name in ("wide", "wider"))
    big = graph("in>wide wide>wider wider>back back>out", wide, wider, node("back", "projection", width=8))
    with pytest.raises(UsageError, match="4,296,146,952 parameters"):
        build_module(hybrid_of(big, 8))
    with pytest.raises(UsageError, match="has no parameters"):
        node("sum", "sum").build(8)
    with pytest.raises(UsageError, match="'n' \\(norm\\) reads one value"):
        node("n", "norm").join([])
    with pytest.raises(UsageError, match="whole sequences"):
        build_module(archetype("mlp", 8)).initial_state(1, 1, torch.float32, torch.device("cpu"))
    assert len({part_name(name) for name in ("a.b", "a-b", "a_b", "pop", "forward")}) == 5
    assert [name for name, _ in module_of(hybrid()).named_parameters() if "/pop." in name]


# Genotypes that build


@given(seed=st.integers(0, 2**32), name=st.sampled_from(ARCHETYPES.names()), width=st.sampled_from([8, 12, 16, 24]))
@settings(max_examples=15, deadline=None)
def test_random_members_of_every_family_run(seed: int, name: str, width: int) -> None:
    assert_runs(sample(name, width, generator(seed)))


@pytest.mark.slow
def test_children_of_any_two_families_and_the_zoo_of_table_3_run() -> None:
    pairs = list(itertools.combinations_with_replacement([*ARCHETYPES, HYBRID], 2))
    for number, names in enumerate(pairs):
        rng = generator(number, "crossover")
        parents = [hybrid() if name == HYBRID else sample(name, WIDTH, rng) for name in names]
        children = crossover(parents[0], parents[1], rng)
        assert tuple(child.archetype for child in children) == names
        assert_runs(children[number % 2])
    for module in table_3_zoo(WIDTH):
        assert_runs(module.genotype)


@pytest.mark.slow
def test_descriptions_of_nodes_load_no_torch() -> None:
    script = (
        "import sys\n"
        "from evodevo.module_zoo.modules.nodes.base import NODES\n"
        "for name in NODES:\n"
        "    NODES.get(name)\n"
        "    if 'torch' in sys.modules: sys.exit(f'{name} loads torch')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
