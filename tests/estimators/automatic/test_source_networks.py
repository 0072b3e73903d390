"""An exported model with networks answers without evodevo as the model does, for every network of a race."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import evodevo
from evodevo.errors import VerificationError
from evodevo.estimators.automatic.candidates.constant import ConstantPredictor
from evodevo.estimators.automatic.candidates.mean import MeanPredictor
from evodevo.estimators.automatic.candidates.network import NetworkRow, inputs
from evodevo.estimators.automatic.features.package_root import USUAL, RootReading
from evodevo.estimators.automatic.leaderboard import Row
from evodevo.estimators.automatic.networks.arms import arms_for
from evodevo.estimators.automatic.networks.judging import build_arm, output_of
from evodevo.estimators.automatic.networks.predictor import NetworkFacts, NetworkPredictor
from evodevo.estimators.automatic.networks.reading import NetworkReading
from evodevo.estimators.automatic.scores import metric_of
from evodevo.randomness import generator
from evodevo.tasks.rows.samples import RowReading
from evodevo.tasks.rows.sources import read
from evodevo.tasks.rows.targets import Targets

COUNT = 40


def rows(folder: Path) -> dict[str, Any]:
    """A column of each kind that networks read; every fifth row lacks a number, its text or its image."""
    rng = generator(3, "networks")
    pixels = rng.integers(0, 256, (COUNT, 14, 13, 3)).astype(np.uint8)
    names = [f"{number}.png" for number in range(COUNT)]
    for name, image in zip(names, pixels, strict=True):
        Image.fromarray(image).save(folder / name)
    words = ("a stone!", "Rivers, rivers", "the cloud of days", "it is überall")
    return {
        "number": ["" if row % 5 == 0 else str(value) for row, value in enumerate(rng.normal(size=COUNT))],
        "code": [f"c{value}" for value in rng.integers(0, 5, COUNT).tolist()],
        "text": ["" if row % 5 == 1 else f"{words[row % 4]} {row % 7} {row % 3}" for row in range(COUNT)],
        "image": ["" if row % 5 in (2, 1) else name for row, name in enumerate(names)],
        "y": [("yes", "no", "=perhaps")[row % 3] for row in range(COUNT)],
    }


def model_of(data: dict[str, Any], only: str = "", constant: bool = False) -> evodevo.FittedModel:
    """The mean of untrained networks of every kind, with numbers drawn for all of their parameters."""
    given = read(data, ("y",))
    reading, targets = RowReading.of(given, ("y",)), Targets.of(given, "y", "")
    samples = reading.read(given)
    networks = inputs(samples, reading.levels)
    root = RootReading.of(USUAL, samples) if samples.images else None
    parts: list[Any] = []
    for half in (np.arange(0, 25), np.arange(10, COUNT)):  # folds have vocabularies and scales of their own
        read_by = NetworkReading.of(networks.take(half))
        for number, arm in enumerate(arms_for(read_by, root)):
            if only not in arm.name:
                continue
            network = build_arm(arm.structure, read_by, output_of("class", 3), number)
            rng = torch.Generator().manual_seed(number)
            with torch.no_grad():
                for parameter in network.parameters():
                    parameter.add_(torch.randn(parameter.shape, generator=rng), alpha=0.2)
            facts = NetworkFacts(structure=arm.structure, reading=read_by, kind="class", classes=3)
            parts.append(NetworkRow(NetworkPredictor(facts, network), reading.levels))
    if constant:
        parts.append(ConstantPredictor(np.asarray([0.5, 0.25, 0.25])))
    return evodevo.FittedModel(
        reading=reading,
        targets=targets,
        metric=metric_of(None, "class"),
        shares=np.full(3, 1 / 3),
        predictor=MeanPredictor(parts, [1 / len(parts)] * len(parts)),
        rows=(Row(name="all of them", kind="ensemble", score=0, log_loss=1, seconds=0),),
        held=1,
        left_out=(),
        others={},
        about={},
        probes=given,
    )


def test_a_network_and_a_plain_model_are_exported_and_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = rows(tmp_path)
    folder = model_of(data, only="convolutions + terms + mlp", constant=True).export("source", tmp_path / "out")
    assert sorted(path.name for path in folder.glob("*.py")) == ["predict.py", "sounds.py", "torch_networks.py"]


@pytest.mark.slow
def test_networks_of_every_kind_are_exported_and_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = rows(tmp_path)
    model = model_of(data, constant=True)
    answers = model.predict_proba(data)
    assert answers.std(0).min() > 0.01
    folder = model.export("source", tmp_path / "out")
    assert {path.name for path in folder.iterdir()} >= {"predict.py", "torch_networks.py", "zoo_1.py", "model.json"}
    for file in folder.glob("*.py"):
        assert "import evodevo" not in file.read_text()
    assert (evodevo.FittedModel.load(folder).predict_proba(data) == answers).all()
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        csv.writer(file).writerows([list(data), *zip(*data.values(), strict=True)])
    command = [sys.executable, "-I", str(folder / "predict.py"), str(tmp_path / "rows.csv")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/")
    lines = list(csv.reader(done.stdout.splitlines()))
    np.testing.assert_allclose(np.asarray([line[1:] for line in lines[1:]], float), answers, atol=1e-5)
    assert [line[0].removeprefix("'") for line in lines[1:]] == model.predict(data)
    assert {line[0] for line in lines[1:]} & {"'=perhaps", "yes", "no"} == {line[0] for line in lines[1:]}
    assert lines[0][0] == "answer"


@pytest.mark.slow
@pytest.mark.parametrize("kept", [("text",), ("image",), ("text", "image"), ("number", "code"), ("image", "number")])
def test_networks_of_some_inputs(kept: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = {name: column for name, column in rows(tmp_path).items() if name in (*kept, "y")}
    folder = model_of(data).export("source", tmp_path / "out")
    alone = kept == ("image",)
    assert (folder / "package_root.py").exists() == alone
    assert ("mnist10k (CC BY-SA 3.0)" in (folder / "README.md").read_text()) == alone


@pytest.mark.slow
def test_a_network_that_answers_otherwise_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = rows(tmp_path)
    model = model_of(data, only="zoo: mlp")
    text = Path(evodevo.__file__).parent / "estimators" / "automatic" / "source" / "torch_networks.py"
    wrong = tmp_path / "torch_networks.py"
    wrong.write_text(text.read_text().replace("found[rows] = answer", "found[rows] = 1.01 * answer"))
    monkeypatch.setattr("evodevo.estimators.automatic.source.written.__file__", str(tmp_path / "written.py"))
    with pytest.raises(VerificationError, match="answers otherwise"):
        model.export("source", tmp_path / "out")
    assert not (tmp_path / "out").exists()
