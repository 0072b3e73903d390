"""Every kind of layer keeps the laws of ``testing.layers``, and is what its description says."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from evodevo.errors import UsageError
from evodevo.models.layers import LAYERS, build_layer
from evodevo.operators.transformer import TransformerBlock
from evodevo.spaces.layers import (
    ConvolutionLayer,
    Layer,
    LIVLayer,
    LSTMLayer,
    MLPLayer,
    TransformerLayer,
)
from evodevo.testing.layers import LayerCase, LayerTests

WIDTH = 16
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
    return [LayerCase(spec, WIDTH, causal, leak=1e-11) for spec in SPECS for causal in (True, False)]


def name(case: LayerCase) -> str:
    """For the list of tests."""
    spec = case.spec
    chosen = f"-{spec.operator}-{spec.band}" if isinstance(spec, LIVLayer) else ""
    return f"{spec.kind}{chosen}{f'-{spec.width}' if spec.width else ''}-{'causal' if case.causal else 'both'}"


class TestLayers(LayerTests):
    @pytest.fixture(params=cases(), ids=name)
    def case(self, request: pytest.FixtureRequest) -> LayerCase:
        case: LayerCase = request.param
        return case
