"""Predicting: the best network of a run answers to samples of one's own, with what they lack, and to whole tables."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from evodevo.cli.application import run as command
from evodevo.errors import DataError, ExitCode, NotFoundError, UsageError
from evodevo.runs.answers import OutputPrediction, Prediction
from evodevo.runs.archive import Archive, Run
from evodevo.runs.predict import Predictor, best_trained
from evodevo.runs.train import experiment

COLOURS = {"red": (200, 30, 30), "blue": (30, 30, 200)}
ROWS = 80
STACK: dict[str, Any] = {
    "name": "stack",
    "network": {"kind": "stack", "structure": {"width": 8, "layers": [{"kind": "transformer", "heads": 2}]}},
}
"""A network without a token for what is missing."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images of two colours with texts that name them, as a table, and a table without answers."""
    folder = tmp_path_factory.mktemp("posts")
    rng = np.random.default_rng(0)
    rows = []
    for number in range(ROWS):
        name = list(COLOURS)[number % 2]
        pixels = np.clip(np.array(COLOURS[name]) + rng.integers(-20, 20, (8, 8, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
        rows.append((f"{number}.png", f"{'warm' if name == 'red' else 'cold'} thing {number}", name))
    for file, columns, kept in (("posts.csv", 3, rows), ("new.csv", 2, [*rows[:70], ("", "warm thing", "")])):
        with (folder / file).open("w", newline="") as opened:
            writer = csv.writer(opened)
            writer.writerow(("path", "caption", "class")[:columns])
            writer.writerows(row[:columns] for row in kept)
    return folder


@pytest.fixture(scope="module")
def store(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    store = tmp_path_factory.mktemp("predicting") / "runs"
    cache = store.parent / "cache"
    changes: dict[str, Any] = {
        "image": "path",
        "text": "caption",
        "label": "class",
        "data": str(folder / "posts.csv"),
        "zoo": {"width": 8, "modules": ["mlp", "cnn"], "extractor": {"blocks": 1}},
        "evaluation": {"training": {"budget": {"seconds": None, "steps": 40}, "batch_size": 16}, "curve_points": 4},
        "experiment": {"seeds": 2, "learning_rates": [0.01]},
        "execution": {"executor": "serial"},
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        arms = {"experiment": {**changes["experiment"], "arms": [STACK], "reference": None, "seeds": 1}}
        for given in (changes, {**changes, **arms}):
            experiment("module_zoo.classifier", baselines="none", overrides=given, store=store).archive.close()
    return store


@pytest.fixture(autouse=True)
def _cache(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(store.parent / "cache"))


@pytest.fixture
def archive(store: Path) -> Iterator[Archive]:
    with Archive(store) as archive:
        yield archive


@pytest.fixture
def zoo(archive: Archive) -> Run:
    return archive.runs()[0]


@pytest.mark.slow
def test_the_best_seed_answers_for_a_run_and_inputs_were_probed(archive: Archive, zoo: Run) -> None:
    best = best_trained(archive, zoo.id)
    errors = {one.id: one.scores["error"] for one in zoo.individuals()}
    assert errors[best.id] == min(errors.values())  # type: ignore[type-var]
    one = zoo.individuals()[1]
    assert best_trained(archive, one.id).id == one.id
    with pytest.raises(NotFoundError):
        best_trained(archive, "nobody")
    probes = zoo.individuals()[0].fact["probes"]
    assert set(probes) == {"other image", "other text"}


def test_a_sample_of_ones_own(archive: Archive, zoo: Run, folder: Path) -> None:
    one = best_trained(archive, zoo.id)
    both = one.predict({"image": str(folder / "0.png"), "text": "warm thing"})
    answered = both.answers["label"]
    assert answered.chosen == ("red",)
    assert sum(answered.probabilities.values()) == pytest.approx(1)
    assert both.absent == ()
    assert set(both.weights) == set(both.executed) == {"mlp-1", "cnn-1"}
    assert sum(both.weights.values()) == pytest.approx(1, abs=1e-5)
    text = one.predict({"text": "cold thing"})
    assert text.absent == ("image",)
    assert text.answers["label"].chosen == ("blue",)


def test_a_table_is_answered_row_by_row_as_samples_are(archive: Archive, zoo: Run, folder: Path) -> None:
    predictor = Predictor(best_trained(archive, zoo.id))
    found = list(predictor.rows(folder / "new.csv"))
    assert len(found) == 71, "more than one batch"
    assert [one.answers["label"].chosen[0] for one in found[:4]] == ["red", "blue"] * 2
    assert found[-1].absent == ("image",)
    alone = predictor.sample({"image": str(folder / "3.png"), "text": "cold thing 3"})
    assert alone.answers["label"].probabilities == pytest.approx(found[3].answers["label"].probabilities, abs=1e-5)


def test_what_cannot_be_asked(archive: Archive, zoo: Run, folder: Path, small: Any) -> None:
    predictor = Predictor(best_trained(archive, zoo.id))
    for values, words in (({"imge": "x"}, "Did you mean 'image'"), ({}, "no input is given")):
        with pytest.raises(UsageError, match=words):
            predictor.sample(values)
    with pytest.raises(DataError, match=r"sevn\.png"):
        predictor.sample({"image": "sevn.png"})
    with Archive(small.store) as backbones:
        best = backbones.run("last").front()[0]
        with pytest.raises(UsageError, match="evodevo generate"):
            best.run.slice.predictor(best)


def test_a_network_without_a_token_for_missing_inputs_says_so(archive: Archive, folder: Path) -> None:
    one = best_trained(archive, "last")
    assert one.genome.name == "stack"
    both = one.predict({"image": str(folder / "0.png"), "text": "warm thing"})
    assert (dict(both.weights), both.executed) == ({}, ())
    with pytest.raises(UsageError, match="'image' is missing"):
        one.predict({"text": "warm thing"})


def test_labels_are_chosen_each_for_itself() -> None:
    answered = OutputPrediction("labels", {"a": 0.9, "b": 0.2, "c": 0.6})
    assert answered.chosen == ("a", "c")
    told = Prediction({"tags": answered}, ("text",), {"mlp-1": 1.0}, ("mlp-1",)).to_json()
    assert told["answers"]["tags"]["chosen"] == ["a", "c"]
    assert told["modules"] == {"mlp-1": {"weight": 1.0, "executed": True}}


# The command


def test_the_command_says_it_in_words_and_in_json(
    store: Path, zoo: Run, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["predict", zoo.id, "--input", f"image={folder / '0.png'}", "--store", str(store)]
    assert command(words) == ExitCode.SUCCESS
    captured = capsys.readouterr()
    assert captured.out.startswith("label: red\n")
    assert "without text" in captured.err
    assert "cnn-1" in captured.out
    assert command([*words, "--json"]) == ExitCode.SUCCESS
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["run"], document["absent"]) == ("evodevo.predict/1", zoo.id, ["text"])
    assert document["answers"]["label"]["chosen"] == ["red"]


@pytest.mark.slow
def test_the_command_answers_a_table(
    store: Path, zoo: Run, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = ["predict", zoo.id, "--data", str(folder / "new.csv"), "--store", str(store)]
    assert command(table) == ExitCode.SUCCESS
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 21
    assert "71 rows in all" in captured.err
    path = tmp_path / "answers.csv"
    assert command([*table, "--output", str(path)]) == ExitCode.SUCCESS
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 71
    assert (rows[0]["label"], rows[-1]["missing"]) == ("red", "image")
    assert float(rows[0]["label: red"]) + float(rows[0]["label: blue"]) == pytest.approx(1, abs=1e-5)
    assert set(rows[0]) >= {"row", "module mlp-1", "module cnn-1"}
    capsys.readouterr()
    assert command([*table, "--json"]) == ExitCode.SUCCESS
    document = json.loads(capsys.readouterr().out)
    assert (document["count"], len(document["rows"]), document["file"]) == (71, 71, None)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "one of both"),
        (["--input", "text=a", "--data", "new.csv"], "one of both"),
        (["--input", "text"], "NAME=VALUE"),
        (["--input", "text=a", "--output", "x.csv"], "--output"),
        (["--data", "new.csv", "--output", "x.txt"], ".csv file"),
        (["--input", "txt=a"], "Did you mean 'text'"),
        (["--data", "no.csv"], "no.csv"),
        (["--input", "text=a", "--device", "gpu"], "unknown device"),
    ],
)
def test_the_command_refuses(
    words: list[str], message: str, store: Path, zoo: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["predict", zoo.id, *words, "--store", str(store)]) == ExitCode.USAGE
    assert message in capsys.readouterr().err
