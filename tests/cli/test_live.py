"""What a running search looks like: events, lines, the live table."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from evodevo.cli import live
from evodevo.cli.live import EventView, LineView, LiveView, View
from evodevo.execution.serial import SerialExecutor
from evodevo.search.problem import Goal
from evodevo.search.settings import StudySettings
from evodevo.search.study import Study
from evodevo.testing.real_vector import RealVectorSpace

SETTINGS = StudySettings(population=4, generations=2)


def search(view: View, *, evaluate: Any = lambda point: (point[0], 1 - point[0])) -> Study:
    goals = (Goal("loss", "bits"), Goal("gain\x1b[31m", direction="maximise"))
    study = Study(
        RealVectorSpace(3), evaluate, goals=goals, settings=SETTINGS, listener=view.handle, executor=SerialExecutor()
    )
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


def test_the_live_table_shows_all_that_is_wanted_on_one_screen() -> None:
    view = LineView()
    study = search(view)
    shown = drawn(view, study)
    for wanted in ("generation 1 (2 of 2)", "8 of 8", "8 scored", "0 running", "0 failed", "hypervolume", "time left"):
        assert wanted in shown
    assert f"front {len(study.front())}" in shown
    assert all(member.id in shown for member in study.front())
    assert "[bold]stopping" in shown, "markup is text"
    assert "\x1b" not in shown
    somebody = next(iter(study.members))
    view.progress.handle("started", {"id": somebody, "seed": 0})
    view.progress.handle("progress", {"id": somebody, "seed": 0, "share": 0.4})
    assert "training 40% " in drawn(view, study), "nothing was measured yet"
    for share, error in ((0.5, 0.25), (0.6, 0.125)):
        view.progress.handle("progress", {"id": somebody, "seed": 0, "share": share, "validation_error": error})
    assert "training 60%, error 0.1250" in drawn(view, study)
    view.progress.handle("evaluated", {"id": somebody, "seed": 0, "reason": None})
    assert view.progress.errors == view.progress.running == {}, "its end tells more"
    view.progress.handle("started", {"id": somebody, "seed": 0})
    view.progress.front = list(study.members.values()) * 20
    assert drawn(view, study).count("\n") < 24


def test_the_first_look_at_each_training_of_an_experiment_is_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    view = LineView()
    study = search(view)
    one, other = list(study.members)[:2]
    capsys.readouterr()

    def look(identity: str, error: float) -> None:
        view.handle("progress", {"id": identity, "seed": 0, "share": 0.05, "validation_error": error})

    look(one, 0.5)
    assert capsys.readouterr().err == "", "a search has too many"
    monkeypatch.setattr(live, "name_words", lambda study, member: "  zoo, lr 0.002")
    view._looked.clear()
    for identity, error in ((one, 0.5), (one, 0.25), (other, 0.125)):
        look(identity, error)
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(one)
    assert "error 0.5000 on validation after 5%  zoo, lr 0.002" in first
    assert second.startswith(other)
    assert "0.1250" in second


@pytest.mark.parametrize(
    ("growth", "words"),
    [
        ({"event": 3, "born": ["mlp-3-0"], "gone": []}, "event 3: mlp-3-0 born"),
        ({"event": 4, "born": ["a", "b"], "gone": ["c\x1b[31m"]}, "event 4: a, b born, c"),
        ({"event": 5, "born": [], "gone": []}, "event 5: nothing changed"),
        ({"event": 1, "born": [], "gone": [], "edited": ["map_positions"]}, "event 1: map_positions edited"),
        ({"event": 1, "born": [], "gone": [], "refused": ["grow mlp-1"]}, "event 1: grow mlp-1 refused"),
    ],
)
def test_a_line_for_each_event_of_growth(
    growth: dict[str, Any], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    view = LineView()
    identity = next(iter(search(view).members))
    capsys.readouterr()
    view.handle("progress", {"id": identity, "seed": 0, "growth": growth})
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(identity)
    assert words in line
    assert "\x1b" not in line


def test_the_live_table_says_the_last_event_of_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(
        "rich.live.Live", lambda **given: SimpleNamespace(start=int, stop=int, update=lambda *a, **b: 0)
    )
    view = LiveView()
    study = search(view)
    monkeypatch.setattr(live, "picture", lambda standing, study, text: said.append(text))
    growth = {"event": 2, "born": ["lstm-2-0"], "gone": ["mlp-1"]}
    view.begin(study)
    view.handle("progress", {"id": next(iter(study.members)), "seed": 0, "growth": growth})
    assert any("event 2: lstm-2-0 born, mlp-1 gone" in text for text in said)


def test_it_draws_at_most_four_times_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    view = LiveView(clock=lambda: now[0])
    pictures = []
    monkeypatch.setattr(live, "picture", lambda *arguments: pictures.append(now[0]) or "")
    study = Study(RealVectorSpace(2), lambda point: point[0], settings=SETTINGS, executor=SerialExecutor())
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
