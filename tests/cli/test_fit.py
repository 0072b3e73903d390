"""``evodevo fit``, and ``evodevo predict`` with its folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import evodevo
from evodevo.cli.application import run
from evodevo.errors import ExitCode


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    lines = [
        f"{'odd' if number % 2 else 'even'},{number % 2 + 0.1 * (number % 3)},{number % 5}" for number in range(60)
    ]
    Path("rows.csv").write_text("class,a,b\n" + "\n".join([*lines, ",7,1"]))
    return Path("rows.csv")


@pytest.mark.slow
def test_predictions_of_a_folder_name_its_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for kind, word in (("fruit", "apple"), ("tool", "hammer")):
        (tmp_path / "texts" / kind).mkdir(parents=True)
        for number in range(10):
            (tmp_path / "texts" / kind / f"{number}.txt").write_text(f"the {word} of day {number} is here")
    new, model, answers = tmp_path / "new", str(tmp_path / "model"), tmp_path / "answers.csv"
    new.mkdir()
    for name, text in (("b.txt", "one hammer is here"), ("a.txt", "an apple"), ("c.txt", "the hammer")):
        (new / name).write_text(text)
    assert run(["fit", str(tmp_path / "texts"), "--no-networks", "--to", model]) == ExitCode.SUCCESS
    assert run(["predict", model, "--data", str(new), "--output", str(answers)]) == ExitCode.SUCCESS
    lines = [line.split(",")[:2] for line in answers.read_text().splitlines()]
    assert lines == [["file", "label"], ["a.txt", "fruit"], ["b.txt", "tool"], ["c.txt", "tool"]]
    capsys.readouterr()
    assert run(["predict", model, "--data", str(new), "--json"]) == ExitCode.SUCCESS
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert (rows[0]["file"], rows[0]["answer"]) == ("a.txt", "fruit")
    assert run(["predict", model, "--data", str(new)]) == ExitCode.SUCCESS
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()[-3:]] == lines[1:]


@pytest.mark.slow
def test_from_a_table_to_predictions(
    table: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = ["fit", str(table), "--label", "class", "--no-networks", "--test", str(table)]
    assert run([*begin, "--json", "--to", "model"]) == ExitCode.SUCCESS
    written = capsys.readouterr()
    found = json.loads(written.out)
    assert written.err == ""
    assert found["schema"] == "evodevo.fit/1"
    assert found["chosen"] == found["rows"][0]["name"]
    assert found["tested"] == found["data"]["labelled"] == 60
    assert found["rows"][0]["test"]["score"] == 1
    assert found["folder"] == str(Path("model").absolute())

    assert run(["predict", "model", "--data", str(table), "--json"]) == ExitCode.SUCCESS
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["answer"] for row in rows[:4]] == ["even", "odd", "even", "odd"]
    assert sum(rows[0]["probabilities"].values()) == pytest.approx(1)
    assert run(["predict", "model", "--data", str(table), "--output", "answers.csv"]) == ExitCode.SUCCESS
    lines = Path("answers.csv").read_text().splitlines()
    assert lines[0] == "row,class,probability of even,probability of odd"
    assert len(lines) == 62
    assert lines[2].startswith("2,odd,")
    assert run(["predict", "model", "--input", "a=1.1", "--input", "b=3"]) == ExitCode.SUCCESS
    assert "odd" in capsys.readouterr().out

    assert run(["export", "model", "--to", "source", "program", "--json"]) == ExitCode.SUCCESS
    done = json.loads(capsys.readouterr().out)
    assert (done["schema"], done["format"], done["verified"]["samples"]) == ("evodevo.export/1", "source", 50)
    assert {file["name"] for file in done["files"]} == {"README.md", "arrays.safetensors", "model.json", "predict.py"}
    assert run(["export", "model", "program"]) == ExitCode.SUCCESS  # an earlier export is replaced
    assert "largest difference of a prediction" in capsys.readouterr().out
    assert run(["predict", "program", "--input", "a=1.1"]) == ExitCode.SUCCESS
    assert run(["export", "model", "--to", "pt2", "other"]) == ExitCode.USAGE
    assert run(["export", "model", "--task", "x", "other"]) == ExitCode.USAGE
    assert run(["export", "model", "."]) == ExitCode.USAGE
    assert not Path("other").exists()
    script = "estimators.automatic.source.export.SCRIPT"
    monkeypatch.setattr(f"evodevo.{script}", "print('[[0.5, 0.5]]')")
    assert run(["export", "model", "other"]) == ExitCode.VERIFICATION_FAILED
    assert not Path("other").exists()


@pytest.mark.slow
def test_words_while_it_runs_and_the_table_at_the_end(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fit", str(table), "--label", "class", "--no-networks"]) == ExitCode.SUCCESS
    written = capsys.readouterr()
    assert "61 rows (1 without a label), columns: 2 number; 2 classes of class; 5 folds" in written.err
    assert "best so far" in written.err
    assert "validation accuracy" in written.out
    assert "held out samples" in written.out


@pytest.mark.slow
def test_values_that_are_no_numbers_are_named(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fit", str(table), "--label", "class", "--no-networks", "--to", "model"]) == ExitCode.SUCCESS
    capsys.readouterr()
    assert run(["predict", "model", "--input", "a=1,1", "--input", "b=NA"]) == ExitCode.SUCCESS
    assert (
        "note: 1 of 1 values of 'a' are no numbers, and count as missing; the first is '1,1'."
        in capsys.readouterr().err
    )
    Path("new.csv").write_text("a,b\n1.1,3\nmuch,2\n,4\n")
    assert run(["predict", "model", "--data", "new.csv", "--json"]) == ExitCode.SUCCESS
    written = capsys.readouterr()
    assert "1 of 2 values of 'a'" in written.err
    assert "'b'" not in written.err
    assert len(json.loads(written.out)["rows"]) == 3
    with pytest.warns(UserWarning, match="'much'"):
        evodevo.FittedModel.load("model").predict("new.csv")


@pytest.mark.slow
def test_a_quantity_from_a_table_to_predictions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [f"{number % 30},{number % 7},{1000 + 40 * (number % 30) + number % 7}" for number in range(90)]
    Path("rows.csv").write_text("a,b,price\n" + "\n".join([*lines, "7,1,"]))
    begin = ["fit", "rows.csv", "--label", "price", "--no-networks", "--time-limit", "20m"]
    assert run([*begin, "--test", "rows.csv", "--to", "model"]) == ExitCode.SUCCESS
    written = capsys.readouterr()
    assert "price is a quantity, 1000 to 2165, 90 different numbers (--kind class makes classes of them)" in written.err
    assert "rmse" in written.err
    assert "validation r2" in written.out.replace("\n", " ")
    assert run(["predict", "model", "--data", "rows.csv", "--json"]) == ExitCode.SUCCESS
    found = json.loads(capsys.readouterr().out)["rows"]
    assert [list(row) for row in found[:2]] == [["answer"], ["answer"]]
    assert found[10]["answer"] == pytest.approx(1403, abs=40)
    assert run(["predict", "model", "--data", "rows.csv", "--output", "answers.csv"]) == ExitCode.SUCCESS
    capsys.readouterr()
    answers = Path("answers.csv").read_text().splitlines()
    assert answers[0] == "row,price"
    assert float(answers[11].split(",")[1]) == pytest.approx(found[10]["answer"])
    assert run(["predict", "model", "--input", "a=10", "--input", "b=3"]) == ExitCode.SUCCESS
    shown = capsys.readouterr().out
    assert "probability" not in shown
    assert "14" in shown
    assert run(["export", "model", "--to", "source", "program", "--json"]) == ExitCode.SUCCESS
    assert json.loads(capsys.readouterr().out)["verified"]["samples"] == 50
    assert run(["predict", "program", "--data", "rows.csv", "--json"]) == ExitCode.SUCCESS
    assert json.loads(capsys.readouterr().out)["rows"] == found

    assert run(["fit", "rows.csv", "--label", "b", "--no-networks", "--json", "--kind", "quantity"]) == ExitCode.SUCCESS
    assert json.loads(capsys.readouterr().out)["metric"] == "r2"
    assert run(["fit", "rows.csv", "--label", "b", "--no-networks", "--metric", "mae"]) == ExitCode.USAGE
    assert run([*begin, "--kind", "class", "--metric", "rmse"]) == ExitCode.USAGE
    assert run([*begin, "--kind", "number"]) == ExitCode.USAGE


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rows.csv", "--label", "clas"], "clas"),
        (["rows.csv", "--label", "class", "--time-limit", "soon"], "time limit"),
        (["gone.csv", "--label", "class"], "no file at gone.csv"),
        (["rows.csv", "--label", "class", "--to", "rows.csv"], "is a file"),
        (["rows.csv", "--label", "class", "--ignore", "z"], "'z'"),
        (["rows.csv", "--label", "class", "--test", "gone.csv"], "no file at gone.csv"),
        (["rows.csv", "--label", "class", "--source", "."], "no export wrote"),
        (["rows.csv", "--label", "class", "--metric", "beauty"], "beauty"),
        (["rows.csv", "--label", "class", "--kind", "quantity"], "row 1: 'class' is 'even'; a quantity is a number"),
    ],
)
def test_bad_input_is_refused_before_the_work(
    table: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evodevo.estimators.automatic.search.FitSearch.run", lambda *_, **__: pytest.fail("begun"))
    assert run(["fit", "--no-networks", *arguments]) == ExitCode.USAGE
    assert words in capsys.readouterr().err


def test_predictions_of_a_damaged_folder(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("model").mkdir()
    Path("model/model.json").write_text("{}")
    Path("model/arrays.safetensors").write_bytes(b"")
    assert run(["predict", "model", "--data", str(table)]) == ExitCode.UNSAFE
    assert "no fitted model" in capsys.readouterr().err
