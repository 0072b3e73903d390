"""What a user's data are, by names and columns; refusals name who could read them."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import numpy as np
import pytest

from evodevo.errors import DataError, UsageError
from evodevo.multitask.run.create import add_task, create_system
from evodevo.multitask.run.data_kind import holds_sounds, source_of, words_of_inputs, words_of_table
from evodevo.tasks.inputs import InputSpec

TEXTS = "text,label\n" + "".join(
    f"the {'cat' if n % 2 else 'dog'} number {n},{'c' if n % 2 else 'd'}\n" for n in range(60)
)
SHARED = Path(__file__).parents[4] / "shared" / "data"


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_columns_say_what_rows_are(tmp_path: Path, suffix: str) -> None:
    pack = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}[suffix]
    for name, content, found in (
        ("a.csv", TEXTS, "text_labels"),
        ("b.csv", "x,y,label\n1,2,a\n", "rows"),
        ("c.csv", "image,text,label\na.png,words,a\n", "table"),
        ("d.jsonl", '{"text": "one", "label": "a"}\n', "text_labels"),
        ("e.jsonl", '{"text": "one", "kind": "a"}\n', "table"),
    ):
        path = tmp_path / f"{name}{suffix}"
        path.write_bytes(pack(content.encode()))
        assert source_of(path) == found, name


def test_arrays_without_images_are_rows_and_named_columns_a_table(tmp_path: Path) -> None:
    numbers = np.zeros((4, 3))
    for name, arrays, found in (
        ("vectors", {"x": numbers, "y": np.arange(4)}, "rows"),
        ("images", {"x": np.zeros((4, 3, 3), np.uint8), "y": np.arange(4)}, "images"),
        ("packed", {"jpg": np.zeros(9, np.uint8), "offset": np.arange(4), "y": numbers}, "images"),
        ("neither", {"x": np.arange(4), "y": np.arange(4)}, "images"),
    ):
        np.savez(tmp_path / f"{name}.npz", **arrays)
        assert source_of(tmp_path / f"{name}.npz") == found, name
    (tmp_path / "a.csv").write_text("x,y,label\n1,2,a\n")
    assert source_of(tmp_path / "a.csv", ["label", "ignore"]) == "rows"
    assert source_of(tmp_path / "a.csv", ["label", "vectors"]) == "table"


def test_most_files_say_what_a_folder_is(tmp_path: Path) -> None:
    for folder, names, found in (
        ("images", ("a/1.png", "b/2.JPG", "README.md"), "images"),
        ("texts", ("a/1.txt", "b/2.txt", "LICENSE"), "text_labels"),
        ("digits", ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"), "images"),
    ):
        for name in names:
            (tmp_path / folder / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / folder / name).touch()
        assert source_of(tmp_path / folder) == found, folder
    for folder, name in (("sound", "a/1.wav"), ("other", "a/1.mp3")):
        (tmp_path / folder / name).parent.mkdir(parents=True)
        (tmp_path / folder / name).touch()
    assert source_of(tmp_path / "sound") == "images"
    assert holds_sounds(tmp_path / "sound")
    assert not holds_sounds(tmp_path / "images")
    (tmp_path / "texts" / "a" / "read_aloud.wav").touch()
    assert not holds_sounds(tmp_path / "texts")
    with pytest.raises(DataError, match=r"is one sound\. Give a folder"):
        source_of(tmp_path / "sound" / "a" / "1.wav")
    with pytest.raises(DataError, match=r"only \.wav files are read\. Convert them"):
        source_of(tmp_path / "other")
    with pytest.raises(DataError, match="there is nothing at"):
        source_of(tmp_path / "nowhere")


@pytest.mark.parametrize("names", [("train", "test"), ("train", "validation", "test"), ("training",)])
def test_the_file_for_training_says_what_a_folder_of_splits_is(tmp_path: Path, names: tuple[str, ...]) -> None:
    for suffix, content, found in (
        ("jsonl.gz", gzip.compress(b'{"text": "one", "label": "a"}\n'), "text_labels"),
        ("csv.xz", lzma.compress(b"x,y,label\n1,2,a\n"), "rows"),
        ("csv", b"image,text,label\na.png,words,a\n", "table"),
        ("npz", {"x": np.zeros((4, 3)), "y": np.arange(4)}, "rows"),
        ("npz", {"x": np.zeros((4, 3, 3), np.uint8), "y": np.arange(4)}, "images"),
    ):
        folder = tmp_path / f"{suffix}_{found}"
        folder.mkdir()
        (folder / "README.md").touch()
        for name in names:
            if isinstance(content, bytes):
                (folder / f"{name}.{suffix}").write_bytes(content)
            else:
                np.savez(folder / f"{name}.{suffix}", **content)
        assert source_of(folder) == found, (suffix, found)
    assert source_of(tmp_path / "csv.xz_rows", ["vectors"]) == "table"


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("cmaterdb_bangla", "images"),
        ("omniglot_small1", "images"),
        ("trec/train.jsonl.gz", "text_labels"),
        ("trec", "text_labels"),
    ],
)
def test_real_data(name: str, found: str) -> None:
    if not (SHARED / name).exists():
        pytest.skip(f"{SHARED / name} is not here")
    assert source_of(SHARED / name) == found


def test_texts_get_a_root_of_their_own_in_a_system_of_images(tmp_path: Path) -> None:
    common = {"store": tmp_path / "runs", "cache_folder": tmp_path / "cache"}
    create_system("zoo", store=tmp_path / "runs", kind="VitTiny")
    (tmp_path / "mails.csv").write_text(TEXTS)
    who = r"those of NgramSmall, NgramTiny, Text, TextTiny can: --class NgramSmall.*--beside --class NgramSmall"
    with pytest.raises(UsageError, match=who):
        add_task("zoo", "mails", data=tmp_path / "mails.csv", kind="VitTiny", **common)
    (made,) = add_task("zoo", "mails", data=tmp_path / "mails.csv", **common)
    assert made.agent.name == "NgramSmall~mails"
    assert made.root is not None
    assert made.root.name == "NgramSmall~root_model~random_init"
    (more,) = add_task("zoo", "more", data=tmp_path / "mails.csv", **common)
    assert (more.agent.kind, more.root) == ("NgramSmall", None), "one root for all of them"
    np.savez(
        tmp_path / "a.npz",
        x=np.zeros((40, 8, 8), np.uint8) + np.arange(40)[:, None, None].astype(np.uint8),
        y=np.arange(40) % 2,
    )
    made = add_task("zoo", "shades", data=tmp_path / "a.npz", store=tmp_path / "runs", cache_folder=tmp_path / "cache")
    settings = made[0].agent.settings
    assert settings["task"]["source"] == "images"
    assert words_of_inputs([InputSpec(**one) for one in settings["inputs"]]) == "images, 8 x 8, grey"


def test_columns_in_words() -> None:
    kinds = ["number", "number", "category", "date"]
    assert words_of_table([{"kind": kind} for kind in kinds]) == "a table with 1 category, 1 date and 2 numbers"
    assert words_of_table([{"kind": "category"}] * 2) == "a table with 2 categories"


def test_inputs_in_words() -> None:
    specs = [InputSpec("text", "tokens", length=1256, vocabulary=9), InputSpec("x", "vector", size=13)]
    assert words_of_inputs(specs) == "texts of at most 1,256 tokens and 13 numbers"
    assert words_of_inputs([InputSpec("i", "image", height=4, width=5, channels=3)]) == "images, 4 x 5, colour"
