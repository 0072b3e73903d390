"""Stated equals counted: parameters, matrix products and states of every kind of layer, against the layers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from evodevo.errors import UsageError
from evodevo.operators.base import used_bytes
from evodevo.operators.classes import OPERATORS
from evodevo.operators.cost import Work
from evodevo.operators.layers.base import Layer
from evodevo.operators.layers.build import build_layer
from evodevo.operators.layers.convolution import ConvolutionLayer
from evodevo.operators.layers.cost import layer_context_work, layer_parameters, layer_state_bytes, layer_work
from evodevo.operators.layers.liv import LIVLayer
from evodevo.operators.layers.lstm import LSTMLayer
from evodevo.operators.layers.mlp import MLPLayer
from evodevo.operators.layers.transformer import TransformerLayer

WIDTH = 64
INNER = st.none() | st.sampled_from([64, 128])
SIZES = st.none() | st.integers(1, 200)


def layers() -> st.SearchStrategy[Layer]:
    """Any layer that a width of 64 allows."""
    genomes = [".".join(map(str, OPERATORS.get(name).operator)) for name in OPERATORS]
    return st.one_of(
        st.builds(TransformerLayer, heads=st.sampled_from([1, 2, 4]), feedforward=SIZES, width=INNER),
        st.builds(MLPLayer, hidden=SIZES, width=INNER),
        st.builds(ConvolutionLayer, kernel=st.sampled_from([1, 3, 9]), width=INNER),
        st.builds(LSTMLayer, width=INNER),
        st.builds(LIVLayer, operator=st.sampled_from([*OPERATORS.names(), *genomes]), width=INNER),
    )


@contextmanager
def counting(layer: nn.Module) -> Iterator[Any]:
    """FLOPs of matrix products; those inside an LSTM by its shapes, since PyTorch runs it as one operation or many."""
    counter = FlopCounterMode(display=False)
    found = {"recurrent": 0}

    def count(module: nn.Module, arguments: tuple[Any, ...], _: Any) -> None:
        shapes = [p.numel() for name, p in module.named_parameters() if name.startswith("weight")]
        found["recurrent"] += 2 * sum(shapes) * arguments[0].shape[:-1].numel()

    hooks = [one.register_forward_hook(count) for one in layer.modules() if isinstance(one, nn.LSTM)]
    with counter:
        yield lambda: counter.get_total_flops() + found["recurrent"]
    for hook in hooks:
        hook.remove()


@pytest.mark.slow
@given(spec=layers(), causal=st.booleans(), length=st.integers(1, 40))
@settings(max_examples=25, deadline=None)
def test_stated_parameters_are_built_and_stated_products_executed(spec: Layer, causal: bool, length: int) -> None:
    # The meta device computes nothing; an LSTM must run.
    recurrent = spec.kind == "lstm"
    with torch.device("cpu" if recurrent else "meta"), torch.no_grad():
        layer = build_layer(spec, WIDTH, causal=causal)
        x = torch.zeros(1, length, WIDTH)
        with counting(layer) as counted:
            layer(x)
    assert layer_parameters(spec, WIDTH, causal) == sum(p.numel() for p in layer.parameters())
    assert layer_work(spec, WIDTH, length, causal=causal, visible=False).products == counted()


@given(
    spec=layers().filter(lambda spec: spec.kind != "lstm"),  # counted by the shapes of whole calls
    causal=st.booleans(),
    known=st.integers(1, 24),
    share=st.floats(0, 1),
    seed=st.integers(0, 99),
)
@settings(max_examples=25, deadline=None)
def test_positions_that_want_no_output_cost_the_stated_part(
    spec: Layer, causal: bool, known: int, share: float, seed: int
) -> None:
    length = 24
    draw = torch.Generator().manual_seed(seed)
    layer = build_layer(spec, WIDTH, causal=causal)
    mask = torch.zeros(1, length, dtype=torch.bool)
    mask[0, torch.randperm(length, generator=draw)[:known]] = True
    wanted = mask & (torch.rand(1, length, generator=draw) < share)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), counting(layer) as counted:
        layer.at(torch.zeros(1, length, WIDTH), wanted, mask=mask)
    count = int(wanted.sum())
    whole = layer_work(spec, WIDTH, length, causal=causal, visible=False).products
    context = layer_context_work(spec, WIDTH, length, causal=causal, visible=False).products
    if context == whole:  # such a layer computes all positions
        assert counted() <= whole
    elif count == 0:
        assert counted() <= context
    else:
        scores = 0
        if isinstance(spec, TransformerLayer):
            scores = 4 * (spec.width or WIDTH)
        own = (whole - context - scores * length**2) // length
        assert counted() == count * own + known * (context // length) + scores * count * known


@given(spec=layers(), length=st.integers(1, 30))
@settings(max_examples=15, deadline=None)
def test_stated_states_are_kept(spec: Layer, length: int) -> None:
    layer = build_layer(spec, WIDTH, causal=True)
    with torch.no_grad():
        state = layer.initial_state(1, length, torch.float32, torch.device("cpu"))
        state = layer(torch.randn(1, length, WIDTH), state=state).state or {}
    assert layer_state_bytes(spec, WIDTH, length) == used_bytes(state)


def test_half_of_causal_scores_is_visible() -> None:
    spec = TransformerLayer()
    whole = layer_work(spec, WIDTH, 100, causal=True, visible=False)
    half = layer_work(spec, WIDTH, 100, causal=True)
    assert whole.products - half.products == 4 * WIDTH * (100 * 100 - 100 * 101 // 2)
    assert layer_work(spec, WIDTH, 100, causal=False) == whole


def test_both_ways_costs_two_copies() -> None:
    for name in OPERATORS:
        spec = LIVLayer(operator=name)
        one, two = (layer_work(spec, WIDTH, 33, causal=causal) for causal in (True, False))
        assert two == one.times(2)
        both, single = (layer_parameters(spec, WIDTH, causal) - WIDTH for causal in (False, True))
        assert both == 2 * single


def test_the_default_block_has_the_papers_size() -> None:
    """A transformer block of width 64 with 128 hidden units has about 33,000 parameters."""
    assert layer_parameters(TransformerLayer(), 64, False) == 33_344
    assert layer_work(TransformerLayer(), 64, 1, causal=False).products == 2 * (4 * 64**2 + 2 * 64 * 128) + 4 * 64


def test_work_adds_up() -> None:
    assert Work(1, 2) + Work(3, 4) == Work(4, 6)
    assert Work(1, 2).times(3) == Work(3, 6)
    assert Work(1, 2).total == 3


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (TransformerLayer(heads=3), "3 attention heads do not divide the width 64"),
        (TransformerLayer(heads=4, width=30), "do not divide the width 30"),
        (ConvolutionLayer(kernel=4), "4 taps"),
        (LIVLayer(operator="Rec-9"), "unknown LIV class 'Rec-9'"),
        (LIVLayer(operator="1.1.1.9.1"), "operator genome, integer 4"),
        (LIVLayer(operator="1.1.1"), "5 are wanted"),
        (LIVLayer(width=40), "width 40"),
    ],
)
def test_layers_that_cannot_be_are_refused_by_cost_and_by_model(spec: Layer, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        layer_parameters(spec, WIDTH, False)
    with pytest.raises(UsageError):
        build_layer(spec, WIDTH, causal=False)
