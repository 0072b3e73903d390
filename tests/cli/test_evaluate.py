"""``evodevo evaluate``: its table, its JSON, its record, and what it refuses."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import evodevo
from evodevo.cli.application import run
from evodevo.cli.use.evaluate_progress import EvaluationView, LiveEvaluation
from evodevo.errors import UsageError
from evodevo.experiments.downstream.results import TextResult
from evodevo.runs.archive import Archive
from evodevo.storage import Store

from .conftest import Refuse

if TYPE_CHECKING:
    from ..conftest import Small


@pytest.fixture(scope="module")
def store(small: Small, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the small search's store, which these tests write to."""
    return Path(shutil.copytree(small.store, tmp_path_factory.mktemp("evaluate") / "runs"))


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tasks")
    rows = [{"question": f"def f_{n}(value):", "choices": ["return", "nothing"], "answer": n % 2} for n in range(8)]
    (folder / "own.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    for number in range(3):
        (folder / f"{number}.txt").write_text(f"def function_{number}(value):\n    return value * {number}\n")
    return folder


@pytest.fixture(scope="module")
def names(store: Path, small: Small) -> tuple[str, str]:
    with Archive(store) as archive:
        found = archive.run(small.run)
        return found.front()[0].id, found.baselines()[0].id


Evaluate = Callable[..., dict[str, Any]]


@pytest.fixture
def evaluate(store: Path, capsys: pytest.CaptureFixture[str]) -> Evaluate:
    def answer(*words: str) -> dict[str, Any]:
        capsys.readouterr()
        assert run(["evaluate", *words, "--store", str(store), "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return answer


def test_two_individuals_on_questions_and_a_text(
    evaluate: Evaluate,
    names: tuple[str, str],
    tasks: Path,
    text: Path,
    store: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = [*names, "--tasks", str(tasks), "--data", str(text)]
    found = evaluate(*given)
    assert found["schema"] == "evodevo.evaluate/1"
    first, other = found["individuals"]
    questions, texts = first["results"]
    assert (questions["task"], questions["metrics"]["acc"]["count"], questions["chance"]) == ("own", 8, 0.5)
    assert texts["bytes"] == sum(len(file.read_bytes()) for file in text.iterdir())
    (difference,) = found["differences"]
    for between, key in zip(difference["results"], ("task", "text"), strict=True):
        assert between["low"] <= between["value"] <= between["high"]
        assert between["name"] in {result.get(key) for result in first["results"]}
    expected = texts["bits_per_byte"] - other["results"][1]["bits_per_byte"]
    assert difference["results"][1]["value"] == pytest.approx(expected)

    # The second time everything is known: nothing is measured, and the numbers are the same.
    with monkeypatch.context() as patch:
        patch.setattr("evodevo.experiments.downstream.individuals._measure", None)
        assert evaluate(*given)["individuals"] == found["individuals"]
        assert run(["evaluate", *given, "--store", str(store)]) == 0
    seen = capsys.readouterr()
    assert "known from the store" in seen.err
    head, *rows = seen.out.splitlines()
    assert head.split()[:3] == ["data", "metric", names[0]]
    assert [row.split()[0] for row in rows] == ["own", "acc_norm", text.name, "perplexity"]
    assert "8.000" in rows[2]
    assert evaluate(*given, "--again")["individuals"] == found["individuals"]


def test_show_and_report_list_what_is_recorded(
    evaluate: Evaluate, names: tuple[str, str], tasks: Path, store: Path, small: Small, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    (recorded,) = evaluate(names[0], "--tasks", str(tasks))["individuals"][0]["results"]
    assert run(["show", names[0], "--store", str(store)]) == 0
    value = recorded["metrics"]["acc"]["value"]
    assert f"acc {value:.3f} (" in capsys.readouterr().out
    assert run(["show", names[0], "--store", str(store), "--json"]) == 0
    shown = [entry["result"] for entry in json.loads(capsys.readouterr().out)["downstream"]]
    assert recorded in shown
    page = tmp_path / "page.html"
    assert run(["report", small.run, "--store", str(store), "--output", str(page)]) == 0
    assert "Questions and texts" in page.read_text()
    assert f"{value:.3f} (" in page.read_text()
    # A run that was evaluated is as finished as it was.
    with Archive(store) as archive:
        assert archive.run(small.run).state == "finished"


def test_the_python_of_it(names: tuple[str, str], store: Path, text: Path) -> None:
    with evodevo.open(store) as archive:
        (found,) = evodevo.evaluate(archive.individual(names[0]), data=text, context_length=8, stride=4)
    assert isinstance(found, TextResult)
    assert found.documents == 3
    with evodevo.open(store) as archive, pytest.raises(UsageError, match="unknown engine 'other'"):
        evodevo.evaluate(archive.individual(names[0]), data=text, engine="other")


def test_a_run_that_is_open_elsewhere_is_measured_but_not_written(
    names: tuple[str, str], store: Path, small: Small, tasks: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = _events(store, small.run)
    with Store.open(store) as held:
        lease = held.acquire(small.run)
        assert run(["evaluate", names[0], "--tasks", str(tasks), "--limit", "3", "--store", str(store)]) == 0
        held.release(lease)
    assert "not in the store: run" in capsys.readouterr().err
    assert _events(store, small.run) == before


def _events(store: Path, run_id: str) -> int:
    with Archive(store) as archive:
        return len(archive.run(run_id).events())


def test_bad_input(names: tuple[str, str], store: Path, tasks: Path, tmp_path: Path, refuse: Refuse) -> None:
    where = ["--store", str(store)]
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"question": "q", "choices": ["a", "b"], "answer": 0}\n{"question": "q", "choices": ["a", "b"]}\n')
    refuse(["evaluate", names[0], *where], 2, "nothing to evaluate on")
    refuse(["evaluate", names[0], "--tasks", str(bad), *where], 2, f"{bad}, line 2: answer (or gold) is missing")
    refuse(["evaluate", names[0], "--tasks", str(tmp_path / "none"), *where], 2, "there are no questions at")
    refuse(["evaluate", names[0], "--data", str(tmp_path / "none"), *where], 2, "there is nothing at")
    refuse(["evaluate", "zzz", "--tasks", str(tasks), *where], 3, "zzz")
    refuse(["evaluate", names[0], names[0], "--tasks", str(tasks), *where], 2, "named twice")
    refuse(["evaluate", names[0], "--tasks", str(tasks), "--context", "1", *where], 2, "at least 2")
    refuse(["evaluate", names[0], "--tasks", str(tasks), "--limit", "0", *where], 2, "at least 1")
    refuse(["evaluate", names[0], "--data", str(bad), "--field", "question", "--stride", "99", *where], 2, "stride")


def test_recall_is_asked_of_the_architecture(
    evaluate: Evaluate, names: tuple[str, str], store: Path, refuse: Refuse, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evodevo.backbone.recall.settings import RecallProbeSettings
    from evodevo.backbone.recall.training import train_and_ask

    brief = RecallProbeSettings(length=16, vocabulary=16, steps=2, batch_size=2)
    monkeypatch.setattr(
        "evodevo.backbone.recall.training.train_and_ask",
        lambda task, space, genome, settings, seed, device: train_and_ask(task, space, genome, brief, seed, device),
    )
    found = evaluate(*names, "--recall", "induction")
    (result,) = found["individuals"][0]["results"]
    assert (result["task"], result["metrics"]["acc"]["count"], result["chance"]) == ("induction", 500, 1 / 14)
    assert found["differences"][0]["results"] == [None]
    words = ["evaluate", names[0], "--recall", "mqr", "--store", str(store)]
    refuse(words, 2, "unknown task of recall 'mqr'. Did you mean 'mqar'?")


def test_a_missing_harness_names_its_extra(
    names: tuple[str, str], store: Path, tasks: Path, refuse: Refuse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    words = ["evaluate", names[0], "--tasks", str(tasks), "--engine", "lm-eval", "--store", str(store)]
    refuse(words, 2, "pip install 'evodevo[eval]'")


def test_progress_says_what_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    for view in (EvaluationView(lambda: now[0]), LiveEvaluation(lambda: now[0])):
        view.next("one")
        view.handle("begin", {"name": "piqa", "number": 1, "count": 2})
        now[0] += 10
        view.handle("progress", {"done": 25, "whole": 100})
        assert view.status() == "one: piqa (1 of 2) 25 %, 30 s left"
        view.handle("result", {"name": "piqa", "recorded": False})
        view.end()
    assert "one: piqa (1 of 2): 10 s" in capsys.readouterr().err
