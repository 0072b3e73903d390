"""The cost of an H-Model: stated equals counted over random structures, parts add up, skipping saves what it skips."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from evodevo.errors import UsageError
from evodevo.h_model.cost import executed_flops, h_model_cost, h_model_parameters, h_model_work, layer_flops
from evodevo.h_model.model import HModel
from evodevo.h_model.spec import HaltingStructure, HModelStructure, OwnLayers, RouterStructure, preset
from evodevo.networks.routing.spec import InferenceStructure
from evodevo.operators.base import used_bytes
from evodevo.operators.layers.convolution import ConvolutionLayer
from evodevo.operators.layers.liv import LIVLayer
from evodevo.operators.layers.mlp import MLPLayer
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec

TOKENS = InputSpec("words", "tokens", length=12, vocabulary=50)
IMAGE = InputSpec("picture", "image", height=9, width=20, channels=3)
VECTOR = InputSpec("numbers", "vector", size=7)
CLASS = OutputSpec("answer", "class", 5)
LABELS = OutputSpec("tags", "labels", 3)
NEXT = OutputSpec("next", "tokens", 50, of="words")

# Layers that PyTorch's counter sees whole; test_layer_cost.py has the others.
HIDDEN = st.sampled_from(
    [
        TransformerLayer(),
        TransformerLayer(width=64, router="linear"),
        MLPLayer(hidden=48, router="independent"),
        ConvolutionLayer(),
        ConvolutionLayer(router="channel"),
        LIVLayer(operator="GMemless", head_size=8),
    ]
)


@st.composite
def structures(draw: st.DrawFn) -> HModelStructure:
    causal = draw(st.booleans())
    hidden = tuple(draw(st.lists(HIDDEN, min_size=1, max_size=4)))
    pools = ["token", "prefix_mean"] if causal else ["attention", "mean", "max", "last", "token"]
    canvas = "segments" if causal else draw(st.sampled_from(["segments", "pad", "latents"]))
    pool = None if canvas == "latents" else draw(st.none() | st.sampled_from(pools))
    router = RouterStructure(
        head=draw(st.sampled_from(["feedforward", "linear", "channel", "constant", "independent"])),
        hidden=draw(st.none() | st.integers(1, 40)),
        pool=pool,  # type: ignore[arg-type]
    )
    halting = draw(st.sampled_from(["none", "output_mass", "act", "ponder"]))
    return HModelStructure(
        stream="paper",
        width=draw(st.sampled_from([32, 48])),
        hidden=hidden,
        iterations=draw(st.integers(0, 3)),
        causal=causal,
        router=router,
        input_blocks=draw(st.integers(0, 2)),
        output_blocks=draw(st.integers(0, 2)),
        aggregation=draw(st.sampled_from(["sum", "attention"])),  # type: ignore[arg-type]
        iteration_embedding=draw(st.sampled_from(["message", "input", "film", "none"])),  # type: ignore[arg-type]
        output_division=draw(st.sampled_from(["t", "learned", "last"])),  # type: ignore[arg-type]
        window=draw(st.none() | st.integers(1, 5)),
        canvas=canvas,  # type: ignore[arg-type]
        slots=draw(st.integers(1, 9)),
        halting=HaltingStructure(rule=halting),  # type: ignore[arg-type]
        missing=draw(st.booleans()),
    )


def products() -> FlopCounterMode:
    """PyTorch's counter, which forgets products of a matrix and a vector (the scores of attention pools)."""

    def matrix_vector(matrix: Any, vector: Any, **_: Any) -> int:
        return 2 * int(matrix[0]) * int(matrix[1])

    return FlopCounterMode(display=False, custom_mapping={torch.ops.aten.mv: matrix_vector})


def ends_of(structure: HModelStructure, several: bool) -> tuple[tuple[InputSpec, ...], tuple[OutputSpec, ...]]:
    if structure.causal:
        return (TOKENS,), (NEXT,)
    return ((TOKENS, IMAGE, VECTOR), (CLASS, LABELS)) if several else ((TOKENS,), (CLASS,))


def zeros(inputs: tuple[InputSpec, ...], rows: int = 1) -> dict[str, Tensor]:
    shapes: dict[str, Any] = {
        "tokens": lambda spec: torch.zeros(rows, spec.length, dtype=torch.long),
        "image": lambda spec: torch.zeros(rows, spec.height, spec.width, spec.channels, dtype=torch.uint8),
        "vector": lambda spec: torch.zeros(rows, spec.size),
    }
    return {spec.name: shapes[spec.modality](spec) for spec in inputs}


@given(structure=structures(), several=st.booleans())
@settings(max_examples=15, deadline=None)
def test_stated_parameters_are_built_part_by_part(structure: HModelStructure, several: bool) -> None:
    inputs, outputs = ends_of(structure, several)
    with torch.device("meta"):
        model = HModel(structure, inputs, outputs)
    stated = h_model_parameters(structure, inputs, outputs)

    def count(*prefixes: str) -> int:
        return sum(p.numel() for name, p in model.named_parameters() if name.startswith(prefixes))

    assert stated["hidden"] == count("core.layers")
    assert stated["routers"] == count("core.routers", "core.input_routers")
    assert stated["aggregation"] == count("core.aggregation")
    assert stated["iterations"] == count("core.embedding", "core.division")
    assert stated["halting"] == count("unit")
    assert stated["embeddings"] + stated["inputs"] == count("inputs")
    assert stated["outputs"] + stated["heads"] == count("outputs")
    cost = h_model_cost(structure, inputs=inputs, outputs=outputs)
    assert cost.parameters + cost.embedding_parameters == sum(p.numel() for p in model.parameters())
    assert cost.embedding_parameters == stated["embeddings"] + stated["heads"]


@pytest.mark.slow
@given(structure=structures(), several=st.booleans())
@settings(max_examples=8, deadline=None)
def test_stated_products_are_executed(structure: HModelStructure, several: bool) -> None:
    """On the meta device every product is counted, and nothing is skipped."""
    structure = structure.model_copy(update={"halting": HaltingStructure()})
    inputs, outputs = ends_of(structure, several)
    with torch.device("meta"):
        model = HModel(structure, inputs, outputs).train().requires_grad_(False)
        batch = zeros(inputs)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), products() as counter:
        model(batch)
    length = h_model_length(structure, inputs)
    work = h_model_work(structure, length, inputs, outputs, visible=False)
    counted = counter.get_total_flops()
    masks = mask_products(structure, inputs, len(outputs), length)
    assert sum(part.products for part in work.values()) == counted - masks


@pytest.mark.parametrize("rule", ["none", "output_mass", "act", "ponder", "kl"])
@pytest.mark.parametrize("causal", [False, True])
def test_products_of_a_pass_that_nothing_halts_are_those_stated(rule: str, causal: bool) -> None:
    outputs = (NEXT if causal else CLASS,)
    halting = HaltingStructure(rule=rule, threshold=1e-9 if rule == "kl" else 1 - 1e-9)  # type: ignore[arg-type]
    layers = {"hidden": (MLPLayer(), MLPLayer()), "iterations": 3, "causal": causal, "width": 32}
    structure = preset("balanced", halting=halting, **layers)
    torch.manual_seed(0)
    model = HModel(structure, (TOKENS,), outputs).eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter += 0.1 * torch.randn_like(parameter)  # answers differ from one iteration to the next
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), products() as counter:
        model(zeros((TOKENS,)))
    work = h_model_work(structure, 12, (TOKENS,), outputs, visible=False)
    assert sum(part.products for part in work.values()) == counter.get_total_flops()
    assert (work["halting"].products > 0) is (rule not in ("none", "kl"))


@pytest.mark.parametrize("training", [False, True])
def test_each_group_of_outputs_is_a_pass_without_the_layers_of_others(training: bool) -> None:
    own = (OwnLayers(output="tags", layers=(1, 2)),)
    layers = (MLPLayer(), MLPLayer(hidden=48), TransformerLayer())
    structure = HModelStructure(stream="paper", width=32, hidden=layers, iterations=2, own=own)
    model = HModel(structure, (TOKENS,), (CLASS, LABELS)).train(training).requires_grad_(False)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), products() as counter:
        model(zeros((TOKENS,)))
    work = h_model_work(structure, 12, (TOKENS,), (CLASS, LABELS), visible=False)
    assert sum(part.products for part in work.values()) == counter.get_total_flops()
    one = h_model_work(structure.model_copy(update={"own": ()}), 12, (TOKENS,), (CLASS, LABELS), visible=False)
    assert one["hidden"].products < work["hidden"].products < 2 * one["hidden"].products
    assert work["routing"].products == 2 * one["routing"].products
    assert work["outputs"] == one["outputs"]
    ends = {"inputs": (TOKENS,), "outputs": (CLASS, LABELS)}
    total = sum(part.total for part in work.values())
    assert executed_flops(structure, [4, 2, 2], **ends) == total, "layer 0 in both passes of two iterations"
    with pytest.raises(UsageError, match="at most once per pass"):
        executed_flops(structure, [5, 2, 2], **ends)


def h_model_length(structure: HModelStructure, inputs: tuple[InputSpec, ...]) -> int:
    lengths = {"words": 12, "picture": 3 * 5, "numbers": 1}  # patches of 4 x 4 pixels
    every = [lengths[spec.name] for spec in inputs]
    return {"segments": sum(every), "pad": max(every), "latents": structure.slots}[structure.canvas]


def mask_products(structure: HModelStructure, inputs: tuple[InputSpec, ...], outputs: int, length: int) -> int:
    """Who hears which position is found by a product too, where a decision is for all; it is no part of the model."""
    if len(inputs) == 1 or structure.canvas == "latents":
        return 0
    hidden, head = len(structure.hidden), structure.router.head
    every = hidden + outputs
    per_position = structure.pool in ("token", "prefix_mean")

    def pairs(heads: set[str], sources: int, targets: int) -> int:
        return 0 if per_position and heads - {"constant", "independent"} else sources * targets

    total = pairs({head}, len(inputs), every if structure.iterations else outputs)
    for t in range(structure.iterations):
        last = t == structure.iterations - 1
        # What the inflow gate lets through has positions where what was heard has them.
        heads = {head} | {layer.router or head for layer in structure.hidden}
        total += pairs(heads, hidden, outputs if last else every)
    return 2 * length * total


# Laws


def test_blocks_are_run_i_plus_h_t_plus_o_times() -> None:
    structure = preset("balanced", stream="paper")
    work = h_model_work(structure, 20, (InputSpec("w", "tokens", length=20, vocabulary=9),), (CLASS,), visible=False)
    block = layer_flops(structure, 20)[0]
    head = 2 * structure.width * CLASS.size
    assert work["inputs"].total + work["hidden"].total + work["outputs"].total == (1 + 4 * 4 + 1) * block + head


def test_all_calls_give_the_whole_pass_and_none_only_the_rest() -> None:
    structure = preset("balanced", stream="paper", hidden=(TransformerLayer(), MLPLayer()), iterations=3)
    ends: dict[str, Any] = {"inputs": (TOKENS,), "outputs": (CLASS,)}
    whole = h_model_cost(structure, **ends).executed_flops
    assert executed_flops(structure, [3, 3], **ends) == whole
    first, second = layer_flops(structure, TOKENS.length)
    assert whole - executed_flops(structure, [1, 2.5], **ends) == 2 * first + 0.5 * second
    early = executed_flops(structure, [1, 1], iterations=1, **ends)
    assert early < executed_flops(structure, [1, 1], **ends)
    once = structure.model_copy(update={"iterations": 1})
    assert early == h_model_cost(once, **ends).executed_flops


def test_counted_calls_of_a_skipping_model_cost_what_is_stated() -> None:
    """A model that runs 1 of 3 layers per sample: its call counters, as FLOPs, equal the products that were made."""
    torch.manual_seed(0)
    structure = HModelStructure(
        stream="paper",
        width=32,
        hidden=(TransformerLayer(), TransformerLayer(feedforward=16), TransformerLayer(feedforward=40)),
        iterations=3,
        inference=InferenceStructure(mode="target_topm", m=1),
    )
    model = HModel(structure, (TOKENS,), (CLASS,)).eval()
    for parameter in model.core.input_routers.parameters():
        torch.nn.init.normal_(parameter)
    rows = 5
    batch = {"words": torch.randint(50, (rows, TOKENS.length))}
    model.core.runner.reset()
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), products() as counter:
        model(batch)
    calls = [count / rows for count in model.core.runner.rows]
    assert sum(calls) == pytest.approx(2 + 1)
    stated = executed_flops(structure, calls, inputs=(TOKENS,), outputs=(CLASS,))
    assert rows * stated == pytest.approx(counter.get_total_flops(), rel=1e-12)


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.9, 1.0])
def test_each_sample_stays_within_its_budget(share: float) -> None:
    """It is spent on the layers that are heard most (docs/spec/h_model.md#skipping)."""
    torch.manual_seed(0)
    hidden = (TransformerLayer(), MLPLayer(), TransformerLayer(feedforward=128), MLPLayer())
    structure = HModelStructure(stream="paper", width=16, hidden=hidden, iterations=3)
    model = HModel(structure, (TOKENS,), (CLASS,)).eval()
    for router in model.core.routers:
        torch.nn.init.normal_(router.outer.weight, std=2.0)
    prices = torch.tensor(layer_flops(structure, TOKENS.length), dtype=torch.float64)
    everything = float(prices.sum()) * structure.iterations
    model.inference = InferenceStructure(mode="budget", flops=share * everything)
    trace = model.trace({"words": torch.randint(50, (9, TOKENS.length))})
    spent = (torch.from_numpy(trace.called).double() * prices).sum((1, 2))
    assert (spent <= share * everything * (1 + 1e-6)).all()
    if share == 1.0:
        assert trace.called.all()
    if share == 0.0:
        assert not trace.called.any()
    if share == 0.5:
        assert (spent > 0).all()


def test_cost_grows_with_batch_and_training_and_is_json() -> None:
    structure = preset("deep")
    one, four = (h_model_cost(structure, length=16, batch=batch) for batch in (1, 4))
    assert four.flops == 4 * one.flops
    assert four.parameters == one.parameters
    assert h_model_cost(structure, length=16, mode="train").flops == 3 * one.flops
    assert one.embedding_parameters == one.cache_bytes == 0
    assert all(type(value) is int for value in one.to_json().values())


def test_only_causal_models_keep_a_cache_and_see_half() -> None:
    layers = (TransformerLayer(), MLPLayer(), ConvolutionLayer())
    structure = HModelStructure(stream="paper", causal=True, iterations=2, hidden=layers)
    cost = h_model_cost(structure, inputs=(TOKENS,), outputs=(NEXT,))
    model = HModel(structure, (TOKENS,), (NEXT,)).eval()
    blocks = [*model.inputs.layers["words"].blocks, *model.outputs.layers["next"].blocks]
    kept = 0
    with torch.no_grad():
        for layer in [*blocks, *list(model.core.layers) * structure.iterations]:
            state = layer.initial_state(1, TOKENS.length, torch.float32, torch.device("cpu"))
            kept += used_bytes(layer(torch.zeros(1, TOKENS.length, 64), state=state).state)
    assert cost.cache_bytes == kept > 0
    assert cost.flops < cost.executed_flops
    both = h_model_cost(structure.model_copy(update={"causal": False}), inputs=(TOKENS,), outputs=(CLASS,))
    assert both.cache_bytes == 0
    assert both.flops == both.executed_flops


def test_impossible_questions_are_refused() -> None:
    for options, message in (
        ({}, "give the inputs of the task, or the number of positions"),
        ({"length": 4, "inputs": (TOKENS,)}, "leave length out"),
        ({"length": 0}, "length is 0"),
        ({"length": 4, "batch": 0}, "batch is 0"),
        ({"length": 4, "mode": "decode"}, "backbones only"),
    ):
        with pytest.raises(UsageError, match=message):
            h_model_cost(HModelStructure(stream="paper"), **options)  # type: ignore[arg-type]
    for calls, message in (([1, 1], "4 hidden layers"), ([5, 0, 0, 0], "at most once"), ([-1, 0, 0, 0], "at most")):
        with pytest.raises(UsageError, match=message):
            executed_flops(HModelStructure(stream="paper"), calls, length=4)
