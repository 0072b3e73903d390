"""Texts in several columns, groups, automatic length, and files that are no texts."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evodevo.errors import DataError, UsageError
from evodevo.tasks.base import SPLITS
from evodevo.tasks.data_lines import data_lines
from evodevo.tasks.table import rows
from evodevo.tasks.text import language_sources
from evodevo.tasks.text.column_names import split_names
from evodevo.tasks.text.languages import LanguagesSettings, LanguagesTask
from evodevo.tasks.text.text_labels import MOST_GROUPS, TextLabelsSettings, TextLabelsTask, fitting_length

SHARED = Path(__file__).parents[4] / "shared" / "data"
COLUMNS = ("context", "question", "answer", "depth")
THEORIES = [
    (f"Theory {number} has facts.", f"Is {word} {asked}?", "yes" if asked % 2 else "no", str(asked))
    for number in range(60)
    for asked, word in enumerate(("red", "big", "kind"))
]


def write(path: Path, lines: Sequence[Sequence[str]], columns: Sequence[str] = COLUMNS) -> Path:
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(dict(zip(columns, line, strict=True))) + "\n" for line in lines))
    elif path.suffix == ".csv":
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([columns, *lines])
    else:
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.table({name: [line[at] for line in lines] for at, name in enumerate(columns)}), path)
    return path


def opened(data: Path, **values: Any) -> TextLabelsTask:
    values = {"tokenizer": "bytes", "length": None, "most_cut": 0.2, **values}
    return TextLabelsTask.open(TextLabelsSettings(data=str(data), **values), data.parent / ".cache")


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.parquet"])
def test_several_columns_are_one_text_whose_first_stays_in_one_split(tmp_path: Path, name: str) -> None:
    task = opened(write(tmp_path / name, THEORIES), text="context, question", label="answer", group="depth")
    shown = {
        split: [task.show(split, place)["text"].split("\n") for place in range(task.count(split))] for split in SPLITS
    }
    everything = [tuple(text) for texts in shown.values() for text in texts]
    assert sorted(everything) == sorted((context, question) for context, question, *_ in THEORIES)
    contexts = [{context for context, _ in texts} for texts in shown.values()]
    assert all(one.isdisjoint(other) for at, one in enumerate(contexts) for other in contexts[at + 1 :])
    assert "context" in task.describe()["split_rule"]


def test_samples_have_the_group_of_their_row(tmp_path: Path) -> None:
    lines = [(*line[:3], "10" if line[3] == "1" else line[3]) for line in THEORIES]
    lines[0] = (*lines[0][:3], " ")
    task = opened(write(tmp_path / "a.csv", lines), text="context,question", label="answer", group="depth")
    known = {f"{context}\n{question}": depth.strip() or "(empty)" for context, question, _, depth in lines}
    assert task.group_names == {"depth": ("(empty)", "0", "10", "2")}
    for split in SPLITS:
        places = np.arange(task.count(split))
        groups = task.groups(split, places)["depth"]
        told = [task.group_names["depth"][group] for group in groups]
        assert told == [known[task.show(split, int(place))["text"]] for place in places]


def test_groups_that_are_numbers_are_in_their_order_and_there_are_not_too_many(tmp_path: Path) -> None:
    lines = [(*line[:3], str(10 * int(line[3]))) for line in THEORIES]
    path = write(tmp_path / "a.csv", lines)
    task = opened(path, text="context,question", label="answer", group="depth")
    assert task.group_names == {"depth": ("0", "10", "20")}
    other = opened(path, text="context,question", label="answer", group="answer")
    assert other.group_names == {"answer": ("no", "yes")}
    assert task.digest != other.digest != opened(path, text="context,question", label="answer").digest
    many = write(tmp_path / "b.csv", [(*line[:3], str(at)) for at, line in enumerate(THEORIES)])
    with pytest.raises(
        DataError, match=f"'depth' has {len(THEORIES)} values; a table by group has at most {MOST_GROUPS}"
    ):
        opened(many, text="context,question", label="answer", group="depth")


def test_what_would_be_cut_is_refused_with_a_remedy(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", THEORIES)
    names = {"text": "context,question", "label": "answer"}
    with pytest.raises(DataError, match=r"100% of the training texts have more than 16 tokens.*Set a greater length"):
        opened(path, length=16, **names)
    assert opened(path, length=16, most_cut=1.0, **names).inputs[0].length == 16
    task = opened(path, **names)
    longest = max(len(f"{context}\n{question}") for context, question, *_ in THEORIES)
    assert longest <= task.inputs[0].length < longest + 8
    assert task.describe()["share_cut"] == 0


@given(st.lists(st.integers(1, 2000), min_size=1, max_size=300))
def test_the_automatic_length_is_the_least_that_cuts_two_percent(lengths: list[int]) -> None:
    counts = np.asarray(lengths)
    length = fitting_length(counts)
    assert length % 8 == 0
    assert 8 <= length <= 512
    # One text of a quantile may always be over.
    assert length == 512 or (counts > length).sum() <= 0.02 * len(counts)
    assert length == 8 or (counts > length - 8).sum() > 0.02 * len(counts) - 1


def test_readme_and_licence_are_no_texts_of_a_class_or_a_language(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / "data" / name).mkdir(parents=True)
        for number in range(30):
            (tmp_path / "data" / name / f"{number}.txt").write_text(f"a {name} with number {number}")
        (tmp_path / "data" / name / "README.md").write_text("how these texts were collected")
    (tmp_path / "data" / "LICENSE").write_text("free for all")
    task = opened(tmp_path / "data", everything=False)
    assert task.classes == ("cat", "dog")
    assert sum(task.count(split) for split in SPLITS) == 60
    # Runs that were stored before keep their samples.
    assert sum(opened(tmp_path / "data", everything=True).count(split) for split in SPLITS) in (61, 62)
    found = language_sources.read(tmp_path / "data")
    assert {name: len(documents) for name, documents in found.items()} == {"cat": 30, "dog": 30}


def test_a_column_per_language_is_read_like_rows_by_language(tmp_path: Path) -> None:
    pairs = [
        (f"the cat {number}", f"le chat {number}", "" if number % 2 else f"die Katze {number}") for number in range(40)
    ]
    wide = write(tmp_path / "wide.csv", pairs, ("en", "fr", "de"))
    tall = [(name, text) for pair in pairs for name, text in zip(("en", "fr", "de"), pair, strict=True)]
    narrow = write(tmp_path / "tall.jsonl", tall, ("lang", "text"))
    assert language_sources.read(wide, text=("en", "fr", "de")) == language_sources.read(narrow)
    with pytest.raises(DataError, match=r"no column 'lang'"):
        language_sources.read(wide)
    with pytest.raises(DataError, match="folder of languages, which has no columns"):
        language_sources.read(tmp_path, text=("en", "fr"))
    with pytest.raises(DataError, match="folder of classes, which has no columns"):
        opened(tmp_path, text="en,fr")


@pytest.mark.parametrize("text", ["", " , ", "a,a"])
def test_names_that_are_no_columns_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="different names with commas"):
        split_names(text)
    assert split_names(" a , b,") == ("a", "b")


def test_rows_of_parquet_miss_columns_like_those_of_csv(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", THEORIES)
    assert list(rows.read(path, ("depth", "context"))) == [(depth, context) for context, _, _, depth in THEORIES]
    with pytest.raises(DataError, match=r"no column 'dept'\. Did you mean 'depth'"):
        list(rows.read(path, ("dept",)))


def test_what_was_understood_is_on_the_screen(tmp_path: Path) -> None:
    task = opened(write(tmp_path / "a.csv", THEORIES), text="context,question", label="answer", group="depth")
    described = task.describe()
    lines = data_lines({**described, "baselines": {"validation": {"majority": 0.5, "tf-idf": 0.75}}})
    counts = described["class_counts"]["train"]
    assert lines["classes"] == f"no ({counts['no']}), yes ({counts['yes']})"
    assert lines["groups"] == "depth: 0, 1, 2"
    assert lines["texts"].startswith(f"at most {task.length} tokens are read of each")
    assert lines["without a network, on validation"] == "majority 0.500, tf-idf 0.750"


@pytest.mark.slow
def test_questions_of_a_real_set_are_read_to_their_end(tmp_path: Path) -> None:
    path = SHARED / "prontoqa" / "dev.jsonl.gz"
    if not path.is_file():
        pytest.skip(f"{path} is not here")
    settings = TextLabelsSettings(data=str(path), text="context,question", length=None, most_cut=0.2)
    task = TextLabelsTask.open(settings, tmp_path)
    assert task.describe()["share_cut"] <= 0.02
    batch = task.fetch("test", np.arange(20))
    ends = [task.tokenizer.decode(row[mask])[-6:] for row, mask in zip(batch["text"], batch["text/mask"], strict=True)]
    whole = [text.decode()[-6:] for text in task.texts("test")[:20]]
    assert sum(end == of for end, of in zip(ends, whole, strict=True)) >= 18
    with pytest.raises(DataError, match="would be cut"):
        TextLabelsTask.open(settings.model_copy(update={"length": 64}), tmp_path)


@pytest.mark.slow
def test_real_pairs_of_sentences_are_two_languages(tmp_path: Path) -> None:
    path = SHARED / "tatoeba_en_ar" / "pairs.jsonl.gz"
    if not path.is_file():
        pytest.skip(f"{path} is not here")
    task = LanguagesTask.open(LanguagesSettings(data=str(path), text="en,ar", split="auto"), tmp_path)
    assert task.group_names == {"language": ("ar", "en"), "script": ("Arabic", "Latin")}
    assert data_lines(task.describe())["languages"].startswith("ar (Arabic, ")
