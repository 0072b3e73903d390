"""Crossover of plans: what children inherit of whom, law by law."""

from __future__ import annotations

from itertools import combinations, groupby, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evodevo.backbone.genome import BackboneGenome, LIVPlan
from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.operators.spec import Dimensions
from evodevo.randomness import generator

FEW: dict[str, Any] = {"depth": 10, "classes": ("SA-1", "GMemless")}
EVERYTHING: dict[str, Any] = {
    "depth": 9,
    "depth_range": (5, 12),
    "residuals": True,
    "share_queries": True,
    "partial_featurizers": True,
    "classes": ("SA-1", "Rec-1-Diff", "GMemless"),
    "crossover_points": 3,
}


def space_of(**options: Any) -> BackboneSpace:
    values = {"depth": 8, "operators": "plan", "dimensions": Dimensions(width=64)} | options
    return BackboneSpace(BackboneSettings(**values))


def shared(plans: tuple[LIVPlan, ...], kind: str) -> set[tuple[str, int, int]]:
    """(role, LIV, LIV) of all that use one tensor, or one set of weights, for the role."""
    sources = {
        (liv.position, role): source
        for liv in plans
        for role, source in (liv.origin if kind == "feature" else liv.weights).items()
    }
    return {(r, i, j) for (i, r), (j, s) in combinations(sources, 2) if r == s and sources[i, r] == sources[j, s]}


def origins_of(child: BackboneGenome, a: BackboneGenome, b: BackboneGenome, points: int) -> list[list[int]]:
    """All ways to cut the child's classes into spans of the parents in turn."""
    ways = []
    shorter, longer = sorted((len(a), len(b)))
    for cuts in combinations(range(1, shorter), min(points, shorter - 1)):
        for first in (0, 1):
            ends = [0, *cuts, longer]
            spans = pairwise(ends)
            way = [(number + first) % 2 for number, (start, stop) in enumerate(spans) for _ in range(start, stop)]
            parents = (a, b)
            taken = [parents[origin][at][0] for at, origin in enumerate(way) if at < len(parents[origin])]
            if taken == [segment[0] for segment in child]:
                ways.append(way[: len(taken)])
    return ways


def closed(links: set[tuple[str, int, int]]) -> set[tuple[str, int, int]]:
    """The links and all that follow from them: who shares with one shares with all that it shares with."""
    groups: dict[str, list[set[int]]] = {}
    for role, i, j in links:
        of_role = groups.setdefault(role, [])
        met = [group for group in of_role if {i, j} & group]
        groups[role] = [group for group in of_role if group not in met] + [{i, j}.union(*met)]
    return {
        (role, i, j) for role, of_role in groups.items() for group in of_role for i, j in combinations(sorted(group), 2)
    }


def explained(space: BackboneSpace, child: BackboneGenome, parents: tuple[Any, Any], way: list[int]) -> bool:
    """Whether the child's connections are those that it must have, and no others than those that it may have."""
    plans = [space.plan(parent) for parent in parents]
    new = space.plan(child)
    for kind in ("feature", "featurizer"):
        found = shared(new, kind)
        links = [shared(plan, kind) for plan in plans]
        inherited = {
            (role, i, j)
            for number, own in enumerate(links)
            for role, i, j in own
            if max(i, j) < len(way) and way[i] == way[j] == number
        }
        common = {link for link in links[0] & links[1] if max(link[1:]) < len(way)}
        if kind == "feature" and not inherited <= found <= closed(inherited | common):
            return False
        # A LIV whose owner was not inherited computes its features itself, with weights that its group shares.
        if kind == "featurizer":
            groups = [closed({("", i, j) for _, i, j in own}) for own in links]
            may = groups[0] & groups[1] | {
                link for number, own in enumerate(groups) for link in own if ends(link, way) == {number}
            }
            if not {("", i, j) for _, i, j in found} <= closed(may) or not inherited <= found:
                return False
    for liv in new:
        source = plans[way[liv.position]][liv.position].residual
        both = (
            liv.position < min(map(len, plans)) and plans[0][liv.position].residual == plans[1][liv.position].residual
        )
        kept = source is not None and (both or way[source] == way[liv.position])
        if liv.residual != (source if kept else None):
            return False
    return True


def ends(link: tuple[str, int, int], way: list[int]) -> set[int]:
    """Parents of the two LIVs of a link; more than both where one was not inherited."""
    return {way[place] if place < len(way) else 2 for place in link[1:]}


@pytest.mark.parametrize("options", [FEW, EVERYTHING], ids=["few", "everything"])
@settings(max_examples=40, deadline=None, database=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_connections_are_inherited_whole_and_never_made_between_parents(options: dict[str, Any], seed: int) -> None:
    space, rng = space_of(**options), generator(seed)
    parents = (space.sample(rng), space.sample(rng))
    for child in space.crossover(*parents, rng):
        space.check(child)
        ways = origins_of(child, *parents, space.settings.crossover_points)
        assert any(explained(space, child, parents, way) for way in ways)


def test_equal_indices_of_two_parents_connect_nothing() -> None:
    """The same two integers in both parents: the paper's operators connect them, the plan's do not."""
    a, b = "11112 91111 12121 92121", "11111 91111 12122 92121"
    counts = {}
    for operators in ("paper", "plan"):
        space = space_of(depth=4, operators=operators, crossover_points=1)
        parents = (space.parse(a.replace("12121", "11121")), space.parse(b.replace("12122", "11112")))
        plain = {space.canonical(space.parse("11111 91111 12121 92121"))}
        assert {space.canonical(parent) for parent in parents} == plain
        children = {space.canonical(c) for seed in range(60) for c in space.crossover(*parents, generator(seed))}
        counts[operators] = len(children - plain)
    assert counts["plan"] == 0
    assert counts["paper"] > 0


@pytest.mark.parametrize("options", [FEW, EVERYTHING], ids=["few", "everything"])
def test_a_parent_crossed_with_itself_is_itself(options: dict[str, Any]) -> None:
    space, rng = space_of(**options), generator(9)
    for _ in range(30):
        genome = space.sample(rng)
        assert space.crossover(genome, genome, rng) == (space.canonical(genome), space.canonical(genome))


def test_what_both_parents_share_is_never_lost() -> None:
    """Parents that differ in LIVs without connections: both children have all connections, wherever the cuts are."""
    space = space_of(depth=8)
    a = space.parse("11214 91111 11214 92212 51111 92212 11214 21111")
    b = space.parse("11214 61111 11214 91212 71111 91212 11214 81111")
    wanted = {kind: shared(space.plan(a), kind) for kind in ("feature", "featurizer")}
    assert all(wanted.values())
    for seed in range(60):
        for child in space.crossover(a, b, generator(seed)):
            assert {kind: shared(space.plan(child), kind) for kind in wanted} == wanted


def test_a_group_inside_a_span_stays() -> None:
    space = space_of(depth=8, classes=("SA-1", "GMemless"), crossover_points=1)
    a = space.parse("11214 91111 11214 92121 12121 93131 13131 94141")
    b = space.parse("11111 91111 12121 92121 13231 93131 13231 94141")
    whole = 0
    for seed in range(60):
        for child in space.crossover(a, b, generator(seed)):
            plan = space.plan(child)
            first = plan[2].origin["key"] == plan[2].origin["value"] == 0
            last = plan[6].weights["query"] == 4
            whole += first and last
    assert whole > 0


def test_both_children_are_kept_and_cuts_lie_between_livs() -> None:
    space = space_of(depth=6, classes=("SA-1", "GMemless"), crossover_points=2)
    a, b = space.parse("1.1.1.1.1 " * 6), space.parse("9.1.1.1.1 " * 6)
    for seed in range(60):
        left, right = ([segment[0] for segment in child] for child in space.crossover(a, b, generator(seed)))
        assert [10 - number for number in left] == right
        assert len([number for number, _ in groupby(left)]) == 3
        assert left[0] == 1


def test_parents_of_unequal_depth() -> None:
    space = space_of(depth_range=(3, 12))
    rng = generator(1)
    short, long = space_of(depth=3).sample(rng), space_of(depth=12).sample(rng)
    for seed in range(40):
        assert sorted(map(len, space.crossover(short, long, generator(seed)))) == [3, 12]
    single = space_of(depth=1).sample(rng)
    assert {len(child) for child in space_of(depth_range=(1, 12)).crossover(single, long, rng)} == {1, 12}
