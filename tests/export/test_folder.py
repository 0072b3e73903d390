"""An export is all there and verified, or nothing is; what somebody else put in a folder stays."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evodevo.errors import ExitCode, UsageError, VerificationError
from evodevo.export import fresh_process
from evodevo.export.base import Exporter, ExportSubject, Logits, Samples
from evodevo.export.folder import write_export
from evodevo.export.verify import TOLERANCE
from evodevo.testing.exporters import CLASSES, IMAGE, subject, vision_path


class Sums(Exporter):
    """A format that holds the mean of an image, times a factor for each class."""

    name, file, library = "sums", "factors.json", "none"

    def __init__(self, wrong: float = 0.0) -> None:
        self.wrong = wrong

    def write(self, subject: ExportSubject, folder: Path) -> None:
        (folder / self.file).write_text(json.dumps([place + self.wrong for place, _ in enumerate(subject.classes)]))
        (folder / self.file).chmod(0o600)  # as safetensors writes

    def ask(self, folder: Path, probes: Sequence[Samples]) -> list[Logits]:
        factors = json.loads((folder / self.file).read_text())
        return [means(one, factors) for one in probes]

    def usage(self, subject: ExportSubject) -> Sequence[tuple[str, str]]:
        return (("Mind", "print(1)\n"),)


def means(images: Samples, factors: Sequence[float]) -> Logits:
    return (images.mean((1, 2, 3))[:, None] * np.asarray(factors)).astype(np.float32)


def of_sums(scale: float = 1.0) -> ExportSubject:
    return replace(subject(vision_path()), answer=lambda images: means(images, [0.0, scale, 2 * scale]))


def left(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def test_an_export_holds_what_it_says(tmp_path: Path) -> None:
    done = write_export(Sums(), of_sums(), tmp_path / "new" / "out")
    assert left(done.folder) == ["README.md", "factors.json", "manifest.json", "spec.json"]
    assert left(tmp_path / "new") == ["out"], "no draft is left"
    manifest = json.loads((done.folder / "manifest.json").read_text())
    (mode,) = {one.stat().st_mode for one in done.folder.iterdir()}
    assert mode & 0o111 == 0
    assert mode & 0o777 == done.folder.stat().st_mode & 0o666, "all are for the same readers"
    spec = json.loads((done.folder / "spec.json").read_text())
    assert manifest["files"] == {
        name: hashlib.sha256((done.folder / name).read_bytes()).hexdigest()
        for name in ("README.md", "factors.json", "spec.json")
    }
    assert spec["classes"] == manifest["classes"] == list(CLASSES)
    assert spec["input"]["shape"] == [None, IMAGE.height, IMAGE.width, IMAGE.channels]
    assert {one["id"]: one["digest"] for one in manifest["components"]} == {
        "B~shapes:7": "0" * 64,
        "A~shapes:0": "1" * 64,
    }
    assert manifest["parameters"] == {"distinct": 400, "own": 100}
    assert manifest["verified"]["samples"] == 8


def test_an_earlier_export_is_replaced_if_alone_and_an_empty_folder_used(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.mkdir()
    write_export(Sums(), of_sums(), target)
    first = (target / "factors.json").stat().st_ino
    write_export(Sums(), of_sums(), target)
    assert (target / "factors.json").stat().st_ino != first
    assert left(tmp_path) == ["out"]
    (target / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"notes\.txt"):
        write_export(Sums(), of_sums(), target)


def test_drafts_of_killed_exports_are_removed_and_those_of_living_ones_are_not(tmp_path: Path) -> None:
    for name in ("killed", "living"):
        (tmp_path / f".out.draft-{name}").mkdir()
        (tmp_path / f".out.draft-{name}" / "model.pt2").write_bytes(b"half")
    (tmp_path / ".other.draft-killed").mkdir()
    handle = os.open(tmp_path / ".out.draft-living", os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        write_export(Sums(), of_sums(), tmp_path / "out")
    finally:
        os.close(handle)
    assert left(tmp_path) == [".other.draft-killed", ".out.draft-living", "out"]


@pytest.mark.parametrize("also", ["mine.txt", "manifest.json"])
def test_what_no_export_wrote_is_left_alone(tmp_path: Path, also: str) -> None:
    target = tmp_path / "out"
    target.mkdir()
    (target / also).write_text('{"files": {"x": "y"}}')
    with pytest.raises(UsageError, match=also):
        write_export(Sums(), of_sums(), target)
    assert left(target) == [also]


def test_a_file_and_a_link_are_no_folders(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("file", "link"):
        with pytest.raises(UsageError, match="no folder"):
            write_export(Sums(), of_sums(), tmp_path / name)
    with pytest.raises(UsageError, match="file is no folder, so that out"):
        write_export(Sums(), of_sums(), tmp_path / "file" / "out")


def test_what_answers_otherwise_is_refused_and_what_was_there_stays(tmp_path: Path) -> None:
    done = write_export(Sums(), of_sums(), tmp_path / "out")
    before = (done.folder / "manifest.json").read_bytes()
    with pytest.raises(VerificationError, match="differs") as caught:
        write_export(Sums(wrong=0.01), of_sums(), tmp_path / "out")
    assert caught.value.exit_code is ExitCode.VERIFICATION_FAILED
    assert (done.folder / "manifest.json").read_bytes() == before
    with pytest.raises(VerificationError):
        write_export(Sums(wrong=0.01), of_sums(), tmp_path / "other")
    assert left(tmp_path) == ["out"]


def test_the_tolerance_is_a_share_of_the_largest_logit_and_shapes_and_numbers_must_fit(tmp_path: Path) -> None:
    write_export(Sums(wrong=TOLERANCE), of_sums(), tmp_path / "near")  # the largest logit is twice the mean, or more
    with pytest.raises(VerificationError):
        write_export(Sums(wrong=4 * TOLERANCE), of_sums(), tmp_path / "far")
    with pytest.raises(VerificationError, match="finite"):
        write_export(Sums(wrong=float("nan")), of_sums(float("nan")), tmp_path / "out")
    fewer = replace(of_sums(), classes=CLASSES[:2])
    with pytest.raises(VerificationError, match="expected"):
        write_export(Sums(), fewer, tmp_path / "out")


def test_what_fails_in_the_fresh_process_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.pt2").write_bytes(b"PK no graph")
    monkeypatch.setattr(fresh_process, "SCRIPT", "import sys\nraise ValueError(open(sys.argv[1]).read())")
    with pytest.raises(VerificationError, match=r"model\.pt2 cannot be used in a fresh process: .*PK no graph"):
        fresh_process.ask(tmp_path / "model.pt2", [np.zeros((1, 2, 2, 1), np.uint8)])
