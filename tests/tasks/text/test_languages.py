"""Several languages: balanced windows, groups, bytes, sources."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evodevo.errors import DataError
from evodevo.tasks import splits
from evodevo.tasks.base import SPLITS
from evodevo.tasks.text.languages import LanguagesSettings, LanguagesTask
from evodevo.tasks.text.synthetic_languages import ALPHABETS, SyntheticSettings, generate

SHARED = Path(__file__).parents[4] / "shared" / "data"
SMALL = SyntheticSettings(documents=60, letters=80)
TEXTS = {
    "en": [f"The cat number {number} sleeps." for number in range(160)],
    "uk": [f"Кіт номер {number} спить." for number in range(180)],
    "de": [f"Die Katze Nummer {number} schläft." for number in range(190)],
}


def write(path: Path, texts: Mapping[str, Sequence[str]], language: str = "lang", text: str = "text") -> Path:
    rows = [{language: name, text: words} for name, all_words in texts.items() for words in all_words]
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write(tmp_path / "rows.jsonl", TEXTS)


def opened(data: Path, **values: Any) -> LanguagesTask:
    values.setdefault("context_length", 16)
    return LanguagesTask.open(LanguagesSettings(data=str(data), **values), data.parent / "cache")


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory: pytest.TempPathFactory) -> LanguagesTask:
    return LanguagesTask.open(LanguagesSettings(synthetic=SMALL, context_length=32), tmp_path_factory.mktemp("cache"))


def test_windows_are_balanced_and_know_their_language_and_its_script(synthetic: LanguagesTask) -> None:
    for split in SPLITS:
        places = np.arange(min(synthetic.count(split), 600))
        groups = synthetic.groups(split, places)
        assert set(np.bincount(groups["language"], minlength=6)) == {len(places) // 6}
        for place in places[:60].tolist():
            letters = set(synthetic.show(split, place)["text"]) - {" ", "\0", "\N{REPLACEMENT CHARACTER}"}
            assert letters <= set(ALPHABETS[synthetic.languages[groups["language"][place]]])
    groups = synthetic.groups("test", np.arange(6))
    scripts = dict(
        zip(synthetic.languages, (synthetic.group_names["script"][i] for i in groups["script"]), strict=True)
    )
    assert scripts == {
        "aral": "Latin", "bemo": "Latin", "cyri": "Cyrillic", "damo": "Greek", "ermi": "Armenian", "fars": "Arabic"
    }  # fmt: skip
    assert all(len(set(letters)) == 20 for letters in ALPHABETS.values())
    baselines = synthetic.baselines("test")
    assert 0 < baselines["bigram per language"] < baselines["bigram"] < 8


def test_synthetic_languages_differ_in_more_than_letters() -> None:
    documents = generate(SMALL)
    assert all(len(set(texts)) == 60 for texts in documents.values())
    frequencies = []
    for name in ("aral", "bemo"):
        pairs = Counter(text[at : at + 2] for text in documents[name] for at in range(len(text) - 1))
        frequencies.append({pair: count / pairs.total() for pair, count in pairs.items()})
    first, second = frequencies
    assert sum(abs(first.get(pair, 0) - second.get(pair, 0)) for pair in {*first, *second}) / 2 > 0.2


def test_training_windows_begin_everywhere_and_held_out_ones_never_overlap(rows: Path) -> None:
    task = opened(rows)
    length = task.context_length
    for split in SPLITS:
        documents = {
            name: splits.split([text.encode() for text in texts]).documents[split] for name, texts in TEXTS.items()
        }
        streams = {name: b"".join(text + b"\0" for text in documents[name]) for name in task.languages}
        each = task.count(split) // 3
        windows = task.windows(split, np.arange(task.count(split)))
        for number, name in enumerate(task.languages):
            own = [bytes(row.astype(np.uint8)) for row in windows[number::3]]
            assert len(own) == each
            assert all(window in streams[name] for window in own)
            if split == "train":
                assert len(own) == min(map(len, streams.values())) - length
            elif len(streams[name]) == min(map(len, streams.values())):
                assert b"".join(window[:-1] for window in own) == streams[name][: each * length]


@pytest.mark.parametrize("tokenizer", ["bytes", "bpe"])
def test_predicted_bytes_are_those_of_the_predicted_tokens(rows: Path, tokenizer: str) -> None:
    task = opened(rows, tokenizer=tokenizer, vocabulary=320, context_length=8)
    places = np.arange(task.count("test"))
    table = task.tokenizer.token_bytes()
    assert table is not None
    target = task.fetch("test", places)["next/target"]
    assert task.predicted_bytes("test", places) == sum(len(table[token]) for token in target.reshape(-1).tolist())
    if tokenizer == "bytes":
        assert task.predicted_bytes("test", places) == target.size


def test_each_way_to_give_the_same_texts_gives_the_same_task(rows: Path, tmp_path: Path) -> None:
    task = opened(rows)
    renamed = write(tmp_path / "renamed.jsonl", TEXTS, language="l", text="t")
    table = tmp_path / "table.csv"
    lines = [f"{name},{text}" for name, texts in TEXTS.items() for text in texts]
    table.write_text("\n".join(["lang,text", *lines]), encoding="utf-8")
    folder = tmp_path / "by language"
    for name, texts in TEXTS.items():
        (folder / name).mkdir(parents=True)
        for number, text in enumerate(texts):
            (folder / name / f"{number:03d}.txt").write_text(text, encoding="utf-8")
    files = tmp_path / "files"
    files.mkdir()
    for name, texts in TEXTS.items():
        write(files / f"{name}.jsonl", {name: texts})
    others = [opened(renamed, language="l", text="t"), opened(table), opened(folder), opened(files)]
    assert {other.digest for other in others} == {task.digest}
    rows.unlink()  # a key finds what was prepared without the sources
    again = LanguagesTask.open(task.settings, rows.parent / "cache", task.key)
    assert again.digest == task.digest
    np.testing.assert_array_equal(again.batch("train", 0, 0, 9)["text"], task.batch("train", 0, 0, 9)["text"])


def test_what_is_wrong_with_sources_is_told(rows: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is nothing at"):
        opened(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"no column 'language'\. Did you mean 'lang'\?"):
        opened(rows, language="language")
    with pytest.raises(DataError, match="holds en; at least two"):
        opened(write(tmp_path / "one.jsonl", {"en": TEXTS["en"]}))
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no language"):
        opened(tmp_path / "empty")
    with pytest.raises(DataError, match=r"the language '..' is too small: its \w+ split has .* at most \d+\."):
        opened(rows, context_length=4096)


@pytest.mark.slow
def test_six_real_languages(tmp_path: Path) -> None:
    path = SHARED / "multilingual6" / "train.jsonl.gz"
    if not path.is_file():
        pytest.skip(f"{path} is not here")
    task = LanguagesTask.open(LanguagesSettings(data=str(path)), tmp_path)
    assert task.languages == ("ar", "de", "en", "sw", "uk", "zh")
    assert task.group_names["script"] == ("Arabic", "Cyrillic", "Han", "Latin")
    assert task.groups("test", np.arange(6))["script"].tolist() == [0, 3, 3, 3, 1, 2]
    assert task.baselines("test")["bigram per language"] < 3.5
