"""What a running search looks like: events, lines, the live table."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from rich.console import Console

from evodevo.cli import live
from evodevo.cli.live import EventView, LineView, LiveView, View
from evodevo.search.problem import Goal
from evodevo.search.study import Study, StudySettings
from evodevo.testing.real_vector import RealVectorSpace

SETTINGS = StudySettings(population=4, generations=2)


def search(view: View, *, evaluate: Any = lambda point: (point[0], 1 - point[0])) -> Study:
    goals = (Goal("loss", "bits"), Goal("gain\x1b[31m", direction="maximise"))
    study = Study(RealVectorSpace(3), evaluate, goals=goals, settings=SETTINGS, listener=view.handle)
    with view:
        view.begin(study)
        study.run()
    return study


def drawn(view: View, study: Study, width: int = 160) -> str:
    stream = io.StringIO()
    Console(file=stream, width=width, force_terminal=False).print(live.picture(view.progress, study, "[bold]stopping"))
    return stream.getvalue()


def test_events_are_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    search(EventView())
    seen = capsys.readouterr()
    events = [json.loads(line) for line in seen.out.splitlines()]
    assert [event["type"] for event in events].count("evaluated") == 8
    assert all(event["schema"] == "evodevo.event/1" for event in events)
    assert seen.err == ""


def test_lines_say_what_happened(capsys: pytest.CaptureFixture[str]) -> None:
    study = search(LineView())
    seen = capsys.readouterr()
    assert seen.out == ""
    lines = seen.err.splitlines()[1:]
    assert sum("loss " in line for line in lines) == 8
    assert sum(line.startswith("generation ") for line in lines) == 2
    assert all(member.id in seen.err for member in study.members.values())
    assert "\x1b" not in seen.err


def test_a_failure_is_one_line_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    calls = iter(range(100))

    def evaluate(point: tuple[float, ...]) -> tuple[float, float]:
        if next(calls) == 0:
            raise ValueError("first\nsecond \x1b[2J")
        return point[0], 0.0

    search(LineView(), evaluate=evaluate)
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "failed: " in line]
    assert "failed: exception" in line
    assert "second \\x1b[2J" in line


def test_the_live_table_shows_all_that_the_issue_wants() -> None:
    view = LineView()
    study = search(view)
    shown = drawn(view, study)
    for wanted in ("generation 1 (2 of 2)", "8 of 8", "8 scored", "0 running", "0 failed", "hypervolume", "time left"):
        assert wanted in shown
    assert f"front {len(study.front())}" in shown
    for member in study.front():
        assert member.id in shown


def test_markup_and_escapes_are_text() -> None:
    view = LineView()
    shown = drawn(view, search(view))
    assert "[bold]stopping" in shown
    assert "\x1b" not in shown


def test_running_evaluations_have_rows() -> None:
    view = LineView()
    study = search(view)
    somebody = next(iter(study.members))
    view.progress.handle("started", {"id": somebody, "seed": 0})
    view.progress.handle("progress", {"id": somebody, "seed": 0, "share": 0.4})
    assert "training 40%" in drawn(view, study)


def test_the_table_is_no_longer_than_a_screen() -> None:
    view = LineView()
    study = search(view)
    view.progress.front = list(study.members.values()) * 20
    assert drawn(view, study).count("\n") < 24


def test_it_draws_at_most_four_times_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    view = LiveView(clock=lambda: now[0])
    pictures = []
    monkeypatch.setattr(live, "picture", lambda *arguments: pictures.append(now[0]) or "")
    study = Study(RealVectorSpace(2), lambda point: point[0], settings=SETTINGS)
    with view:
        view.begin(study)
        for _ in range(1000):
            now[0] += 0.01
            view.show("progress", {})
    # Ten seconds, the first picture and the last one.
    assert len(pictures) <= 42
    assert len(pictures) > 30


@pytest.mark.parametrize(
    ("json", "terminal", "term", "encoding", "kind"),
    [
        (True, True, "xterm", "utf-8", EventView),
        (False, True, "xterm", "UTF8", LiveView),
        (False, True, "xterm", "ascii", LineView),
        (False, True, "dumb", "utf-8", LineView),
        (False, False, "xterm", "utf-8", LineView),
    ],
)
def test_the_view_fits_the_place(
    json: bool, terminal: bool, term: str, encoding: str, kind: type[View], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    monkeypatch.setenv("TERM", term)
    assert type(live.choose(json=json)) is kind
