"""The routing of trained H-Models of a store, through Python and the command line."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from evodevo.cli.application import run as command
from evodevo.errors import UsageError
from evodevo.h_model.trace.record import record_trace
from evodevo.h_model.trace.run import Traced, Tracer, _scripts
from evodevo.h_model.trace.spec import join
from evodevo.runs.archive import Archive
from evodevo.runs.resolve import resolve
from evodevo.runs.train import experiment
from evodevo.training.precision import decide
from fixtures.traces import trace_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the pointer experiment of a few steps."""
    torch.set_num_threads(1)
    store = tmp_path_factory.mktemp("traced") / "store"
    plans = resolve("h_model.pointer", driver="train", overrides={}).experiment.arms
    chosen = [one.model_dump(mode="json") for one in plans if one.role in ("h_model", "transformer")]
    changes: dict[str, Any] = {
        "experiment": {"arms": chosen},
        "evaluation": {
            "training": {"budget": {"steps": 12}, "batch_size": 8},
            "validation_samples": 8,
            "test_samples": 8,
            "curve_points": 3,
            "curve_samples": 8,
            "trace_samples": 8,
            "trace_course": True,
            "probes": [],
        },
        "execution": {"executor": "serial", "workers": 1},
    }
    experiment("h_model.pointer", overrides=changes, store=store).archive.close()
    return store


@pytest.fixture(scope="module")
def archive(folder: Path) -> Iterator[Archive]:
    with Archive(folder) as opened:
        yield opened


def identity(archive: Archive, role: str) -> str:
    return next(one.id for one in archive.run("last").individuals() if one.genome.role == role)


@pytest.fixture(scope="module")
def tracer(archive: Archive) -> Tracer:
    return Tracer(archive.individual(identity(archive, "h_model")))


@pytest.fixture(scope="module")
def trace(folder: Path, archive: Archive) -> list[str]:
    """The beginning of the command that traces the H-Model."""
    return ["trace", identity(archive, "h_model"), "--store", str(folder)]


def test_samples_are_traced_as_the_model_routes_them(tracer: Tracer) -> None:
    traced = tracer.samples("validation", 70)  # more than are run at once
    assert traced.trace.count == 70
    whole = record_trace(tracer.model, tracer.task, "validation", traced.places, decide("cpu"))
    assert traced.trace.routes() == pytest.approx(whole.routes(), abs=1e-6)
    assert traced.trace.samples == whole.samples
    assert (traced.trace.facts["hops"] == whole.facts["hops"]).all()
    assert traced.default_fact == "hops"
    trace = traced.trace
    parts = join([trace.select(np.arange(5)), trace.select(np.arange(5, 70))])
    assert (parts.routes() == trace.routes()).all()
    assert parts.samples == trace.samples


@pytest.mark.parametrize("double", [False, True])
def test_a_trace_is_the_same_under_a_default_of_double_precision(archive: Archive, double: bool) -> None:
    individual, places = archive.individual(identity(archive, "h_model")), np.arange(6)
    single = Tracer(individual)
    expected = record_trace(single.model, single.task, "validation", places, decide("cpu"))
    torch.set_default_dtype(torch.float64)
    try:
        other = Tracer(individual)
        if double:
            other.model.double()
        traced = record_trace(other.model, other.task, "validation", places, decide("cpu"))
        report = other.report(other.samples("validation", 60), probe="hops")
    finally:
        torch.set_default_dtype(torch.float32)
    assert traced.connections.dtype == np.float32
    np.testing.assert_allclose(traced.connections, expected.connections, atol=1e-5)
    assert report.trace.count == 60


def test_all_connections_are_drawn_on_demand_and_the_drawing_says_how(trace: list[str], tmp_path: Path) -> None:
    few, every = tmp_path / "few.svg", tmp_path / "every.svg"
    for path, more in ((few, []), (every, ["--all"])):
        assert command([*trace, "--samples", "8", "-o", str(path), *more]) == 0
    lines = [path.read_text().count("data-weight=") for path in (few, every)]
    assert lines[0] <= lines[1]
    assert "evodevo trace --all" not in every.read_text()
    assert ("evodevo trace --all" in few.read_text()) == (lines[0] < lines[1])
    assert command([*trace, "--all", "-o", str(tmp_path / "page.html")]) == 2


@pytest.mark.slow
def test_a_report_has_gradients_controls_and_the_course_of_training(tracer: Tracer) -> None:
    traced = tracer.samples("validation", 80)
    report = tracer.report(traced, fact="hops", probe="hops")
    assert report.gradient_norms.shape == (2,)
    assert (report.gradient_norms > 0).all()
    steps = [at.step for at in report.drift]
    assert len(steps) > 1
    assert steps == sorted(steps)
    assert steps[-1] == 12
    (probe,) = report.probes
    found = dict(probe.rows)
    # The hops are a token of the input, which a histogram cannot miss.
    assert found["input histogram"] > 0.9
    assert probe.gain is not None
    assert [each.name for each in report.classes] == ["1", "2", "3", "4"]
    torch.manual_seed(3)  # what was drawn before must not matter to the untrained control
    assert dict(tracer.report(traced, probe="hops").probes[0].rows) == found


def test_gradient_norms_are_those_of_one_backward(tracer: Tracer) -> None:
    traced = tracer.samples("validation", 20)
    norms = tracer.report(traced).gradient_norms
    batch = decide("cpu").place(tracer.task.fetch("validation", traced.places))
    assert isinstance(batch, dict)
    layer = tracer.model.core.layers[1]
    grads = torch.autograd.grad(tracer.model.loss(batch), list(layer.parameters()), allow_unused=True)
    wanted = torch.cat([grad.reshape(-1) for grad in grads if grad is not None]).norm()
    assert norms[1] == pytest.approx(float(wanted), rel=1e-5)
    assert all(parameter.grad is None for parameter in tracer.model.parameters())


def test_nonsense_is_refused(tracer: Tracer, archive: Archive) -> None:
    with pytest.raises(UsageError, match="no H-Model"):
        Tracer(archive.individual(identity(archive, "transformer")))
    backbone = SimpleNamespace(id="0123", run=SimpleNamespace(slice=SimpleNamespace(name="backbone")))
    with pytest.raises(UsageError, match="0123 is a backbone"):
        Tracer(backbone)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="0 samples"):
        tracer.samples("validation", 0)
    with pytest.raises(UsageError, match="no input 'words'"):
        tracer.given({"words": "a"})
    with pytest.raises(UsageError, match="reads no text"):
        tracer.given({"text": "2->0"})
    with pytest.raises(UsageError, match="leave --input out"):
        tracer.report(Traced(tracer.samples("validation", 4).trace), probe="hops")


# The command


@pytest.mark.slow
def test_the_command_writes_a_page_and_json(trace: list[str], tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "t.html"
    assert command([*trace, "--samples", "60", "--probe", "hops", "-o", str(path)]) == 0
    said = capsys.readouterr()
    assert said.out.strip() == str(path)
    assert "gain over the untrained model" in said.err
    text = path.read_text(encoding="utf-8")
    for words in ("Mean routing by hops", "A linear probe for hops", "Drift over training"):
        assert words in text
    assert command([*trace, "--samples", "20", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["individual"], found["samples"]) == ("evodevo.trace/1", trace[1], 20)
    assert np.shape(found["connections"]) == (4, 2, 3)
    assert (found["fact"], found["file"]) == ("hops", None)


@pytest.mark.slow
def test_the_command_says_what_is_wrong(trace: list[str], capsys: Any) -> None:
    for more, said in (
        (["--input", "text"], "not NAME=VALUE"),
        (["--input", "text=a", "--per", "hops"], "leave --input out"),
        (["--input", "text=a"], "reads no text"),
        (["--samples", "0"], "must be 1 to"),
        (["-o", "t.pdf"], "neither an .html page nor an .svg"),
        (["--per", "tongue"], "unknown fact 'tongue'"),
        (["--probe", "tongue"], "unknown fact 'tongue'"),
        (["--difference", "1"], "two classes with a comma"),
        (["--difference", "1,9"], "unknown value of hops '9'"),
    ):
        assert command([*trace, *more] if "--samples" in more else [*trace, "--samples", "8", *more]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "titles"), [([], 1), (["--per", "hops"], 4), (["--per", "hops", "--difference", "1,4"], 1)]
)
def test_the_command_draws(trace: list[str], tmp_path: Path, more: list[str], titles: int) -> None:
    path = tmp_path / "t.svg"
    assert command([*trace, "--samples", "20", *more, "-o", str(path)]) == 0
    root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts.count("t = 1") == titles  # one heading in each picture
    assert ("1 minus 4" in texts) == ("--difference" in more)
    assert ("hops: 3" in texts) == (titles == 4)


def test_scripts_of_a_fact_that_samples_do_not_have_are_none() -> None:

    facts = {"language": np.asarray([0, 1]), "script": np.asarray([0, 0])}
    names = {"language": ("en", "de"), "script": ("Latin",)}
    trace = trace_of(np.full((2, 1, 3), 0.5), np.full((2, 2, 2, 3), 0.5), facts=facts, names=names)
    assert _scripts(trace, "language") == {"en": "Latin", "de": "Latin"}
    assert _scripts(trace, "colour") == {}  # who asks for it is told by the probe
