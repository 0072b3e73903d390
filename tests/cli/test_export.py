"""The command ``export`` for individuals of runs."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from evodevo.cli.application import run
from evodevo.errors import ExitCode, NotFoundError, UsageError
from evodevo.export.models.base import MODEL_EXPORTERS
from evodevo.runs.archive import Archive, Individual
from evodevo.runs.export import export_individual, subject_of

Said = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def best(small: Any) -> str:
    with Archive(small.store) as archive:
        return str(archive.run(small.run).front()[0].id)


@pytest.mark.slow
def test_an_individual_leaves_as_one_file_with_its_story(small: Any, best: str, tmp_path: Path, capsys: Said) -> None:
    target = tmp_path / "out"
    assert run(["export", best, str(target), "--store", str(small.store), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["schema"] == "evodevo.export/1"
    assert said["format"] == "source"
    assert said["verified"]["difference"] <= said["verified"]["limit"]
    names = {one["name"] for one in said["files"]}
    assert names == {"README.md", "architecture.svg", "model.py", "model.safetensors", "spec.json", "tokenizer.json"}
    manifest = json.loads((target / "manifest.json").read_text())
    card = (target / "README.md").read_text()
    with Archive(small.store) as archive:
        individual = archive.individual(best)
        assert manifest["source"]["genome"] == individual.text
        assert manifest["source"]["run"] == small.run
        for baseline in individual.run.baselines():
            assert f"| {baseline.name} |" in card.replace("\\", "")
        for parent in individual.parents:
            assert parent in card
    assert "budget of the training" in card
    assert str(small.text.parent) not in card + json.dumps(manifest), "no path of this machine"
    assert "candidates that its run looked at" in card


def test_a_mistake_is_one_line_and_nothing_is_written(small: Any, best: str, tmp_path: Path, refuse: Any) -> None:
    target = str(tmp_path / "out")
    store = ["--store", str(small.store)]
    refuse(["export", small.run, target, *store], ExitCode.NOT_FOUND, f"evodevo front {small.run}")
    refuse(["export", best, target, "--to", "hff", *store], ExitCode.USAGE, "Did you mean 'hf'")
    refuse(["export", best, target, "--task", "x", *store], ExitCode.USAGE, "multitask system")
    if find_spec("onnxruntime") is None:
        refuse(["export", best, target, "--to", "onnx", *store], ExitCode.USAGE, "pip install 'evodevo[onnx]'")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "mine.txt").write_text("mine")
    refuse(["export", best, str(tmp_path), *store], ExitCode.USAGE, "mine.txt")


def test_without_weights_it_says_why_and_what_to_do(small: Any, best: str, tmp_path: Path) -> None:
    with Archive(small.store) as archive:
        individual = archive.individual(best)
        waiting = Individual(individual.run, individual.row, [])
        with pytest.raises(NotFoundError, match=f"not been trained yet.*evodevo resume {small.run}"):
            export_individual(waiting, tmp_path / "out")
        rows = [replace(row, state="failed", reason="nan", blobs={}) for row in individual.evaluations]
        with pytest.raises(NotFoundError, match=f"failed, nan.*evodevo train {best}"):
            export_individual(Individual(individual.run, individual.row, rows), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_tokenizer_of_another_vocabulary_is_refused(
    small: Any, best: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evodevo.tasks.text.tokenizers import train_bpe

    with Archive(small.store) as archive:
        individual = archive.individual(best)
        other = train_bpe([b"a cat and a dog " * 20], 300)
        monkeypatch.setattr(Individual, "tokenizer", lambda self: other)
        with pytest.raises(UsageError, match="do not belong together"):
            subject_of(individual)


def test_a_format_says_what_holds_networks_that_it_does_not(small: Any, best: str) -> None:
    with Archive(small.store) as archive:
        subject = subject_of(archive.individual(best))
    with pytest.raises(UsageError, match="Take --to pt2"):
        MODEL_EXPORTERS.get("hf").check(replace(subject, kind="module_zoo"))
    with pytest.raises(UsageError, match=r"of kind 'stack', which has no source; take --to pt2\.$"):
        MODEL_EXPORTERS.get("source").check(replace(subject, kind="stack", program=None))
