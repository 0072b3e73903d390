"""``evodevo ablate`` from the command line: the table, its CSV, the run seen again, and what is refused."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from evodevo.cli.application import run
from evodevo.errors import ExitCode

BRIEF = """
[zoo]
width = 16
modules = "mlp,squeeze_excite"
extractor.blocks = 0
statistics.rank = 2

[evaluation]
task_settings = {questions = 4, form = "answer"}
training.batch_size = 8
validation_samples = 16
test_samples = 24
curve_points = 1
curve_samples = 16
trace_samples = 0

[execution]
executor = "serial"
"""


@pytest.mark.slow
def test_a_run_from_its_begin_to_its_table_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, store, file = tmp_path / "run.toml", str(tmp_path / "runs"), tmp_path / "rows.csv"
    config.write_text(BRIEF)
    begin = ["ablate", "module_zoo.classifier", "--rows", "router_mean", "--budget", "2steps", "--seeds", "1"]
    assert run([*begin, "--config", str(config), "--store", store, "--csv", str(file)]) == 0
    said = capsys.readouterr()
    assert "C: Attention Mechanism" in said.out
    assert "C8 Graph Attention Router" in said.out
    assert "trainings, duration not measured" in said.err  # so few steps are not worth measuring four
    rows = list(csv.DictReader(file.read_text().splitlines()))
    assert [row["name"] for row in rows] == ["base", "router_mean"]
    assert run(["ablate", "last", "--store", store, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "evodevo.ablation/1"
    assert [(one["name"], one["parameters"]) for one in document["rows"]] == [
        (row["name"], float(row["parameters"])) for row in rows
    ]
    assert run(["ablate", "last", "--store", store, "--csv", str(tmp_path / "again.csv")]) == 0
    assert (tmp_path / "again.csv").read_text() == file.read_text()
    for command in (["show", "last"], ["status", "last"], ["resume", "last"], ["report", "last", "-o", "a.html"]):
        words = [str(tmp_path / word) if word == "a.html" else word for word in command]
        assert run([*words, "--store", store]) == 0, capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["module_zoo.classifier", "--rows", "E"], "row of the ablation"),
        (["module_zoo.classifier", "--rows", ""], "needs rows"),
        (["module_zoo.classifier", "--rows", "A", "--seeds", "0"], "seeds"),
        (["module_zoo.classifier", "--rows", "D", "--set", "grow.strategist=nobody"], "nobody"),
        (["module_zoo.classifier", "--rows", "D", "--budget", "5steps"], "too few"),
        (["h_model.pointer"], "not ablate"),
        (["last", "--rows", "A"], "--rows is for a recipe"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_cannot_be_is_one_sentence(words: list[str], said: str, tmp_path: Path, refuse: Any) -> None:
    refuse(["ablate", *words, "--store", str(tmp_path / "runs")], ExitCode.USAGE, said)
    assert not (tmp_path / "runs").exists()
