"""``evodevo.fit`` on a folder of images as users have them: of any size, some unreadable, many."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import evodevo
from evodevo.cli.application import run
from evodevo.errors import DataError, ExitCode
from evodevo.estimators.automatic.candidates import boosting, forest, linear
from evodevo.estimators.automatic.candidates.linear import Linear
from evodevo.randomness import generator
from evodevo.tasks.rows import sources
from evodevo.tasks.rows.samples import RowReading
from evodevo.tasks.rows.unreadable import without_unreadable

from .test_candidates import limit, make


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees are few."""
    monkeypatch.setattr(boosting, "MOST_ITERATIONS", 4)
    monkeypatch.setattr(forest, "TREES", 4)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Forty images of two classes and of many sizes; one more is cut off, and one is none."""
    rng = generator(0, "folder")
    for row in range(40):
        name, mean = ("dark", 70) if row % 2 else ("light", 170)
        sides = rng.integers(8, 40, 2)
        pixels = rng.normal(mean, 30, (*sides, 3) if row % 3 else sides).clip(0, 255).astype(np.uint8)
        (tmp_path / "mine" / name).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(tmp_path / "mine" / name / f"{row}.png")
    whole = (tmp_path / "mine" / "dark" / "1.png").read_bytes()
    (tmp_path / "mine" / "dark" / "half.png").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "mine" / "light" / "none.jpg").write_bytes(b"no image")
    return tmp_path / "mine"


def test_an_unreadable_image_ends_the_fit_or_is_left_out(folder: Path) -> None:
    with pytest.raises(DataError, match=r"half\.png.*skip_corrupt"):
        evodevo.fit(folder, "shade", time_limit=60, networks=False)
    told: list[tuple[str, dict[str, Any]]] = []
    model = evodevo.fit(
        folder,
        "shade",
        time_limit=60,
        networks=False,
        skip_corrupt=True,
        listener=lambda kind, facts: told.append((kind, facts)),
    )
    plan = next(facts for kind, facts in told if kind == "plan")
    assert (plan["rows"], plan["labelled"], plan["unreadable"]) == (42, 42, 2)
    assert plan["unreadable_names"] == ["dark/half.png", "light/none.jpg"]
    assert [facts["count"] for kind, facts in told if kind == "reading"] == [42]
    assert (model.about["unreadable"], model.held) == (2, 40)
    assert model.leaderboard().rows[0].score > 0.9


def test_rows_that_are_left_out_are_those_without_their_images(folder: Path) -> None:
    rows = sources.read(folder, ("shade",))
    kept, lost = without_unreadable(rows, ("shade",))
    assert lost == ("dark/half.png", "light/none.jpg")
    assert sorted({*rows.cells["image"]} - {*kept.cells["image"]}) == list(lost)
    assert without_unreadable(kept) == (kept, ())


def test_a_column_without_a_readable_image_is_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / "mine" / name).mkdir(parents=True)
        for number in range(8):
            (tmp_path / "mine" / name / f"{number}.png").write_bytes(b"no image")
    with pytest.raises(DataError, match="none of the first"):
        evodevo.fit(tmp_path / "mine", "name", time_limit=60, networks=False, skip_corrupt=True)


def test_too_few_readable_rows_are_refused(folder: Path) -> None:
    for file in sorted(folder.rglob("*.png"))[5:]:
        file.write_bytes(b"no image")
    with pytest.raises(DataError, match="5 rows with a label whose images can be read"):
        evodevo.fit(folder, "shade", time_limit=60, networks=False, skip_corrupt=True)


def test_reading_takes_no_time_of_the_limit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = RowReading.read

    def slowly(self: RowReading, *given: Any, **named: Any) -> Any:
        time.sleep(1.5)
        return read(self, *given, **named)

    monkeypatch.setattr(RowReading, "read", slowly)
    model = evodevo.fit(folder, "shade", time_limit=1, networks=False, skip_corrupt=True, towers=())
    assert len(model.leaderboard().rows) > 2


@pytest.mark.slow
def test_the_command_leaves_out_unreadable_images_of_the_test_too(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["fit", str(folder), "--label", "shade", "--no-networks", "--time-limit", "30s", "--test", str(folder)]
    assert run(words) == ExitCode.USAGE
    assert "half.png" in capsys.readouterr().err
    assert run([*words, "--skip-corrupt"]) == ExitCode.SUCCESS
    printed = " ".join(capsys.readouterr().err.split())
    assert printed.count("2 files cannot be read and are left out (dark/half.png, light/none.jpg)") == 2
    assert run([*words, "--skip-corrupt", "--json"]) == ExitCode.SUCCESS
    assert json.loads(capsys.readouterr().out)["data"]["unreadable"] == 2


@pytest.mark.slow
def test_the_package_root_comes_before_linear_models_of_pixels(folder: Path) -> None:
    told: list[str] = []

    def listen(kind: str, facts: dict[str, Any]) -> None:
        if kind == "candidate":
            told.append(facts["name"])

    evodevo.fit(folder, "shade", time_limit=60, networks=False, skip_corrupt=True, listener=listen)
    assert told[0] == "always the most frequent"
    assert told[1].endswith("on builtin:characters")
    assert told.index("logistic regression, C = 1") == 4


def test_a_large_logistic_regression_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    lesson = make("class", count=400)
    rows = np.arange(400)
    whole = Linear(1.0).train(lesson, rows, rows, limit()).probabilities(lesson.samples)
    monkeypatch.setattr(linear, "LARGE", 0)
    patient = Linear(1.0).train(lesson, rows, rows, limit()).probabilities(lesson.samples)
    np.testing.assert_array_equal(patient, whole)
    ended = limit()
    ended.stopped = True
    hurried = Linear(1.0, least=0).train(lesson, rows, rows, ended).probabilities(lesson.samples)
    with pytest.raises(DataError, match="200 iterations take about"):
        Linear(1.0).train(lesson, rows, rows, ended)
    # The last training, on all rows, is neither refused nor shorter than those of the folds.
    patient_again = Linear(1.0).retrain(lesson, rows, [], ended).probabilities(lesson.samples)
    np.testing.assert_array_equal(patient_again, whole)
    short_before = Linear(1.0, least=0)
    short_before.train(lesson, rows, rows, ended)
    again = short_before.retrain(lesson, rows, [], limit()).probabilities(lesson.samples)
    np.testing.assert_array_equal(again, hurried)
    monkeypatch.setattr(linear, "ITERATIONS", linear.TRIED)
    monkeypatch.setattr(linear, "LARGE", 10**12)
    short = Linear(1.0).train(lesson, rows, rows, limit()).probabilities(lesson.samples)
    np.testing.assert_array_equal(hurried, short)
    assert np.abs(short - whole).max() > 1e-3
