"""The page, its JSON, and what the commands print of a protocol."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from evodevo.backbone.protocol.record import TableRow, read_protocol, sentences
from evodevo.backbone.protocol.text import cells, headings
from evodevo.cli.application import run as command
from evodevo.errors import ExitCode
from evodevo.experiments.downstream.individuals import evaluate
from evodevo.export.models.base import MODEL_EXPORTERS
from evodevo.runs.archive import Run
from evodevo.runs.composed import stage_runs
from evodevo.runs.export import subject_of

if TYPE_CHECKING:
    from .conftest import Carried

pytestmark = pytest.mark.slow


def test_the_report_has_the_table_and_its_json_beside_it(carried: Carried, tmp_path: Path) -> None:
    path = tmp_path / "cache.html"
    assert command(["report", carried.run, "--store", str(carried.store), "--output", str(path)]) == ExitCode.SUCCESS
    text, data = path.read_text(), json.loads(path.with_suffix(".json").read_text())
    assert text.startswith("<!")
    for row in data["rows"]:
        assert row["name"] in text
    assert text.count("<svg") >= 2
    assert "One model dominates another" in text
    assert data["evaluations"] == {"search": 8, "random": 8}
    assert data["stopped"] == {"search": 0, "random": 0}
    assert any("Against random search (8 and 8 evaluations; both" in sentence for sentence in data["sentences"])
    assert "generation  0" not in text, "the points of the picture have no generation"


def test_evaluations_that_stopped_at_a_rung_are_told_apart(protocol: Run) -> None:
    record = read_protocol(protocol)
    said = sentences(record.rows, protocol.settings, record.evaluations, {"search": 6, "random": 5})
    assert "(8 and 8 evaluations, 2 and 3 of them to the whole budget; both" in said[-1]


def test_a_best_rate_at_the_edge_of_those_that_were_tried_is_named(protocol: Run) -> None:
    record = read_protocol(protocol)
    tried = {0.01: 1.9, 0.02: 1.8, 0.04: 2.0}
    inside = [replace(row, rates=tried, learning_rate=0.02) for row in record.rows]

    def said(rows: list[TableRow]) -> list[str]:
        found = sentences(rows, protocol.settings, record.evaluations, record.stopped)
        return [sentence for sentence in found if "learning rate" in sentence]

    assert said(inside) == []
    assert said([replace(row, rates={0.02: 1.8}) for row in inside]) == [], "one rate was given, none was tuned"
    for edge in (0.01, 0.04):
        (sentence,) = said([replace(inside[0], learning_rate=edge), *inside[1:]])
        assert sentence.startswith(f"The best learning rate of {inside[0].name} is the lowest or the highest")


def test_commands_take_the_protocol_and_its_stages(
    carried: Carried, protocol: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ["--store", str(carried.store)]
    assert command(["show", "last", *store]) == ExitCode.SUCCESS
    shown = capsys.readouterr().out
    assert "star-1" in shown
    assert "random-1" in shown
    search = stage_runs(protocol)["search"]
    for name in ("front", "pick"):
        outputs = []
        for run in (carried.run, search.id):
            assert command([name, run, *store]) == ExitCode.SUCCESS
            outputs.append(capsys.readouterr().out)
        assert outputs[0] == outputs[1]
    for words in (["status"], ["status", carried.run], ["show", stage_runs(protocol)["tuning"].id]):
        assert command([*words, *store]) == ExitCode.SUCCESS
    assert "tunes the learning rate" in capsys.readouterr().out
    assert command(["show", carried.run, "--json", *store]) == ExitCode.SUCCESS
    assert json.loads(capsys.readouterr().out)["schema"] == "evodevo.protocol/1"


def test_files_of_questions_are_columns_with_an_average_and_hits(protocol: Run) -> None:
    record = read_protocol(protocol)
    columns = headings(record.rows, 4096)
    assert columns[5:7] == ["fox", "average"]
    assert all(len(row) == len(columns) for row in cells(record.rows))
    for row in record.rows:
        assert row.tasks == {"fox": 50.0}, "both answers are right equally often, so that any model knows half"
        assert row.average == 50.0
    assert "Hit rate by the mean over downstream tasks: 2 of 2." in record.sentences
    best = [replace(row, average=40.0) if row.name == "star-2" else row for row in record.rows]
    said = sentences(best, protocol.settings, record.evaluations, record.stopped)
    assert "Hit rate by the mean over downstream tasks: 1 of 2." in said


def test_last_names_the_finalist_that_is_best_after_the_last_training(protocol: Run) -> None:
    means = {
        row.trainings[0]: row.validation.mean
        for row in read_protocol(protocol).rows
        if row.role == "finalist" and row.validation
    }
    best = protocol.archive.individual("last")
    assert best.id == protocol.best().id == min(means, key=means.__getitem__)


def test_what_a_protocol_trained_to_the_end_is_evaluated_and_can_leave(
    carried: Carried, protocol: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    best = protocol.best()
    subject = subject_of(best)
    assert (subject.kind, subject.tokenizer.vocabulary) == ("backbone", 256)
    for name in ("source", "hf", "pt2"):
        MODEL_EXPORTERS.get(name).check(subject)
    row = next(row for row in read_protocol(protocol).rows if best.id in row.trainings)
    assert subject.story.source["genome"] == row.genome
    assert subject.story.lineage[0][0] == row.individual, "its ancestors are those of the search"
    assert subject.story.lineage[0][2] == row.genome
    (found,) = evaluate(best, tasks=carried.changes["protocol"]["tasks"])
    assert found.name == "fox"


def test_a_protocol_that_has_only_begun_is_readable(protocol: Run) -> None:
    """As it is before its first stage: no events but its plan."""

    class Begun(Run):
        def events(self) -> list:  # type: ignore[type-arg]
            return []

    record = read_protocol(Begun(protocol.archive, protocol.row))
    assert [row.name for row in record.rows] == ["transformer++", "striped-mamba"]
    assert all(isinstance(row, TableRow) and row.test is None for row in record.rows)
    assert record.sentences == ()
