"""Labelled images in folders, npz and idx: what is found, what is read, what is refused."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import wavfile

from evodevo.errors import DataError
from evodevo.tasks.images.files import locate, read

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (6, 4, 5)).astype(np.uint8)
NUMBERS = np.asarray([0, 1, 2, 0, 1, 2], np.uint8)


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape) + array.tobytes()


def save(folder: Path, name: str, array: np.ndarray) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(folder / name)


def folder_of(root: Path) -> Path:
    for number, (pixels, label) in enumerate(zip(PIXELS, "abcabc", strict=True)):
        save(root, f"{label}/deeper/{number}.png", pixels)
    (root / "notes.txt").write_text("not an image")
    return root


def test_a_folder_of_classes(tmp_path: Path) -> None:
    (part,) = locate(folder_of(tmp_path))
    found = read(part)
    assert part.pool == "all"
    assert found.classes == ("a", "b", "c")
    assert list(found.labels) == ["a", "a", "b", "b", "c", "c"]
    np.testing.assert_array_equal(np.stack(found.images)[..., 0], PIXELS[[0, 3, 1, 4, 2, 5]])
    (tmp_path / "b" / "broken.jpg").write_bytes(b"not a jpeg")
    (part,) = locate(tmp_path)
    with pytest.raises(DataError, match=r"broken\.jpg"):
        read(part)
    found = read(part, skip_corrupt=True)
    assert len(found.images) == len(found.labels) == 6
    assert [Path(name).name for name in found.skipped] == ["broken.jpg"]


def test_folders_for_splits(tmp_path: Path) -> None:
    for name in ("train", "test"):
        folder_of(tmp_path / name)
    assert {part.path.name: part.pool for part in locate(tmp_path)} == {"train": "train_validation", "test": "test"}
    folder_of(tmp_path / "val")
    assert {part.path.name: part.pool for part in locate(tmp_path)} == {
        "train": "train",
        "val": "validation",
        "test": "test",
    }
    shutil.rmtree(tmp_path / "test")
    shutil.rmtree(tmp_path / "val")
    with pytest.raises(DataError, match="not both train and test"):
        locate(tmp_path)


def test_an_npz_with_names_of_classes_or_other_array_names_and_fractions(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=PIXELS, y=NUMBERS)
    (part,) = locate(tmp_path / "a.npz")
    assert read(part).labels == ["0", "1", "2", "0", "1", "2"]
    before = part.fingerprint()
    (tmp_path / "classes.json").write_text(json.dumps(["zero", "one", "two"]))
    (part,) = locate(tmp_path / "a.npz")
    found = read(part)
    assert part.fingerprint() != before
    assert found.classes == ("zero", "one", "two")
    np.testing.assert_array_equal(np.stack(found.images)[..., 0], PIXELS)
    (tmp_path / "classes.json").write_text(json.dumps(["zero", "one"]))
    with pytest.raises(DataError, match="the label 2 has no name"):
        read(part)
    np.savez(tmp_path / "a.npz", pictures=PIXELS[..., None] / 255, kinds=np.asarray(list("abcabc")))
    (part,) = locate(tmp_path / "a.npz")
    found = read(part, images="pictures", labels="kinds")
    np.testing.assert_array_equal(np.stack(found.images)[..., 0], PIXELS)
    assert list(found.labels) == list("abcabc")
    with pytest.raises(DataError, match=r"no array 'x' \(there: pictures, kinds\)"):
        read(part)


def test_joined_files_in_an_npz(tmp_path: Path) -> None:
    files = []
    for number, pixels in enumerate(PIXELS):
        save(tmp_path, f"{number}.png", pixels)
        files.append((tmp_path / f"{number}.png").read_bytes())
    files[2] = b"broken"
    offset = np.cumsum([0, *map(len, files)])
    np.savez(tmp_path / "a.npz", jpg=np.frombuffer(b"".join(files), np.uint8), offset=offset, y=NUMBERS)
    (part,) = locate(tmp_path / "a.npz")
    with pytest.raises(DataError, match="the image 2 of"):
        read(part)
    found = read(part, skip_corrupt=True)
    assert len(found.skipped) == 1
    assert found.labels == ["0", "1", "0", "1", "2"]
    np.testing.assert_array_equal(np.stack(found.images)[..., 0], np.delete(PIXELS, 2, axis=0))


def test_idx_as_mnist_has_it(tmp_path: Path) -> None:
    for kind, array in (("images-idx3", PIXELS), ("labels-idx1", NUMBERS)):
        (tmp_path / f"train-{kind}-ubyte.gz").write_bytes(gzip.compress(idx(array)))
        (tmp_path / f"t10k-{kind}-ubyte").write_bytes(idx(array))
    parts = locate(tmp_path)
    assert [part.pool for part in parts] == ["train_validation", "test"]
    for part in parts:
        found = read(part)
        np.testing.assert_array_equal(np.stack(found.images)[..., 0], PIXELS)
        assert found.labels == [str(number) for number in NUMBERS]


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (b"", "not an idx file"),
        (idx(PIXELS)[:-1], "states .* 120 bytes, and holds 119"),
        (b"\0\0\x0d\x03" + idx(PIXELS)[4:], "not an idx file of bytes"),
        (idx(PIXELS[:5]), "wanted are images"),
    ],
)
def test_damaged_idx(tmp_path: Path, images: bytes, message: str) -> None:
    (tmp_path / "images-idx3-ubyte").write_bytes(images)
    with pytest.raises(DataError, match="the labels of"):
        locate(tmp_path)
    (tmp_path / "labels-idx1-ubyte").write_bytes(idx(NUMBERS))
    (part,) = locate(tmp_path)
    with pytest.raises(DataError, match=message):
        read(part)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": PIXELS, "y": NUMBERS[:5]}, "6 images and 5 labels"),
        ({"x": PIXELS.astype(np.int64) - 300, "y": NUMBERS}, "from 0 to 255"),
        ({"x": PIXELS[..., None].repeat(2, -1), "y": NUMBERS}, "shape"),
        ({"x": PIXELS, "y": NUMBERS / 2}, "labels are float64"),
        ({"x": np.asarray([{}] * 6), "y": NUMBERS}, "no Python objects"),
    ],
)
def test_an_npz_that_does_not_fit(tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    (part,) = locate(tmp_path / "a.npz")
    with pytest.raises(DataError, match=message):
        read(part)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is nothing at"):
        locate(tmp_path / "absent")
    with pytest.raises(DataError, match="holds no images"):
        locate(tmp_path)
    (tmp_path / "a.txt").write_text("text")
    with pytest.raises(DataError, match="is no file of labelled images"):
        locate(tmp_path / "a.txt")
    (tmp_path / "a.npz").write_bytes(b"text")
    with pytest.raises(DataError, match="not a readable"):
        read(locate(tmp_path / "a.npz")[0])


def test_a_fingerprint_follows_content_and_class_but_not_the_place(tmp_path: Path) -> None:
    prints = [locate(folder_of(tmp_path / name))[0].fingerprint() for name in ("one", "two")]
    assert prints[0] == prints[1]
    (tmp_path / "two" / "a" / "deeper" / "0.png").rename(tmp_path / "two" / "b" / "deeper" / "0.png")
    assert locate(tmp_path / "two")[0].fingerprint() != prints[0]


def test_a_folder_holds_images_or_sounds(tmp_path: Path) -> None:
    for name, frequency in (("low", 200), ("high", 2_000)):
        (tmp_path / name).mkdir()
        for number in range(3):
            sound = np.sin(2 * np.pi * frequency * np.arange(1_000 * (1 + number)) / 8_000).astype(np.float32)
            wavfile.write(tmp_path / name / f"{number}.WAV", 8_000, sound)
    (part,) = locate(tmp_path)
    found = read(part)
    assert found.classes == ("high", "low")
    assert {image.shape for image in found.images} == {(64, 64, 1)}
    save(tmp_path, "low/a.png", np.zeros((4, 4), np.uint8))
    (part,) = locate(tmp_path)
    with pytest.raises(DataError, match=r"holds 6 sounds \(high/0\.WAV, \.\.\.\) and 1 images; give one kind"):
        read(part)
