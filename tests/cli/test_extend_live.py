"""What is shown while agents run: the counts are those of the store, however often it was begun."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from evodevo.cli.extend import live
from evodevo.cli.extend.live import AgentsEventView, AgentsLiveView, AgentsView
from evodevo.cli.extend.progress import AgentProgress, AgentsProgress
from evodevo.cli.extend.recipe import RecipeView
from evodevo.multitask.run.run import PlannedCycles, Session, run_system
from evodevo.storage import Store
from evodevo.testing.multitask.paths import PathTrainer, executor_of, new_system

AS_IT_IS = "the joint root as it is, without a step"
PAGE = Path(__file__).parents[2] / "docs" / "extend.md"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with Store.open(tmp_path / "runs") as opened:
        new_system(opened)
    return tmp_path / "runs"


def watch(folder: Path, view: AgentsView, stop_after: int | None = None, fail: bool = False, **more: Any) -> str:
    """Agents run under a view; gives how it ended."""
    sessions: list[Session] = []
    children = 0

    def begin(session: Session) -> None:
        sessions.append(session)
        view.begin(session)

    def hear(kind: str, facts: dict[str, Any]) -> None:
        nonlocal children
        view.handle(kind, facts)
        children += kind == "child"
        if children == stop_after:
            sessions[0].stop()

    with Store.open(folder) as opened, view:
        trainer = PathTrainer(opened)
        trainer.fail = lambda job: fail and job["path"]["number"] == 0 and "root" not in job
        done = run_system("zoo", executor=executor_of(trainer), store=folder, listener=hear, on_start=begin, **more)
    return done.state


@pytest.mark.slow
def test_counts_go_on_where_an_earlier_session_stopped_and_failed_children_are_counted(store: Path) -> None:
    first, second = AgentsView(), AgentsView()
    assert watch(store, first, stop_after=3) == "interrupted"
    assert first.progress.wanted == 1 + 2 * 4
    assert first.progress.done == 3
    assert watch(store, second, fail=True) == "finished"
    assert second.progress.wanted == second.progress.done == 1 + 2 * 4 - 1, "the root has run and is not shown"
    assert [live.state(one) for one in second.progress.agents.values()] == ["done", "done"]
    assert second.progress.seconds_left == 0
    agents = second.progress.agents
    assert [one.failed for one in agents.values()] == [0, 1], "a had begun already"
    assert all(one.kept + one.failed <= one.children for one in agents.values())
    assert agents["VitTiny~b"].best is not None


def test_time_left_follows_the_pace_of_the_session() -> None:
    now = 0.0
    standing = AgentsProgress(clock=lambda: now)
    standing.agents["A~b"] = AgentProgress("A~b", 4, 2)
    assert standing.seconds_left is None
    now = 10.0
    standing.handle("cycle", {"agent": "A~b", "cycle": 0})
    for _ in range(2):
        standing.handle("child", {"agent": "A~b", "fate": "kept", "quality": 0.5, "reason": None})
    assert (standing.done, standing.wanted) == (2, 8)
    assert standing.seconds_left == pytest.approx(30.0)


def test_the_time_that_a_root_takes_is_no_pace_of_children() -> None:
    now = 0.0
    standing = AgentsProgress(clock=lambda: now)
    standing.agents["A~root_model~joint"] = AgentProgress("A~root_model~joint", 1, 1, root=True)
    standing.agents["A~b"] = AgentProgress("A~b", 4, 1)
    standing.handle("cycle", {"agent": "A~root_model~joint", "cycle": 0})
    now = 600.0
    standing.handle("child", {"agent": "A~root_model~joint", "fate": "kept", "quality": 0.9, "reason": None})
    assert standing.seconds_left is None, "its line is written before it publishes"
    standing.handle("published", {"agent": "A~root_model~joint", "individual": "x", "quality": 0.9})
    assert (standing.done, standing.seconds_left) == (1, None)
    standing.handle("cycle", {"agent": "A~b", "cycle": 0})
    now = 610.0
    standing.handle("child", {"agent": "A~b", "fate": "kept", "quality": 0.5, "reason": None})
    assert standing.seconds_left == pytest.approx(30.0)
    standing.agents["A~root_model~two"] = AgentProgress("A~root_model~two", 1, 1, root=True)
    standing.handle("published", {"agent": "A~root_model~two", "individual": "y", "quality": None})
    now = 620.0
    assert standing.seconds_left is None, "nothing was done since the last root"
    standing.agents.pop("A~b")
    assert standing.seconds_left == 0


def test_the_time_of_a_recipe_follows_the_samples_that_its_children_saw() -> None:
    now = 0.0
    view = RecipeView(clock=lambda: now)
    view.handle("plan", {"children": 4, "samples": 9_000, "words": "4 children"})
    assert view.time_left == "time left –"
    child = {"agent": "A~b", "fate": "kept", "quality": 0.5, "reason": None}
    now = 60.0
    view.handle("child", child | {"samples": 6_000})  # a root
    assert view.time_left == "time left 30 s"
    view.handle("child", child | {"samples": 0})  # a joint root as it is
    view.handle("child", child | {"samples": None, "fate": "failed", "reason": "diverged"})
    assert view.time_left == "time left 30 s"
    now = 80.0
    view.handle("child", child | {"samples": 2_000})
    assert view.time_left == "time left 0.0 s", "a child that failed sees no more"


@pytest.mark.parametrize(
    ("cycles", "children", "untrained", "words"),
    [
        (1, 1, 0, "A~b: 1 child of 500 steps"),
        (1, 2, 0, "A~b: 2 children of 500 steps"),
        (1, 1, 1, f"A~b: {AS_IT_IS}"),
        (1, 2, 1, f"A~b: 2 children of 500 steps, of which the first is {AS_IT_IS}"),
        (1, 4, 2, f"A~b: 4 children of 500 steps, of which the first 2 are {AS_IT_IS}"),
        (
            3,
            2,
            1,
            f"A~b: 3 cycles, each of 2 children of 500 steps; in the first cycle the first is {AS_IT_IS}",
        ),
    ],
)
def test_the_schedule_of_a_budget_counts_children_that_make_no_step(
    cycles: int, children: int, untrained: int, words: str
) -> None:
    planned = (PlannedCycles("A~b", cycles, children, 500, 500, None, untrained),)
    session = SimpleNamespace(budget="5000steps", planned=planned)
    assert live.schedule(cast(Session, session))[1].strip() == words


@pytest.mark.slow
def test_lines_tell_every_child_once(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert watch(store, AgentsView(), agents=["single", "multi"], fail=True) == "finished"
    seen = capsys.readouterr()
    assert not seen.out
    assert len(re.findall(r"(kept|discarded)  0\.\d{4}|failed: exception", seen.err)) == 4 * 4
    assert len(re.findall("publishes", seen.err)) == 5
    assert "\x1b" not in seen.err
    assert "\r" not in seen.err


@pytest.mark.slow
def test_events_are_those_of_the_page(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert watch(store, AgentsEventView()) == "finished"
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    section = PAGE.read_text(encoding="utf-8").partition("\n## Run\n")[2].partition("\n## ")[0]
    documented = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|$", section, re.MULTILINE))
    for event in events:
        kind = event.pop("type")
        assert event.pop("schema") == "evodevo.event/1"
        assert set(event) <= set(re.findall(r"`(\w+)`", documented[kind])), kind
    assert {"tested", "finished"} <= set(documented)


@pytest.mark.slow
def test_the_live_table_fits(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = 60
    screen = io.StringIO()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    clock: Callable[[], float] = iter(range(10_000)).__next__
    view = AgentsLiveView(clock=clock)
    assert watch(store, view) == "finished"
    text = screen.getvalue()
    assert "VitTiny~a" in text
    assert "9 of 9 children" in text
    assert max(map(len, re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).splitlines())) <= columns
