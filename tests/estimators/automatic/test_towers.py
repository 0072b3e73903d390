"""Features of pretrained towers in ``evodevo.fit``: those of transformers, and rows that no word tells apart."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import evodevo
from evodevo import canonical
from evodevo.cli.application import run
from evodevo.errors import DataError, ExitCode, NotFoundError, StoreDamagedError, UsageError
from evodevo.estimators.automatic.candidates import boosting, forest
from evodevo.estimators.automatic.candidates import tower as on_tower
from evodevo.estimators.automatic.candidates.base import PREDICTORS, LabelledSamples, Limit
from evodevo.estimators.automatic.candidates.linear import Linear
from evodevo.estimators.automatic.candidates.mean import MeanPredictor
from evodevo.estimators.automatic.candidates.tower import NamedTower, OnTower
from evodevo.estimators.automatic.features import towers
from evodevo.estimators.automatic.features.towers import TowerReading
from evodevo.randomness import generator
from evodevo.tasks.rows import sources
from evodevo.tasks.rows.samples import RowReading, Samples
from evodevo.tasks.rows.targets import Targets

transformers = pytest.importorskip("transformers", reason="the extra hf is not installed")

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
KNOWN, UNSEEN = ("abcdefghij", "nopqrstuvw"), ("klm", "xyz")
"""Words of the two classes in training rows, and in test rows."""
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}


@pytest.fixture(scope="module")
def text_tower(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A BERT in which the words of a class lie together; everything else in it is random."""
    import tokenizers

    folder = tmp_path_factory.mktemp("models") / "reader"
    words = {name: place for place, name in enumerate((*SPECIAL, *LETTERS))}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=len(words), max_position_embeddings=12, pad_token_id=0, **SIZES)
    model = transformers.BertModel(config).eval()
    with torch.no_grad():
        side = torch.randn(16)
        for name, place in words.items():
            if len(name) == 1:
                towards = side if name < "n" else -side
                model.embeddings.word_embeddings.weight[place] = towards + 0.3 * torch.randn(16)
    transformers.utils.logging.disable_progress_bar()
    model.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(tokenizer.to_str(), encoding="utf-8")
    yield folder
    transformers.utils.logging.enable_progress_bar()


@pytest.fixture(scope="module")
def image_tower(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "viewer"
    torch.manual_seed(1)
    transformers.ViTModel(transformers.ViTConfig(image_size=8, patch_size=4, **SIZES)).save_pretrained(folder)
    return folder


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is remembered of other tests, and trees are few."""
    towers._memory.cache_clear()
    monkeypatch.setattr(boosting, "MOST_ITERATIONS", 4)
    monkeypatch.setattr(forest, "TREES", 4)


def sentences(rng: np.random.Generator, words: tuple[str, str], count: int) -> dict[str, list[str]]:
    """Rows with a text of three to eight words of the row's class."""
    texts, names = [], []
    for row in range(count):
        drawn = rng.choice(list(words[row % 2]), size=int(rng.integers(3, 9)))
        texts.append(" ".join(drawn.tolist()))
        names.append(("low", "high")[row % 2])
    return {"text": texts, "size": [str(row % 7) for row in range(count)], "class": names}


def samples_of(texts: tuple[str, ...]) -> Samples:
    return Samples(len(texts), np.zeros((len(texts), 0)), np.zeros((len(texts), 0), np.int64), (texts,))


def pooled(folder: Path, text: str) -> Any:
    """The mean over all positions of the last layer, by transformers alone."""
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    given = tokenizer(text, return_tensors="pt", truncation=True, max_length=12)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        return model(input_ids=given["input_ids"]).last_hidden_state[0].mean(0).numpy()


def test_features_of_texts_are_those_of_transformers(text_tower: Path) -> None:
    texts = ("a b c", "z", "a b c", "q unknown r", " ".join(LETTERS[:10]), "")
    reading = TowerReading.of(text_tower, samples_of(texts))
    read = reading.read(samples_of(texts))
    assert (reading.reads, reading.name, read.texts) == (("tokens",), "reader", ())
    for place, text in enumerate(texts[:-1]):
        np.testing.assert_allclose(read.numbers[place], pooled(text_tower, text), atol=1e-5)
    assert np.isnan(read.numbers[-1]).all()


def test_no_text_is_longer_than_the_tower_reads(text_tower: Path) -> None:
    texts = (" ".join(LETTERS[:10]), " ".join(LETTERS))
    read = TowerReading.of(text_tower, samples_of(texts)).read(samples_of(texts))
    np.testing.assert_allclose(read.numbers[0], read.numbers[1], atol=1e-6)


def test_features_of_images_are_those_of_transformers(image_tower: Path) -> None:
    pixels = generator(0, "pixels").integers(0, 256, (3, 8, 8, 3)).astype(np.uint8)
    rows = Samples(
        3,
        np.zeros((3, 1)),
        np.zeros((3, 0), np.int64),
        images=(pixels,),
        present=(np.asarray([True, True, False]),),
    )
    read = TowerReading.of(image_tower, rows).read(rows)
    assert (read.images, read.present, read.numbers.shape) == ((), (), (3, 17))
    scaled = (
        torch.from_numpy(pixels).permute(0, 3, 1, 2) / 255 - torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1)
    ) / (torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1))
    with torch.no_grad():
        wanted = (
            transformers.ViTModel.from_pretrained(image_tower).eval()(pixel_values=scaled).last_hidden_state.mean(1)
        )
    np.testing.assert_allclose(read.numbers[:2, 1:], wanted[:2].numpy(), atol=1e-5)
    assert np.isnan(read.numbers[2, 1:]).all()
    assert read.numbers[2, 0] == 0


def test_rows_of_words_that_training_did_not_have(text_tower: Path, tmp_path: Path) -> None:
    rng = generator(0, "sentences")
    train, test = sentences(rng, KNOWN, 120), sentences(rng, UNSEEN, 60)
    model = evodevo.fit(train, label="class", time_limit="60s", networks=False, towers=text_tower)
    board = model.leaderboard(test)
    assert model.name.endswith(", on reader")
    assert board.test[model.name].score == 1.0
    assert board.test["logistic regression on words, C = 1"].score < 0.75
    model.save(tmp_path / "model")
    wanted = model.predict_proba(test)
    towers._memory.cache_clear()
    np.testing.assert_array_equal(evodevo.FittedModel.load(tmp_path / "model").predict_proba(test), wanted)


@pytest.mark.slow
def test_the_program_reads_through_a_copy_of_the_tower(text_tower: Path, tmp_path: Path) -> None:
    folder = tmp_path / "reader"
    shutil.copytree(text_tower, folder)
    rng = generator(0, "sentences")
    train, new = sentences(rng, KNOWN, 60), sentences(rng, UNSEEN, 20)
    new["text"][3] = ""
    model = evodevo.fit(train, label="class", time_limit="60s", networks=False, towers=folder)
    model = replace(model, predictor=next(one for name, one in model.others.items() if name.endswith(", on reader")))
    for _ in range(2):
        model.export("source", tmp_path / "program")  # the second one replaces the first
    stranger = tmp_path / "program" / "towers" / "mine.txt"
    stranger.write_text("my own")
    with pytest.raises(UsageError, match=r"holds 'towers/mine\.txt', which no export wrote"):
        model.export("source", tmp_path / "program")
    stranger.unlink()
    (tmp_path / "program" / "towers" / "mine").mkdir()
    with pytest.raises(UsageError, match="holds 'towers/mine', which no export wrote"):
        model.export("source", tmp_path / "program")
    (tmp_path / "program" / "towers" / "mine").rmdir()
    wanted = model.predict_proba(new)
    (tmp_path / "program").rename(tmp_path / "elsewhere")
    shutil.rmtree(folder)
    program = tmp_path / "elsewhere" / "predict.py"
    rows = [{"text": text, "size": size} for text, size in zip(new["text"], new["size"], strict=True)]
    code = f"import sys, json; sys.path.insert(0, {str(program.parent)!r}); from predict import Model; "
    code += "print(json.dumps(Model().answers(json.loads(sys.stdin.read())).tolist()))"
    done = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(rows), capture_output=True, text=True, check=True
    )
    np.testing.assert_allclose(json.loads(done.stdout), wanted, atol=1e-4)


@pytest.mark.slow
def test_a_program_that_reads_images_through_a_tower_and_an_ensemble_of_it(image_tower: Path, tmp_path: Path) -> None:
    rng = generator(0, "pixels")
    pixels = rng.integers(0, 120, (60, 16, 12, 1), dtype=np.uint8)
    pixels[::2, 4:8, 4:8] += 40
    rows = {"image": pixels, "spot": ["yes" if place % 2 == 0 else "no" for place in range(60)]}
    model = evodevo.fit(rows, label="spot", time_limit="60s", networks=False, towers=image_tower)
    on = [one for name, one in model.others.items() if name.endswith(", on viewer")]
    both = MeanPredictor([on[0], model.others["logistic regression, C = 1"]], [0.5, 0.5])
    replace(model, predictor=both).export("source", tmp_path / "program")
    assert sorted(path.name for path in (tmp_path / "program" / "towers").glob("*/*")) == [
        "config.json",
        "model.safetensors",
    ]


def test_the_model_is_logistic_regression_on_standardised_features(text_tower: Path) -> None:
    lesson = lesson_of(text_tower)
    rows = np.arange(lesson.samples.count)
    (tower,) = lesson.towers.values()
    candidate = OnTower(NamedTower(tower, "reader"), Linear(0.1))
    trained = candidate.train(lesson, rows, rows[:0], Limit(time.monotonic() + 60))
    numbers = tower.read(lesson.samples).numbers
    table = (numbers - numbers.mean(0)) / numbers.std(0)
    wanted = LogisticRegression(C=0.1, max_iter=200).fit(table, lesson.answers).predict_proba(table)
    np.testing.assert_allclose(trained.probabilities(lesson.samples), wanted, atol=1e-3)
    facts, arrays = trained.to_state()
    again = PREDICTORS.get("tower").from_state(canonical.loads(canonical.dumps(facts)), arrays)
    np.testing.assert_array_equal(again.probabilities(lesson.samples), trained.probabilities(lesson.samples))


def lesson_of(folder: Path) -> LabelledSamples:
    rows = sources.read(sentences(generator(0, "sentences"), KNOWN, 60))
    targets = Targets.of(rows, "class")
    reading = RowReading.of(rows, targets.columns)
    samples = reading.read(rows)
    read = {"reader": TowerReading.of(folder, samples)}
    return LabelledSamples(samples, targets.read(rows), targets.kind, 2, reading.levels, 0, read)


def test_a_quantity(text_tower: Path) -> None:
    rng = generator(0, "sentences")
    rows = sentences(rng, KNOWN, 90)
    half = [sum(word < "n" for word in text.split()) / len(text.split()) for text in rows["text"]]
    noise = rng.normal(scale=0.01, size=90)
    rows["class"] = [f"{value + more:.6f}" for value, more in zip(half, noise, strict=True)]
    model = evodevo.fit(rows, label="class", time_limit="60s", networks=False, towers=[text_tower])
    assert any(row.name.startswith("ridge regression, alpha") and row.name.endswith("on reader") for row in model.rows)


def test_a_tower_that_is_another_or_gone_is_one_clear_error(text_tower: Path, tmp_path: Path) -> None:
    folder = tmp_path / "reader"
    shutil.copytree(text_tower, folder)
    samples = samples_of(("a b",))
    reading = TowerReading.of(folder, samples)
    settings = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps({**settings, "version": "1.0", "truncation": None}, indent=1))
    with pytest.raises(StoreDamagedError, match="are others than when the model was fitted"):
        reading.read(samples)
    shutil.rmtree(folder)
    with pytest.raises(NotFoundError):
        reading.read(samples)


def test_towers_that_cannot_read_the_data_are_refused_before_the_work(
    text_tower: Path, image_tower: Path, tmp_path: Path
) -> None:
    rows = sentences(generator(0, "sentences"), KNOWN, 20)
    with pytest.raises(UsageError, match="reads images, and the data have no column of them"):
        evodevo.fit(rows, label="class", towers=image_tower)
    with pytest.raises(NotFoundError):
        evodevo.fit(rows, label="class", towers=tmp_path / "nowhere")
    folder = tmp_path / "without"
    shutil.copytree(text_tower, folder)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(DataError, match=r"has no tokenizer\.json"):
        evodevo.fit(rows, label="class", towers=folder)


def test_a_tower_for_which_there_is_no_time_is_left_out(text_tower: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_tower, "FIRST_SECONDS", 0.0)
    lesson = lesson_of(text_tower)
    (reading,) = lesson.towers.values()
    told: list[tuple[str, int, int]] = []
    tower = NamedTower(reading, "reader")
    for _ in range(2):
        with pytest.raises(DataError, match="reader reads 60 samples in about"):
            tower.read_all(lesson.samples, Limit(time.monotonic() - 1), lambda *news: told.append(news))
    assert len(told) == 2, "the second time nothing is read"
    tower = NamedTower(reading, "reader")
    tower.read_all(lesson.samples, Limit(time.monotonic() + 600), lambda *news: told.append(news))
    assert told[-1] == ("reader", 60, 60)
    count = len(told)
    OnTower(tower, Linear(1.0)).prepare(replace(lesson), Limit(0), lambda *news: told.append(news))
    assert len(told) == count, "what was read is known"


def test_the_time_to_load_a_tower_is_no_part_of_its_pace(text_tower: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(on_tower, "FIRST_SAMPLES", 8)
    lesson = lesson_of(text_tower)

    def read(samples: Samples, progress: Any) -> None:
        now[0] += 60  # the model is loaded
        for done in range(4, 61, 4):
            now[0] += 1.0
            progress(done, 60)

    tower = NamedTower(cast("TowerReading", SimpleNamespace(read=read)), "slow to load")
    tower.read_all(lesson.samples, Limit(1000.0 + 80), lambda *news: None)
    late = NamedTower(cast("TowerReading", SimpleNamespace(read=read)), "too slow")
    with pytest.raises(DataError, match="too slow reads 60 samples in about 15 s"):
        late.read_all(lesson.samples, Limit(now[0] + 66), lambda *news: None)


def test_each_column_has_a_pace_of_its_own(text_tower: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(on_tower, "FIRST_SAMPLES", 8)

    def read(samples: Samples, progress: Any) -> None:
        for _ in range(2):  # columns
            for done in range(4, 61, 4):
                now[0] += 1.0
                progress(done, 60)

    lesson = lesson_of(text_tower)
    tower = NamedTower(cast("TowerReading", SimpleNamespace(read=read)), "reader")
    with pytest.raises(DataError, match="reader reads 60 samples in about 15 s"):
        tower.read_all(lesson.samples, Limit(1000.0 + 16), lambda *news: None)
    tower = NamedTower(cast("TowerReading", SimpleNamespace(read=read)), "reader")
    tower.read_all(lesson.samples, Limit(now[0] + 31), lambda *news: None)


def test_two_columns_of_texts(text_tower: Path) -> None:
    samples = replace(samples_of(("a b", "z")), texts=(("a b", "z"), ("z", "c")))
    numbers = TowerReading.of(text_tower, samples).read(samples).numbers
    assert numbers.shape == (2, 32)
    np.testing.assert_array_equal(numbers[1, :16], numbers[0, 16:])


def test_a_library_that_fails_leaves_the_other_candidates(text_tower: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("a shape that does not fit")

    monkeypatch.setattr(towers, "_memory", fail)
    rows = sentences(generator(0, "sentences"), KNOWN, 20)
    model = evodevo.fit(rows, label="class", time_limit="60s", networks=False, towers=text_tower)
    assert not any(row.name.endswith("on reader") for row in model.rows)
    assert sum("reader cannot be read: RuntimeError: a shape" in reason for reason in model.left_out) == 3


@pytest.mark.slow
def test_two_folders_of_one_name_are_two_towers(text_tower: Path, tmp_path: Path) -> None:
    other = tmp_path / "reader"
    shutil.copytree(text_tower, other)
    rows = sentences(generator(0, "sentences"), KNOWN, 40)
    model = evodevo.fit(rows, label="class", time_limit="60s", networks=False, towers=[text_tower, str(other)])
    names = {row.name for row in model.rows}
    assert f"logistic regression, C = 0.1, on {text_tower}" in names
    assert f"logistic regression, C = 0.1, on {other}" in names


@pytest.mark.slow
def test_the_command(text_tower: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = sentences(generator(0, "sentences"), KNOWN, 60)
    file = tmp_path / "rows.jsonl"
    file.write_text(
        "".join(json.dumps(dict(zip(rows, row, strict=True))) + "\n" for row in zip(*rows.values(), strict=True))
    )
    common = ["fit", str(file), "--label", "class", "--no-networks", "--time-limit", "60s", "--tower", str(text_tower)]
    kept = ["--to", str(tmp_path / "model"), "--source", str(tmp_path / "program")]
    assert run([*common, *kept, "--json"]) == ExitCode.SUCCESS
    assert (tmp_path / "program" / "predict.py").is_file()
    found = json.loads(capsys.readouterr().out)
    assert any(row["name"].endswith(", on reader") for row in found["rows"])
