"""``evodevo extend add`` and ``run`` on a folder of a user's own, with images as they come."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from evodevo.cli.application import run
from evodevo.errors import ExitCode
from evodevo.multitask.run.image_size import notes_on_size
from evodevo.multitask.settings import AgentSettings
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


def squares(folder: Path, side: int) -> Path:
    """Two classes of twelve images with so many pixels of a side."""
    rng = np.random.default_rng(0)
    for name in ("dark", "light"):
        (folder / name).mkdir(parents=True)
        for number in range(12):
            Image.fromarray(rng.integers(0, 256, (side, side, 3), np.uint8)).save(folder / name / f"{number}.png")
    return folder


def test_a_note_says_what_is_read_of_images_that_are_larger_than_paths_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert run(["extend", "create", "zoo"]) == ExitCode.SUCCESS
    printed = capsys.readouterr()
    said = " ".join((printed.out + printed.err).split())
    assert "Its root is builtin:characters, for images of few pixels, since no other was named:" in said
    assert "for large images: --class Vit --root checkpoint:FOLDER" in said
    photos = squares(tmp_path / "photos", 224)
    assert run(["extend", "add", "zoo", "mine", "--data", str(photos)]) == ExitCode.SUCCESS
    printed = capsys.readouterr()
    said = " ".join((printed.out + printed.err).split())
    note = (
        "Its images are 224 x 224; paths of ConvSmall read them resized to 32 x 32 at first, and to 64 x 64 at most."
        " For large images begin with a ViT checkpoint: --class Vit --root checkpoint:FOLDER of extend create reads"
        " up to 384 x 384."
    )
    assert note in said
    assert run(["extend", "add", "zoo", "again", "--data", str(photos), "--json"]) == ExitCode.SUCCESS
    assert json.loads(capsys.readouterr().out)["notes"] == [note]
    fitting = squares(tmp_path / "icons", 64)
    assert run(["extend", "add", "zoo", "icons", "--data", str(fitting), "--json"]) == ExitCode.SUCCESS
    assert json.loads(capsys.readouterr().out)["notes"] == []
    sizes = "hyperparameters.ds_image_size={values = [64, 224], default = 64}"
    larger = ["extend", "add", "zoo", "larger", "--data", str(photos), "--set", sizes, "--json"]
    assert run(larger) == ExitCode.SUCCESS
    assert json.loads(capsys.readouterr().out)["notes"] == []


@pytest.mark.parametrize(
    ("kind", "shape", "words"),
    [
        ("ConvTiny", (65, 20), "65 x 20; paths of ConvTiny read them resized to 32 x 32 at first, and to 64 x 64"),
        ("VitT3", (224, 224), "32 x 32 at first, and to 112 x 112 at most. For large images begin with a ViT"),
        ("Vit", (500, 400), "384 x 384 at first, and to 384 x 384 at most."),
        ("Vit", (224, 224), ""),
        ("MultiConvSmall", (224, 224), ""),
        ("Text", (224, 224), ""),
    ],
)
def test_whose_paths_read_less_than_images_have(kind: str, shape: tuple[int, int], words: str) -> None:
    image = {"name": "image", "modality": "image", "height": shape[0], "width": shape[1], "channels": 3}
    notes = notes_on_size(kind, AgentSettings(classes=2, inputs=(image,)))
    assert len(notes) == bool(words)
    assert all(words in note for note in notes)
    assert all(note.endswith("at most.") for note in notes if kind == "Vit")
    assert notes_on_size(kind, AgentSettings(classes=2)) == []


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
