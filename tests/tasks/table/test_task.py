"""The task of a user's own table: the laws, forms, splits by group, what is missing, samples without answers."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from PIL import Image

from evodevo.errors import DataError, UsageError
from evodevo.settings import validate
from evodevo.tasks.base import ALL_SPLITS, NO_TARGET, Split
from evodevo.tasks.table.group_splits import Shares
from evodevo.tasks.table.task import TableSettings, TableTask
from evodevo.tasks.text.tokenizers import train_bpe
from evodevo.testing.tasks import SampleTaskTests

HEADER = ("image", "text", "age", "price", "kind", "tags", "same", "author")


def _posts(folder: Path, count: int = 120) -> Path:
    """A table with images; every fifth text, seventh image and ninth number is missing."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    rows: list[Sequence[Any]] = [HEADER]
    for number in range(count):
        pixels = rng.integers(0, 200, (6, 5, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "images" / f"{number}.png")
        rows.append(
            (
                f"images/{number}.png" if number % 7 else "",
                f"A {('cat', 'dog', 'cow')[number % 3]}, number {number}." if number % 5 else "",
                number,
                "" if number % 9 == 0 else number / 4,
                "abc"[number % 3],
                ("x|y", "y", "z|x", "")[number % 4],
                ("yes", "no")[number // 2 % 2],
                f"author {number // 3}",
            )
        )
    return _write(folder / "posts.csv", rows)


def _write(path: Path, rows: Sequence[Sequence[Any]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path


def _open(tmp_path: Path, **settings: Any) -> TableTask:
    return TableTask.open(validate(TableSettings, settings, what="settings"), tmp_path / "cache")


def _all(task: TableTask, split: Split = "train") -> dict[str, Any]:
    return dict(task.fetch(split, np.arange(task.count(split))))


class TableTests(SampleTaskTests):
    """The laws, over a table that is written first."""

    task_class = TableTask
    columns: ClassVar[dict[str, Any]]
    changes: ClassVar[tuple[dict[str, Any], ...]] = ()

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _written(cls, tmp_path_factory: pytest.TempPathFactory) -> None:
        folder = tmp_path_factory.mktemp("table")
        columns = {"data": str(_posts(folder)), **cls.columns}
        cls.settings = TableSettings(**columns)
        cls.decisive = tuple(TableSettings(**columns | change) for change in cls.changes)
        # The same rows and images in another place.
        cls.indifferent = (TableSettings(**columns | {"data": str(_posts(folder / "copy"))}),)


class TestImageTextAndNumbers(TableTests):
    columns: ClassVar = {"image": "image", "text": "text", "vectors": ("age", "price"), "label": "kind"}
    changes = (
        {"label": "tags", "separator": "|"},
        {"group": "author"},
        {"size": (4, 4)},
        {"tokenizer": "bytes"},
        {"shares": Shares(test=0.3)},
        {"label": None, "match": "same"},
    )


class TestTextAndImageForLabels(TableTests):
    test_another_process_reads_the_same = None  # as above
    # Bytes, since words that training lacks are all the same to a model.
    columns: ClassVar = {"image": "image", "text": "text", "label": "tags", "separator": "|", "match": "same"} | {
        "tokenizer": "bytes"
    }
    changes = ({"text": None, "match": None}, {"image": None, "match": None})


def test_values_are_those_of_the_table(tmp_path: Path) -> None:
    path = _posts(tmp_path)
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    task = _open(tmp_path, data=str(path), image="image", text="text", vectors="age", label="kind")
    by_age = {float(row["age"]): row for row in rows}
    numbers = {split: _all(task, split)["vectors"][:, 0] for split in task.splits}
    ages = np.asarray([float(row["age"]) for row in rows])
    seen = 0
    for split in task.splits:
        batch, texts = _all(task, split), task.texts(split)
        for place in range(task.count(split)):
            age = numbers[split][place] * task._meaning["scale"][0] + task._meaning["mean"][0]
            row = by_age[round(float(age))]
            assert texts[place] == row["text"]
            assert batch["text/mask"][place].any() == bool(row["text"])
            assert task.outputs[0].names[batch["label/target"][place]] == row["kind"]
            if row["image"]:
                np.testing.assert_array_equal(batch["image"][place], np.asarray(Image.open(tmp_path / row["image"])))
            else:
                assert not batch["image"][place].any()
            seen += 1
    assert seen == len(ages)
    assert abs(numbers["train"].mean()) < 1e-6
    assert abs(numbers["train"].std() - 1) < 1e-6


@pytest.mark.parametrize("column", ["author", "text"])
def test_no_group_stands_in_two_splits(tmp_path: Path, column: str) -> None:
    rows = [(f"said {number % 40}", number, "ab"[number % 2], f"author {number // 8}") for number in range(160)]
    path = _write(tmp_path / "a.csv", [("text", "age", "label", "author"), *rows])
    group = {"group": column} if column == "author" else {}
    task = _open(tmp_path, data=str(path), text="text", vectors="age", label="label", **group)
    owner: dict[Any, Split] = {}
    scale, mean = task._meaning["scale"][0], task._meaning["mean"][0]
    for split in task.splits:
        for text, age in zip(task.texts(split), _all(task, split)["vectors"][:, 0], strict=True):
            fact = text if column == "text" else round(float(age * scale + mean)) // 8
            assert owner.setdefault(fact, split) == split
    assert len(set(owner.values())) == 4


def test_a_few_questions_about_many_images_are_divided_by_image(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    rng = np.random.default_rng(1)
    rows = []
    for number in range(40):
        Image.fromarray(rng.integers(0, 255, (4, 4), dtype=np.uint8)).save(tmp_path / f"{number}.png")
        rows += [(f"{number}.png", f"is it {what}?", ("no", "yes")[rng.integers(2)]) for what in ("red", "big", "old")]
    task = _open(tmp_path, data=str(_write(tmp_path / "a.csv", [("image", "text", "label"), *rows])))
    owner: dict[bytes, Split] = {}
    for split in task.splits:
        for image in _all(task, split)["image"]:
            assert owner.setdefault(image.tobytes(), split) == split
        assert task.count(split) % 3 == 0
    assert "by equal image, each class evenly (equal texts would keep 100%" in task.describe()["split_rule"]
    # Two rows that share an image or a text stand together where texts are mostly different.
    other = [(image, f"{text} {at // 2}", label) for at, (image, text, label) in enumerate(rows)]
    both = _open(tmp_path, data=str(_write(tmp_path / "b.csv", [("image", "text", "label"), *other])))
    assert both.describe()["split_rule"].startswith("by equal image and equal text")


def test_splits_that_the_user_gives_stay(tmp_path: Path) -> None:
    def rows(start: int, stop: int) -> list[tuple[str, ...]]:
        return [("text", "label"), *((f"word{number}", "ab"[number % 2]) for number in range(start, stop))]

    data, test = _write(tmp_path / "a.csv", rows(0, 60)), _write(tmp_path / "b.csv", rows(50, 70))
    task = _open(tmp_path, data=str(data), test=str(test))
    assert sorted(task.texts("test")) == sorted(f"word{number}" for number in range(50, 70))
    # What the test split holds is taken from the rest, from which the other three splits come.
    assert sum(task.count(split) for split in ALL_SPLITS) == 70
    assert task.describe()["left_out"]["held_out_repeats"] == 10
    named = [("text", "label", "part")]
    names = ("train", "TEST", "val", "")
    named += [(f"word{number}", "ab"[number // 4 % 2], names[number % 4]) for number in range(80)]
    by_column = _open(tmp_path, data=str(_write(tmp_path / "c.csv", named)), split="part")
    assert set(by_column.texts("test")) == {f"word{number}" for number in range(1, 80, 4)}
    assert set(by_column.texts("validation")) == {f"word{number}" for number in range(2, 80, 4)}
    assert by_column.count("train") + by_column.count("architecture") == 40
    assert by_column.count("architecture") == 5
    with pytest.raises(DataError, match=r"'part' names the split 'holdout'; known are train"):
        _open(tmp_path, data=str(_write(tmp_path / "d.csv", [*named, ("x", "a", "holdout")])), split="part")


def test_several_labels_come_from_a_separator_or_from_json_lists(tmp_path: Path) -> None:
    said = [["x", "y"], ["y"], [], ["z"]]
    lines = "".join(json.dumps({"text": f"w{n}", "label": said[n % 4]}) + "\n" for n in range(80))
    (tmp_path / "a.jsonl").write_text(lines)
    listed = _open(tmp_path, data=str(tmp_path / "a.jsonl"))
    assert listed.outputs[0].kind == "labels"
    assert listed.outputs[0].names == ("x", "y", "z")
    for split in listed.splits:
        target = _all(listed, split)["label/target"]
        for place, text in enumerate(listed.texts(split)):
            names = {name for name, value in zip(listed.outputs[0].names, target[place], strict=True) if value}
            assert names == set(said[int(text[1:]) % 4])
    rows = [("text", "label"), *((f"w{n}", "+".join(said[n % 4])) for n in range(80))]
    separated = _open(tmp_path, data=str(_write(tmp_path / "b.csv", rows)), separator="+")
    # An empty cell is no answer; an empty list says that no label applies.
    assert separated.describe()["left_out"]["no_answer"] == 20
    assert sum(map(separated.count, ALL_SPLITS)) == 60


def test_half_a_pair_neither_matches_nor_differs(tmp_path: Path) -> None:
    task = _open(tmp_path, data=str(_posts(tmp_path)), image="image", text="text", label="kind", match="same")
    for split in task.splits:
        batch = _all(task, split)
        whole = np.ones(task.count(split), bool)
        for name in ("image", "text"):
            whole &= batch.get(f"{name}/present", whole)
        np.testing.assert_array_equal(batch["match/target"] != NO_TARGET, whole)
        assert (batch["label/target"] != NO_TARGET).all()


def test_labels_that_training_never_saw_have_no_target_and_are_counted(tmp_path: Path) -> None:
    train = [("text", "label"), *((f"w{number}", "ab"[number % 2]) for number in range(40))]
    test = [("text", "label"), ("v1", "a"), ("v2", "c"), ("v3", "c")]
    paths = {name: str(_write(tmp_path / f"{name}.csv", rows)) for name, rows in (("data", train), ("test", test))}
    task = _open(tmp_path, **paths)
    assert task.outputs[0].names == ("a", "b")
    assert sorted(_all(task, "test")["label/target"].tolist()) == [NO_TARGET, NO_TARGET, 0]
    assert task.describe()["labels_unseen_in_training"] == {"test": {"c": 2}}


def test_missing_numbers_become_the_mean_and_a_list_in_one_column_is_a_vector(tmp_path: Path) -> None:
    rows = [("text", "a", "b", "label")]
    rows += [(f"w{n}", "" if n % 4 == 0 else n, "nan" if n % 2 == 0 else n, "xy"[n // 4 % 2]) for n in range(80)]
    task = _open(tmp_path, data=str(_write(tmp_path / "a.csv", rows)), text="text", vectors=["a", "b"])
    for split in task.splits:
        batch = _all(task, split)
        number = np.asarray([int(text[1:]) for text in task.texts(split)])
        present = batch.get("vectors/present", np.ones(len(number), bool))
        np.testing.assert_array_equal(present, number % 4 != 0)
        assert not batch["vectors"][number % 4 == 0].any()
        assert not batch["vectors"][number % 2 == 0, 1].any()
    assert task.describe()["numbers_missing"] == 60
    lines = [{"age": [n, n / 2, -1.5], "label": n % 2} for n in range(40)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    task = _open(tmp_path, data=str(tmp_path / "a.jsonl"), vectors="age")
    assert task.inputs[0].size == 3
    assert not _all(task)["vectors"][:, 2].any()  # a constant has no deviation to be measured in
    assert task.outputs[0].names == ("0", "1")


def test_boxes_are_cut_out(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    whole = rng.integers(0, 255, (30, 40, 3), dtype=np.uint8)
    Image.fromarray(whole).save(tmp_path / "a.png")
    rows = [("image", "x", "y", "w", "h", "label")]
    rows += [("a.png", n % 30, n // 2, 8, 6, "ab"[n % 2]) for n in range(40)]
    task = _open(tmp_path, data=str(_write(tmp_path / "a.csv", rows)), image="image", box=["x", "y", "w", "h"])
    wanted = {whole[n // 2 : n // 2 + 6, n % 30 : n % 30 + 8].tobytes() for n in range(40)}
    found = {image.tobytes() for split in task.splits for image in _all(task, split)["image"]}
    assert found == wanted
    assert task.inputs[0].height == 6
    mine = task.read_sample({"image": str(tmp_path / "a.png"), "box": "3,4,8,6"})
    np.testing.assert_array_equal(mine["image"][0], whole[4:10, 3:11])


@pytest.mark.parametrize("tokenizer", ["words", "bytes", "bpe", "file"])
def test_what_is_written_down_is_read_as_in_the_table(tmp_path: Path, tokenizer: str) -> None:
    path = _posts(tmp_path)
    if tokenizer == "file":
        own = train_bpe([b"A cat, number 1.", b"A cow, number 2."], 300)
        (tmp_path / "tower").mkdir()
        (tmp_path / "tower" / "tokenizer.json").write_text(own.json_text)
        tokenizer = str(tmp_path / "tower")
    columns = {"image": "image", "text": "text", "vectors": "age,price", "label": "kind", "tokenizer": tokenizer}
    task = _open(tmp_path, data=str(path), length=20, **columns)
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    # The table without its answers, in its order.
    answerless = [[key for key in rows[0] if key != "kind"], *([v for k, v in r.items() if k != "kind"] for r in rows)]
    batches = list(task.read_rows(_write(tmp_path / "new.csv", answerless), size=50))
    assert [len(batch["image"]) for batch in batches] == [50, 50, 20]
    everything = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
    learned = {split: _all(task, split) for split in task.splits}
    for number in (1, 7, 10, 35, 36):
        row = rows[number]
        given = {
            "image": str(tmp_path / row["image"]) if row["image"] else "",
            "text": row["text"],
            "vectors": f"{row['age']}, {row['price'] or 'nan'}" if row["price"] else "",
        }
        for split in task.splits:
            for place in np.flatnonzero([text == row["text"] for text in task.texts(split)]):
                if not row["text"] or not row["price"]:
                    continue
                sample = task.read_sample(given)
                for name in ("image", "text", "text/mask", "vectors"):
                    np.testing.assert_array_equal(sample[name][0], learned[split][name][place], err_msg=name)
                    np.testing.assert_array_equal(everything[name][number], sample[name][0], err_msg=name)
                for name in ("image/present", "text/present", "vectors/present"):
                    assert sample[name][0] == everything[name][number]
                    assert sample[name][0] == learned[split].get(name, np.ones(999, bool))[place]
    some = next(task.read_rows(_write(tmp_path / "texts.csv", [("text",), ("a cat",), ("",)])))
    assert some["text/present"].tolist() == [True, False]
    assert not some["image/present"].any()
    assert some["vectors"].shape == (2, 2)


def test_samples_that_cannot_be_read_say_why(tmp_path: Path) -> None:
    task = _open(tmp_path, data=str(_posts(tmp_path)), image="image", vectors="age,price", label="kind")
    with pytest.raises(UsageError, match=r"unknown input 'picture'\. .*box, image, vectors"):
        task.read_sample({"picture": "a.png"})
    with pytest.raises(UsageError, match="vectors has 2 numbers, got 3"):
        task.read_sample({"vectors": "1,2,3"})
    with pytest.raises(UsageError, match="numbers with commas"):
        task.read_sample({"vectors": "1,two"})
    for beyond in ("1,1e99", "1,nan"):
        with pytest.raises(UsageError, match="finite numbers"):
            task.read_sample({"vectors": beyond})
    with pytest.raises(DataError, match=r"no column 'image'\. .*There: text"):
        list(task.read_rows(_write(tmp_path / "b.csv", [("text",), ("x",)])))
    with pytest.raises(DataError, match=r"no column 'price'"):
        list(task.read_rows(_write(tmp_path / "b.csv", [("age",), ("1",)])))
    with pytest.raises(UsageError, match="no texts"):
        task.texts("train")


def test_every_class_has_its_share_of_every_split_and_opponents_find_what_is_there(tmp_path: Path) -> None:
    task = _open(tmp_path, data=str(_posts(tmp_path, 300)), image="image", text="text", label="kind")
    assert task.splits == ALL_SPLITS
    answers = {split: _all(task, split)["label/target"] for split in ALL_SPLITS}
    total = sum(np.bincount(one, minlength=3) for one in answers.values())
    for split, share in zip(ALL_SPLITS, (0.7, 0.1, 0.1, 0.1), strict=True):
        np.testing.assert_allclose(np.bincount(answers[split], minlength=3) / total, share, atol=0.06)
    found = task.baselines("test")
    assert set(found) == {"majority", *(f"logistic regression on {of}" for of in ("image", "text", "image and text"))}
    assert found["logistic regression on text"] > 0.7 > found["logistic regression on image"]
