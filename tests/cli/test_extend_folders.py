"""``evodevo extend add`` and ``run`` on a folder of a user's own, with images as they come."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from evodevo.cli.application import run
from evodevo.errors import ExitCode
from evodevo.multitask.system import System
from evodevo.storage import Store


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two classes of 24 images in two shapes, in colour and grey, and one file that is no image."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    for name, mean in (("dark", 60), ("light", 180)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(24):
            shape = (20, 30, 3) if number % 2 else (41, 17)
            pixels = rng.normal(mean, 20, shape).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.png")
    (tmp_path / "photos" / "dark" / "broken.jpg").write_bytes(b"no image")
    return tmp_path / "photos"


def test_images_of_several_sizes_are_taken_and_what_was_done_is_printed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["extend", "create", "zoo"]) == ExitCode.SUCCESS
    assert run(["extend", "add", "zoo", "light", "--data", str(folder)]) == ExitCode.USAGE
    assert "broken.jpg" in capsys.readouterr().err
    add = ["extend", "add", "zoo", "light", "--data", str(folder), "--set", "task.options.skip_corrupt=true"]
    assert run(add) == ExitCode.SUCCESS
    printed = capsys.readouterr()
    said = " ".join((printed.out + printed.err).split())
    assert "data: images, 64 x 64, colour; 2 classes; 48 samples" in said
    assert "several sizes; all are resized to 64 x 64" in said
    assert "1 files cannot be read and are left out" in said
    assert "broken.jpg" in said


def test_a_size_can_be_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "dark" / "broken.jpg").unlink()
    assert run(["extend", "create", "zoo"]) == ExitCode.SUCCESS
    add = ["extend", "add", "zoo", "light", "--data", str(folder), "--set", "task.options.size=[20, 12]", "--json"]
    capsys.readouterr()
    assert run(add) == ExitCode.SUCCESS
    added = json.loads(capsys.readouterr().out)
    assert added["notes"] == []
    with Store.open("runs") as opened:
        agent = System.open(opened, "zoo").agents(tasks=["light"])[0]
    shown = agent.settings["inputs"][0]
    assert (shown["height"], shown["width"]) == (20, 12)
