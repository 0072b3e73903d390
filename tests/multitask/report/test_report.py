"""Reports of systems say what the store says; a system is named where a run would be."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from evodevo.cli.application import run
from evodevo.errors import ExitCode, NotFoundError, UsageError
from evodevo.multitask.diagrams.system.cycles import means
from evodevo.multitask.report.gather import report_data, run_or_system, system_report
from evodevo.multitask.report.picture import SystemFrames
from evodevo.multitask.settings import AgentSettings
from evodevo.multitask.system import System
from evodevo.runs.archive import Archive
from evodevo.storage import Store
from evodevo.storage.systems.base import SystemRow
from evodevo.testing.multitask.paths import PathTrainer, executor_of, new_system, tasks_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("report") / "runs"
    with Store.open(place) as store:
        system = new_system(store, ("a", "b", "c"), samples=2)
        for task in ("a", "b"):
            system.add_agent("MultiVitTiny", task, AgentSettings(classes=3))
        system.run(tasks_of(system), 2, executor_of(PathTrainer(store)))
        new_system(store, ("a",), name="young")
    return place


@pytest.mark.slow
def test_the_data_are_those_of_the_store(folder: Path) -> None:
    with Archive(folder) as archive:
        system = System.open(archive.store, "zoo")
        data = report_data(system)
        assert data.frames[-1] == SystemFrames(system).frame()
        assert len(data.frames) == data.moments == 5
        for row in data.tasks.rows:
            assert row[2] == system.best(row[0]).path.agent
        assert dict(data.cards)["3"] == "tasks answered"
        children = {one.agent: one.rows.rows for one in data.children}
        assert set(children) == {one.name for one in tasks_of(system)}
        for agent, rows in children.items():
            numbers = [one.number for one in archive.store.systems.paths(system.agent(agent).id)]
            assert [int(row[0]) for row in rows] == sorted(numbers, reverse=True)
            assert all(re.match("kept|discarded|failed", row[-1]) for row in rows)
        kinds = data.courses[0]
        assert [(arm.name, len(arm.courses)) for arm in kinds.validation] == [("VitTiny", 3), ("MultiVitTiny", 2)]
        offers = system.view().offers
        ends = [offers[f"VitTiny~{task}"].quality for task in "abc"]
        assert means(kinds.validation[0].courses)[-1].mean == pytest.approx(sum(ends) / 3)  # type: ignore[arg-type]
        assert not any(means(arm.courses) for arm in kinds.test), "nobody measured anything"


def test_supports_are_counted_as_they_were_asked_for(folder: Path) -> None:
    with Archive(folder) as archive:
        system = System.open(archive.store, "zoo")
        uses = report_data(system).supports
        asked = kept = 0
        for task in ("a", "b"):
            for row in archive.store.individuals(system.agent(f"MultiVitTiny~{task}").id):
                result = archive.store.systems.evaluations_of([row.id])[row.id][-1]
                asked += len(row.genome_envelope["genes"]["paths"]) - 1
                kept += (len(row.genome_envelope["genes"]["paths"]) - 1) * (result.extra["fate"] == "kept")
        assert sum(one.tried for one in uses) == asked
        assert sum(one.kept for one in uses) == kept
        streams = sum(len(one.streams) - 1 for one in SystemFrames(system).frame().joined)
        assert sum(one.offered for one in uses) == streams


def test_a_system_is_found_where_no_run_is(folder: Path) -> None:
    with Archive(folder) as archive:
        row = archive.store.systems.find_system("zoo")
        for name in ("zoo", "zo", row.id):
            found = run_or_system(archive, name)
            assert isinstance(found, SystemRow)
            assert found.id == row.id
        with pytest.raises(
            NotFoundError, match=r"neither a run nor a system is called 'nobody'\. Systems here: zoo, young"
        ):
            run_or_system(archive, "nobody")
        with pytest.raises(NotFoundError, match="holds no run yet"):
            run_or_system(archive, "last")
        with pytest.raises(UsageError, match="is a multitask system"):
            archive.run(row.id)
        assert archive.runs() == []
        agent = System.open(archive.store, "zoo").agent("VitTiny~a")
        with pytest.raises(NotFoundError, match="neither a run nor a system"):
            run_or_system(archive, agent.id)


@pytest.mark.slow
def test_the_command_writes_one_file(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "zoo.html"
    assert run(["report", "zoo", "-o", str(path), "--store", str(folder), "--json"]) == ExitCode.SUCCESS
    said = json.loads(capsys.readouterr().out)
    assert said == {"schema": "evodevo.report/1", "system": "zoo", "file": str(path)}
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    with Archive(folder) as archive:
        html = system_report(archive, archive.store.systems.find_system("young"))
    assert "System young" in html
    assert 'id="graph"' not in html
    assert run(["report", "nobody", "--store", str(folder)]) == ExitCode.NOT_FOUND
    assert "Systems here" in capsys.readouterr().err


def test_names_that_several_systems_begin_with_are_refused(folder: Path, tmp_path: Path) -> None:
    with Store.open(tmp_path / "runs") as store:
        new_system(store, (), name="alpha")
        new_system(store, (), name="alphabet")
    with Archive(tmp_path / "runs") as archive:
        assert run_or_system(archive, "alpha")
        with pytest.raises(UsageError, match="ambiguous"):
            run_or_system(archive, "alph")
