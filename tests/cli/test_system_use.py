"""``predict`` and ``export`` of a system, as a user has them."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from evodevo.cli.application import run
from evodevo.errors import ExitCode
from evodevo.export.torch_export import TorchExport
from evodevo.testing.multitask.answering import CLASSES, COLOURS, MULTI, NAME, SHAPES

Said = pytest.CaptureFixture[str]


@pytest.fixture
def pictures(tmp_path: Path) -> list[str]:
    found = [str(tmp_path / f"{place}.png") for place in range(3)]
    for place, path in enumerate(found):
        Image.fromarray(np.random.default_rng(place).integers(0, 256, (10, 12), dtype=np.uint8)).save(path)
    return found


def predict(gallery: Path, *words: str) -> int:
    return run(["predict", NAME, *words, "--store", str(gallery)])


def document(capsys: Said) -> Any:
    return json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_images_are_named_one_after_another(gallery: Path, pictures: list[str], capsys: Said) -> None:
    given = [word for one in pictures for word in ("--input", one)]
    assert predict(gallery, "--task", SHAPES, *given, "--json") == 0
    said = document(capsys)
    assert said["schema"] == "evodevo.predict_system/1"
    assert (said["system"], said["agent"], said["validation"]) == (NAME, MULTI, 0.625)
    assert [row["sample"] for row in said["rows"]] == pictures
    assert {row["chosen"] for row in said["rows"]} <= set(CLASSES[SHAPES])
    assert said["rows"][0]["paths"][0]["path"].startswith(f"VitTiny~{SHAPES}/")
    assert predict(gallery, "--task", SHAPES, "--input", f"image={pictures[1]}", "--json") == 0
    (alone,) = document(capsys)["rows"]
    assert alone["sample"] == pictures[1]
    assert alone["probabilities"] == pytest.approx(said["rows"][1]["probabilities"], abs=1e-6)


def test_people_see_classes_and_paths(gallery: Path, pictures: list[str], capsys: Said) -> None:
    assert predict(gallery, "--task", SHAPES, "--input", pictures[0]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[0] in CLASSES[SHAPES]
    assert f"VitTiny~{SHAPES}/0" in shown.out
    assert f"task {SHAPES}, path {MULTI}/0, validation accuracy 0.6250" in shown.err
    assert predict(gallery, "--task", COLOURS, "--data", str(Path(pictures[0]).parent)) == 0
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 4
    assert "paths used" not in shown.out


@pytest.mark.slow
def test_nobody_waits_for_what_other_verbs_load(gallery: Path, pictures: list[str]) -> None:
    words = ["predict", NAME, "--task", SHAPES, "--input", pictures[0], "--store", str(gallery)]
    script = f"""
import sys
from evodevo.cli.application import run
assert run({words!r}) == 0
print([name for name in ("sklearn", "scipy.stats", "transformers") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_likeliest_classes_of_many_samples(gallery: Path, pictures: list[str], capsys: Said) -> None:
    words = ["--task", SHAPES, "--data", str(Path(pictures[0]).parent)]
    assert predict(gallery, *words, "--json") == 0
    rows = document(capsys)["rows"]
    assert predict(gallery, *words, "--top", "2") == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split()[:9] == ["sample", "class", "1", "probability", "1", "class", "2", "probability", "2"]
    for line, row in zip(lines, rows, strict=True):
        likeliest = sorted(row["probabilities"].items(), key=lambda pair: -pair[1])[:2]
        assert re.split(r"  +", line)[1:5] == [word for name, value in likeliest for word in (name, f"{value:.3f}")]
    assert predict(gallery, *words, "--top", "99") == 0
    assert f"class {len(CLASSES[SHAPES])}" in capsys.readouterr().out.splitlines()[0]
    assert predict(gallery, "--task", SHAPES, "--input", pictures[0], "--top", "1") == 0
    shown = capsys.readouterr()
    assert f"{len(CLASSES[SHAPES]) - 1} more classes" in shown.err


def test_a_folder_becomes_a_table(gallery: Path, pictures: list[str], tmp_path: Path, capsys: Said) -> None:
    out = tmp_path / "answers" / "out.csv"
    words = ["--task", SHAPES, "--data", str(Path(pictures[0]).parent), "-o", str(out)]
    assert predict(gallery, *words) == 0
    assert capsys.readouterr().out == ""
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["sample"] for row in rows] == ["0.png", "1.png", "2.png"]
    for row in rows:
        numbers = {name: float(row[f"p {name}"]) for name in CLASSES[SHAPES]}
        assert sum(numbers.values()) == pytest.approx(1, abs=1e-5)
        assert row["class"] == max(numbers, key=numbers.__getitem__)
        assert sum(float(value) for name, value in row.items() if name.startswith("path ")) == pytest.approx(
            1, abs=1e-5
        )
    assert predict(gallery, *words, "--json") == 0
    said = document(capsys)
    assert (said["count"], said["rows"], said["file"]) == (3, [], str(out))


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--input", "PICTURE"], ExitCode.USAGE, "--task: colours, shapes"),
        (["--task", "shape", "--input", "PICTURE"], ExitCode.NOT_FOUND, "colours, shapes"),
        (["--task", SHAPES], ExitCode.USAGE, "--input"),
        (["--task", SHAPES, "--input", "PICTURE", "--data", "."], ExitCode.USAGE, "one of both"),
        (["--task", SHAPES, "--input", "PICTURE", "-o", "a.txt"], ExitCode.USAGE, ".csv"),
        (["--task", SHAPES, "--input", "PICTURE", "--top", "0"], ExitCode.USAGE, "--top"),
        (["--task", SHAPES, "--input", "PICTURE", "--agent", "nobody"], ExitCode.NOT_FOUND, MULTI),
        (["--task", SHAPES, "--input", "gone.png"], ExitCode.USAGE, "gone.png"),
        (["--task", SHAPES, "--input", "PICTURE", "--device", "cuda:99"], ExitCode.USAGE, "cuda:99"),
    ],
)
def test_a_mistake_is_one_line(
    gallery: Path, pictures: list[str], refuse: Any, words: list[str], code: int, said: str
) -> None:
    given = [pictures[0] if word == "PICTURE" else word for word in words]
    refuse(["predict", NAME, *given, "--store", str(gallery)], code, said)
    words = ["--task", SHAPES, "--input", pictures[0], "--store", str(gallery)]
    refuse(["predict", "nothing", *words], ExitCode.NOT_FOUND, NAME)


def export(gallery: Path, target: Path, *words: str) -> int:
    return run(["export", NAME, str(target), *words, "--store", str(gallery)])


def ask_in_this_process(self: TorchExport, folder: Path, probes: list[Any]) -> list[Any]:
    program = torch.export.load(folder / self.file).module()
    return [program(torch.from_numpy(one)).detach().numpy() for one in probes]


@pytest.mark.slow
def test_an_export_is_written_and_verified(
    gallery: Path, tmp_path: Path, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TorchExport, "ask", ask_in_this_process)
    target = tmp_path / "out"
    assert export(gallery, target, "--task", SHAPES, "--to", "pt2", "--json") == 0
    said = document(capsys)
    assert said["schema"] == "evodevo.export_system/1"
    assert said["verified"]["difference"] <= said["verified"]["limit"]
    assert {one["name"] for one in said["files"]} == {"README.md", "model.pt2", "spec.json"}
    manifest = json.loads((target / "manifest.json").read_text())
    assert manifest["path"] == f"{MULTI}/0"
    assert manifest["classes"] == list(CLASSES[SHAPES])
    assert manifest["input"]["shape"] == [None, 10, 12, 1]
    owners = {one["id"].rpartition(":")[0] for one in manifest["components"]}
    assert {MULTI, f"VitTiny~{SHAPES}"} <= owners
    assert manifest["ancestors"][0]["path"] == f"VitTiny~{SHAPES}/0", "the main path inside it"
    card = (target / "README.md").read_text()
    assert "a \\| star" in card
    assert "| validation | 0.6250 |" in card
    assert "not measured" in card


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], ExitCode.USAGE, "--task: colours, shapes"),
        (["--task", "x"], ExitCode.NOT_FOUND, "colours, shapes"),
        (["--task", SHAPES, "--to", "pt3"], ExitCode.USAGE, "Did you mean 'pt2'"),
    ],
)
def test_an_export_that_cannot_be_is_one_line_and_nothing_is_written(
    gallery: Path, tmp_path: Path, capsys: Said, words: list[str], code: int, said: str
) -> None:
    assert export(gallery, tmp_path / "out", *words) == code
    shown = capsys.readouterr()
    assert said in shown.err
    assert not (tmp_path / "out").exists()
    # And a folder of somebody else is left alone.
    (tmp_path / "mine.txt").write_text("mine")
    assert export(gallery, tmp_path, "--task", SHAPES) == ExitCode.USAGE
    assert "mine.txt" in capsys.readouterr().err


def test_an_export_that_answers_otherwise_is_refused(
    gallery: Path, tmp_path: Path, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(self: TorchExport, folder: Path, probes: list[Any]) -> list[Any]:
        return [np.zeros((len(one), len(CLASSES[COLOURS])), np.float32) for one in probes]

    monkeypatch.setattr(TorchExport, "ask", wrong)
    monkeypatch.setattr(TorchExport, "write", lambda self, subject, folder: (folder / self.file).write_bytes(b""))
    assert export(gallery, tmp_path / "out", "--task", COLOURS) == ExitCode.VERIFICATION_FAILED
    assert "differs" in capsys.readouterr().err
    assert list(tmp_path.glob("*out*")) == []
