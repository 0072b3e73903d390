"""``evodevo evolve``, ``resume`` and ``train``: settings, events, refusals."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evodevo.cli.application import run
from evodevo.errors import ExitCode
from evodevo.storage import Store

if TYPE_CHECKING:
    from ..conftest import Small
    from .conftest import Ask, Refuse

EVALUATIONS = 2 + 4


def events(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.slow
def test_a_search_tells_its_story_is_made_longer_and_its_best_is_trained_again(
    small: Small, tmp_path: Path, ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--store", str(tmp_path / "runs")]
    assert (
        small.evolve(tmp_path / "runs", "--generations", "1", "--set", "study.confirmations=0", "--json")
        == ExitCode.SUCCESS
    )
    told = events(capsys)
    assert {event["schema"] for event in told} == {"evodevo.event/1"}
    kinds = [event["type"] for event in told]
    assert (kinds[0], kinds[-1]) == ("begin", "finished")
    assert kinds.count("evaluated") == kinds.count("started") == EVALUATIONS
    assert kinds.count("generation") == 1
    assert told[0]["run"] == told[-1]["run"]
    assert sum(len(event["individuals"]) for event in told if event["type"] == "proposed") == EVALUATIONS

    assert run(["resume", "last", "--generations", "2", *where]) == ExitCode.SUCCESS
    seen = capsys.readouterr()
    assert "transformer++" in seen.out, "the front on stdout"
    assert "generation 1 (2 of 2): 8 scored" in seen.err, "the course on stderr"
    assert "\r" not in seen.err
    assert "\x1b" not in seen.err
    # What the longer run found is what the small run of the fixture, which had two generations from the start, found.
    assert run(["show", "last", *where, "--json"]) == ExitCode.SUCCESS
    longer = json.loads(capsys.readouterr().out)["individuals"]
    straight = ask("show", small.run)["individuals"]
    for a, b in zip(longer, straight, strict=True):
        assert (a["genome"], a["operation"], a["scores"]) == (b["genome"], b["operation"], b["scores"])

    assert run(["pick", *where, "--json"]) == ExitCode.SUCCESS
    chosen = json.loads(capsys.readouterr().out)
    assert run(["train", chosen["id"], "--tokens", "0.128K", "--seeds", "3", *where]) == ExitCode.SUCCESS
    capsys.readouterr()
    assert run(["show", "last", *where, "--json"]) == ExitCode.SUCCESS
    document = json.loads(capsys.readouterr().out)
    (trained,) = document["individuals"]
    assert (trained["genome"], trained["parents"]) == (chosen["genome"], [chosen["id"]])
    assert document["settings"]["evaluation"]["training"]["budget"]["tokens"] == 128
    assert trained["seeds"]["quality"]["seeds"] == 3


@pytest.mark.slow
def test_recipe_then_file_then_set_then_flags(small: Small, tmp_path: Path) -> None:
    more = ["--set", "study.population=5", "--set", "study.generations=1", "--set", "evaluation.tied=true"]
    flags = ["--population", "2", "--seed", "7", "--tokens", "0.1K", "--objective", "quality"]
    more += ["--set", "study.confirmations=0"]
    assert small.evolve(tmp_path / "runs", *more, *flags, "--objective", "parameters") == ExitCode.SUCCESS
    with Store.open(tmp_path / "runs", "ro") as opened:
        settings = opened.runs()[-1].settings
    assert settings["study"]["algorithm"] == "nsga2"  # the recipe
    assert settings["space"]["dimensions"]["width"] == 16  # the file
    assert settings["study"]["generations"] == 1  # --set over the file
    assert settings["evaluation"]["tied"] is True
    assert settings["study"]["population"] == 2  # a flag over --set
    assert settings["study"]["seed"] == 7
    assert settings["evaluation"]["training"]["budget"]["tokens"] == 100
    assert settings["evaluation"]["objectives"] == ["quality", "parameters"]


@pytest.mark.parametrize(
    ("options", "code", "wanted"),
    [
        (["--population", "1"], ExitCode.USAGE, "study.population"),
        (["--generations", "-1"], ExitCode.USAGE, "study.generations"),
        (["--tokens", "-5"], ExitCode.USAGE, "whole number"),
        (["--tokens", "0"], ExitCode.USAGE, "tokens"),
        (["--max-parameters", "0"], ExitCode.USAGE, "max_parameters"),
        (["--objective", "qualty"], ExitCode.USAGE, "quality"),
        (["--objective", "quality:upwards"], ExitCode.USAGE, "maximise"),
        (["--objective", "quality", "--objective", "quality"], ExitCode.USAGE, "twice"),
        (["--algorithm", "nsga3"], ExitCode.USAGE, "nsga2"),
        (["--mode", "stready"], ExitCode.USAGE, "steady"),
        (["--device", "tpu"], ExitCode.USAGE, "device"),
        (["--workers", "0"], ExitCode.USAGE, "workers"),
        (["--max-failed-share", "2"], ExitCode.USAGE, "max_failed_share"),
        (["--set", "study.populaton=4"], ExitCode.USAGE, "study.populaton"),
        (["--set", "study.population"], ExitCode.USAGE, "key=value"),
        (["--set", "space.dimensions.head_size=7"], ExitCode.USAGE, "head"),
        (["--set", "evaluation.language.context_length=100000"], ExitCode.USAGE, "context"),
        (["--config", "nowhere.toml"], ExitCode.NOT_FOUND, "nowhere.toml"),
        (["--data", "nowhere"], ExitCode.USAGE, "nowhere"),
        (["--device", "cuda:99"], ExitCode.USAGE, "CUDA devices"),
    ],
)
def test_bad_settings_leave_no_trace(
    options: list[str], code: ExitCode, wanted: str, small: Small, tmp_path: Path, refuse: Refuse
) -> None:
    begin = ["evolve", "backbone.demo", "--config", str(small.config), "--data", str(small.text)]
    refuse([*begin, "--store", str(tmp_path / "runs"), *options], code, wanted)
    assert not (tmp_path / "runs").exists()


def test_data_that_is_empty_binary_or_too_small(small: Small, tmp_path: Path, refuse: Refuse) -> None:
    options = ["--config", str(small.config), "--data", str(tmp_path / "data.txt"), "--store", str(tmp_path / "runs")]
    for content in (b"", b"\x00\x01\x02\xff" * 5000, b"too little"):
        (tmp_path / "data.txt").write_bytes(content)
        refuse(["evolve", "backbone.demo", *options], ExitCode.USAGE, "data.txt")
        assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_the_splits_and_what_was_left_out_are_said(
    small: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "text"
    shutil.copytree(small.text, text)
    (text / "README.md").write_text("This is about it.")
    store = tmp_path / "runs"
    begin = ["evolve", "backbone.demo", "--config", str(small.config), "--data", str(text), "--generations", "1"]
    assert run([*begin, "--set", "study.confirmations=0", "--store", str(store)]) == ExitCode.SUCCESS
    said = capsys.readouterr().err
    assert run(["show", "last", "--store", str(store)]) == ExitCode.SUCCESS
    shown = capsys.readouterr().out
    assert run(["report", "last", "--output", str(tmp_path / "page.html"), "--store", str(store)]) == ExitCode.SUCCESS
    capsys.readouterr()
    page = (tmp_path / "page.html").read_text()
    assert run(["show", "last", "--store", str(store), "--json"]) == ExitCode.SUCCESS
    data = json.loads(capsys.readouterr().out)["data"]
    assert data["left_out"][0]["names"] == ["README.md"]
    for place in (said, shown, page):
        assert str(text) in place
        assert "1 about the corpus (README, licence and the like): README.md" in place
        for split, size in data["tokens"].items():
            assert f"{split} {size:,} tokens ({data['contexts'][split]:,} contexts of 16)" in place


@pytest.mark.slow
def test_where_everything_is_too_large_the_run_fails(
    small: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert small.evolve(tmp_path / "runs", "--max-parameters", "1") == ExitCode.EVALUATIONS_FAILED
    seen = capsys.readouterr()
    assert "infeasible" in seen.err
    assert run(["status", "--store", str(tmp_path / "runs"), "--json"]) == ExitCode.SUCCESS
    (facts,) = json.loads(capsys.readouterr().out)["runs"]
    assert facts["state"] == "failed"


def test_resume_changes_nothing_that_decides_scores(small: Small, refuse: Refuse) -> None:
    for change in ("study.population=6", "space.depth=10", "evaluation.training.budget.tokens=9000"):
        refuse(["resume", small.run, "--set", change, "--store", str(small.store)], ExitCode.USAGE, "cannot change")


def test_training_that_cannot_be(small: Small, ask: Ask, refuse: Refuse) -> None:
    one = ask("pick", small.run)["id"]
    for option, value in (("--seeds", "0"), ("--tokens", "0"), ("--seconds", "-1")):
        refuse(["train", one, option, value, "--store", str(small.store)], ExitCode.USAGE, option[2:])
    assert len(ask("status")["runs"]) == 1
