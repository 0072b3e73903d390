"""The root of the package in ``evodevo.fit``: it reads images unless told otherwise, and is part of the model."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional as F

import evodevo
from evodevo.cli.application import run
from evodevo.errors import ExitCode, UsageError
from evodevo.estimators.automatic.candidates import boosting, forest
from evodevo.estimators.automatic.candidates.base import PREDICTORS
from evodevo.estimators.automatic.candidates.mean import MeanPredictor
from evodevo.estimators.automatic.features import package_root
from evodevo.estimators.automatic.features.package_root import USUAL, RootReading
from evodevo.multitask.roots.files import builtin_root
from evodevo.randomness import generator
from evodevo.tasks.rows.samples import Samples

ON = f", on {USUAL}"


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is remembered of other tests, and trees are few."""
    package_root._memories.clear()
    monkeypatch.setattr(boosting, "MOST_ITERATIONS", 4)
    monkeypatch.setattr(forest, "TREES", 4)


def samples_of(pixels: np.ndarray[Any, Any], present: list[bool] | None = None) -> Samples:
    count = len(pixels)
    there = np.ones(count, bool) if present is None else np.asarray(present)
    return Samples(count, np.zeros((count, 1)), np.zeros((count, 0), np.int64), images=(pixels,), present=(there,))


def strokes(count: int, seed: int) -> dict[str, Any]:
    """Images of 20 x 20 pixels with a line that lies or stands somewhere, dark on bright or bright on dark."""
    rng = generator(seed, "strokes")
    images = np.full((count, 20, 20, 1), 30, np.uint8)
    names = []
    for row in range(count):
        at, start, lies = int(rng.integers(3, 17)), int(rng.integers(1, 8)), row % 2 == 0
        line = images[row, at : at + 2, start : start + 12] if lies else images[row, start : start + 12, at : at + 2]
        line[:] = 220
        if rng.random() < 0.5:
            images[row] = 255 - images[row]
        names.append("lies" if lies else "stands")
    return {"image": images, "class": names}


def by_hand(pixels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The representation of each image, written out for the one structure that the root has."""
    file = builtin_root(USUAL)
    assert file is not None
    w = load_file(file)

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        return F.relu(F.group_norm(x, x.shape[1] // 8, w[f"{name}.weight"], w[f"{name}.bias"], 1e-5))

    x = torch.from_numpy(pixels).permute(0, 3, 1, 2).float()
    x = F.interpolate(x, (32, 32), mode="bilinear", antialias=True) / 127.5 - 1
    x = F.conv2d(x.expand(-1, 3, -1, -1), w["embedding.project.weight"], w["embedding.project.bias"], 2, 1)
    for block in ("encoderblock_0", "encoderblock_1"):
        y = norm(x, f"{block}.first_norm")
        inside = F.conv2d(y, w[f"{block}.first.weight"], None, 2, 1)
        inside = F.conv2d(norm(inside, f"{block}.second_norm"), w[f"{block}.second.weight"], None, 1, 1)
        x = F.conv2d(F.avg_pool2d(y, 2), w[f"{block}.around.weight"]) + inside
    (last,) = {name.rpartition(".")[0] for name in w if "block" not in name and "embedding" not in name}
    x = norm(x, last)
    quarters = [x[:, :, a : a + 2, b : b + 2].mean((2, 3)) for a in (0, 2) for b in (0, 2)]
    return torch.stack(quarters, 2).flatten(1).numpy()


def test_features_are_those_of_the_root_written_out() -> None:
    pixels = generator(0, "pixels").integers(0, 256, (70, 28, 20, 1)).astype(np.uint8)
    rows = samples_of(pixels, [place != 3 for place in range(70)])
    told: list[tuple[int, int]] = []
    read = RootReading.of(USUAL, rows).read(rows, lambda *news: told.append(news))
    assert (read.images, read.present, read.numbers.shape) == ((), (), (70, 1 + 384))
    assert told == [(64, 70), (70, 70)]
    there = np.arange(70) != 3
    np.testing.assert_allclose(read.numbers[there, 1:], by_hand(pixels)[there], atol=1e-4)
    assert np.isnan(read.numbers[3, 1:]).all()
    assert (read.numbers[:, 0] == 0).all()


def test_images_of_other_shapes_are_others_even_with_the_same_bytes() -> None:
    pixels = generator(1, "pixels").integers(0, 256, (3, 10, 40, 1)).astype(np.uint8)
    turned = pixels.reshape(3, 40, 10, 1)
    reading = RootReading.of(USUAL, samples_of(pixels))
    first, other = (reading.read(samples_of(images)).numbers[:, 1:] for images in (pixels, turned))
    np.testing.assert_allclose(first, by_hand(pixels), atol=1e-4)
    np.testing.assert_allclose(other, by_hand(turned), atol=1e-4)


def test_a_file_that_claims_to_be_the_root_reads_by_its_own_weights_and_cannot_be_huge() -> None:
    pixels = generator(0, "pixels").integers(0, 256, (4, 8, 8, 1)).astype(np.uint8)
    rows = samples_of(pixels)
    ours = RootReading.of(USUAL, rows)
    wanted = ours.read(rows).numbers
    theirs = RootReading.from_state(ours.facts, {name: array * 0.5 for name, array in ours.weights.items()})
    assert not np.allclose(theirs.read(rows).numbers, wanted)
    np.testing.assert_array_equal(ours.read(rows).numbers, wanted)
    for change in ({"widths": [8192, 8192, 65536]}, {"image_size": 4096}, {"widths": [32, 64]}):
        facts = ours.facts.model_copy(update={"structure": {**ours.facts.structure, **change}})
        with pytest.raises(UsageError):
            RootReading.from_state(facts, ours.weights)
    headed = ours.facts.model_copy(update={"structure": {**ours.facts.structure, "classes": 2}})
    with pytest.raises(UsageError, match="has no head"):
        RootReading.from_state(headed, {**ours.weights, "head": np.zeros(2 * 384 + 2, np.float32)})
    with pytest.raises(UsageError, match="not those of its structure"):
        RootReading.from_state(ours.facts, {name: array.astype(np.float64) for name, array in ours.weights.items()})


@pytest.mark.slow
def test_images_are_read_by_it_unless_the_user_names_another_or_none(tmp_path: Path) -> None:
    rows, test = strokes(60, 0), strokes(40, 1)
    model = evodevo.fit(rows, label="class", time_limit="60s", networks=False)
    board = model.leaderboard(test)
    on = [row.name for row in model.rows if row.name.endswith(ON)]
    assert len(on) == 3
    assert board.test[on[0]].score > 0.95
    plain = evodevo.fit(rows, label="class", time_limit="60s", networks=False, towers=())
    assert not any(USUAL in row.name for row in plain.rows)
    with pytest.raises(UsageError, match="faces"):
        evodevo.fit(rows, label="class", networks=False, towers="builtin:faces")
    texts = {"text": [f"{word} and more" for word in rows["class"]], "class": rows["class"]}
    with pytest.raises(UsageError, match="reads images, and the data have no column of them"):
        evodevo.fit(texts, label="class", networks=False, towers=USUAL)
    assert not any(
        USUAL in row.name for row in evodevo.fit(texts, label="class", time_limit="60s", networks=False).rows
    )


def test_a_model_keeps_its_weights_whatever_root_the_package_has_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, test = strokes(60, 0), strokes(40, 1)
    fitted = evodevo.fit(rows, label="class", time_limit="60s", networks=False)
    on = [one for name, one in fitted.others.items() if name.endswith(ON)]
    model = replace(fitted, predictor=MeanPredictor([on[0], on[1]], [0.25, 0.75]))
    wanted = model.predict_proba(test)
    model.save(tmp_path / "model")
    weights = sum(array.nbytes for array in on[0].to_state()[1].values())
    assert (tmp_path / "model" / "arrays.safetensors").stat().st_size < 1.2 * weights, "stored once for both"
    package_root._memories.clear()
    monkeypatch.setattr("evodevo.multitask.roots.files.FOLDER", tmp_path)
    np.testing.assert_array_equal(evodevo.FittedModel.load(tmp_path / "model").predict_proba(test), wanted)
    facts, arrays = on[0].to_state()
    again = PREDICTORS.get("tower").from_state(json.loads(json.dumps(facts)), arrays)
    assert again.to_state()[0] == facts
    assert again.to_state()[1].keys() == arrays.keys()


@pytest.mark.slow
def test_the_program_answers_as_the_model_does_without_evodevo(tmp_path: Path) -> None:
    rows, test = strokes(60, 0), strokes(20, 1)
    fitted = evodevo.fit(rows, label="class", time_limit="60s", networks=False)
    on = next(one for name, one in fitted.others.items() if name.endswith(ON))
    both = MeanPredictor([fitted.others["logistic regression, C = 1"], on], [0.5, 0.5])
    model = replace(fitted, predictor=both)
    model.export("source", tmp_path / "program")
    card = (tmp_path / "program" / "README.md").read_text()
    assert "`package_root.py`" in card
    loaded = evodevo.FittedModel.load(tmp_path / "program")
    np.testing.assert_array_equal(loaded.predict_proba(test), model.predict_proba(test))
    assert "CC BY-SA 3.0" in card, "what the weights have learned may ask something of who passes them on"
    code = (
        "import sys, json; sys.modules['evodevo'] = None; sys.path.insert(0, sys.argv[1]); from predict import Model; "
    )
    code += "print(json.dumps(Model().answers(json.loads(sys.stdin.read())).tolist()))"
    given = json.dumps([{"image": pixels.tolist()} for pixels in test["image"]])
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "program")], input=given, capture_output=True, text=True, check=True
    )
    np.testing.assert_allclose(json.loads(done.stdout), model.predict_proba(test), atol=1e-5)


def test_a_quantity_of_images() -> None:
    rows = strokes(60, 0)
    rows["class"] = [f"{10.0 + len(name) + place / 1000:.4f}" for place, name in enumerate(rows["class"])]
    model = evodevo.fit(rows, label="class", time_limit="60s", networks=False)
    assert sum(row.name.startswith("ridge regression, alpha") and row.name.endswith(ON) for row in model.rows) == 3


def test_the_command_takes_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = strokes(40, 0)
    np.savez(tmp_path / "rows.npz", x=rows["image"], y=np.asarray(rows["class"]))
    common = ["fit", str(tmp_path / "rows.npz"), "--label", "y", "--no-networks", "--time-limit", "60s", "--json"]
    for more, count in (([], 3), (["--tower", "none"], 0)):
        assert run([*common, *more]) == ExitCode.SUCCESS
        found = json.loads(capsys.readouterr().out)
        assert sum(row["name"].endswith(ON) for row in found["rows"]) == count
    assert run([*common, "--tower", "none", "--tower", USUAL]) == ExitCode.USAGE
    assert "beside another one" in capsys.readouterr().err
