"""Dates of a growth: events, warm-ups, rewards."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evodevo.growth.schedule import Agenda, dates
from evodevo.growth.spec import EventSettings


def run(settings: EventSettings, *, warms: bool, late: float = 0.0) -> list[tuple[float, str, int]]:
    agenda = Agenda(settings)
    found: list[tuple[float, str, int]] = []
    while (coming := agenda.next()) is not None:
        found.append(coming)
        share, what, number = coming
        if what == "event":
            agenda.happened(number, share + late, warms=warms)
    return found


def test_of_the_defaults() -> None:
    assert dates(EventSettings()) == pytest.approx([0.15 + 0.1 * number for number in range(8)])
    found = run(EventSettings(count=2, looks=0), warms=True)
    assert [(what, number) for _, what, number in found] == [
        ("event", 1),
        ("mature", 1),
        ("reward", 1),
        ("event", 2),
        ("mature", 2),
        ("reward", 2),
    ]
    assert [share for share, _, _ in found] == pytest.approx([0.15, 0.21, 0.23, 0.85, 0.91, 0.93])


@given(count=st.integers(0, 9), looks=st.integers(0, 5))
def test_looks_stand_evenly_between_events(count: int, looks: int) -> None:
    found = run(EventSettings(count=count, looks=looks), warms=False)
    shares = [share for share, what, _ in found if what in ("event", "look")]
    assert [number for _, what, number in found if what == "look"] == list(range(1, looks * max(0, count - 1) + 1))
    assert len(shares) == count + looks * max(0, count - 1)
    if len(shares) > 1:
        step = (shares[-1] - shares[0]) / (len(shares) - 1)
        assert shares == pytest.approx([shares[0] + step * number for number in range(len(shares))])


def test_no_event_and_one() -> None:
    assert run(EventSettings(count=0), warms=True) == []
    assert [what for _, what, _ in run(EventSettings(count=1), warms=False)] == ["event", "reward"]


@given(
    count=st.integers(1, 12),
    first=st.floats(0, 0.5),
    length=st.floats(0.01, 0.5),
    warm=st.floats(0.01, 0.5),
    horizon=st.floats(0.01, 0.5),
    late=st.floats(0, 0.2),
    warms=st.booleans(),
)
def test_an_event_is_rewarded_before_the_next_one(
    count: int, first: float, length: float, warm: float, horizon: float, late: float, warms: bool
) -> None:
    settings = EventSettings(count=count, first=first, last=first + length, warm=warm, horizon=horizon)
    found = run(settings, warms=warms)
    assert [share for share, _, _ in found] == sorted(share for share, _, _ in found)
    assert [number for _, what, number in found if what == "event"] == list(range(1, count + 1))
    order = [(what, number) for _, what, number in found if what not in ("mature", "look")]
    assert order == [(what, number) for number in range(1, count + 1) for what in ("event", "reward")]
    assert sum(what == "mature" for _, what, _ in found) == count * warms
    delayed = [(what, number) for _, what, number in run(settings, warms=warms, late=late)]
    delayed = [one for one in delayed if one[0] not in ("mature", "look")]
    assert delayed == order
