"""The language task: windows, splits, cache and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evodevo.errors import DataError, UsageError
from evodevo.settings import validate
from evodevo.tasks import splits
from evodevo.tasks.base import SPLITS, SampleTask
from evodevo.tasks.text import corpus
from evodevo.tasks.text.language import LanguageSettings, LanguageTask
from evodevo.testing.tasks import SampleTaskTests

SENTENCES = [f"sentence {i}: " + " ".join(str(j * i) for j in range(40)) for i in range(60)]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "text.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in SENTENCES))
    return path


def _open(data: Path, key: str | None = None, **settings: Any) -> LanguageTask:
    settings.setdefault("context_length", 16)
    return LanguageTask.open(LanguageSettings(data=str(data), **settings), data.parent / "cache", key)


@pytest.fixture(params=["bytes", "bpe"])
def task(request: pytest.FixtureRequest, data: Path) -> LanguageTask:
    return _open(data, tokenizer=request.param, vocabulary=300)


class TestLanguage(SampleTaskTests):
    """The laws of every task, on documents of random letters, which share no window."""

    task_class = LanguageTask

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _documents(cls, tmp_path_factory: pytest.TempPathFactory) -> None:
        letters = np.random.default_rng(0).integers(97, 123, (125, 2_000), dtype=np.uint8)
        path = tmp_path_factory.mktemp("documents")
        for number, row in enumerate(letters):
            (path / f"{number:03}.txt").write_bytes(row.tobytes())

        def small(**changes: Any) -> LanguageSettings:
            return LanguageSettings(**{"data": str(path), "max_bytes": 200_000, "context_length": 32} | changes)

        cls.settings = small()
        cls.decisive = (
            small(context_length=33),
            small(max_bytes=190_000),
            small(tokenizer="bpe", vocabulary=400),
        )
        cls.indifferent = (small(field="body", vocabulary=300),)


class TestStandardLibrary(SampleTaskTests):
    """The laws of every task, on the beginning of Python's standard library."""

    task_class = LanguageTask
    settings = LanguageSettings(max_bytes=200_000, context_length=32)
    decisive = (
        LanguageSettings(max_bytes=200_000, context_length=33),
        LanguageSettings(max_bytes=190_000, context_length=32),
        LanguageSettings(max_bytes=200_000, context_length=32, tokenizer="bpe", vocabulary=400),
    )
    indifferent = (LanguageSettings(max_bytes=200_000, context_length=32, field="body", vocabulary=300),)

    def test_no_sample_stands_in_two_splits(self, task: SampleTask) -> None:
        """Of documents: in some versions of Python two modules share a window of 32 bytes."""
        assert isinstance(task, LanguageTask)
        documents = [
            document for split in task.splits for document in set(task.text(split).tobytes().split(b"\0")) if document
        ]
        assert len(documents) == len(set(documents))


def test_the_streams_are_the_split_documents(task: LanguageTask) -> None:
    parts = splits.split([text.encode() for text in SENTENCES])
    for split in SPLITS:
        expected = b"".join(text + b"\0" for text in parts.documents[split])
        assert task.text(split).tobytes() == expected
        table = task.tokenizer.token_bytes()
        assert table is not None
        assert b"".join(table[i] for i in task.tokens(split)) == expected


def test_a_batch_is_the_inputs_and_targets_of_windows(task: LanguageTask) -> None:
    batch, places = task.batch("train", 3, 7, 4), task.draw("train", 3, 7, 4)
    windows = task.windows("train", places)
    assert windows.shape == (4, 17)
    assert windows.dtype == np.int64
    np.testing.assert_array_equal(batch["text"], windows[:, :-1])
    np.testing.assert_array_equal(batch["next/target"], windows[:, 1:])
    stream = task.tokens("train").astype(np.int64)
    np.testing.assert_array_equal(windows[2], stream[places[2] : places[2] + 17])
    # They lie in the split and reach both ends.
    drawn = task.draw("train", 0, 0, 50_000)
    assert (drawn.min(), drawn.max()) == (0, len(stream) - 17)


def test_evaluation_windows_predict_each_token_once_or_fewer_spread_and_distinct(task: LanguageTask) -> None:
    stream = task.tokens("validation").astype(np.int64)
    places = task.spread("validation")
    windows = task.windows("validation", places)
    count = (len(stream) - 1) // 16
    assert windows.shape == (count, 17)
    np.testing.assert_array_equal(windows[:, 1:].ravel(), stream[1 : count * 16 + 1])
    np.testing.assert_array_equal(windows[1:, 0], windows[:-1, -1])
    table = task.tokenizer.token_bytes()
    assert table is not None
    assert task.predicted_bytes("validation", places) == sum(len(table[i]) for i in windows[:, 1:].ravel())
    everything = task.spread("train").tolist()
    fewer = [everything.index(place) for place in task.spread("train", 16 * 5 + 15).tolist()]
    assert len(fewer) == 5
    assert fewer == sorted(set(fewer))
    assert fewer[-1] >= len(everything) * 3 // 5
    assert len(task.spread("train", 1)) == 1


def test_baselines_read_bytes_whatever_the_tokenizer(data: Path) -> None:
    by_bytes, by_bpe = _open(data), _open(data, tokenizer="bpe", vocabulary=300)
    assert by_bytes.baselines("test") == by_bpe.baselines("test")
    found = by_bytes.baselines("test")
    assert found["byte_bigram"] < found["byte_unigram"] < 8


def test_baselines_on_all_windows_are_those_of_the_text_they_predict(task: LanguageTask) -> None:
    places = task.spread("validation")
    windows = task.windows("validation", places)
    whole, part = task.baselines("validation"), task.baselines("validation", places)
    predicted = int(task.predicted_bytes("validation", places))
    text = task.text("validation")
    start = len((task.tokenizer.token_bytes() or [])[int(windows[0, 0])]) - 1
    expected = [model.bits_per_byte([text[start : start + predicted + 1]]) for model in task._count_models]
    assert list(part.values()) == pytest.approx(expected)
    assert part["byte_bigram"] == pytest.approx(whole["byte_bigram"], rel=0.1)


def test_a_second_opening_reads_no_corpus_when_it_has_the_key(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = _open(data, tokenizer="bpe", vocabulary=300)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the corpus was read")

    monkeypatch.setattr(corpus, "read", refuse)
    again = _open(data, first.key, tokenizer="bpe", vocabulary=300)
    assert again.describe() == first.describe()
    np.testing.assert_array_equal(again.batch("train", 0, 0, 4)["text"], first.batch("train", 0, 0, 4)["text"])


def test_a_damaged_cache_is_made_again_and_changed_data_are_noticed(data: Path) -> None:
    first = _open(data)
    arrays = [*(data.parent / "cache").rglob("*.npy")]
    for path in arrays:
        path.write_bytes(b"garbage")
    documents = splits.split([text.encode() for text in SENTENCES]).documents["train"]
    np.testing.assert_array_equal(_open(data, first.key).tokens("train"), first.tokenizer.encode_documents(documents))
    data.write_text(json.dumps({"text": " ".join(SENTENCES)}))
    for path in arrays:
        path.unlink()
    with pytest.raises(DataError, match="is not what it was"):
        _open(data, first.key)


def test_the_key_and_the_digest_follow_what_decides_the_numbers(data: Path) -> None:
    base = _open(data)
    assert _open(data, context_length=8).key == base.key
    assert _open(data, context_length=8).digest != base.digest
    with pytest.raises(DataError, match="no tokenizer file at byte"):
        _open(data, tokenizer="byte")
    assert len({base.key, *(_open(data, tokenizer="bpe", vocabulary=v).key for v in (300, 301))}) == 3
    other = data.parent / "renamed.jsonl"
    other.write_bytes(data.read_bytes())
    assert _open(other).key == base.key


def test_the_description_is_json_and_says_where_everything_comes_from(task: LanguageTask) -> None:
    told = json.loads(json.dumps(task.describe()))
    assert told["source"].endswith("text.jsonl")
    assert sum(told["documents"].values()) == 60
    assert told["tokenizer"]["vocabulary"] == task.vocabulary
    assert told["lossless"] is True
    assert told["split_rule"] == splits.BY_DOCUMENT


def test_a_tokenizer_that_loses_text_is_marked(data: Path) -> None:
    import tokenizers

    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"?": 0, "sentence": 1}, unk_token="?"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    words.save(str(data.parent / "words.json"))
    task = _open(data, tokenizer=str(data.parent / "words.json"))
    assert task.describe()["lossless"] is False
    places = task.spread("validation")
    assert task.predicted_bytes("validation", places) == pytest.approx(
        len(places) * 16 * task.bytes_per_token("validation")
    )
    assert task.baselines("validation", places) == task.baselines("validation")


def test_a_corpus_too_small_for_the_context_says_by_how_much(tmp_path: Path) -> None:
    (tmp_path / "small.txt").write_text("x" * 100)
    with pytest.raises(DataError, match=r"validation split has 6 tokens .* 64 needs at least 65.*at most 5"):
        _open(tmp_path / "small.txt", context_length=64)
    task = _open(tmp_path / "small.txt", context_length=5)
    assert task.batch("test", 0, 0, 2)["text"].shape == (2, 5)
    assert task.describe()["split_rule"] == splits.BY_POSITION, "one text is cut"


def test_a_split_that_cannot_judge_is_refused_with_a_way_out(data: Path) -> None:
    sizes = [len(_open(data).tokens(split)) for split in ("validation", "test")]  # bytes
    length = (min(sizes) - 1) // 32 + 1
    stored = _open(data, context_length=length)
    assert min(stored.count("validation"), stored.count("test")) < 32, "a stored run may be as small as it is"
    with pytest.raises(DataError, match=r"split of .*text.jsonl is too small to judge by: .*at least 32 are needed"):
        _open(data, context_length=length, split="document")
    with pytest.raises(DataError, match=r"cut inside documents .*split=position.* context length of at most"):
        _open(data, context_length=length, split="document")
    fitting = _open(data, context_length=16, split="position")
    assert min(fitting.count("validation"), fitting.count("test")) >= 32
    assert fitting.describe()["contexts"]["validation"] == fitting.count("validation")
    with pytest.raises(DataError) as caught:
        _open(data, context_length=300, split="position")
    largest = int(str(caught.value).rpartition("at most ")[2].rstrip("."))
    _open(data, context_length=largest, split="position")
    with pytest.raises(DataError):
        _open(data, context_length=largest + 1, split="position")


def test_stored_runs_keep_their_splits_bit_for_bit_and_new_ones_leave_the_readme_out(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "novel.txt").write_text("\n".join(SENTENCES))
    (folder / "README.md").write_text("This is a novel that somebody wrote.\n" * 40)
    (folder / "note.txt").write_text("It is short.")
    stored = _open(folder, context_length=8)
    # As the code before prepared the same folder: the README is one whole split, the novel another.
    assert stored.key == "9436fcfb385df15b7a28e1cdb77acdb162747b6e6327416ba1d4385016a5df38"
    assert [len(stored.tokens(split)) for split in SPLITS] == [1481, 10282, 13]
    assert stored.text("train").tobytes() == (folder / "README.md").read_bytes() + b"\0"
    new = _open(folder, split="auto")
    assert b"somebody wrote" not in b"".join(new.text(split).tobytes() for split in SPLITS)
    described = json.loads(json.dumps(new.describe()))
    assert described["left_out"] == [{"reason": corpus.ABOUT, "count": 1, "names": ["README.md"]}]
    assert described["split_rule"] == splits.BY_POSITION_IN_EACH


def test_what_was_left_out_is_that_of_this_folder_also_from_the_cache(tmp_path: Path) -> None:
    for name in ("with", "without"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "novel.txt").write_text("\n".join(SENTENCES))
    (tmp_path / "with" / "LICENSE").write_text("public domain")
    first, second = (_open(tmp_path / name, split="auto") for name in ("with", "without"))
    assert first.key == second.key
    assert [group["names"] for group in first.describe()["left_out"]] == [["LICENSE"]]
    assert second.describe()["left_out"] == []
    assert second.describe()["source"].endswith("without")


SHARED = Path(__file__).parents[4] / "shared" / "data"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "documents", "rule"),
    [
        ("tinyshakespeare", 1, splits.BY_POSITION_IN_EACH),
        ("chinese_classics", 4, splits.BY_POSITION_IN_EACH),
        ("german_novels", 20, splits.BY_POSITION_IN_EACH),
    ],
)
def test_real_folders(tmp_path: Path, name: str, documents: int, rule: str) -> None:
    if not (SHARED / name).is_dir():
        pytest.skip(f"the real data set {name} is not here")
    task = LanguageTask.open(LanguageSettings(data=str(SHARED / name), split="auto"), tmp_path)
    described = task.describe()
    assert described["documents"]["train"] == documents
    assert described["split_rule"] == rule
    assert [group["names"] for group in described["left_out"] if group["reason"] == corpus.ABOUT] == [["README.md"]]
    whole = sum(described["bytes"].values())
    assert described["bytes"]["validation"] / whole == pytest.approx(0.05, abs=0.003)
    assert described["bytes"]["test"] / whole == pytest.approx(0.05, abs=0.003)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"context_length": 0}, "context_length"),
        ({"context_length": -5}, "context_length"),
        ({"vocabulary": 256}, "vocabulary"),
        ({"vocabulary": 10**6}, "vocabulary"),
        ({"max_bytes": 0}, "max_bytes"),
        ({"contextlength": 5}, "did you mean 'context_length'"),
    ],
)
def test_bad_settings(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        validate(LanguageSettings, values, what="the task")
