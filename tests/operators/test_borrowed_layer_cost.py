"""Costs of layers that are described elsewhere: spans of backbones, nested H-Models, layers of pretrained models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.backbone.span_layer import SpanLayer, closed_spans
from evodevo.errors import DataError, EvodevoError, NotFoundError, UsageError
from evodevo.h_model.nested_layer import NestedLayer
from evodevo.h_model.spec import HModelStructure
from evodevo.operators.base import used_bytes
from evodevo.operators.classes import OPERATORS
from evodevo.operators.layers.base import Layer
from evodevo.operators.layers.build import build_layer
from evodevo.operators.layers.cost import layer_parameters, layer_state_bytes, layer_work
from evodevo.operators.layers.mlp import MLPLayer
from evodevo.operators.layers.pretrained import PretrainedLayer
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.operators.pretrained.spec import model_folder, read_sizes
from evodevo.operators.spec import Dimensions
from evodevo.randomness import generator

WIDTH = 64
SETTINGS = BackboneSettings(
    depth=6, classes=tuple(OPERATORS), share_queries=True, partial_featurizers=True, dimensions=Dimensions(width=WIDTH)
)
SPACE = BackboneSpace(SETTINGS)
CONNECTED = BackboneSpace(SETTINGS.model_copy(update={"classes": ("SA-1", "Rec-1")}))


def span_of(genome: Any, first: int, last: int) -> SpanLayer:
    space = json.loads(SETTINGS.model_dump_json())
    return SpanLayer(genome=SPACE.to_json(genome), space=space, first=first, last=last)


def parameters_built(spec: Layer, causal: bool, width: int = WIDTH) -> int:
    with torch.device("meta"):
        return sum(p.numel() for p in build_layer(spec, width, causal=causal).parameters())


def products_made(spec: Layer, causal: bool, length: int) -> int:
    with torch.device("meta"), torch.no_grad(), FlopCounterMode(display=False) as counter:
        build_layer(spec, WIDTH, causal=causal).requires_grad_(False)(torch.zeros(1, length, WIDTH))
    return int(counter.get_total_flops())


# Spans


def spans(count: int) -> list[SpanLayer]:
    rng, found = generator(3), []
    while len(found) < count:
        genome = (SPACE, CONNECTED)[len(found) % 2].sample(rng)
        closed = closed_spans(SPACE.plan(genome))
        found.append(span_of(genome, *closed[int(rng.integers(len(closed)))]))
    return found


@pytest.mark.slow
def test_stated_spans_are_built_and_run() -> None:
    for spec in spans(4):
        for causal in (True, False):
            assert layer_parameters(spec, WIDTH, causal) == parameters_built(spec, causal)
            work = layer_work(spec, WIDTH, 21, causal=causal, visible=False)
            assert work.products == products_made(spec, causal, 21)


def test_stated_states_of_spans_are_kept() -> None:
    for spec in spans(8):
        layer = build_layer(spec, WIDTH, causal=True)
        with torch.no_grad():
            state = layer.initial_state(1, 9, torch.float32, torch.device("cpu"))
            after = layer(torch.randn(1, 9, WIDTH), state=state).state or {}
        assert layer_state_bytes(spec, WIDTH, 9) == used_bytes(after)


def test_closed_spans_are_those_that_can_be_planned() -> None:
    """Every span of random backbones: listed if and only if it is accepted."""
    rng, seen = generator(4), set()
    for _ in range(10):
        genome = CONNECTED.sample(rng)
        closed = closed_spans(CONNECTED.plan(genome))
        for first in range(len(genome)):
            for last in range(first, len(genome)):
                try:
                    span_of(genome, first, last).plans(WIDTH)
                    accepted = True
                except UsageError:
                    accepted = False
                assert ((first, last) in closed) == accepted
                seen.add(accepted)
    assert seen == {True, False}


def test_a_span_that_borrows_names_borrower_and_owner() -> None:
    genome = SPACE.parse("91111 11112 12112")
    with pytest.raises(UsageError, match=r"LIV 3 borrows from LIV 2, which is before its first, 3"):
        span_of(genome, 2, 2).plans(WIDTH)
    assert len(span_of(genome, 1, 2).plans(WIDTH)[0]) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"first": 2, "last": 1}, "from LIV 3 to 2: the backbone has 6 LIVs"),
        ({"first": 0, "last": 6}, "from LIV 1 to 7"),
        ({"space": {"depht": 3}}, "did you mean 'depth'"),
        ({"genome": {}}, "exactly the keys"),
        ({"width": 128}, "set the layer's width to 64"),
    ],
)
def test_impossible_spans_are_refused(change: dict[str, Any], message: str) -> None:
    spec = span_of(SPACE.named("transformer++"), 0, 1).model_copy(update=change)
    with pytest.raises(UsageError, match=message):
        layer_parameters(spec, WIDTH, False)


# Nested


def test_a_model_that_is_nested_twice_has_the_parameters_and_more_than_the_work_of_its_iterations() -> None:
    hidden = (TransformerLayer(), MLPLayer(hidden=30))
    nested = NestedLayer(
        structure=HModelStructure(stream="paper", hidden=hidden, iterations=2, aggregation="attention")
    )
    twice = NestedLayer(structure=HModelStructure(stream="paper", hidden=(nested, MLPLayer()), iterations=3))
    assert layer_parameters(twice, WIDTH, False) == parameters_built(twice, False)
    assert layer_work(twice, WIDTH, 10, causal=False).total > 3 * layer_work(nested, WIDTH, 10, causal=False).total


def test_a_nested_model_of_another_width_needs_adapters() -> None:
    inner = HModelStructure(stream="paper", width=32, hidden=(MLPLayer(),), iterations=1)
    with pytest.raises(UsageError, match="set the layer's width to 32"):
        layer_parameters(NestedLayer(structure=inner), WIDTH, False)


# Pretrained


def configuration(folder: Path, **values: Any) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    sizes = {"hidden_size": 48, "intermediate_size": 96, "num_attention_heads": 4, "num_hidden_layers": 3}
    (folder / "config.json").write_text(json.dumps({"model_type": "bert", **sizes, **values}), encoding="utf-8")
    return str(folder)


FAMILIES = {
    "bert": ("BertConfig", "BertModel", lambda model: model.encoder.layer),
    "roberta": ("RobertaConfig", "RobertaModel", lambda model: model.encoder.layer),
    "distilbert": ("DistilBertConfig", "DistilBertModel", lambda model: model.transformer.layer),
    "vit": ("ViTConfig", "ViTModel", None),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_stated_sizes_are_those_of_the_librarys_own_layers(tmp_path: Path, family: str) -> None:
    transformers = pytest.importorskip("transformers")
    config_name, model_name, layers = FAMILIES[family]
    sizes: dict[str, Any] = {"hidden_size": 48, "intermediate_size": 80, "num_attention_heads": 4}
    sizes |= {"num_hidden_layers": 2, "vocab_size": 20}
    if family == "distilbert":
        sizes = {"dim": 48, "hidden_dim": 80, "n_heads": 4, "n_layers": 2, "vocab_size": 20}
    config = getattr(transformers, config_name)(**sizes)
    config.save_pretrained(tmp_path)
    model = getattr(transformers, model_name)(config)
    every = layers(model) if layers else next(m for m in model.modules() if isinstance(m, torch.nn.ModuleList))
    counted = sum(p.numel() for p in every[1].parameters())
    read = read_sizes(str(tmp_path))
    assert (read.family, read.width, read.feedforward, read.heads, read.layers) == (family, 48, 80, 4, 2)
    assert read.parameters == counted
    spec = PretrainedLayer(path=str(tmp_path), index=1, width=48)
    assert layer_parameters(spec, WIDTH, False) == counted + 2 * 48 * WIDTH + 48 + WIDTH
    products = 2 * 7 * (4 * 48**2 + 2 * 48 * 80) + 4 * 7**2 * 48 + 4 * 7 * WIDTH * 48
    assert layer_work(spec, WIDTH, 7, causal=False).products == products


def test_impossible_pretrained_layers_are_refused(tmp_path: Path) -> None:
    path = configuration(tmp_path / "model")
    for spec, message in (
        (PretrainedLayer(path=path, index=0), "has 48 channels, not 64: set the layer's width to 48"),
        (PretrainedLayer(path=path, index=3, width=48), "the model has layers 0 to 2"),
    ):
        with pytest.raises(UsageError, match=message):
            layer_parameters(spec, WIDTH, False)


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({"model_type": "gpt2"}, UsageError, "type 'gpt2'; layers can be taken from bert"),
        ({"model_type": ["bert"]}, UsageError, "type"),
        ({"hidden_size": "48"}, DataError, "hidden_size is '48'"),
        ({"hidden_size": True}, DataError, "hidden_size is 'True'"),
        ({"num_hidden_layers": 0}, DataError, "num_hidden_layers"),
    ],
)
def test_unreadable_configurations_are_refused(
    tmp_path: Path, values: dict[str, Any], error: type[EvodevoError], message: str
) -> None:
    with pytest.raises(error, match=message):
        read_sizes(configuration(tmp_path, **values))


def test_files_that_are_no_configuration_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not a configuration"):
        read_sizes(str(tmp_path))
    (tmp_path / "config.json").write_text("[1", encoding="utf-8")
    with pytest.raises(UsageError):
        read_sizes(str(tmp_path))


def test_names_are_found_in_the_local_cache_and_nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    snapshot = tmp_path / "models--someone--tiny" / "snapshots" / "abc"
    configuration(snapshot)
    reference = tmp_path / "models--someone--tiny" / "refs" / "main"
    reference.parent.mkdir()
    reference.write_text("abc\n", encoding="utf-8")
    assert model_folder("someone/tiny") == snapshot
    assert read_sizes("someone/tiny").width == 48
    for name in ("someone/other", "../someone/tiny", "no-such-folder"):
        with pytest.raises(NotFoundError, match="nothing is downloaded"):
            model_folder(name)
