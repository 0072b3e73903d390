"""The bar of a fit that is begun from Python."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from evodevo.estimators.automatic.progress import FitProgress, shown

LEADER = {"leader": "boosting [a]", "leader_score": 0.81234}
MESSAGES: list[tuple[str, dict[str, Any]]] = [
    ("plan", {"seconds": 100.0, "used": 0.0, "kept": 0}),
    ("candidate", {"name": "boosting [a]", **LEADER}),
    ("network", {"name": "mlp", "fold": 1, "folds": 5, **LEADER}),
    ("left_out", {"reason": "no time"}),
    ("final", {"name": "boosting [a]"}),
]


def terminal(*, live: bool = True) -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, force_terminal=live, width=120, color_system=None), text


def test_the_bar_has_the_leader_and_what_is_done() -> None:
    console, text = terminal()
    heard = []
    with shown(True, lambda *message: heard.append(message), console) as listen:
        assert listen is not None
        for message in MESSAGES:
            listen(*message)
    assert heard == MESSAGES
    last = next(line for line in reversed(text.getvalue().splitlines()) if "finished" in line)
    assert "best: boosting [a] 0.8123" in last


def test_none_shows_it_on_a_terminal_where_nobody_listens() -> None:
    for live, listener, wanted in ((True, None, True), (False, None, False), (True, lambda *_: None, False)):
        console, text = terminal(live=live)
        with shown(None, listener, console) as listen:
            assert (listen is not listener) == wanted
        assert bool(text.getvalue()) == wanted
    console, text = terminal()
    with shown(False, None, console) as listen:
        assert listen is None
    assert not text.getvalue()


def test_the_share_is_of_the_time() -> None:
    now = [5.0]
    state = FitProgress(lambda: now[0])
    state.handle(*MESSAGES[0])
    now[0] = 30.0
    assert state.share == pytest.approx(0.25)
    state.handle(*MESSAGES[2])
    assert state.now == "networks: mlp, fold 2 of 5"
    state.handle("tower", {"name": "bert", "done": 1032, "count": 2000})
    assert state.now == "bert reads: 1,032 of 2,000"
    state.handle("tower", {"name": "bert", "done": 2000, "count": 2000})
    assert state.now == "plain models"
    now[0] = 500.0
    assert state.share == 1


def test_reading_is_no_part_of_the_time() -> None:
    now = [5.0]
    state = FitProgress(lambda: now[0])
    now[0] = 60.0
    state.handle("reading", {"done": 1500, "count": 8000})
    assert (state.now, state.share, state.left) == ("reading: 1,500 of 8,000 images", 0, "")
    state.handle(*MESSAGES[0])
    assert (state.now, state.share, state.left) == ("plain models", 0, "1 min 40 s")


def test_time_of_earlier_processes_counts() -> None:
    now = [5.0]
    state = FitProgress(lambda: now[0])
    state.handle("plan", {"seconds": 100.0, "used": 40.0, "kept": 3})
    now[0] = 15.0
    assert state.share == pytest.approx(0.5)
    assert state.left == "50 s"
