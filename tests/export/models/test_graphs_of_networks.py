"""Graphs of H-Models and zoos: dense ones for any number of samples, those that decide by their samples refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from evodevo.errors import UsageError
from evodevo.export.models import onnx
from evodevo.export.models.base import ModelSubject, Story, Written
from evodevo.export.models.pt2 import PT2, graph
from evodevo.networks.tensors import TensorNetwork
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.runs.export import model_subject
from evodevo.tasks.base import OutputSpec
from evodevo.testing.networks import CLASS, IMAGE, LABELS, NEXT, TEXT, small_model
from fixtures.small_zoo import lively, small_zoo


def subject(network: Any, kind: str) -> ModelSubject:
    return model_subject(TensorNetwork(network), name="it", kind=kind, story=Story("it", {}))


def extended() -> Any:
    """An H-Model with a layer that is switched off, and one of an output's own."""
    network = small_model((TEXT, IMAGE), (CLASS, LABELS), disabled=[1])
    network.give("tags", [network.add_node(TransformerLayer(heads=2, feedforward=12), enabled=True).place])
    return network


NETWORKS: dict[str, Any] = {
    "h_model": lambda: small_model((TEXT,), (NEXT,), causal=True),
    "h_model, own layers": extended,
    "module_zoo": lambda: lively(small_zoo(count=2), 0.1),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(NETWORKS))
def test_a_graph_gives_the_answers_for_any_number_of_samples(name: str) -> None:
    whole = subject(NETWORKS[name](), name.partition(",")[0])
    program, written = graph(whole, "pt2")
    assert written.facts["samples"][1] > 1000
    for probe in whole.probes(written.lengths):
        found = program.module()(*(torch.from_numpy(one) for one in probe))
        for got, wanted in zip(found, whole.answer(probe), strict=True):
            np.testing.assert_allclose(got.detach().numpy(), wanted, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_an_output_may_be_called_as_a_word_of_python(tmp_path: Path) -> None:
    """Tasks of images call theirs ``class``; the file is read as its user reads it."""
    whole = subject(small_model((IMAGE,), (OutputSpec("class", "class", 3),)), "h_model")
    assert any(".class." in name for name, _ in whole.network.named_parameters())
    written = PT2.write(whole, tmp_path)
    probes = whole.probes(written.lengths)
    for probe, ((got,),) in zip(probes, PT2.ask(tmp_path, probes), strict=True):
        np.testing.assert_allclose(got, whole.answer(probe)[0], rtol=0, atol=1e-5)


@pytest.mark.slow
def test_what_skips_layers_by_the_sample_is_refused_with_a_sentence() -> None:
    skipping = small_model((TEXT,), (NEXT,), causal=True, inference={"mode": "target_topm", "m": 1})
    with pytest.raises(UsageError, match=r"it cannot be written as pt2: it decides by .* the inference mode dense"):
        graph(subject(skipping, "h_model"), "pt2")


_EMPTY: Any = SimpleNamespace(network=torch.nn.Identity(), name="it", inputs=(), outputs=())


def test_a_disk_that_cannot_be_written_is_no_fault_of_the_exporter(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(onnx, "graph", lambda *_: (None, Written({}, None, ())))
    monkeypatch.setattr(onnx, "_without_history", lambda model: b"")
    monkeypatch.setattr(torch.onnx, "export", lambda *_, **__: SimpleNamespace(model_proto=b""))
    with pytest.raises(FileNotFoundError):
        onnx.ONNX.write(_EMPTY, tmp_path / "missing")


def test_the_cause_of_a_failed_onnx_export_is_in_the_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def export(*_: object, **__: object) -> None:
        try:
            raise KeyError("aten.nothing")
        except KeyError as error:
            raise RuntimeError("conversion failed") from error

    monkeypatch.setattr(onnx, "graph", lambda *_: (None, Written({}, None, ())))
    monkeypatch.setattr(torch.onnx, "export", export)
    with pytest.raises(UsageError, match=r"it cannot be written as onnx: .*aten\.nothing.* Take --to pt2"):
        onnx.ONNX.write(_EMPTY, tmp_path)
