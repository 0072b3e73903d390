"""An exported model answers without evodevo as the model does."""

from __future__ import annotations

import csv
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evodevo
from evodevo.errors import UsageError, VerificationError
from evodevo.estimators.automatic.candidates.mean import MeanPredictor
from evodevo.estimators.automatic.features.words import TextTerms
from evodevo.estimators.automatic.source import predict
from evodevo.estimators.automatic.source.probes import drawn
from evodevo.randomness import generator

TEXTS = ["A small River, a small river!", "überall  Wörter\tund x", "", "ab a abcdefgh 12 3.5", "nothing known"]


@pytest.mark.parametrize(("unit", "longest"), [("words", 2), ("tokens", 2), ("characters", 5)])
def test_tf_idf_is_scikit_learns(unit: Any, longest: int) -> None:
    terms = TextTerms.of(TEXTS, unit, longest, 1000)
    table = terms.read([*TEXTS, "a river of new words"]).toarray()
    own = terms.model_dump(mode="json")
    for row, text in enumerate([*TEXTS, "a river of new words"]):
        found = np.zeros(table.shape[1])
        for place, value in predict.tf_idf(own, text).items():
            found[place] = value
        np.testing.assert_allclose(found, table[row], atol=1e-12)


def rows(count: int = 80) -> dict[str, Any]:
    """One column of each kind, some cells missing."""
    rng = generator(2, "source")
    number, word, big = rng.normal(size=count), rng.integers(0, 3, count), rng.integers(0, 15, count)
    images = rng.integers(0, 100, (count, 14, 13, 3)).astype(np.uint8)
    images[number > 0] += 60
    return {
        "number": [None if row % 9 == 0 else value for row, value in enumerate(number.tolist())],
        "day": [f"2024-0{1 + row % 9}-1{row % 7}" for row in range(count)],
        "list": [f"[{value:.3f}, {row % 4}]" for row, value in enumerate(number.tolist())],
        "colour": ["" if row % 11 == 0 else ("red", "green", "blue")[place] for row, place in enumerate(word.tolist())],
        "code": [f"c{place}" for place in big.tolist()],
        "text": [
            f"the {('stone', 'river', 'cloud')[place]} of {row % 23} days" for row, place in enumerate(word.tolist())
        ],
        "image": images,
        "y": ["yes" if value > 0 else "no" for value in number.tolist()],
    }


@pytest.fixture(scope="module")
def model() -> evodevo.FittedModel:
    return evodevo.fit(rows(), "y", time_limit="20m", networks=False)


@pytest.mark.slow
def test_every_plain_model_is_exported_and_verified(model: evodevo.FittedModel, tmp_path: Path) -> None:
    assert {column.kind for column in model.reading.columns} >= {
        "number",
        "date",
        "vector",
        "category",
        "text",
        "image",
    }
    names = [name for name in model.others if name not in ("weighted ensemble",)]
    together = MeanPredictor([model.others[name] for name in names], [1 / len(names)] * len(names))
    folder = replace(model, predictor=together).export("source", tmp_path / "all")
    files = {"README.md", "arrays.safetensors", "manifest.json", "model.json", "predict.py", "sounds.py"}
    files |= {"package_root.py"}  # the rows have an image
    assert {path.name for path in folder.iterdir()} == files
    loaded = evodevo.FittedModel.load(folder)
    loaded.export("source", folder)  # replaces it, verified on rows that are drawn
    assert {path.name for path in folder.iterdir()} == files
    assert len(names) >= 6


@pytest.mark.slow
def test_neighbours_too(tmp_path: Path) -> None:
    data = {name: column for name, column in rows().items() if name != "text"}
    model = evodevo.fit(data, "y", time_limit="20m", networks=False)
    kept = model.others["5 nearest neighbours"]
    replace(model, predictor=kept).export("source", tmp_path / "near")


@pytest.mark.slow
def test_the_program_reads_a_csv_file(tmp_path: Path) -> None:
    data = {name: column for name, column in rows().items() if name != "image"}
    model = evodevo.fit(data, "y", time_limit="20m", networks=False)
    model.export("source", tmp_path / "plain")
    cells = model._rows(data).cells
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        csv.writer(file).writerows([list(cells), *zip(*cells.values(), strict=True)])
    command = [sys.executable, "-I", str(tmp_path / "plain" / "predict.py"), str(tmp_path / "rows.csv")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = list(csv.reader(done.stdout.splitlines()))
    assert lines[0] == ["answer", "probability of no", "probability of yes"]
    assert [line[0] for line in lines[1:]] == model.predict(data)
    np.testing.assert_allclose(
        np.asarray([line[1:] for line in lines[1:]], float), model.predict_proba(data), atol=1e-9
    )


@pytest.mark.slow
def test_a_program_that_answers_otherwise_leaves_nothing(
    model: evodevo.FittedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = model.others["logistic regression on words, C = 1"]
    other = replace(model, predictor=plain)
    monkeypatch.setattr("evodevo.estimators.automatic.source.export.SCRIPT", "import sys; print('[[0.5, 0.5]]')")
    with pytest.raises(VerificationError, match="answers otherwise"):
        other.export("source", tmp_path / "wrong")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_what_cannot_be_exported(model: evodevo.FittedModel, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="format"):
        model.export("pickle", tmp_path / "x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("x")
    with pytest.raises(UsageError, match="no export wrote"):
        model.export("source", tmp_path / "full")


@pytest.mark.slow
def test_drawn_rows_have_a_cell_of_every_kind(model: evodevo.FittedModel) -> None:
    given = drawn(model.reading, model.saved()[0].facts)
    samples = model.reading.read(given)
    assert samples.count == given.count == 50
    assert samples.codes.max(0).min() > 2
    assert 0 < np.isnan(samples.numbers).mean() < 0.5
    assert any("river" in text for text in samples.texts[0])
    assert len({image.tobytes() for image in samples.images[0]}) == 50
    assert drawn(model.reading, model.saved()[0].facts).cells == given.cells
