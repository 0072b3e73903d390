"""Labelled texts: files and folders, splits, errors, opponents."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evodevo.errors import DataError, UsageError
from evodevo.settings import validate
from evodevo.tasks.base import SPLITS, Split
from evodevo.tasks.text.text_labels import TextLabelsSettings, TextLabelsTask

SHARED = Path(__file__).parents[4] / "shared" / "data"
ANIMALS = {"cat": "the cat number {} sleeps all day", "dog": "a dog runs {} times", "owl": "owls fly at night, {}"}
SAMPLES = [(name, text.format(number)) for number in range(40) for name, text in ANIMALS.items()]


def write(path: Path, samples: Sequence[tuple[str, str]], text: str = "text", label: str = "label") -> Path:
    lines = "".join(json.dumps({label: name, text: words}) + "\n" for name, words in samples)
    data = gzip.compress(lines.encode()) if path.suffix == ".gz" else lines.encode()
    path.write_bytes(data)
    return path


def opened(data: Path, **values: Any) -> TextLabelsTask:
    values.setdefault("tokenizer", "bytes")
    folder = (data if data.is_dir() else data.parent).parent / "cache"
    return TextLabelsTask.open(TextLabelsSettings(data=str(data), **values), folder)


def samples(task: TextLabelsTask, split: Split) -> set[tuple[str, str]]:
    shown = [task.show(split, place) for place in range(task.count(split))]
    return {(one["label"], one["text"]) for one in shown}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def test_each_way_to_give_the_same_texts_gives_the_same_samples(place: Path) -> None:
    write(place / "a.jsonl.gz", SAMPLES, text="body", label="kind")
    table = place / "a.csv"
    table.write_text("label,text\n" + "".join(f'{name},"{text}"\n' for name, text in SAMPLES))
    for number, (name, text) in enumerate(SAMPLES):
        (place / "classes" / name).mkdir(parents=True, exist_ok=True)
        (place / "classes" / name / f"{number}.txt").write_text(text)
    tasks = [opened(place / "a.jsonl.gz", text="body", label="kind"), opened(table), opened(place / "classes")]
    for split in SPLITS:
        assert samples(tasks[0], split) == samples(tasks[1], split) == samples(tasks[2], split)
    assert set.union(*(samples(tasks[0], split) for split in SPLITS)) == set(SAMPLES)
    assert tasks[0].outputs[0].names == ("cat", "dog", "owl")


def test_order_copies_and_empty_texts_move_no_text_to_another_split(place: Path) -> None:
    first = opened(write(place / "a.jsonl", SAMPLES))
    empty = [("cat", ""), ("dog", " \n")]
    second = opened(write(place / "b.jsonl", [*SAMPLES[::-1], *SAMPLES[:7], *empty]))
    assert all(samples(first, split) == samples(second, split) for split in SPLITS)
    assert second.describe()["empty_texts"] == 2


@pytest.mark.parametrize("validation", ["dev", "valid", "validation"])
def test_files_named_like_splits_are_the_splits(place: Path, validation: str) -> None:
    write(place / "train.jsonl.gz", SAMPLES[:60])
    write(place / f"{validation}.jsonl.gz", SAMPLES[60:90])
    write(place / "test.jsonl.gz", SAMPLES[90:])
    (place / "README.md").write_text("three files")
    task = opened(place)
    assert samples(task, "train") == set(SAMPLES[:60])
    assert samples(task, "validation") == set(SAMPLES[60:90])
    assert samples(task, "test") == set(SAMPLES[90:])


def test_a_test_file_leaves_validation_to_be_cut_from_training_and_what_it_repeats_is_left_out(place: Path) -> None:
    train, test = write(place / "a.jsonl", SAMPLES), write(place / "b.jsonl", SAMPLES[100:])
    task = opened(train, test=str(test))
    assert samples(task, "test") == set(SAMPLES[100:])
    assert samples(task, "train") | samples(task, "validation") == set(SAMPLES[:100])
    assert task.describe()["texts_dropped"] == 20


@pytest.mark.parametrize("tokenizer", ["bytes", "bpe"])
def test_tokens_are_the_beginning_of_the_text(place: Path, tokenizer: str) -> None:
    task = opened(write(place / "a.jsonl", SAMPLES), tokenizer=tokenizer, vocabulary=300, length=4)
    places = np.arange(task.count("train"))
    batch = task.fetch("train", places)
    for row in range(len(places)):
        words = task.show("train", row)["text"]
        tokens = task.tokenizer.encode(words)[:4]
        np.testing.assert_array_equal(batch["text"][row][batch["text/mask"][row]], tokens)
        assert task.classes[batch["label/target"][row]] == task.show("train", row)["label"]
    assert task.describe()["share_cut"] > 0.5


def test_a_key_finds_what_was_prepared_without_the_sources(place: Path) -> None:
    path = write(place / "a.jsonl", SAMPLES)
    task = opened(path, tokenizer="bpe")
    settings, cache = task.settings, place.parent / "cache"
    path.unlink()
    again = TextLabelsTask.open(settings, cache, task.key)
    assert again.digest == task.digest
    np.testing.assert_array_equal(again.batch("train", 0, 0, 9)["text"], task.batch("train", 0, 0, 9)["text"])
    write(path, SAMPLES[1:])
    shutil.rmtree(cache)
    with pytest.raises(DataError, match="is not what it was"):
        TextLabelsTask.open(settings, cache, task.key)


@pytest.mark.parametrize("change", [[("cat", SAMPLES[1][1]), *SAMPLES[2:]], SAMPLES[1:]])
def test_other_texts_or_labels_have_another_digest(place: Path, change: list[tuple[str, str]]) -> None:
    task = opened(write(place / "a.jsonl", SAMPLES))
    assert opened(write(place / "b.jsonl", SAMPLES)).digest == task.digest
    assert opened(write(place / "b.jsonl", change)).digest != task.digest


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], r"holds no text"),
        ([("cat", "one"), ("cat", "two"), ("cat", "three")], r"only the class 'cat'.*Is 'label' the column of labels"),
        ([("cat", ""), ("dog", "two")], r"only the class 'dog' \(1 empty texts"),
    ],
)
def test_too_few_classes_are_refused(place: Path, lines: list[tuple[str, str]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        opened(write(place / "a.jsonl", lines))


def test_wrong_places_columns_and_classes_are_told(place: Path) -> None:
    with pytest.raises(DataError, match=r"no column 'label'\. Did you mean 'labels'\?"):
        opened(write(place / "a.jsonl", SAMPLES, label="labels"))
    train, test = write(place / "a.jsonl", SAMPLES), write(place / "b.jsonl", [("yak", "yaks climb")])
    with pytest.raises(DataError, match=r"the test split has classes that no training text has: 'yak'"):
        opened(train, test=str(test))
    train.unlink()
    test.unlink()
    with pytest.raises(DataError, match="there is nothing at"):
        opened(place / "nowhere.csv")
    with pytest.raises(DataError, match="neither classes nor splits"):
        opened(place)
    write(place / "train.jsonl", SAMPLES)
    write(place / "test.jsonl", SAMPLES[:9])
    with pytest.raises(DataError, match=r"is the test split of .* is given too"):
        opened(place, test=str(place / "test.jsonl"))
    write(place / "train.jsonl.gz", SAMPLES)
    with pytest.raises(DataError, match="both look like the train split"):
        opened(place)
    with pytest.raises(UsageError, match="go with data"):
        validate(TextLabelsSettings, {"test": "a.csv"}, what="task")


def test_opponents_are_those_of_scikit_learn(place: Path) -> None:
    from sklearn.dummy import DummyClassifier

    task = opened(write(place / "a.jsonl", [*SAMPLES, *(("cat", f"cats again {number}") for number in range(30))]))
    labels = {split: task.fetch(split, np.arange(task.count(split)))["label/target"] for split in SPLITS}
    dummy = DummyClassifier().fit(labels["train"][:, None], labels["train"])
    baselines = task.baselines("test")
    assert baselines["majority"] == pytest.approx(dummy.score(labels["test"][:, None], labels["test"]))
    assert baselines["tf-idf"] == 1.0  # each class has words of its own


@pytest.mark.parametrize(
    ("name", "counts", "classes", "words"),
    [
        ("ohsumed", {"test": 4043}, 23, 0.55),
        ("r8", {"test": 2189}, 8, 0.94),
        ("sst2", {"test": 872, "validation": 6735}, 2, 0.75),
        ("trec", {"test": 500}, 6, 0.8),
    ],
)
@pytest.mark.slow
def test_real_data(tmp_path: Path, name: str, counts: dict[Split, int], classes: int, words: float) -> None:
    if not (SHARED / name).is_dir():
        pytest.skip(f"{SHARED / name} is not here")
    settings = TextLabelsSettings(data=str(SHARED / name))
    task = TextLabelsTask.open(settings, tmp_path)
    assert {split: task.count(split) for split in counts} == counts
    assert len(task.classes) == classes
    assert task.baselines("test")["tf-idf"] > words
