"""The same samples are the same task in whatever files they lie: csv, jsonl, npz, idx, folders, compressed or not."""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from evodevo.errors import DataError
from evodevo.multitask.run.create import add_task, create_system
from evodevo.multitask.run.settings import prepare_task
from evodevo.settings import validate
from evodevo.tasks.base import SPLITS
from evodevo.tasks.multitask.task import MultitaskSettings, MultitaskTask

Write = Callable[[Path, NDArray[Any], NDArray[np.int64]], None]
PACKS: Mapping[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}
SIZES = {"train": 40, "validation": 9, "test": 12}


def pack(path: Path, data: bytes) -> None:
    path.write_bytes(PACKS[path.suffix if path.suffix in PACKS else ""](data))


def csv(path: Path, x: NDArray[Any], y: NDArray[np.int64]) -> None:
    lines = [",".join([*map(str, row), str(label)]) for row, label in zip(x.tolist(), y.tolist(), strict=True)]
    pack(path, "\n".join([",".join([*(f"x_{place}" for place in range(x.shape[1])), "y"]), *lines, ""]).encode())


def jsonl(path: Path, x: NDArray[Any], y: NDArray[np.int64]) -> None:
    rows = [
        {**{f"x_{place}": value for place, value in enumerate(row)}, "y": label}
        for row, label in zip(x.tolist(), y.tolist(), strict=True)
    ]
    pack(path, "".join(f"{json.dumps(row)}\n" for row in rows).encode())


def npz(path: Path, x: NDArray[Any], y: NDArray[np.int64]) -> None:
    plain = path.with_name(f"{path.name}.plain.npz")
    np.savez(plain, x=x, y=y)
    pack(path, plain.read_bytes())
    plain.unlink()


def class_folders(path: Path, x: NDArray[Any], y: NDArray[np.int64]) -> None:
    for number, (pixels, label) in enumerate(zip(x, y.tolist(), strict=True)):
        (path / str(label)).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path / str(label) / f"{number:03}.png")


def idx(path: Path, x: NDArray[Any], y: NDArray[np.int64]) -> None:
    for kind, array in (("images", x), ("labels", y.astype(np.uint8))):
        sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
        name = path.name.replace("images", kind).replace("idx3", f"idx{array.ndim}")
        pack(path.with_name(name), bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes())


def samples(make: Callable[[np.random.Generator, int], NDArray[Any]]) -> dict[str, tuple[NDArray[Any], Any]]:
    """Samples of each split, sorted by class, as folders are read."""
    chance = np.random.default_rng(7)
    return {split: (make(chance, count), np.sort(np.arange(count) % 3)) for split, count in SIZES.items()}


ROWS = samples(lambda chance, count: chance.integers(-40, 40, (count, 3)) / 4)
PICTURES = samples(lambda chance, count: chance.integers(0, 256, (count, 5, 5), dtype=np.uint8))


def task_of(path: Path, cache: Path, **given: Any) -> tuple[Any, ...]:
    """What a task is: its source, classes, and the arrays of each split, in order."""
    facts, counts, *_ = prepare_task("mine", path, given, cache)
    settings = validate(MultitaskSettings, dict(facts.task), what="settings")
    task = MultitaskTask.open(settings, cache, facts.task_key)
    arrays = {
        f"{split} {name}": (array.shape, array.dtype.str, array.tobytes())
        for split in SPLITS
        for name, array in task.fetch(split, np.arange(task.count(split))).items()
    }
    return settings.source, facts.class_names, facts.modalities, dict(counts), arrays


FORMS_OF_ROWS: dict[str, Write] = {
    **{f".csv{packed}": csv for packed in PACKS},
    **{f".jsonl{packed}": jsonl for packed in PACKS},
    **{f".npz{packed}": npz for packed in PACKS},
}


@pytest.mark.parametrize("form", FORMS_OF_ROWS)
def test_rows_are_the_same_task_in_one_file_and_in_files_of_splits(form: str, tmp_path: Path) -> None:
    write = FORMS_OF_ROWS[form]
    csv(tmp_path / "plain.csv", *ROWS["train"])
    write(tmp_path / f"mine{form}", *ROWS["train"])
    alone = task_of(tmp_path / f"mine{form}", tmp_path / "cache")
    assert alone == task_of(tmp_path / "plain.csv", tmp_path / "cache")
    assert alone[:2] == ("rows", ("0", "1", "2"))

    for splits in (("train", "test"), tuple(SIZES)):
        for folder, suffix, form_of in (("plain", ".csv", csv), ("mine", form, write)):
            place = tmp_path / f"{folder}_{len(splits)}"
            place.mkdir()
            for split in splits:
                form_of(place / f"{split}{suffix}", *ROWS[split])
        found = task_of(tmp_path / f"mine_{len(splits)}", tmp_path / "cache")
        assert found == task_of(tmp_path / f"plain_{len(splits)}", tmp_path / "cache")
        assert found == task_of(tmp_path / f"mine_{len(splits)}", tmp_path / "cache", source="rows"), "--source rows"
    assert found[3] == SIZES, "given splits are kept"


@pytest.mark.parametrize("form", ["class folders", ".npz", ".npz.gz", ".npz.xz", "idx", "idx.gz", "idx.xz"])
def test_images_are_the_same_task_in_one_place_and_in_files_of_splits(form: str, tmp_path: Path) -> None:
    place, split_place = tmp_path / "one", tmp_path / "both"
    for folder in (place, split_place):
        folder.mkdir()
    npz(tmp_path / "plain.npz", *PICTURES["train"])
    (tmp_path / "plain").mkdir()
    for split in ("train", "test"):
        npz(tmp_path / "plain" / f"{split}.npz", *PICTURES[split])
        if form == "class folders":
            class_folders(split_place / split, *PICTURES[split])
        elif form.startswith("idx"):
            name = f"{'t10k' if split == 'test' else split}-images-idx3-ubyte{form.removeprefix('idx')}"
            idx(split_place / name, *PICTURES[split])
        else:
            npz(split_place / f"{split}{form}", *PICTURES[split])
    if form == "class folders":
        class_folders(place, *PICTURES["train"])
    elif form.startswith("idx"):
        idx(place / f"images-idx3-ubyte{form.removeprefix('idx')}", *PICTURES["train"])
    else:
        place = tmp_path / f"mine{form}"
        npz(place, *PICTURES["train"])
    alone = task_of(place, tmp_path / "cache")
    assert alone == task_of(tmp_path / "plain.npz", tmp_path / "cache")
    assert alone[:2] == ("images", ("0", "1", "2"))
    divided = task_of(split_place, tmp_path / "cache")
    assert divided == task_of(tmp_path / "plain", tmp_path / "cache")
    assert divided[3]["test"] == SIZES["test"]


def text_csv(path: Path, x: NDArray[Any], y: NDArray[np.int64]) -> None:
    lines = [f"the words {row[0]},{label}" for row, label in zip(x.tolist(), y.tolist(), strict=True)]
    pack(path, "\n".join(["text,label", *lines, ""]).encode())


def text_jsonl(path: Path, x: NDArray[Any], y: NDArray[np.int64]) -> None:
    rows = [{"text": f"the words {row[0]}", "label": label} for row, label in zip(x.tolist(), y.tolist(), strict=True)]
    pack(path, "".join(f"{json.dumps(row)}\n" for row in rows).encode())


def text_folders(path: Path, x: NDArray[Any], y: NDArray[np.int64]) -> None:
    for number, (row, label) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        (path / str(label)).mkdir(parents=True, exist_ok=True)
        (path / str(label) / f"{number:03}.txt").write_text(f"the words {row[0]}")


@pytest.mark.parametrize("form", [".csv", ".csv.gz", ".csv.xz", ".jsonl", ".jsonl.gz", ".jsonl.xz", ""])
def test_texts_are_the_same_task_in_one_file_and_in_files_of_splits(form: str, tmp_path: Path) -> None:
    texts = samples(lambda chance, count: chance.permutation(10_000)[:count, None])
    write = text_csv if "csv" in form else text_jsonl if "jsonl" in form else text_folders
    (tmp_path / "plain").mkdir()
    (tmp_path / "split").mkdir()
    write(tmp_path / f"mine{form}", *texts["train"])
    text_csv(tmp_path / "plain.csv", *texts["train"])
    for split in SIZES:
        text_csv(tmp_path / "plain" / f"{split}.csv", *texts[split])
        write(tmp_path / "split" / f"{split}{form}", *texts[split])
    alone = task_of(tmp_path / f"mine{form}", tmp_path / "cache")
    assert alone == task_of(tmp_path / "plain.csv", tmp_path / "cache")
    divided = task_of(tmp_path / "split", tmp_path / "cache")
    assert divided == task_of(tmp_path / "plain", tmp_path / "cache")
    assert (divided[0], divided[3]) == ("text_labels", SIZES)


def test_a_folder_of_tables_with_images_and_a_named_label_are_read_as_the_file_is(tmp_path: Path) -> None:
    class_folders(tmp_path / "tables" / "pictures", *PICTURES["train"])
    names = sorted((tmp_path / "tables").rglob("*.png"))
    table = "image,label\n" + "".join(f"{name.relative_to(tmp_path / 'tables')},{name.parent.name}\n" for name in names)
    (tmp_path / "tables" / "train.csv").write_text(table)
    found = task_of(tmp_path / "tables", tmp_path / "cache")
    assert found == task_of(tmp_path / "tables" / "train.csv", tmp_path / "cache")
    assert found[0] == "table"
    (tmp_path / "rows").mkdir()
    for split in ("train", "test"):
        csv(tmp_path / "rows" / f"{split}.csv", *ROWS[split])
        path = tmp_path / "rows" / f"{split}.csv"
        path.write_text(path.read_text().replace(",y\n", ",churned\n"))
    named = task_of(tmp_path / "rows", tmp_path / "cache", options={"label": "churned"})
    assert (named[0], named[3]["test"]) == ("rows", SIZES["test"])
    with pytest.raises(DataError, match=r"has no column 'label'.*--label COLUMN"):
        task_of(tmp_path / "rows", tmp_path / "cache")


def test_a_folder_of_vectors_gets_a_root_that_reads_them(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    for split in SIZES:
        npz(tmp_path / "mine" / f"{split}.npz.xz", *ROWS[split])
    create_system("zoo", kind="VitTiny", store=tmp_path / "runs")
    (made,) = add_task("zoo", "mine", data=tmp_path / "mine", store=tmp_path / "runs", cache_folder=tmp_path / "cache")
    assert (made.agent.kind, dict(made.samples)) == ("MlpSmall", SIZES)
    assert [column["kind"] for column in made.agent.settings["columns"]] == ["number"] * 3


# What is refused


def other_columns(folder: Path) -> None:
    csv(folder / "train.csv", *ROWS["train"])
    csv(folder / "test.csv", *ROWS["test"])
    path = folder / "test.csv"
    path.write_text(path.read_text().replace("x_1", "X_1"))


def no_label_in_test(folder: Path) -> None:
    csv(folder / "train.csv", *ROWS["train"])
    (folder / "test.csv").write_text("x_0,x_1,x_2\n1,2,3\n")


def no_archive(folder: Path) -> None:
    npz(folder / "train.npz", *ROWS["train"])
    (folder / "test.npz").write_bytes(b"no archive")


def torn(folder: Path) -> None:
    npz(folder / "train.npz.gz", *ROWS["train"])
    path = folder / "train.npz.gz"
    path.write_bytes(path.read_bytes()[:-40])


def no_archive_inside(folder: Path) -> None:
    pack(folder / "train.npz.xz", b"no archive")


def bomb(folder: Path) -> None:
    pack(folder / "train.npz.xz", bytes(100 * 2**20))


def bomb_in_a_bomb(folder: Path) -> None:
    """Zeros that the inner zip stores as they are, so that the zip itself states no ratio."""
    np.savez_compressed(folder / "inner.npz", x=np.zeros((1, 66 * 2**20), np.uint8), y=np.zeros(1))
    pack(folder / "train.npz.gz", (folder / "inner.npz").read_bytes())
    (folder / "inner.npz").unlink()


def not_named(folder: Path) -> None:
    csv(folder / "first.csv", *ROWS["train"])
    csv(folder / "second.csv", *ROWS["test"])


def two_of_one(folder: Path) -> None:
    csv(folder / "train.csv", *ROWS["train"])
    npz(folder / "train.npz", *ROWS["train"])


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (other_columns, r"test\.csv lacks 1 of the columns of .*train\.csv: x_1 \(there: x_0, X_1"),
        (no_label_in_test, r"test\.csv lacks 1 of the columns of .*train\.csv: y"),
        (no_archive, r"test\.npz is not a readable \.npz of plain arrays"),
        (torn, r"train\.npz\.gz cannot be read: Compressed file ended"),
        (no_archive_inside, r"train\.npz\.xz is not a readable \.npz of plain arrays"),
        (bomb, r"train\.npz\.xz unpacks to more than 200 times its size"),
        (bomb_in_a_bomb, r"train\.npz\.gz unpacks to more than 200 times its size"),
        (not_named, r"holds tables and none called train"),
        (two_of_one, r"train\.csv and .*train\.npz both look like the train split"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_folder_that_cannot_be_read_says_what_is_wrong(
    make: Callable[[Path], None], says: str, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    make(tmp_path / "mine")
    with pytest.raises(DataError, match=says):
        task_of(tmp_path / "mine", tmp_path / "cache")


def test_an_archive_larger_than_the_limit_is_refused_before_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evodevo.tasks.images import arrays

    npz(tmp_path / "mine.npz.gz", *ROWS["train"])
    monkeypatch.setattr(arrays, "MAX_BYTES", 100)
    with pytest.raises(DataError, match=r"mine\.npz\.gz has more than 100 bytes, unpacked"):
        task_of(tmp_path / "mine.npz.gz", tmp_path / "cache")
