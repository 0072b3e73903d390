"""The recipe of pretrained layers as a run, very small: donors shared by its arms, training accuracy in its tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evodevo.errors import NotFoundError
from evodevo.experiments.comparison import compare_arms
from evodevo.experiments.recipe import ExperimentSettings
from evodevo.experiments.report.tables import arms_table
from evodevo.experiments.runs import EXPERIMENT
from evodevo.runs.resolve import resolve
from evodevo.runs.train import experiment
from evodevo.settings import merge

pytest.importorskip("transformers", reason="the extra hf is not installed")

RECIPE = "h_model.pretrained"
DONORS = [{"width": 8, "layers": 4, "heads": 4}, {"width": 16, "layers": 3, "heads": 4}]
CHOSEN = ("H-Model, mixed", "donors, answers averaged", "H-Model, fresh")


def overrides(**options: Any) -> dict[str, Any]:
    """The recipe's own arms, some of them, on few texts and for a moment."""
    settings = resolve(RECIPE, driver="train", overrides={})
    assert isinstance(settings, ExperimentSettings)
    arms = [plan.model_dump(mode="json") for plan in settings.experiment.arms if plan.name in CHOSEN]
    assert len(arms) == len(CHOSEN)
    samples = {"train": 80, "validation": 20, "test": 20}
    return {
        "experiment": {"arms": arms},
        "execution": {"executor": "serial"},
        "evaluation": {
            "training": {"budget": {"steps": 1}, "batch_size": 4, "device": "cpu"},
            "task_settings": {"vocabulary": 300, "length": 12, "topics": {"classes": 2, "samples": samples}},
            "options": {"pretrained": {"donors": DONORS, "pretraining": {"steps": 2, "batch": 4}, **options}},
            "train_samples": 16,
            "validation_samples": 12,
            "test_samples": 12,
            "curve_points": 1,
            "curve_samples": 8,
            "trace_samples": 0,
        },
    }


@pytest.mark.slow
def test_arms_share_donors_and_tables_show_what_was_memorised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evodevo.experiments.evaluate.look_inside", lambda *_: {})
    run = experiment(RECIPE, overrides=overrides(), store=tmp_path / "runs", cache_folder=tmp_path / "cache")
    with run.archive:
        table = compare_arms(run)
        assert {row.name for row in table.rows} == set(CHOSEN)
        assert not [words for row in table.rows for words in row.missing]
        used = {facts["donors"][number]["path"] for facts in table.facts.values() for number in facts.get("donors", {})}
        made = {str(one) for one in (tmp_path / "cache" / "donors").glob("[!.]*")}
        assert used == made
        assert len(made) == 2
        assert all(row.train is not None and 0 <= row.train.mean <= 1 for row in table.rows)
        assert table.baselines["test"].keys() == {"majority", "tf-idf"}
        arms = arms_table(table)
        assert "train %" in arms.columns
        assert all(len(row) == len(arms.columns) for row in arms.rows)
        assert "Printed in" in (page := run.slice.report(run))
        assert "Table 3" in page


def test_paths_are_found_from_any_folder_and_wrong_ones_leave_no_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path)
    settings = resolve(RECIPE, driver="train", overrides=overrides(paths=["mine", "somebody/some-model"]))
    found = merge(settings.model_dump(mode="json"), EXPERIMENT.paths(settings))
    paths = found["evaluation"]["options"]["pretrained"]["paths"]
    assert paths == [str(tmp_path / "mine"), "somebody/some-model"]
    with pytest.raises(NotFoundError, match="no folder 'nowhere'"):
        experiment(RECIPE, overrides=overrides(paths=["nowhere"] * 2), store=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
