"""``evodevo.fit``: from rows to the best model, and back from its folder."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evodevo
from evodevo.errors import DataError, NotFoundError, UnsafeFileError, UsageError
from evodevo.estimators.automatic import ensemble, scores
from evodevo.estimators.automatic.candidates.mean import MeanPredictor
from evodevo.estimators.automatic.fit import ENSEMBLE, seconds_of
from evodevo.estimators.automatic.search import FitSearch
from evodevo.estimators.automatic.splits import EVERY_FOLD_BELOW, folds
from evodevo.randomness import generator
from evodevo.tasks.rows import sources


def rows(count: int, seed: int = 0) -> dict[str, Any]:
    """Rows whose class follows from a number and a word."""
    rng = generator(seed, "fit")
    number, word = rng.normal(size=count), rng.integers(0, 3, count)
    noise = rng.random(count) < 0.05
    answer = ((number + (word == 1) * 2 > 0.5) ^ noise).astype(int)
    return {
        "number": number,
        "word": np.asarray(["stone", "river", "cloud"])[word],
        "y": [("no", "yes")[place] for place in answer],
    }


def quick(data: Any, label: Any = "y", **more: Any) -> evodevo.FittedModel:
    return evodevo.fit(data, label, time_limit="20s", **({"networks": False} | more))


@pytest.mark.slow
def test_the_best_on_held_out_rows_is_the_model_and_the_table_has_the_others(tmp_path: Path) -> None:
    events: list[tuple[str, dict[str, Any]]] = []
    model = quick(rows(200), listener=lambda kind, facts: events.append((kind, facts)))
    board = model.leaderboard(rows(300, 1))
    assert board.rows[0].name == model.name
    assert list(board.rows) == sorted(board.rows, key=lambda row: (-row.score, row.log_loss))
    assert board.rows[0].score > 0.85
    assert {row.name for row in board} >= {
        "always the most frequent",
        "logistic regression, C = 1",
        "gradient boosting",
    }
    assert board.test.keys() == {row.name for row in board}
    own = board.test[model.name]
    assert own.low <= own.score <= own.high
    assert own.behind == own.behind_low == own.behind_high == 0
    worst = board.test["always the most frequent"]
    assert worst.behind_low > 0
    assert worst.behind == pytest.approx(own.score - worst.score)
    answers = model.predict(rows(300, 1))
    assert np.mean(np.asarray(answers) == rows(300, 1)["y"]) == pytest.approx(own.score)
    assert model.name in board.verdict
    assert str(board).splitlines()[0].startswith("model")
    assert events[0][0] == "plan"
    assert [kind for kind, _ in events].count("candidate") >= 6

    model.save(tmp_path / "model")
    loaded = evodevo.FittedModel.load(tmp_path / "model")
    assert (loaded.predict_proba(rows(300, 1)) == model.predict_proba(rows(300, 1))).all()
    assert loaded.rows == model.rows
    assert loaded.leaderboard(rows(300, 1)).test[model.name] == own


def test_an_ensemble_is_never_worse_than_its_best_member_on_what_it_was_made_from() -> None:
    rng = generator(3, "ensemble")
    answers = rng.integers(0, 3, 60)
    chances = {name: rng.dirichlet(np.ones(3), 60) for name in "abcd"}
    chances["a"][np.arange(60), answers] += 1
    chances["a"] /= chances["a"].sum(1, keepdims=True)
    weights = ensemble.greedy(chances, answers)
    assert sum(weights.values()) == pytest.approx(1)
    together = sum(weight * chances[name] for name, weight in weights.items())
    best = min(scores.log_loss(own, answers) for own in chances.values())
    assert scores.log_loss(together, answers) <= best + 1e-12


def test_scores_agree_with_scikit_learn() -> None:
    from sklearn import metrics

    rng = generator(4, "scores")
    chances, answers = rng.dirichlet(np.ones(3), 50), rng.integers(0, 3, 50)
    assert scores.log_loss(chances, answers) == pytest.approx(metrics.log_loss(answers, chances))
    chosen = scores.METRICS["accuracy"].decide(chances, np.ones(3) / 3)
    balanced = scores.METRICS["balanced_accuracy"].score(chosen, answers)
    assert balanced == pytest.approx(metrics.balanced_accuracy_score(answers, chosen))
    labels, decided = rng.integers(0, 2, (50, 3)), rng.integers(0, 2, (50, 3))
    f1 = scores.METRICS["micro_f1"].score(decided, labels.astype(np.float32))
    assert f1 == pytest.approx(metrics.f1_score(labels, decided, average="micro"))
    same = scores.difference(scores.METRICS["accuracy"], chosen, chosen, answers)
    assert (same.low, same.high) == (0, 0)


@pytest.mark.slow
def test_balanced_decisions_find_the_rare_class() -> None:
    rng = generator(5, "rare")
    number = rng.normal(size=400)
    data = {"number": number, "y": np.where((number > 1) & (rng.random(400) < 0.5), "rare", "usual")}
    usual, balanced = quick(data), quick(data, metric="balanced_accuracy")
    assert usual.predict(data).count("rare") < balanced.predict(data).count("rare")
    chances = np.asarray([[0.3, 0.7], [0.05, 0.95]])
    assert balanced.named(balanced.decided(chances)) == ["rare", "usual"]
    assert usual.named(usual.decided(chances)) == ["usual", "usual"]


@pytest.mark.parametrize("count", [40, EVERY_FOLD_BELOW + 10])
def test_no_group_is_on_both_sides(count: int) -> None:
    rng = generator(6, "folds")
    answers = rng.integers(0, 2, count)
    groups = [str(number).encode() for number in rng.integers(0, count // 2, count)]
    found = folds(answers, groups, 0)
    assert len(found) == (5 if count < EVERY_FOLD_BELOW else 1)
    for fold in found:
        assert sorted([*fold.train, *fold.held]) == list(range(count))
        assert not {groups[row] for row in fold.train} & {groups[row] for row in fold.held}
    if len(found) == 5:
        assert sorted(row for fold in found for row in fold.held) == list(range(count))


def test_classes_are_spread_evenly() -> None:
    answers = np.asarray([0] * 21 + [1] * 34 + [2] * 5)
    found = folds(answers, [str(row).encode() for row in range(60)], 0)
    for name in range(3):
        counts = [int((answers[fold.held] == name).sum()) for fold in found]
        assert max(counts) - min(counts) <= 1


@pytest.mark.slow
def test_equal_rows_are_on_one_side() -> None:
    """Copies of a row with labels drawn at random cannot be learned; with copies on both sides they could."""
    rng = generator(8, "copies")
    number = np.repeat(rng.normal(size=60), 4)
    data = {"number": number, "y": np.repeat(np.where(rng.random(60) < 0.5, "a", "b"), 4)}
    model = quick(data)
    assert model.rows[0].score < 0.75


@pytest.mark.slow
def test_several_labels_in_one_cell_and_in_columns() -> None:
    base = rows(120)
    both = [
        "|".join(name for name, there in (("p", number > 0), ("q", word == "river")) if there)
        for number, word in zip(base["number"], base["word"], strict=True)
    ]
    data = {"number": base["number"], "word": base["word"], "tags": [cell or "[]" for cell in both]}
    model = quick(data, "tags", separator="|")
    assert model.classes == ("p", "q")
    assert model.rows[0].score > 0.85
    assert model.predict({"number": [2.0], "word": ["river"]}) == [["p", "q"]]
    columns = {"number": base["number"], "word": base["word"], "p": base["number"] > 0, "q": base["word"] == "river"}
    assert quick(columns, ("p", "q")).predict({"number": [-2.0], "word": ["stone"]}) == [[]]


@pytest.mark.slow
def test_a_folder_of_texts(tmp_path: Path) -> None:
    for name, word in (("fruit", "apple"), ("tool", "hammer")):
        (tmp_path / "data" / name).mkdir(parents=True)
        for number in range(12):
            (tmp_path / "data" / name / f"{number}.txt").write_text(f"the {word} of day {number} is here")
    (tmp_path / "data" / "README.md").write_text("about")
    model = quick(tmp_path / "data", "kind")
    assert model.classes == ("fruit", "tool")
    assert model.predict({"text": ["an apple is here", "one hammer is here"]}) == ["fruit", "tool"]


@pytest.mark.slow
def test_a_folder_of_images(tmp_path: Path) -> None:
    from PIL import Image

    rng = generator(9, "images")
    for name, bright in (("dark", 40), ("light", 200)):
        (tmp_path / name).mkdir()
        for number in range(10):
            pixels = (bright + rng.integers(-30, 30, (9, 8))).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / name / f"{number}.png")
    model = quick(tmp_path, "label")
    assert model.rows[0].score == 1
    assert model.predict({"image": np.full((1, 9, 8), 210, np.uint8)}) == ["light"]


@pytest.mark.slow
def test_what_single_pixels_show_is_found_at_their_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by the exported program, and by the model that is loaded again."""
    from PIL import Image

    rng = generator(9, "stripes")
    for place, name in enumerate(("across", "down")):
        (tmp_path / "data" / name).mkdir(parents=True)
        for number in range(12):
            pixels = rng.integers(0, 20, (96, 96))
            pixels[(np.s_[::2], np.s_[:, ::2])[place]] += 200
            Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / "data" / name / f"{number}.png")
    model = quick(tmp_path / "data", "label", image_size=96)
    assert model.reading.shapes == ((96, 96, 1),)
    assert model.rows[0].score == 1
    files = [f"data/{name}/{number}.png" for name in ("down", "across") for number in range(3)]
    monkeypatch.chdir(tmp_path)
    model.save(tmp_path / "model")
    expected = model.predict({"image": files})
    assert (
        evodevo.FittedModel.load(tmp_path / "model").predict({"image": files})
        == expected
        == ["down"] * 3 + ["across"] * 3
    )
    model.export("source", tmp_path / "source")
    (tmp_path / "rows.csv").write_text("image\n" + "\n".join(files))
    program = [sys.executable, str(tmp_path / "source" / "predict.py"), "rows.csv"]
    told = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert [line.split(",")[0] for line in told.splitlines()[1:]] == expected


@pytest.mark.slow
def test_a_folder_of_sounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by the exported program, which has the way from a sound to its picture beside it."""
    from scipy.io import wavfile

    rng = generator(9, "sounds")
    for name, hertz in (("low", 200), ("high", 2_000)):
        (tmp_path / "data" / name).mkdir(parents=True)
        for number in range(10):
            time = np.arange(rng.integers(2_000, 6_000)) / 8_000
            sound = np.sin(2 * np.pi * hertz * (1 + 0.05 * rng.standard_normal()) * time)
            sound += 0.1 * rng.standard_normal(len(time))
            wavfile.write(tmp_path / "data" / name / f"{number}.wav", 8_000, sound.astype(np.float32))
    model = quick(tmp_path / "data", "label")
    assert model.rows[0].score == 1
    files = [f"data/{name}/3.wav" for name in ("high", "low")]
    monkeypatch.chdir(tmp_path)
    assert model.predict({"image": files}) == ["high", "low"]
    model.export("source", tmp_path / "source")
    (tmp_path / "rows.csv").write_text("image\n" + "\n".join(files))
    program = [sys.executable, str(tmp_path / "source" / "predict.py"), "rows.csv"]
    told = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert [line.split(",")[0] for line in told.splitlines()[1:]] == ["high", "low"]


@pytest.mark.slow
def test_ctrl_c_ends_with_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = FitSearch._judge
    seen: list[str] = []

    def interrupted(self: FitSearch, candidate: Any, limit: Any) -> Any:
        if len(seen) == 2:
            raise KeyboardInterrupt
        seen.append(candidate.name)
        return judge(self, candidate, limit)

    monkeypatch.setattr(FitSearch, "_judge", interrupted)
    model = quick(rows(60))
    assert {row.name for row in model.rows} - {ENSEMBLE} == set(seen)
    assert any("interrupted" in reason for reason in model.left_out)
    monkeypatch.setattr(FitSearch, "_judge", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        quick(rows(60))


@pytest.mark.slow
@pytest.mark.parametrize("error", [UsageError("no word"), RuntimeError("out of memory"), ZeroDivisionError("NaN")])
def test_networks_that_cannot_be_trained_leave_the_plain_models(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: Any, *given: Any) -> None:
        raise error

    monkeypatch.setattr("evodevo.estimators.automatic.networks.race.NetworkRace.run", fails)
    model = evodevo.fit(rows(60), "y", time_limit="120s")
    assert {row.kind for row in model.rows} <= {"plain", "ensemble"}
    assert f"networks: {error}" in model.left_out


@pytest.mark.slow
def test_networks_without_a_result_leave_the_plain_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evodevo.estimators.automatic.networks.race.NetworkRace.run", lambda *_: [])
    model = evodevo.fit(rows(60), "y", time_limit="120s")
    assert {row.kind for row in model.rows} <= {"plain", "ensemble"}


@pytest.mark.slow
def test_networks_take_part_and_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evodevo.estimators.automatic.search.LEAST_NETWORK_SECONDS", 0.1)
    model = evodevo.fit(rows(60), "y", time_limit=12)
    networks = [row.name for row in model.rows if row.kind == "network"]
    assert networks
    for place, name in enumerate(networks):
        other = replace(model, predictor=model.others[name])
        loaded = evodevo.FittedModel.load(other.save(tmp_path / str(place)))
        assert (loaded.predict_proba(rows(20, 1)) == other.predict_proba(rows(20, 1))).all()


@pytest.mark.slow
def test_a_model_with_a_zoo_in_it_is_kept(tmp_path: Path) -> None:
    """Its router has a parameter without an axis."""
    from evodevo.estimators.automatic.candidates.network import NetworkRow, inputs
    from evodevo.estimators.automatic.networks.race import NetworkRace

    model = quick(rows(60))
    samples = model.reading.read(sources.read(rows(60)))
    given = inputs(samples, model.reading.levels)
    answers = model.targets.read(sources.read(rows(60)))
    race = NetworkRace(given, answers, "class", 2, np.arange(40), np.arange(40, 60), 0, arms=["zoo: all modules"])
    (result,) = race.run(60.0, lambda _: None, max_steps=4)
    network = NetworkRow(result.predictor, model.reading.levels)
    assert any(array.ndim == 0 for array in network.to_state()[1].values())
    other = replace(model, predictor=MeanPredictor([network, model.predictor], [0.5, 0.5]))
    loaded = evodevo.FittedModel.load(other.save(tmp_path / "model"))
    assert (loaded.predict_proba(rows(20, 1)) == other.predict_proba(rows(20, 1))).all()


@pytest.mark.parametrize(
    ("data", "label", "words"),
    [
        (rows(40), "z", "column 'z'"),
        ({"a": [1] * 20, "y": ["a", "b"] * 10}, "y", "no column to learn from"),
        ({"a": range(20), "y": ["a"] * 20}, "y", "one class alone"),
        ({"a": [1, 2], "y": ["a", "b"]}, "y", "at least 10"),
        ({"a": [1, 2], "y": ["a"]}, "y", "equal lengths"),
        ("missing.csv", "y", "no file at"),
        (7, "y", "type int"),
        ({"a": [3, 1] * 9, "p": ["1", "perhaps"] * 9, "q": [0, 1] * 9}, ("p", "q"), "row 2"),
    ],
)
def test_bad_input_is_one_sentence(data: Any, label: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        quick(data, label)


def test_bad_settings() -> None:
    for text in ("soon", "-3s", "0", "nan"):
        with pytest.raises(UsageError, match="time limit"):
            seconds_of(text)
    assert [seconds_of(text) for text in ("90s", "5m", "1.5h", 7)] == [90, 300, 5400, 7]
    with pytest.raises(UsageError, match="metric"):
        quick(rows(40), metric="micro_f1")


@pytest.mark.slow
def test_damaged_folders_are_refused(tmp_path: Path) -> None:
    model = quick(rows(40))
    folder = model.save(tmp_path / "model")
    with pytest.raises(NotFoundError):
        evodevo.FittedModel.load(tmp_path)
    about = json.loads((folder / "model.json").read_text())
    for key, value in (("format", "other/1"), ("form", "os:system"), ("rows", []), ("facts", {"x": 1})):
        (folder / "model.json").write_text(json.dumps({**about, key: value}))
        with pytest.raises(UnsafeFileError):
            evodevo.FittedModel.load(folder)
    (folder / "model.json").write_text(json.dumps(about))
    (folder / "arrays.safetensors").write_bytes(b"damaged")
    with pytest.raises(UnsafeFileError):
        evodevo.FittedModel.load(folder)
    with pytest.raises(DataError, match="none of the columns"):
        model.predict({"other": [1]})
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("x")
    with pytest.raises(UsageError, match="other files"):
        model.save(tmp_path / "full")


@pytest.mark.parametrize("mark", [";", "\t"])
def test_semicolons_and_decimal_commas_are_as_commas_and_points(mark: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    sizes = np.round(rng.normal(1500, 400, 60), 2)
    kinds = ["big" if size > 1500 else "small" for size in sizes]
    usual, other = tmp_path / "usual.csv", tmp_path / "other.csv"
    names = ("size", "note", "kind")
    rows = [(f"{size:.2f}", "at 5,5 and more", kind) for size, kind in zip(sizes, kinds, strict=True)]
    usual.write_text("\n".join([",".join(names), *(f'{a},"{b}",{c}' for a, b, c in rows)]), encoding="utf-8")
    german = [(f"{float(size):,.2f}".translate(str.maketrans(",.", ".,")), note, kind) for size, note, kind in rows]
    other.write_text("\n".join(map(mark.join, [names, *german])), encoding="utf-8")
    models = [evodevo.fit(path, label="kind", time_limit="60s", networks=False, seed=1) for path in (usual, other)]
    first, second = (model.predict_proba(path) for model in models for path in (usual,))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(models[1].predict_proba(other), first)
    assert [column.kind for column in models[1].reading.columns if column.name == "size"] == ["number"]
    program = models[1].export("source", tmp_path / "program") / "predict.py"
    answers = [
        subprocess.run([sys.executable, "-I", program, path], capture_output=True, text=True, check=True).stdout
        for path in (usual, other)
    ]
    assert answers[0] == answers[1]
    assert answers[0].count("\n") == 61


def test_who_names_no_label_is_asked_for_it(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("size,kind\n" + "1,a\n2,b\n" * 10, encoding="utf-8")
    with pytest.raises(UsageError, match=r"name the label column .*There: size, kind"):
        evodevo.fit(path, time_limit="5s", networks=False)
