"""``evodevo grow`` and ``evodevo replay``: from the command to the page, and what is refused before it begins."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from evodevo.cli.application import run
from evodevo.cli.drive.train import train
from evodevo.errors import ExitCode
from evodevo.growth import replay_run
from evodevo.growth.report.event_words import CHANGES
from evodevo.storage import Store

TINY = """
[zoo]
width = 16
extractor.blocks = 0
modules = "mlp,squeeze_excite"

[grow]
events = {count = 2, first = 0.25, last = 0.5, warm = 0.25, horizon = 0.25, looks = 0}
fitness.samples = 16
prune.distil_steps = 1

[evaluation]
task_settings = {questions = 4, form = "answer"}
training.budget = {steps = 8}
training.batch_size = 4
validation_samples = 16
test_samples = 16
curve_points = 2
curve_samples = 16
exchange = false
seconds = 600.0

[execution]
executor = "serial"
"""

FALL = 113_000
"""FLOPs of a sample to which a cap falls that either module alone fits under, and both together do not."""


@pytest.fixture
def begin(tmp_path: Path) -> list[str]:
    config = tmp_path / "tiny.toml"
    config.write_text(TINY)
    return ["grow", "module_zoo.classifier", "--config", str(config), "--store", str(tmp_path / "runs")]


def told(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_from_the_command_to_the_page(begin: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--store", str(tmp_path / "runs")]
    assert run([*begin, "--strategist", "random", "--budget", "16steps"]) == ExitCode.SUCCESS
    seen = capsys.readouterr()
    assert "2 trainings, duration not measured" in seen.err.splitlines()[1], "16 steps are too few to measure four"
    assert "event 1: " in seen.err
    _, head, *rows, verdict = seen.out.splitlines()
    assert head.split("  ")[0] == "arm"
    assert "minus fixed" in head
    assert {row.split("  ")[0] for row in rows} == {"grown by random", "fixed"}, "the end is one table"
    assert verdict.startswith("best of 2 on test: ")
    assert run(["show", "last", *where]) == ExitCode.SUCCESS
    seen = capsys.readouterr()
    assert "in points more than fixed" in seen.out
    assert "how the networks grew" in seen.out

    assert run(["status", "last", *where, "--json"]) == ExitCode.SUCCESS
    facts = told(capsys)
    assert (facts["kind"], facts["state"], facts["scored"]) == ("grow", "finished", 2)
    assert run(["show", "last", *where, "--json"]) == ExitCode.SUCCESS
    shown = told(capsys)
    assert shown["comparison"]["reference"] == "fixed"
    assert shown["settings"]["evaluation"]["training"]["budget"]["steps"] == 16
    (grown,) = next(row["individuals"] for row in shown["comparison"]["rows"] if row["arm"] == "grown by random")
    assert run(["show", grown, *where]) == ExitCode.SUCCESS
    assert run(["resume", "last", *where]) == ExitCode.SUCCESS, "there is nothing left to do"
    page = tmp_path / "page.html"
    assert run(["report", "last", *where, "--output", str(page)]) == ExitCode.SUCCESS
    assert "evodevo grow module_zoo.classifier" in page.read_text()

    capsys.readouterr()
    assert run(["replay", grown, *where, "--json"]) == ExitCode.SUCCESS
    done = told(capsys)
    assert done["schema"] == "evodevo.replay/1"
    assert run(["show", grown, *where, "--json"]) == ExitCode.SUCCESS
    assert done["modules"] == told(capsys)["facts"]["growth"]["modules"]
    assert run(["replay", grown, *where]) == ExitCode.SUCCESS
    seen = capsys.readouterr()
    assert all(edit["operation"] in seen.out for edit in done["edits"])
    assert "lead to the kept network" in seen.err

    with Store.open(tmp_path / "runs", "ro") as store:
        (evaluation,) = store.evaluations(individual_id=grown)
        path = store.blobs.path(evaluation.blobs["edits"])
    path.chmod(0o600)
    path.write_bytes(path.read_bytes().replace(b'"event":1', b'"event":2'))
    assert run(["replay", grown, *where]) == ExitCode.STORE_DAMAGED
    assert run(["repair", "--check", *where]) == ExitCode.STORE_DAMAGED


@pytest.mark.slow
def test_a_training_under_a_cap_that_falls_is_replayed(
    begin: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the command: a race decides at the fall, and the log leads to the kept network, which is under the cap."""
    where = ["--store", str(tmp_path / "runs")]
    caps = {"schedule": [{"at": 0.4, "flops": FALL}], "race": {"share": 0.3, "samples": 8, "least": 1}}
    changes = ["grow.events.count=0", "grow.race.share=0", f"grow.caps={json.dumps(caps)}"]
    sets = [word for change in changes for word in ("--set", change)]
    assert run([*begin, "--strategist", "fixed", "--budget", "0.05Gflops", *sets]) == ExitCode.SUCCESS
    assert "the cap falls to" in capsys.readouterr().err
    assert run(["show", "last", *where, "--json"]) == ExitCode.SUCCESS
    (row,) = told(capsys)["comparison"]["rows"]
    (grown,) = row["individuals"]
    assert run(["show", grown, *where, "--json"]) == ExitCode.SUCCESS
    growth = told(capsys)["facts"]["growth"]
    (fall,) = growth["caps"]["falls"]
    assert fall["instead"] == ""
    assert sum(bool(network["losses"]) for network in fall["networks"]) > 1
    assert run(["replay", grown, *where, "--json"]) == ExitCode.SUCCESS
    done = told(capsys)
    assert done["modules"] == growth["modules"] == fall["chosen"]
    assert done["is_compared"]
    gone = [edit["child"] for edit in done["edits"]]
    assert sorted([*gone, *done["modules"]]) == sorted(done["start"])
    assert all("is over the cap of flops" in edit["note"] and edit["parameters"] < 0 for edit in done["edits"])
    assert run(["replay", grown, *where]) == ExitCode.SUCCESS
    seen = capsys.readouterr()
    assert all(name in seen.out for name in gone)
    assert "lead to the kept network" in seen.err


@pytest.mark.slow
def test_a_training_that_is_edited_around_its_modules_is_replayed(
    begin: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log leads to what the kept network has around its modules, and to no other network."""
    where = ["--store", str(tmp_path / "runs")]
    changes = ['grow.allow=["map_positions","add_readout"]', "grow.events.actions=1"]
    sets = [word for change in changes for word in ("--set", change)]
    assert run([*begin, "--strategist", "heuristic", *sets]) == ExitCode.SUCCESS
    capsys.readouterr()
    assert run(["show", "last", *where, "--json"]) == ExitCode.SUCCESS
    rows = told(capsys)["comparison"]["rows"]
    (grown,) = next(row["individuals"] for row in rows if row["individuals"] and "grown" in json.dumps(row))
    assert run(["replay", grown, *where, "--json"]) == ExitCode.SUCCESS
    done = told(capsys)
    assert done["is_compared"]
    assert [edit["operation"] for edit in done["edits"]] == ["map_positions", "add_readout"]
    assert run(["show", grown, *where]) == ExitCode.SUCCESS
    assert "network given a layer before the heads" in " ".join(capsys.readouterr().out.split())
    monkeypatch.setattr(replay_run, "surrounded", lambda network, edits: network)
    assert run(["replay", grown, *where]) == ExitCode.USAGE
    assert "which is another around its modules" in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
def test_a_training_whose_data_shift_is_replayed(
    begin: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the command: the text appears, other networks race, and the log leads to the kept network."""
    where = ["--store", str(tmp_path / "runs")]
    shift = {"kind": "modality", "at": 0.4, "race": {"share": 0.4, "samples": 8, "least": 1, "networks": 6}}
    changes = ["grow.events.count=0", "grow.race.share=0", "patience=null", f"grow.shift={json.dumps(shift)}"]
    sets = [word for change in changes for word in ("--set", change)]
    assert run([*begin, "--strategist", "fixed", "--budget", "0.05Gflops", *sets]) == ExitCode.SUCCESS
    assert "the input text appeared; goes on: " in capsys.readouterr().err
    assert run(["show", "last", *where, "--json"]) == ExitCode.SUCCESS
    (row,) = told(capsys)["comparison"]["rows"]
    (grown,) = row["individuals"]
    assert run(["show", grown, *where, "--json"]) == ExitCode.SUCCESS
    growth = told(capsys)["facts"]["growth"]
    assert growth["shift"]["instead"] == ""
    assert len(growth["shift"]["networks"]) > 1
    assert run(["replay", grown, *where, "--json"]) == ExitCode.SUCCESS
    done = told(capsys)
    chosen = next(one for one in growth["shift"]["networks"] if one["name"] == growth["shift"]["chosen"])
    assert done["modules"] == growth["modules"] == chosen["modules"]
    assert done["is_compared"]
    assert all("the input text appeared; loss after a race" in edit["note"] for edit in done["edits"])
    assert run(["show", grown, *where]) == ExitCode.SUCCESS
    assert "networks that raced on the new data" in capsys.readouterr().out
    page = tmp_path / "page.html"
    assert run(["report", "last", *where, "--output", str(page)]) == ExitCode.SUCCESS
    assert "Where the data shifted: which network went on" in page.read_text(encoding="utf-8")


@pytest.mark.slow
def test_events_tell_of_growth(begin: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*begin, "--strategist", "heuristic", "--json"]) == ExitCode.SUCCESS
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    growth = [event["growth"] for event in events if event["type"] == "progress" and "growth" in event]
    begun, *growth = growth
    assert begun["told"].startswith("It begins with mlp-1 alone: "), "why there was no race"
    assert [one["event"] for one in growth] == [1, 2]
    assert all(set(one) == {"event", *CHANGES} for one in growth)
    kinds = [event["type"] for event in events]
    assert kinds.index("plan") < kinds.index("started")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--budget", "3steps"], "3 steps are too few for 2 events"),
        (["--set", "grow.caps.parameters=10"], "over the cap of 10"),
        (["--set", "grow.birth.most=1"], "begins with 2 modules"),
        (["--strategist", "pop"], "Did you mean 'ppo'"),
        (["--set", "grow.evnts.count=1"], "did you mean 'events'"),
        (["--set", "grow=1"], "grow is a table of settings"),
        (["--memory", "none", "--budget", "2"], "is no budget"),
        (["--seeds", "0"], "seeds"),
        (["--task", "nothing"], "unknown task"),
    ],
)
def test_what_is_refused_leaves_nothing_behind(
    begin: list[str], tmp_path: Path, more: Sequence[str], words: str, refuse: Any
) -> None:
    refuse([*begin, *more], ExitCode.USAGE, words)
    assert not (tmp_path / "runs").exists()


def test_what_never_grew_is_no_memory_no_recipe_and_has_nothing_to_replay(
    begin: list[str], tmp_path: Path, small: Any, refuse: Any
) -> None:
    refuse(["grow", "h_model.pointer", "--store", str(tmp_path / "runs")], ExitCode.USAGE, "serves train, not grow")
    with Store.open(small.store, "ro") as opened:
        individual = opened.individuals(small.run)[0].id
    refuse(["replay", individual, "--store", str(small.store)], ExitCode.USAGE, "no log of edits")
    store = tmp_path / "runs"
    assert run([*begin, "--memory", "last"]) == ExitCode.NOT_FOUND
    with Store.open(store) as opened:
        opened.create_run("evolve", "backbone.demo", {}, 1)
    refuse([*begin, "--memory", "last"], ExitCode.USAGE, "remembers no edit")
    with Store.open(store, "ro") as opened:
        assert len(opened.runs()) == 1


def test_options_are_those_of_train() -> None:
    from evodevo.cli.drive.grow import grow

    ours, theirs = (set(command.__annotations__) for command in (grow, train))
    # Columns of a zoo's data are image, text, vectors, …: --set text=caption.
    columns = {"text", "label", "group"}
    assert theirs - ours == {"what", "tokens", "steps", "seconds", "depth", "width", *columns}
    assert ours - theirs == {"strategist", "memory"}
