"""Networks of samples that predict tokens write text, through Python and the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from evodevo.cli.application import run as command
from evodevo.runs.resolve import resolve
from evodevo.runs.train import experiment

BRIEF: dict[str, Any] = {
    "task_settings": {"synthetic": {"documents": 60, "letters": 80}, "context_length": 32},
    "training": {"budget": {"steps": 2}, "batch_size": 4},
    "validation_samples": 16,
    "test_samples": 16,
    "curve_points": 1,
    "curve_samples": 16,
    "trace_samples": 0,
    "probes": [],
}


@pytest.mark.slow
def test_h_models_and_stacks_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.set_num_threads(1)
    arms = resolve("h_model.languages", driver="train", overrides={}).model_dump(mode="json")["experiment"]["arms"]
    arms = [arm for arm in arms if arm["name"] in ("H-Model", "Tr(I+H+O)") and not arm["cell"]]
    changes = {
        "experiment": {"arms": arms, "reference": None},
        "evaluation": BRIEF,
        "execution": {"executor": "serial", "workers": 1},
    }
    with experiment("h_model.languages", overrides=changes, store=tmp_path).archive as archive:
        found = archive.runs()[0].individuals()
        assert {one.genome.network.kind for one in found} == {"h_model", "stack"}
        for one in found:
            text = one.generate("the ", 12, seed=3)
            assert text
            assert one.generate("the ", 12, seed=3) == text
        name = found[0].id
    assert command(["generate", name, "--prompt", "the ", "--tokens", "5", "--store", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "evodevo.generate/1"
