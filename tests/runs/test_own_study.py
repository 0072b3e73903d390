"""A study of the user's own, in a store: what looks at runs serves it, and what needs its code says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evodevo.cli.application import run as type_command
from evodevo.errors import ExitCode
from evodevo.execution.serial import SerialExecutor
from evodevo.runs.archive import Archive
from evodevo.search.problem import Goal
from evodevo.search.settings import StudySettings
from evodevo.search.study import Study, StudyResult
from evodevo.storage import Store
from evodevo.testing.real_vector import RealVectorSpace, zdt1


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, StudyResult]:
    path = tmp_path_factory.mktemp("own") / "runs"
    with Store.open(path) as store:
        study = Study(
            RealVectorSpace(4),
            zdt1,
            goals=[Goal("first", "bytes"), Goal("second")],
            settings=StudySettings(population=6, generations=3, seed=1),
            executor=SerialExecutor(),
            store=store,
        )
        return path, study.run()


def test_front_show_pick_status_and_report_serve_it(
    folder: tuple[Path, StudyResult], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, result = folder
    one, other = (member.id for member in result.members[:2])

    def asked(*words: str) -> str:
        capsys.readouterr()
        assert type_command([*words, "--store", str(path)]) == ExitCode.SUCCESS, words
        return capsys.readouterr().out

    front = json.loads(asked("front", "last", "--json"))
    assert {row["id"] for row in front["front"]} == {member.id for member in result.front}
    assert front["hypervolume"] == result.hypervolumes[-1]
    assert [goal["name"] for goal in front["goals"]] == ["first", "second"]
    picked = json.loads(asked("pick", result.run, "--rule", "best:second", "--json"))
    best = min(result.front, key=lambda member: member.outcomes[0].scores["second"])
    assert picked["id"] == best.id
    shown = json.loads(asked("show", one, "--json"))
    genome = next(member.genome for member in result.members if member.id == one)
    assert json.loads(shown["genome"]) == list(genome)
    assert len(json.loads(asked("show", "last", "--json"))["individuals"]) == len(result.members)
    for words in (("front",), ("show", "last"), ("show", one), ("pick",), ("status",), ("lineage", one)):
        assert "Traceback" not in asked(*words)
    assert asked("diff", one, other)
    page = tmp_path / "page.html"
    asked("report", "last", "--output", str(page))
    html = page.read_text()
    assert all(member.id[:8] in html for member in result.members)
    assert "first" in html
    assert "No command of this version" in html


def test_what_needs_its_code_says_where_that_is(
    folder: tuple[Path, StudyResult], capsys: pytest.CaptureFixture[str]
) -> None:
    path, result = folder
    for words in (["resume", result.run], ["train", result.members[0].id, "--steps", "5"]):
        assert type_command([*words, "--store", str(path)]) == ExitCode.USAGE
        assert "Study(…, run=…)" in capsys.readouterr().err
    assert type_command(["cost", "last", "--store", str(path)]) == ExitCode.USAGE
    assert "it has no cost" in capsys.readouterr().err
    assert type_command(["front", "--store", str(path)]) == ExitCode.SUCCESS
    assert "evodevo train" not in capsys.readouterr().err
    with Archive(path) as archive:
        assert len(archive.runs()) == 1, "nothing was begun"
