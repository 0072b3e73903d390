"""Caps that fall: their settings, and the smaller networks that fit under them, against plain enumeration."""

from __future__ import annotations

import math
from itertools import chain, combinations, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from evodevo.canonical import dumps
from evodevo.errors import UsageError
from evodevo.experiments.racing.plan import left_after
from evodevo.growth.caps import smaller
from evodevo.growth.caps.records import FallRecord, SmallerNetwork
from evodevo.growth.caps.smaller import (
    ALONE,
    SMALL,
    check_falls,
    covering,
    kinds_under,
    needed,
    networks_under,
    seated,
    unreachable,
)
from evodevo.growth.growable import TaskSizes
from evodevo.growth.legality import refusal
from evodevo.growth.races.plan import plan_race
from evodevo.growth.resources import Resources, check_start
from evodevo.growth.schedule import Agenda, dates
from evodevo.growth.spec import LIMITS, CapSettings, CapStep, EventSettings, GrowthSettings
from evodevo.growth.zoo.growable import GrowableZoo
from evodevo.module_zoo.modules.zoo import archetype, start_zoo
from evodevo.module_zoo.spec import ZooRouterStructure, ZooStructure
from evodevo.settings import validate
from evodevo.testing.small_networks import problem

TASK = problem().open_task({})
SIZES = TaskSizes(TASK.inputs, TASK.outputs, batch=8)
ZOO = GrowableZoo.of(ZooStructure(width=16, modules=start_zoo(16), router=ZooRouterStructure(heads=2)))
NAMES = [module.id for module in ZOO.live]
MEASURED = st.sampled_from(["flops", "parameters", "memory_bytes"])
SUBSETS = [ids for size in range(1, len(NAMES) + 1) for ids in combinations(NAMES, size)]
USED = {ids: Resources.of(smaller.only(ZOO, ids), SIZES) for ids in SUBSETS}


def steps(*limits: tuple[float, float]) -> list[dict[str, float]]:
    return [{"at": at, "flops": flops} for at, flops in limits]


def caps_of(schedule: list[dict[str, float]], **more: float) -> CapSettings:
    return validate(CapSettings, {"schedule": schedule, **more}, what="caps")


# Settings


def test_without_a_schedule_nothing_is_stored_of_it() -> None:
    """Stored records, keys and golden files stay what they were."""
    assert "schedule" not in dumps(GrowthSettings().model_dump(mode="json"))
    assert set(CapSettings().model_dump()) == {*LIMITS, "target_flops"}


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        (steps((0.5, 10), (0.5, 5)), "one after the other"),
        (steps((0.5, 10), (0.4, 5)), "one after the other"),
        (steps((0.3, 10), (0.5, 11)), "caps fall and never rise"),
        (steps((0.3, 101)), "caps fall and never rise"),
        ([{"at": 0.5}], "names no limit"),
        (steps((1.0, 5)), "less than 1"),
    ],
)
def test_a_schedule_that_does_not_fall_is_refused(schedule: list[dict[str, float]], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        caps_of(schedule, flops=100)


@st.composite
def schedules(draw: st.DrawFn) -> CapSettings:
    """Caps of one or two kinds that fall to something between nothing and the whole zoo."""
    at = sorted(draw(st.sets(st.floats(0, 0.99), min_size=1, max_size=4)))
    last: dict[str, float] = {}
    made = []
    for each in at:
        names = draw(st.sets(MEASURED, min_size=1, max_size=2))
        for name in sorted(names):
            top = last.get(name, getattr(USED[tuple(NAMES)], name) * 1.1)
            last[name] = max(1, int(draw(st.floats(0.3, 1)) * top))
        made.append({"at": each, **{name: last[name] for name in names}})
    return caps_of(made)


@given(schedules(), st.integers(0, 5))
def test_the_caps_in_force_are_the_last_of_each_kind(caps: CapSettings, count: int) -> None:
    now = caps.after(count)
    begun = [step for step in caps.schedule if step.at == 0] + list(caps.falls[:count])
    for name in LIMITS:
        values = [getattr(step, name) for step in begun if getattr(step, name) is not None]
        assert getattr(now, name) == (values[-1] if values else None)
    assert now.schedule == caps.falls[count:]
    assert now.lowest.limits == caps.lowest.limits, "what comes is known throughout"


def test_one_cap_from_the_start_is_the_fixed_cap() -> None:
    assert caps_of(steps((0.0, 7))).after(0) == CapSettings(flops=7)
    assert caps_of(steps((0.0, 7))).falls == ()


# The schedule of events


@given(
    st.builds(
        lambda count, first, width, looks: EventSettings(
            count=count, first=first, last=min(1.0, first + width), looks=looks
        ),
        st.integers(0, 5),
        st.floats(0.01, 0.5),
        st.floats(0.01, 0.5),
        st.integers(0, 2),
    ),
    st.sets(st.floats(0.01, 0.99), max_size=4),
)
def test_falls_are_numbered_with_the_events_in_order_of_time(events: EventSettings, falls: set[float]) -> None:
    agenda = Agenda(events, tuple(sorted(falls)))
    coming = []
    while (one := agenda.next()) is not None:
        coming.append(one)
    numbered = [(share, what, number) for share, what, number in coming if what in ("event", "fall")]
    assert [number for *_, number in numbered] == list(range(1, events.count + len(falls) + 1))
    assert [share for share, *_ in numbered] == list(agenda.dates) == sorted([*falls, *dates(events)])
    assert {share for share, what, _ in numbered if what == "fall"} == falls
    plain = Agenda(events)
    looks = [one for one in iter(plain.next, None) if one[1] == "look"]
    assert looks == [one for one in coming if one[1] == "look"], "probes between events stay where they were"


def test_a_cap_falls_before_an_event_of_the_same_moment() -> None:
    agenda = Agenda(EventSettings(count=1, first=0.5, last=0.6), (0.5,))
    assert [agenda.next(), agenda.next()] == [(0.5, "fall", 1), (0.5, "event", 2)]


# Smaller networks


def maximal_under(caps: CapSettings) -> set[tuple[str, ...]]:
    """Reference: every proper subset that fits now, can still be brought under the last cap, and lacks no module."""
    lowest = caps.lowest
    lasting = {name for name in NAMES if USED[(name,)].excess(lowest) is None}
    able = [ids for ids in SUBSETS[:-1] if USED[ids].excess(caps) is None and (lasting & set(ids) or not caps.schedule)]
    return {ids for ids in able if not any(set(ids) < set(other) for other in able)}


@hypothesis_settings(deadline=None, max_examples=30)
@given(schedules(), st.dictionaries(st.sampled_from(NAMES), st.floats(-1, 1)))
def test_the_smaller_networks_are_all_that_no_module_can_be_added_to(
    caps: CapSettings, worth: dict[str, float]
) -> None:
    for count in range(len(caps.falls) + 1):
        now = caps.after(count)
        found = networks_under(ZOO, SIZES, now, worth)
        assert set(found) == maximal_under(now)
        assert len(set(found)) == len(found)
        sums = [sum(worth.get(name, 0.0) for name in ids) for ids in found]
        assert all(one >= other - 1e-12 for one, other in pairwise(sums)), "the best first"
    reachable = any(USED[(name,)].excess(caps.lowest) is None for name in NAMES)
    if caps.falls:
        assert (unreachable(ZOO, SIZES, caps) is None) == reachable
        assert bool(found) == reachable, "after the last fall"


@hypothesis_settings(deadline=None, max_examples=15)
@given(schedules(), st.dictionaries(st.sampled_from(NAMES), st.floats(-1, 1)))
def test_of_many_modules_each_that_fits_is_in_some_network(caps: CapSettings, worth: dict[str, float]) -> None:
    """As of more modules than are enumerated: not all networks, but each of these obeys, and no module is left out."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(smaller, "EXHAUSTIVE", 2)
        now = caps.after(len(caps.schedule))
        found = networks_under(ZOO, SIZES, now, worth)
    assert set(found) <= maximal_under(now)
    if USED[tuple(NAMES)].excess(now) is not None:
        fitting = {name for name in NAMES if USED[(name,)].excess(now) is None}
        assert set(chain.from_iterable(found)) == fitting


@hypothesis_settings(deadline=None, max_examples=30)
@given(schedules(), st.dictionaries(st.sampled_from(NAMES), st.floats(-1, 1)))
def test_small_networks_are_tried_beside_those_that_fill_the_cap(caps: CapSettings, worth: dict[str, float]) -> None:
    """Every single module and every pair that fits and from which later falls can be reached is in one of the kinds."""
    for count in range(len(caps.falls) + 1):
        now = caps.after(count)
        filling, *small = kinds_under(ZOO, SIZES, now, worth)
        assert filling == networks_under(ZOO, SIZES, now, worth)
        lasting = {name for name in NAMES if USED[(name,)].excess(caps.lowest) is None} if now.schedule else set(NAMES)
        for size, kind in zip(SMALL, small, strict=True):
            able = {ids for ids in combinations(NAMES, size) if USED[ids].excess(now) is None and lasting & set(ids)}
            assert set(kind) == able - set(filling)
            assert len(set(kind)) == len(kind)
            sums = [sum(worth.get(name, 0.0) for name in ids) for ids in kind]
            assert all(one >= other - 1e-12 for one, other in pairwise(sums)), "the best first"


IDS = st.lists(
    st.sets(st.sampled_from(NAMES), min_size=1).map(lambda ids: tuple(sorted(ids))),
    min_size=1,
    max_size=12,
    unique=True,
)


@given(IDS, st.integers(1, 12))
def test_every_module_is_in_one_that_is_taken(networks: list[tuple[str, ...]], most: int) -> None:
    taken = covering(networks, most)
    assert list(taken) == [ids for ids in networks if ids in taken], "in their order"
    assert len(taken) == min(most, len(networks))
    assert taken[0] == networks[0], "the most promising one"
    names = [set(chain.from_iterable(networks[:count])) for count in range(len(networks) + 1)]
    bringing = [ids for before, ids in zip(names, networks, strict=False) if not before.issuperset(ids)]
    assert set(bringing[:most]) <= set(taken), "who brings in a module that was in none before"
    if len(bringing) <= most:
        assert set(chain.from_iterable(taken)) == names[-1]


@given(st.lists(st.one_of(st.just([]), IDS), min_size=1, max_size=4), st.integers(1, 20))
def test_kinds_have_seats_in_turn(kinds: list[list[tuple[str, ...]]], most: int) -> None:
    taken = seated(kinds, most)
    counts = [len(kind) for kind in taken]
    assert sum(counts) == min(most, sum(map(len, kinds)))
    assert [list(kind) for kind in taken] == [list(covering(kind, c)) for kind, c in zip(kinds, counts, strict=True)]
    for one, kind in zip(counts, kinds, strict=True):
        assert one == len(kind) or all(one >= other - 1 for other in counts), "none has two fewer but for want of more"
    lacking = [place for place, kind in enumerate(kinds) if counts[place] < len(kind)]
    assert all(counts[one] >= counts[other] for one, other in pairwise(lacking)), "the earlier kind first"


@given(IDS, IDS, IDS, st.integers(1, 20))
def test_single_modules_have_seats_before_all_others_where_they_shall(
    filling: list[tuple[str, ...]], singles: list[tuple[str, ...]], pairs: list[tuple[str, ...]], most: int
) -> None:
    kinds = [filling, singles, pairs]
    taken = seated(kinds, most, alone=True)
    assert len(taken[ALONE]) == min(most, len(singles))
    left = most - len(taken[ALONE])
    assert sum(map(len, taken)) == min(most, sum(map(len, kinds)))
    others = seated([filling, [], pairs], left)
    assert (taken[0], taken[2]) == (others[0], others[2]), "in turn, as without"


# Refusals


def test_a_schedule_below_the_smallest_network_is_refused_in_words() -> None:
    smallest = min(USED[(name,)].flops for name in NAMES)
    name = min(NAMES, key=lambda each: USED[(each,)].flops)
    check_falls(ZOO, SIZES, caps_of(steps((0.5, smallest))))
    with pytest.raises(UsageError, match=rf"one module \({name} alone: {smallest:,} is over the cap of flops"):
        check_falls(ZOO, SIZES, caps_of(steps((0.3, 10 * smallest), (0.5, smallest - 1))))
    check_start(ZOO, SIZES, caps_of(steps((0.5, smallest))))
    with pytest.raises(UsageError, match="the zoo to begin with"):
        check_start(ZOO, SIZES, caps_of(steps((0.0, smallest))))


def test_what_a_later_fall_needs_may_not_go() -> None:
    """The only module that fits in the end is neither pruned nor replaced by a larger one."""
    small, larger = sorted(NAMES, key=lambda name: USED[(name,)].flops)[:2]
    caps = caps_of(steps((0.5, USED[(small,)].flops)))
    assert set(needed(ZOO, SIZES, caps)) == {small}
    assert needed(ZOO, SIZES, caps_of(steps((0.5, USED[(larger,)].flops)))) == {}
    assert needed(ZOO, SIZES, caps.after(1)) == {}, "nothing comes any more"
    big = archetype("transformer", 16)
    assert "no module alone would fit" in str(refusal(ZOO, big, SIZES, caps, small))
    assert refusal(ZOO, big, SIZES, caps, larger) is None
    assert refusal(ZOO, big, SIZES, caps) is None
    assert "is over the cap of flops" in str(refusal(ZOO, big, SIZES, caps.after(1), small))


# The race


@given(
    st.lists(st.floats(1, 100), min_size=2, max_size=9),
    st.floats(0, 50),
    st.floats(0, 1e4),
    st.integers(1, 20),
)
def test_a_race_costs_no_more_than_it_may(costs: list[float], judged: float, allowed: float, least: int) -> None:
    heat = plan_race(costs, [judged] * len(costs), allowed, least)
    if heat is None:
        assert len(costs) * (least * max(costs) + judged) > allowed * (1 - 1e-9)
        return
    assert heat.arms == tuple(range(len(costs)))
    count, total = len(heat.arms), 0.0
    for _ in range(heat.rungs):
        total += count * heat.amount
        count = left_after(count)
    assert total <= allowed * (1 + 1e-9)
    assert all(math.floor((heat.amount - judged) / cost + 1e-9) >= least for cost in costs)


def test_the_note_on_an_edit_says_what_was_compared() -> None:
    def network(name: str, *losses: float, before: float = 0.9) -> SmallerNetwork:
        return SmallerNetwork(modules=(name,), before=before, losses=losses, steps=3)

    given: dict[str, Any] = {"limits": {"flops": 10.0}, "excess": "12 is over the cap of flops, 10", "chosen": ("b",)}
    raced = FallRecord(**given, networks=(network("a", 0.7), network("b", 0.6, 0.3), network("c", 0.65, 0.4)))
    assert raced.reason == "12 is over the cap of flops, 10; loss after a race: b 0.3000; c 0.4000; a 0.7000"
    alone = FallRecord(**given, networks=(network("b"),))
    assert alone.reason == "12 is over the cap of flops, 10; no other smaller network fits"
    assert raced.told(["a", "c"]) == "the cap falls to 10 flops: a, c gone; 3 networks raced"


def test_a_step_needs_a_share_of_the_budget() -> None:
    with pytest.raises(UsageError, match="at: field required"):
        validate(CapStep, {"flops": 1}, what="a step")
