"""An ablation is a resumable experiment with a base for each block, and its table says the same as its numbers."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evodevo.errors import UsageError
from evodevo.experiments.comparison import compare_arms
from evodevo.experiments.correct_bits import unpack
from evodevo.experiments.paired import paired_difference
from evodevo.growth.ablation.recipe import BASE
from evodevo.growth.ablation.report import ablation_blocks
from evodevo.growth.ablation.run import ablate, plan
from evodevo.growth.ablation.table import COLUMNS, AblationLine, ablation_lines, ablation_record, to_csv
from evodevo.runs.archive import Archive, Run
from evodevo.runs.evolve import resume
from evodevo.settings import merge
from fixtures import questions

WANTED = "text_raw,relative_positions_off,full_dynamic,fixed"
TINY: dict[str, Any] = {
    "zoo": {"width": 16, "modules": "mlp,squeeze_excite", "extractor": {"blocks": 0}, "statistics": {"rank": 2}},
    "evaluation": {
        "training": {"budget": {"steps": 10}, "batch_size": 8},
        "validation_samples": 16,
        "test_samples": 40,
        "curve_points": 1,
        "curve_samples": 16,
        "trace_samples": 0,
    },
    "grow": {
        "strategist": "random",
        "events": {"count": 1, "first": 0.3, "last": 0.3, "warm": 0.2, "horizon": 0.2},
        "fitness": {"samples": 16},
        "prune": {"distil_steps": 0},
    },
    "experiment": {"seeds": 2},
    "execution": {"executor": "serial"},
}

Lines = Sequence[AblationLine]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a run that was stopped after its third training, and went on."""
    store = tmp_path_factory.mktemp("ablation")
    studies: list[Any] = []
    done: list[str] = []

    def listen(kind: str, payload: dict[str, Any]) -> None:
        if kind == "evaluated":
            done.append(kind)
            if len(done) == 3:
                studies[0].stop()

    with pytest.MonkeyPatch.context() as patch:
        questions.once(patch)
        few = merge(TINY, {"evaluation": {"task_settings": {"questions": 4}}})
        stopped = ablate(rows=WANTED, overrides=few, store=store, listener=listen, on_start=studies.append)
        assert stopped.state == "interrupted"
        stopped.archive.close()
        finished = resume("last", store=store)
    assert finished.state == "finished"
    finished.archive.close()
    return store


@pytest.fixture(scope="module")
def run(folder: Path) -> Iterator[Run]:
    with Archive(folder) as archive:
        yield archive.run("last")


@pytest.fixture(scope="module")
def lines(run: Run) -> Lines:
    return ablation_lines(run, compare_arms(run))


# What is about to be done


def test_a_row_that_was_named_and_cannot_be_had_is_refused_before_anything_is_recorded(tmp_path: Path) -> None:
    changes = merge(TINY, {"zoo": {"extractors": {}}, "evaluation": {"task": "pointer", "task_settings": {}}})
    with pytest.raises(UsageError, match="text_raw"):
        ablate(rows="text_raw", overrides=changes, store=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
    settings, left = plan("module_zoo.classifier", rows="B", overrides=changes)
    assert "text_raw" in {one.row.name for one in left}
    assert any("text_raw" in sentence for sentence in settings.experiment.caveats)


@pytest.mark.slow
def test_all_rows_are_trained_for_equally_long() -> None:
    settings, _ = plan("module_zoo.classifier", rows="A")
    assert settings.evaluation.select is not None
    assert settings.evaluation.select.patience is None
    assert settings.evaluation.training.budget.steps
    assert not any(arm.training for arm in settings.experiment.arms)
    given, _ = plan("module_zoo.classifier", rows="A", overrides={"evaluation": {"training": {"budget": {
        "steps": None, "seconds": None, "tokens": None, "flops": 2e12}}}})  # fmt: skip
    assert given.evaluation.training.budget.flops == 2e12
    assert given.evaluation.training.budget.steps is None


@pytest.mark.slow
def test_one_strategist_is_the_bases() -> None:
    settings, _ = plan("module_zoo.classifier", rows="D", overrides={"grow": {"strategist": "heuristic"}})
    assert settings.evaluation.options["grow"] == {"strategist": "heuristic"}
    with pytest.raises(UsageError, match="one strategist"):
        plan("module_zoo.classifier", rows="D", overrides={"grow": {"strategist": "ppo,random"}})


def test_other_recipes_are_refused() -> None:
    with pytest.raises(UsageError, match="not ablate"):
        plan("h_model.pointer")


# What came out


@pytest.mark.slow
def test_an_ablation_is_a_run_of_its_own_kind_with_a_base_in_every_block(run: Run, lines: Lines) -> None:
    assert run.kind == "ablate"
    assert [line.code for line in lines] == ["B", "B3", "C", "C10", "D", "D1", "D2"]
    assert [line.name for line in lines if line.row is None] == [BASE] * 3
    assert all(line.base is not None and line.base.name == BASE for line in lines if line.row is not None)
    assert all(line.base.cell == line.result.cell for line in lines if line.base is not None)


@pytest.mark.slow
def test_what_is_the_same_training_is_trained_once(run: Run, lines: Lines) -> None:
    copies = {one.genome.group for one in run.individuals() if "same_as" in one.fact}
    assert copies == {"base, block C", "Full Dynamic System (9 modules), block D"}
    line = next(line for line in lines if line.name == "full_dynamic")
    assert line.difference is not None
    assert (line.difference.mean, line.difference.low, line.difference.high) == (0.0, 0.0, 0.0)


@pytest.mark.slow
def test_differences_are_paired_with_the_base_of_the_block(run: Run, lines: Lines) -> None:
    right = {
        (one.genome.name, one.genome.cell["block"], one.genome.seed): unpack(one.fact["test"]["right"])
        for one in run.individuals()
    }
    for line in lines:
        if line.row is None:
            continue
        ours, theirs = ([right[name, line.block, seed] for seed in (0, 1)] for name in (line.result.name, BASE))
        assert line.difference == paired_difference(ours, theirs), line.name
        assert line.difference is not None
        assert line.difference.mean == pytest.approx(np.mean(ours) - np.mean(theirs))
        assert line.gap == pytest.approx(line.difference.mean, abs=0.01)


@pytest.mark.slow
def test_the_csv_has_one_line_per_row_and_the_numbers_of_the_table(run: Run, lines: Lines) -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(lines))))
    assert len(rows) == len(lines)
    assert tuple(rows[0]) == COLUMNS
    for row, line in zip(rows, lines, strict=True):
        assert line.result.test is not None
        assert float(row["accuracy_mean"]) == pytest.approx(line.result.test.mean)
        assert float(row["accuracy_deviation"]) == pytest.approx(line.result.test.deviation)
        assert row["seeds"] == "2"
        assert float(row["steps"]) == 10
        assert (row["difference_low"] == "") == (line.row is None)
        assert all(float(row[name]) > 0 for name in ("parameters", "executed_flops", "training_flops", "seconds"))
    assert rows[1]["paper_auc"] == "0.7623"
    for told, row in zip(ablation_record(run)["rows"], rows, strict=True):
        assert told["name"] == row["name"]
        assert told["accuracy_mean"] == pytest.approx(float(row["accuracy_mean"]))
        assert (told["difference_low"] is None) == (row["difference_low"] == "")


@pytest.mark.slow
def test_the_page_shows_the_rows_by_block_beside_the_papers(run: Run) -> None:
    page = run.slice.report(run)
    for title, words in ablation_blocks(run, compare_arms(run)).items():
        assert title in page
        for row in words.rows:
            assert row[2] in page
    assert "0.7623" in page
    assert "Its column of FLOPs" in page
    assert "<h2>Ablation</h2>" in page or ">Ablation<" in page


@pytest.mark.slow
def test_other_runs_have_no_such_table(small: Any) -> None:
    with Archive(small.store) as archive, pytest.raises(UsageError, match="evodevo ablate"):
        ablation_record(archive.run("last"))
