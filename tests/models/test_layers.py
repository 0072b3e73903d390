"""Every kind of layer keeps the laws of ``testing.layers``, and is what its description says."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from evodevo.errors import UsageError
from evodevo.models.layers import LAYERS, build_layer
from evodevo.operators.transformer import TransformerBlock
from evodevo.spaces.backbone import BackboneSettings, BackboneSpace
from evodevo.spaces.h_model_structure import HModelStructure, RouterStructure
from evodevo.spaces.layers import (
    ConvolutionLayer,
    Layer,
    LIVLayer,
    LSTMLayer,
    MLPLayer,
    NestedLayer,
    SpanLayer,
    TransformerLayer,
)
from evodevo.spaces.operator import Dimensions
from evodevo.testing.layers import LayerCase, LayerTests

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
    structure = HModelStructure(width=width, hidden=hidden, iterations=2, causal=causal, **options)
    return NestedLayer(structure=structure, width=None if width == WIDTH else width)


SPECS: tuple[Layer, ...] = (
    TransformerLayer(heads=4),
    TransformerLayer(heads=2, feedforward=24, width=8),
    MLPLayer(),
    MLPLayer(hidden=20, width=24),
    ConvolutionLayer(kernel=5),
    ConvolutionLayer(kernel=1),
    LSTMLayer(),
    LSTMLayer(width=8),
    LIVLayer(operator="SA-1", head_size=4),
    LIVLayer(operator="SA-1", head_size=4, band=4),
    LIVLayer(operator="Rec-1", head_size=4),
    LIVLayer(operator="GConv-1", head_size=4),
    LIVLayer(operator="GMemless", head_size=4),
)


def cases() -> list[LayerCase]:
    """Each description in a causal model and in one that is not."""
    specs = [*SPECS, span(0, 5), span(1, 3)]
    both = [LayerCase(spec, WIDTH, causal, leak=1e-11) for spec in specs for causal in (True, False)]
    means = RouterStructure(pool="prefix_mean")
    routed = [
        LayerCase(nested(True), WIDTH, causal=True),
        LayerCase(nested(True, width=8, router=means), WIDTH, causal=True),
        LayerCase(nested(False), WIDTH, causal=False),
        LayerCase(nested(False, width=8, aggregation="attention"), WIDTH, causal=False),
    ]
    return [*both, *routed]


def name(case: LayerCase) -> str:
    """For the list of tests."""
    spec = case.spec
    chosen = f"-{spec.operator}-{spec.band}" if isinstance(spec, LIVLayer) else ""
    if isinstance(spec, SpanLayer):
        chosen = f"-{spec.first}-{spec.last}"
    return f"{spec.kind}{chosen}{f'-{spec.width}' if spec.width else ''}-{'causal' if case.causal else 'both'}"


class TestLayers(LayerTests):
    @pytest.fixture(params=cases(), ids=name)
    def case(self, request: pytest.FixtureRequest) -> LayerCase:
        case: LayerCase = request.param
        return case
