"""The command on a report: whoever types it gets the same settings."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evodevo.cli.application import run as type_command
from evodevo.cli.overrides import overrides
from evodevo.runs.archive import Archive
from evodevo.runs.command import EVENT, commands
from evodevo.runs.evolve import evolve, resume
from evodevo.settings import assignments
from evodevo.storage import Store

if TYPE_CHECKING:
    from ..conftest import Small

KEYS = st.text("abcdefgh_-9", min_size=1, max_size=5)
TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from(["null", "7", "1979-05-27", "a b"])
)
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        TEXTS,
    ),
    lambda inside: st.one_of(
        st.lists(inside, max_size=3), st.lists(st.dictionaries(st.text("a. ", min_size=1), inside), max_size=2)
    ),
    max_leaves=6,
)
TABLES = st.recursive(VALUES, lambda inside: st.dictionaries(KEYS, inside, min_size=1, max_size=3), max_leaves=6)


@given(st.dictionaries(KEYS, TABLES, max_size=3))
def test_every_setting_can_be_written_as_an_option(values: dict[str, Any]) -> None:
    assert overrides(None, assignments(values), {}) == values


def test_a_key_that_no_option_can_name_is_written_with_its_table() -> None:
    values = {"evaluation": {"options": {"a.b": {"c": None}}}}
    assert assignments(values) == ['evaluation.options={"a.b": {"c": null}}']
    assert overrides(None, assignments(values), {}) == values


@pytest.fixture
def untrained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[list[str], Path], Any]:
    """``untrained(words, store)``: the run that a command begins, without its trainings."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def begun(run_id: str, settings: Any, *, store: Any, **_: Any) -> Any:
        return Archive(store).run(run_id)

    monkeypatch.setattr("evodevo.runs.evolve.drive", begun)
    monkeypatch.setattr("evodevo.runs.train.drive", begun)

    def begin(words: list[str], store: Path) -> Any:
        type_command([*words, "--store", str(store)])
        return Archive(store).run("last")

    return begin


def again(run: Any, begin: Callable[[list[str], Path], Any], store: Path) -> None:
    """What is printed is typed, and gives the same settings under the same recipe."""
    (command,) = commands(run)
    words = shlex.split(command)
    assert words[0] == "evodevo"
    assert words[-2:] == ["--store", str(run.archive.folder)]
    typed = begin(words[1:-2], store)
    assert typed.row.settings == run.row.settings
    assert (typed.kind, typed.recipe) == (run.kind, run.recipe)
    assert typed.id != run.id
    assert commands(typed)[0].rpartition(" --store ")[0] == command.rpartition(" --store ")[0]


CASES = {
    "plain": ["evolve", "backbone.demo"],
    "settings": [
        *("evolve", "backbone.small", "--size", "full", "--seed", "5", "--max-parameters", "2M", "--mode", "steady"),
        *("--objective", "quality", "--objective", "cache:maximise", "--set", "study.max_failed_share=0.25"),
        *(
            "--set",
            "evaluation.language.context_length=16",
            "--set",
            "evaluation.seconds=null",
            "--data",
            "my text",
            "--set",
            "study.algorithm_settings.tournament_size=3",
        ),
    ],
    "file": ["evolve", "backbone.demo", "--config", "small.toml", "--data", "my text"],
    "experiment": [
        *("train", "h_model.pointer", "--seeds", "2", "--budget", "90s"),
        *("--set", "nodes=5", "--set", "samples.train=200", "--set", "samples.validation=40"),
        *("--set", "samples.test=40", "--workers", "3"),
    ],
    "growth": [
        *("grow", "module_zoo.classifier", "--strategist", "heuristic,random", "--set", "grow.events.count=2"),
        *("--budget", "40steps", "--seeds", "2"),
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_printed_command_gives_the_same_settings(
    small: Small,
    untrained: Callable[[list[str], Path], Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    place = tmp_path / "here"
    shutil.copytree(small.text, place / "my text")
    shutil.copy(small.config, place / "small.toml")
    monkeypatch.chdir(place)
    run = untrained(CASES[name], tmp_path / "first")
    assert len(CASES[name]) == 2 or "--set" in commands(run)[0]
    monkeypatch.chdir(tmp_path)  # it names paths that are found from anywhere
    again(run, untrained, tmp_path / "second")


@pytest.mark.slow
def test_a_run_that_was_stored_without_its_command_has_one_where_it_is_certain(
    small: Small, untrained: Callable[[list[str], Path], Any], tmp_path: Path
) -> None:
    words = ["evolve", "backbone.small", "--size", "full", "--data", str(small.text), "--seed", "3"]
    run = untrained([*words, "--set", "evaluation.language.split=legacy"], tmp_path / "old")
    with Store.open(tmp_path / "old", create=False) as store:
        known = [event for event in store.events(run.id) if event.type == EVENT]
    assert len(known) == 1
    events = type(run).events
    old = Archive(tmp_path / "old").run(run.id)
    old.events = lambda: [event for event in events(old) if event.type != EVENT]  # type: ignore[method-assign]
    (command,) = commands(old)
    assert "--size full" in command
    assert "evaluation.language.split=legacy" in command
    typed = untrained(shlex.split(command)[1:-2], tmp_path / "new")
    assert typed.row.settings == run.row.settings
    old.row.settings["study"]["no_such_setting"] = 3
    assert commands(old) == [], "nothing is claimed that was not tried"


@pytest.mark.slow
def test_the_training_of_an_individual_and_what_a_resume_changed_are_printed_too(
    small: Small, untrained: Callable[[list[str], Path], Any], tmp_path: Path
) -> None:
    folder = tmp_path / "runs"
    shutil.copytree(small.store, folder)
    with Archive(folder) as archive:
        one = archive.run(small.run).front()[0].id
    run = untrained(["train", one[:9], "--tokens", "512", "--seeds", "2", "--baselines"], folder)
    again(run, untrained, folder)
    assert f"train {one} --tokens 512 --seeds 2 --baselines all" in commands(run)[0]


def test_a_resume_that_changes_the_budget_is_a_second_command(
    tmp_path: Path, small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(small.text.parent / "cache"))
    monkeypatch.setattr("evodevo.search.study.Study.run", lambda self: None)
    changes = {"study": {"population": 2, "generations": 1}, "execution": {"executor": "serial"}}
    changes["evaluation"] = {"language": {"context_length": 16}}
    run = evolve(data=small.text, overrides=changes, store=tmp_path / "runs")
    resume(run.id, store=tmp_path / "runs")
    resumed = resume(run.id, overrides={"study": {"generations": 3}}, store=tmp_path / "runs")
    first, second = commands(resumed)
    assert "study.generations=1" in first
    assert f"evodevo resume {run.id} --set study.generations=3 --store" in second
    page = resumed.report(tmp_path / "deep" / "page.html").read_text()
    assert "Commands, one after the other" in page
    assert f"evaluation.language.data={small.text}" in page
