"""Every kind of layer keeps the laws of ``testing.layers``, and is what its description says."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.backbone.span import BackboneSpan
from evodevo.backbone.span_layer import SpanLayer
from evodevo.errors import UsageError
from evodevo.h_model.nested import NestedHModel
from evodevo.h_model.nested_layer import NestedLayer
from evodevo.h_model.spec import HaltingStructure, HModelStructure, RegularisationStructure, RouterStructure
from evodevo.module_zoo.modules.genotype_layer import GenotypeLayer
from evodevo.module_zoo.modules.spec import ZooModule
from evodevo.module_zoo.modules.zoo import archetype
from evodevo.operators.layers.base import LAYERS, Layer
from evodevo.operators.layers.build import build_layer
from evodevo.operators.layers.convolution import ConvolutionLayer
from evodevo.operators.layers.liv import LIVLayer
from evodevo.operators.layers.lstm import LSTMLayer
from evodevo.operators.layers.mlp import MLPLayer
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.operators.spec import Dimensions
from evodevo.operators.transformer import TransformerBlock
from evodevo.testing.layers import LayerCase, LayerTests, table_cases
from evodevo.testing.networks import small_backbone
from evodevo.testing.operators import run_in_pieces

WIDTH = 16
DIMS = Dimensions(width=WIDTH, head_size=4)
# Attention, then recurrence that lends its features to the next two, attention that borrows keys and values.
SPACE = BackboneSpace(BackboneSettings(depth=6, residuals=True, dimensions=DIMS))
GENOME = SPACE.parse("111141 511122 911113 511124 111141 711112")


def span(first: int, last: int, width: int | None = None) -> SpanLayer:
    """LIVs of the backbone above."""
    space = {"depth": 6, "residuals": True, "dimensions": {"width": WIDTH, "head_size": 4}}
    return SpanLayer(genome=SPACE.to_json(GENOME), space=space, first=first, last=last, width=width)


def nested(causal: bool, width: int = WIDTH, **options: Any) -> NestedLayer:
    """An H-Model of two layers and two iterations."""
    hidden = (TransformerLayer(heads=2), ConvolutionLayer())
    structure = HModelStructure(stream="paper", width=width, hidden=hidden, iterations=2, causal=causal, **options)
    return NestedLayer(structure=structure, width=None if width == WIDTH else width)


def module(family: str, made_for: int = WIDTH, **more: Any) -> GenotypeLayer:
    """A module of a zoo."""
    genotype = archetype(family, made_for)
    return GenotypeLayer(module=ZooModule(id=f"{family}-1", genotype=genotype), **more)


SPECS: tuple[Layer, ...] = (
    TransformerLayer(heads=4),
    TransformerLayer(heads=2, feedforward=24, width=8),
    MLPLayer(),
    MLPLayer(hidden=20, width=24),
    ConvolutionLayer(kernel=5),
    ConvolutionLayer(kernel=1),
    LSTMLayer(),
    LIVLayer(operator="SA-1", head_size=4),
    LIVLayer(operator="SA-1", head_size=4, band=4),
    LIVLayer(operator="Rec-1", head_size=4),
    LIVLayer(operator="GConv-1", head_size=4),
    LIVLayer(operator="GMemless", head_size=4),
)


def cases() -> list[LayerCase]:
    """Each description in a causal model and in one that is not; the table's own, and what needs settings."""
    livs = [spec for spec in SPECS if isinstance(spec, LIVLayer)]
    specs = [*livs, ConvolutionLayer(kernel=1), span(0, 5), span(1, 3)]
    both = [LayerCase(spec, WIDTH, causal, leak=1e-11) for spec in specs for causal in (True, False)]
    means = RouterStructure(pool="prefix_mean")
    routed = [
        LayerCase(nested(True), WIDTH, causal=True),
        LayerCase(nested(True, width=8, router=means), WIDTH, causal=True),
        LayerCase(nested(False), WIDTH, causal=False),
        LayerCase(nested(False, width=8, aggregation="attention"), WIDTH, causal=False),
    ]
    families = ("mlp", "lstm", "squeeze_excite")  # the others in tests/module_zoo/modules/test_nodes.py
    modules = [LayerCase(module(family), WIDTH, causal=False) for family in families]
    modules += [LayerCase(module("mlp"), WIDTH, causal=True), LayerCase(module("mlp", 8, width=8), WIDTH, causal=True)]
    return [*table_cases(WIDTH), *both, *routed, *modules]


class TestLayers(LayerTests):
    @pytest.fixture(params=cases(), ids=str)
    def case(self, request: pytest.FixtureRequest) -> LayerCase:
        case: LayerCase = request.param
        return case


def test_every_row_of_the_table_is_tested() -> None:
    elsewhere = {"pretrained"}  # test_pretrained_layers.py
    assert {case.spec.kind for case in cases()} | elsewhere == set(LAYERS)


def test_an_operator_may_be_given_by_its_genome() -> None:
    torch.manual_seed(0)
    named = build_layer(LIVLayer(operator="Rec-1", head_size=4), WIDTH, causal=True)
    torch.manual_seed(0)
    written = build_layer(LIVLayer(operator="5.4.1.1.1", head_size=4), WIDTH, causal=True)
    assert all(map(torch.equal, named.parameters(), written.parameters()))


@pytest.mark.parametrize("operator", ["SA-9", "5.4.1.1", "5.4.2.1.1", "-"])
def test_an_operator_that_does_not_exist_is_refused(operator: str) -> None:
    with pytest.raises(UsageError):
        build_layer(LIVLayer(operator=operator, head_size=4), WIDTH, causal=True)


def test_a_span_does_what_it_did_in_its_backbone() -> None:
    torch.manual_seed(0)
    backbone = small_backbone(SPACE, GENOME, 8).double()
    heard: list[torch.Tensor] = []
    for place in (1, 3):
        backbone.blocks[place].register_forward_hook(lambda block, given, said: heard.extend([given[0], said.y]))
    layer = build_layer(span(1, 3), WIDTH, causal=True).double()
    assert isinstance(layer, BackboneSpan)
    layer.inherit(backbone.state_dict())
    backbone.next_logits(torch.randint(8, (2, 11)))
    torch.testing.assert_close(layer(heard[0]).y, heard[3], rtol=0, atol=1e-12)


def test_a_span_takes_no_weights_of_another_backbone() -> None:
    layer = build_layer(span(1, 3), WIDTH, causal=True)
    assert isinstance(layer, BackboneSpan)
    with pytest.raises(UsageError, match="another backbone"):
        layer.inherit({})


@pytest.mark.parametrize(("first", "last", "borrower", "owner"), [(3, 3, 4, 2), (4, 4, 5, 1), (2, 5, 4, 2)])
def test_a_span_that_is_not_closed_is_refused(first: int, last: int, borrower: int, owner: int) -> None:
    with pytest.raises(UsageError, match=f"LIV {borrower} borrows from LIV {owner}"):
        build_layer(span(first, last), WIDTH, causal=True)


def test_a_span_of_another_width_wants_adapters() -> None:
    with pytest.raises(UsageError, match="set the layer's width to 16"):
        build_layer(span(0, 5), 32, causal=True)
    x = torch.randn(2, 5, 32)
    assert build_layer(span(0, 5, width=WIDTH), 32, causal=True)(x).y.shape == x.shape


def test_a_nested_model_is_the_core_of_an_h_model() -> None:
    torch.manual_seed(0)
    layer = build_layer(nested(False), WIDTH, causal=False)
    assert isinstance(layer, NestedHModel)
    x = torch.randn(2, 5, WIDTH)
    flow = layer.core.run(x.unsqueeze(1))
    torch.testing.assert_close(layer(x).y, layer.core.answer(flow)[:, 0])
    assert len({name for name, _ in layer.named_parameters()}) == len(list(layer.parameters()))


def test_h_models_can_be_nested_twice() -> None:
    inner = nested(True)
    outer = HModelStructure(stream="paper", width=WIDTH, hidden=(inner, MLPLayer()), iterations=2, causal=True)
    layer = build_layer(NestedLayer(structure=outer), WIDTH, causal=True)
    assert layer.streamable
    x = torch.randn(2, 5, WIDTH)
    with torch.no_grad():
        y, _ = run_in_pieces(layer, x, [2, 1, 2])
        torch.testing.assert_close(y, layer(x).y, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("spec", "causal", "residual", "message"),
    [
        (nested(False), True, True, "causal = true"),
        (module("lstm"), True, True, "looks at later positions"),
        (module("mlp", 8), False, True, "set the layer's width to 8"),
        (module("mlp"), False, False, "residuals of its graph"),
        (nested(False), False, False, "no residual"),
        (nested(False, width=8).model_copy(update={"width": None}), False, True, "set the layer's width to 8"),
        (nested(False, regularisation=RegularisationStructure(z=0.1)), False, True, "layer_dropout only"),
        (nested(False, halting=HaltingStructure(rule="kl")), False, True, "layer_dropout only"),
    ],
)
def test_what_cannot_be_is_refused(spec: Layer, causal: bool, residual: bool, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        build_layer(spec, WIDTH, causal=causal, residual=residual)


@pytest.mark.parametrize("spec", [s for s in SPECS if s.width is None], ids=lambda spec: spec.kind)
def test_without_residuals_a_layer_is_its_operator_alone(spec: Layer) -> None:
    """The output is another one, the parameters are the same."""
    built = []
    for residual in (True, False):
        torch.manual_seed(0)
        built.append(build_layer(spec, WIDTH, causal=False, residual=residual).eval())
    x = torch.randn(2, 5, WIDTH)
    assert all(map(torch.equal, built[0].parameters(), built[1].parameters()))
    with torch.no_grad():
        difference = built[0](x).y - built[1](x).y
    if not isinstance(built[0], TransformerBlock):
        torch.testing.assert_close(difference, x, rtol=1e-4, atol=1e-5)
    assert float(difference.abs().max()) > 0.1
