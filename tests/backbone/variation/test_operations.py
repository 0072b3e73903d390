"""Each operation of a mutation does what its name says: its law, read off the plans before and after."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from evodevo.backbone.genome import BackboneGenome, connections
from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.backbone.variation.draft import Draft
from evodevo.backbone.variation.operations import INTEGERS, OPERATIONS
from evodevo.operators.classes import liv_classes
from evodevo.operators.spec import Dimensions
from evodevo.randomness import generator

FEW: dict[str, Any] = {"depth": 10, "classes": ("SA-1", "Rec-1-Diff", "GMemless")}
EVERYTHING: dict[str, Any] = {
    "depth": 9,
    "depth_range": (5, 12),
    "residuals": True,
    "share_queries": True,
    "partial_featurizers": True,
    "classes": ("SA-1", "SA-3-Diff", "SA-1-DiffV2", "Rec-2", "GConv-1", "GMemless"),
}
SPACES = {
    "few": FEW,
    "everything": EVERYTHING,
    "every class": {"classes": tuple(r.name for r in liv_classes().values())},
}
GENOMES = 30

Links = frozenset[tuple[str, int, int]]


def space_of(**options: Any) -> BackboneSpace:
    return BackboneSpace(
        BackboneSettings(**({"depth": 8, "operators": "plan", "dimensions": Dimensions(width=64)} | options))
    )


def genomes(space: BackboneSpace) -> list[BackboneGenome]:
    """Random ones, and descendants of designed ones, in which groups have grown."""
    rng = generator(7, "genomes")
    found = [space.sample(rng) for _ in range(GENOMES // 2)]
    while len(found) < GENOMES:
        genome = space.initial(rng) or space.sample(rng)
        for _ in range(8):
            genome = space.mutate(genome, rng)
        found.append(genome)
    return found


def features(space: BackboneSpace, genome: BackboneGenome) -> Links:
    """(role, LIV, LIV) of every two LIVs that use one tensor."""
    return _pairs({(liv.position, role): source for liv in space.plan(genome) for role, source in liv.origin.items()})


def weights(space: BackboneSpace, genome: BackboneGenome) -> Links:
    """(role, LIV, LIV) of every two LIVs that compute a group themselves, with one set of weights."""
    return _pairs({(liv.position, role): source for liv in space.plan(genome) for role, source in liv.weights.items()})


def made_with(space: BackboneSpace, genome: BackboneGenome) -> Links:
    """(role, LIV, LIV) of every two LIVs whose groups one set of weights makes, also at an owner of features."""
    plans = space.plan(genome)
    return _pairs({(liv.position, role): plans[at].weights[role] for liv in plans for role, at in liv.origin.items()})


def _pairs(sources: dict[tuple[int, str], int]) -> Links:
    return frozenset(
        (role, min(i, j), max(i, j))
        for (i, role), (j, other) in combinations(sources, 2)
        if role == other and sources[i, role] == sources[j, role]
    )


def residuals(space: BackboneSpace, genome: BackboneGenome) -> dict[int, int]:
    return {liv.position: liv.residual for liv in space.plan(genome) if liv.residual is not None}


def arcs(space: BackboneSpace, genome: BackboneGenome) -> Counter[tuple[str, int, int]]:
    found = Counter((kind, owner, user) for kind, owner, user, _ in connections(space.plan(genome)))
    return found + Counter(("residual", source, user) for user, source in residuals(space, genome).items())


def moved(links: Links, to: dict[int, int]) -> Links:
    """Links after LIVs have moved; those of a LIV that is gone are left out."""
    kept = [(role, to[i], to[j]) for role, i, j in links if i in to and j in to]
    return frozenset((role, min(i, j), max(i, j)) for role, i, j in kept)


def within(links: Links, places: set[int]) -> Links:
    return frozenset(link for link in links if {link[1], link[2]} <= places)


def classes(genome: BackboneGenome) -> list[int]:
    return [segment[0] for segment in genome]


@pytest.fixture(scope="module", params=list(SPACES))
def changes(request: pytest.FixtureRequest) -> tuple[BackboneSpace, dict[str, list[Any]]]:
    """A space, and by operation (canonical genome, changed genome, kind of connection) of each genome with room."""
    space = space_of(**SPACES[request.param])
    scope = space._scope
    found: dict[str, list[Any]] = {name: [] for name in OPERATIONS}
    for number, genome in enumerate(genomes(space)):
        before = space.canonical(genome)
        for name, operation in OPERATIONS.items():
            if operation.apply is None:
                continue
            change = operation.apply(Draft.of(before, scope), scope, generator(3, number, name))
            if change is not None:
                after = change[0].genome(scope)
                space.check(after)
                assert len(after) in range(scope.depths[0], scope.depths[1] + 1)
                found[name].append((before, after, change[1]))
    return space, found


def test_a_draft_is_the_genome() -> None:
    for options in SPACES.values():
        space, rng = space_of(**options), generator(8)
        for genome in [space.sample(rng) for _ in range(15)]:
            canonical = space.canonical(genome)
            assert space.canonical(Draft.of(canonical, space._scope).genome(space._scope)) == canonical


def test_connect_makes_one_connection_and_separates_nothing(changes: Any) -> None:
    space, found = changes
    kinds = Counter(kind for *_, kind in found["connect"])
    assert kinds["feature"] > 5
    assert kinds["featurizer"] > 5
    assert (kinds["residual"] > 5) == space.settings.residuals
    for before, after, kind in found["connect"]:
        old, new = arcs(space, before), arcs(space, after)
        of_kind = [sum(one[0] == kind for one in some) for some in (old, new)]
        assert of_kind[1] == of_kind[0] + 1
        assert classes(before) == classes(after)
        assert features(space, before) <= features(space, after)
        assert made_with(space, before) <= made_with(space, after)
        if kind == "residual":
            assert new - old == Counter({next(iter(new - old)): 1})
            assert not old - new


def test_extend_gives_a_group_a_liv_or_a_role(changes: Any) -> None:
    space, found = changes
    assert len(found["extend"]) > 5
    for before, after, kind in found["extend"]:
        read = features if kind == "feature" else weights
        assert read(space, before) < read(space, after)
        old, new = (sum(one[0] == kind for one in arcs(space, genome)) for genome in (before, after))
        assert new - old in (0, 1)
        gained = read(space, after) - read(space, before)
        already = {place for _, *pair in read(space, before) for place in pair}
        assert already & {place for _, *pair in gained for place in pair}, "the group was there before"


def test_disconnect_removes_exactly_one_connection(changes: Any) -> None:
    space, found = changes
    assert len(found["disconnect"]) > 10
    for before, after, kind in found["disconnect"]:
        lost = arcs(space, before) - arcs(space, after)
        assert [one[0] for one in lost.elements()] == [kind]
        assert not arcs(space, after) - arcs(space, before)


def test_split_divides_one_group(changes: Any) -> None:
    space, found = changes
    assert found["split"]
    for before, after, kind in found["split"]:
        read = features if kind == "feature" else weights
        lost = read(space, before) - read(space, after)
        assert lost
        if kind == "feature":
            assert features(space, after) < features(space, before)
        # The pairs that are lost lie across two parts: no two lost pairs make a triangle.
        pairs = {(i, j) for _, i, j in lost}
        triples = combinations(sorted({place for pair in pairs for place in pair}), 3)
        assert not any({(a, b), (b, c), (a, c)} <= pairs for a, b, c in triples)
        assert classes(before) == classes(after)


def test_a_changed_class_leaves_all_other_connections(changes: Any) -> None:
    space, found = changes
    assert len(found["class"]) == GENOMES
    for before, after, _ in found["class"]:
        (place,) = [n for n, (x, y) in enumerate(zip(classes(before), classes(after), strict=True)) if x != y]
        others = set(range(len(before))) - {place}
        assert within(features(space, before), others) == features(space, after)
        assert within(weights(space, before), others) <= weights(space, after)
        assert residuals(space, before) == residuals(space, after)
        assert after[place][0] in space.classes


def test_a_group_that_changes_class_shares_on_where_it_may(changes: Any) -> None:
    space, found = changes
    assert len(found["group class"]) > 5
    kept = 0
    for before, after, _ in found["group class"]:
        group = {n for n, (x, y) in enumerate(zip(classes(before), classes(after), strict=True)) if x != y}
        others = set(range(len(before))) - group
        assert len({after[n][0] for n in group}) == 1
        number = after[min(group)][0]
        legal = set(space.sharing.feature_roles(space.all_classes[number].spec))
        old = features(space, before)
        expected = {link for link in within(old, group) if link[0] in legal}
        assert within(features(space, after), group) == expected
        assert within(old, others) == within(features(space, after), others)
        assert within(old, others) | within(old, group) == old, "the group is closed"
        assert within(weights(space, before), others) == within(weights(space, after), others)
        assert residuals(space, before) == residuals(space, after)
        kept += len(expected)
    assert kept


def test_swapped_livs_take_along_what_they_share(changes: Any) -> None:
    space, found = changes
    assert len(found["swap"]) == GENOMES
    for before, after, _ in found["swap"]:
        assert sorted(classes(before)) == sorted(classes(after))
        assert residuals(space, before) == residuals(space, after)
        places = range(len(before))
        fits = [
            to
            for i, j in combinations(places, 2)
            for to in [{**{n: n for n in places}, i: j, j: i}]
            if [before[to[n]][0] for n in places] == classes(after)
            and moved(features(space, before), to) == features(space, after)
        ]
        assert fits


def test_insert_and_delete_keep_what_the_others_share() -> None:
    space = space_of(**EVERYTHING)
    scope, counts = space._scope, Counter[str]()
    for number, genome in enumerate(genomes(space)):
        before = space.canonical(genome)
        for name in ("insert", "delete"):
            apply = OPERATIONS[name].apply
            assert apply is not None
            change = apply(Draft.of(before, scope), scope, generator(5, number, name))
            full = len(before) == scope.depths[name == "insert"]
            assert (change is None) == full
            if change is None:
                continue
            counts[name] += 1
            after = change[0].genome(scope)
            short, long = sorted((before, after), key=len)
            assert len(long) == len(short) + 1
            fits = []
            for gone in range(len(long)):
                to = {n: n + (n >= gone) for n in range(len(short))}
                back = {there: here for here, there in to.items()}
                bridged = {}
                for place, source in residuals(space, long).items():
                    source = residuals(space, long).get(gone) if source == gone else source
                    if place != gone and source is not None and back[place] - back[source] > 1:
                        bridged[back[place]] = back[source]
                fits.append(
                    moved(features(space, long), back) == features(space, short)
                    and moved(weights(space, long), back) <= weights(space, short)
                    and bridged == residuals(space, short)
                    and [classes(long)[there] for there in to.values()] == classes(short)
                )
            assert any(fits)
    assert min(counts["insert"], counts["delete"]) > 10


def test_operations_without_room_say_so() -> None:
    space = space_of(depth=2, classes=("GMemless",))
    scope, draft = space._scope, Draft.of(space.parse("91111 92121"), space._scope)
    for name in ("extend", "disconnect", "split", "class", "group class", "swap", "insert", "delete"):
        apply = OPERATIONS[name].apply
        assert apply is not None
        assert apply(draft.copy(), scope, np.random.default_rng(0)) is None, name
    assert OPERATIONS[INTEGERS].apply is None
