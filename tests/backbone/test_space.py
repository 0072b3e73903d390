"""The backbone space: the laws of every space with every option, the paper's examples, and the words of refusals."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any, ClassVar

import numpy as np
import pytest

from evodevo.backbone import space as module
from evodevo.backbone.genome import (
    BackboneGenome,
    SharingOptions,
    connections,
    feature_mask,
    feature_strategy,
    featurizer_mask,
    featurizer_strategy,
)
from evodevo.backbone.named import NAMED_BACKBONES
from evodevo.backbone.space import BackboneSpace, unconnected
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.errors import GenomeError, UsageError
from evodevo.operators.classes import OPERATORS, liv_classes
from evodevo.operators.spec import Dimensions
from evodevo.randomness import generator
from evodevo.testing.spaces import SpaceTests

DIMS = Dimensions(width=64)
EVERY_CLASS = tuple(row.name for row in liv_classes().values())


def space_of(**settings: Any) -> BackboneSpace:
    return BackboneSpace(BackboneSettings(**({"dimensions": DIMS, "depth": 6} | settings)))


class BackboneTests(SpaceTests):
    options: ClassVar[dict[str, Any]] = {}

    def make_space(self) -> BackboneSpace:
        return space_of(**self.options)

    def make_invalid(self, space: Any, rng: np.random.Generator) -> Any:
        rows = [list(segment) for segment in space.sample(rng)]
        for row in rows:
            for place in range(len(row)):
                if rng.random() < 0.4:
                    row[place] = int(rng.choice([0, 1, 2, 7, 99, -3, 10**9]))
        if rng.random() < 0.3:
            rows[int(rng.integers(len(rows)))].append(1)
        if rng.random() < 0.3:
            rows[int(rng.integers(len(rows)))].pop()
        return tuple(tuple(row) for row in rows)

    def make_equivalent(self, space: Any, genome: Any, rng: np.random.Generator) -> Any:
        return renumbered(space, genome, rng)


def renumbered(space: BackboneSpace, genome: BackboneGenome, rng: np.random.Generator) -> BackboneGenome:
    """The same backbone with other group numbers, where the depth leaves room for them."""
    rows = [list(segment) for segment in genome]
    for number in {row[0] for row in rows}:
        members = [row for row in rows if row[0] == number]
        for place in (1, 3):
            names = rng.permutation(len(members)) + 1
            for row in members:
                row[place] = int(names[row[place] - 1])
    if space.genes > 5:
        names = rng.permutation(len(rows)) + 1
        for row in rows:
            row[5] = int(names[row[5] - 1])
    return tuple(tuple(row) for row in rows)


class TestPaper(BackboneTests):
    pass


class TestOneClass(BackboneTests):
    options: ClassVar[dict[str, Any]] = {"classes": ("Rec-1",), "depth": 5}


class TestOneLIV(BackboneTests):
    options: ClassVar[dict[str, Any]] = {"depth": 1, "residuals": True}


class TestQueries(BackboneTests):
    options: ClassVar[dict[str, Any]] = {"share_queries": True, "classes": ("SA-1", "SA-3", "SA-1-DiffV2")}


class TestEverything(BackboneTests):
    options: ClassVar[dict[str, Any]] = {
        "depth_range": (3, 12),
        "residuals": True,
        "share_queries": True,
        "partial_featurizers": True,
        "classes": EVERY_CLASS,
        "crossover_points": 5,
        "mutation_probability": 0.3,
    }


class TestPlan(BackboneTests):
    options: ClassVar[dict[str, Any]] = {"operators": "plan", "classes": ("SA-1", "Rec-1-Diff", "GMemless")}


class TestPlanWithEverything(BackboneTests):
    options: ClassVar[dict[str, Any]] = {**TestEverything.options, "operators": "plan"}


class TestPlanOfOneLIV(BackboneTests):
    options: ClassVar[dict[str, Any]] = {**TestOneLIV.options, "operators": "plan"}


# What the paper prints


@pytest.mark.parametrize(
    "text",
    [
        "21211-31112-21221-32112",  # 3.1, with hyphens here and en dashes in the paper
        "21211–31112–21221–32112",
        "11111 91111 12121 92121",  # A.6.1
        "11111 91111 51111 92121",
        "11211 91111 51111 92121 11221 91131",  # A.6.1, with the LIV that the paper lost
    ],
)
def test_the_papers_examples_parse_and_print(text: str) -> None:
    space = space_of()
    genome = space.parse(text)
    assert space.print(genome) == text.replace("-", " ").replace("–", " ")
    assert space.parse(space.print(genome)) == genome


def test_the_papers_last_example_as_printed_is_refused_where_it_is_wrong() -> None:
    with pytest.raises(GenomeError, match=r"segment 4, integer 4 \(feature-group index\) is 2; allowed: 1\."):
        space_of().parse("91111 51111 92121 11221 91131")


def test_the_papers_examples_mean_what_the_paper_says() -> None:
    space = space_of()
    first = list(connections(space.plan(space.parse("21211 31112 21221 32112"))))
    assert ("featurizer", 0, 2, frozenset(["query", "key", "value"])) in first
    assert {kind for kind, *_ in first} == {"featurizer", "feature"}
    last = list(connections(space.plan(space.parse("11211 91111 51111 92121 11221 91131"))))
    assert last == [("featurizer", 0, 4, frozenset(["query", "key", "value"]))]
    assert not list(connections(space.plan(space.parse("11111 91111 12121 92121"))))


FIGURE = {
    "parents": ("1032043010", "0102011022", "2010320110", "4050320501"),
    "children": ("1032011022", "0102043010", "2010320501", "4050320110"),
    "mutants": ("4032011022", "0102043010", "2010310301", "4020320112"),
}


def _figure(text: str) -> BackboneGenome:
    values = tuple(int(digit) for digit in text)
    return values[:5], values[5:]


def test_crossover_is_the_one_of_figure_4_1() -> None:
    """Both children are kept, and a cut may fall inside a segment."""
    space = space_of(crossover_points=1, depth=2)
    for number in (0, 2):
        parents = [_figure(text) for text in FIGURE["parents"][number : number + 2]]
        wanted = tuple(_figure(text) for text in FIGURE["children"][number : number + 2])
        found = {space._crossover(*parents, generator(seed)) for seed in range(200)}
        assert wanted in found
        assert len(found) > 2


@pytest.mark.parametrize("points", [1, 2, 3, 9])
def test_crossover_cuts_exactly_k_times_and_keeps_places(points: int) -> None:
    space = space_of(crossover_points=points, depth=2)
    a, b = _figure("0" * 10), _figure("1" * 10)
    for seed in range(100):
        left, right = space._crossover(a, b, generator(seed))
        flat = [value for segment in left for value in segment]
        assert sum(x != y for x, y in pairwise(flat)) == points
        assert [1 - value for value in flat] == [value for segment in right for value in segment]
        assert flat[0] == 0


def test_mutation_is_per_integer_and_uniform_over_the_others() -> None:
    """A hit integer always changes; each does so with the given probability; strategies keep to their class."""
    space = space_of(mutation_probability=0.1, depth=12, classes=("SA-1", "GMemless"))
    genome = space.parse("1.1.1.1.1 " * 6 + "9.1.1.1.1 " * 6)
    changed = np.zeros(5)
    values: dict[int, list[int]] = {}
    rounds = 1500
    rng = generator(0)
    for _ in range(rounds):
        for before, after in zip(genome, space._mutate(genome, rng), strict=True):
            changed += [x != y for x, y in zip(before, after, strict=True)]
            if before[0] == after[0] == 1 and after[4] != 1:
                values.setdefault(4, []).append(after[4])
            if after[1] != 1:
                values.setdefault(1, []).append(after[1])
    assert np.all(np.abs(changed / (12 * rounds) - 0.1) < 0.01)
    for place, options in ((4, (2, 3, 4)), (1, (2, 3, 4, 5, 6))):
        shares = [values[place].count(option) / len(values[place]) for option in options]
        assert sum(shares) == 1.0
        assert max(shares) - min(shares) < 0.05
    assert all(space._mutate(genome, rng) == genome for space in [space_of(mutation_probability=0.0)] for _ in range(5))


def test_repair_touches_invalid_integers_only() -> None:
    space = space_of(depth=4)
    genome = ((1, 2, 1, 9, 1), (1, 1, 2, 2, 4), (9, 1, 1, 1, 9), (9, 0, 1, 2, 1))
    for seed in range(20):
        mended = space.repair(genome, generator(seed))
        assert mended[0] == (1, 2, 1, 1, 1)  # the lowest unused index of the class: a group of its own
        assert mended[1] == genome[1]
        assert mended[2][:4] == genome[2][:4]
        assert mended[2][4] in (1, 2, 3, 4)
        assert mended[3] == (9, 2, 1, 2, 1)


def test_repaired_connections_connect_nothing() -> None:
    space = space_of(depth=3)
    mended = space.repair(((1, 1, 2, 1, 4), (1, 1, 2, 1, 4), (1, 7, 2, 0, 4)), generator(0))
    arcs = list(connections(space.plan(mended)))
    assert all(user == 1 for _, _, user, _ in arcs)


# Refusals


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("  - ", "empty"),
        ("11111 9111", r"segment 2 \('9111'\) has 4 integers; 5 are wanted"),
        ("11111 911111", "segment 2 .* has 6 integers; 5 are wanted. Values from 10 on need dots"),
        ("11111 9x111", "segment 2 is '9x111'; digits are allowed"),
        ("1.1.1.1.1.", "segment 1"),
        ("1..1.1.1", "segment 1"),
        ("-1.1.1.1.-1", "segment 1"),
        ("99.1.1.1.1", r"segment 1, integer 1 \(LIV class\) is 99; allowed: 1 to 22"),
        ("11111 01111", r"segment 2, integer 1 \(LIV class\) is 0"),
        ("12111", r"segment 1, integer 2 \(featurizer index\) is 2; allowed: 1\."),
        ("11311", r"segment 1, integer 3 \(featurizer strategy\) is 3; allowed: 1 to 2"),
        ("11121", r"segment 1, integer 4 \(feature-group index\) is 2; allowed: 1\."),
        ("11115", r"segment 1, integer 5 \(feature-group strategy\) is 5; allowed: 1 to 4"),
        ("transformer++@", "depth"),
        ("transformer++@x", "depth"),
        ("transformer++@0", "even number"),
        ("transformer++@7", "even number .* 7"),
        ("transformer++@99998", "512"),
        ("transformr++", r"transformer\+\+"),
        ("striped-mambo", "striped-mamba"),
        ("１１１１１", "digits"),
        ("9" * 70000, "70000 characters"),
    ],
)
def test_refusals_say_where_what_and_what_is_allowed(text: str, message: str) -> None:
    with pytest.raises(GenomeError, match=message):
        space_of().parse(text)


def test_more_than_512_livs_are_refused() -> None:
    space = space_of()
    most = " ".join(["91111"] * 512)
    assert len(space.parse(most)) == 512
    for refused in (
        lambda: space.parse(most + " 91111"),
        lambda: space.check((*space.parse(most), (9, 1, 1, 1, 1))),
        lambda: space.from_json({"space": "backbone", "version": 1, "genes": [[9, 1, 1, 1, 1]] * 513}),
        lambda: space.named("transformer++", 514),
    ):
        with pytest.raises(GenomeError, match="512"):
            refused()
    with pytest.raises(UsageError, match="512"):
        space_of(depth=10, depth_range=(10, 513))


@pytest.mark.parametrize(
    "segment",
    [[1, 1, 1, 1], [1, 1, 1, 1, 1.0], [1, 1, 1, 1, True], [1, 1, 1, 1, "1"], "11111", None, [1, 1, 1, 1, 10**29]],
)
def test_other_genes_are_refused(segment: Any) -> None:
    with pytest.raises(GenomeError, match="segment 1"):
        space_of().from_json({"space": "backbone", "version": 1, "genes": [segment]})


def test_six_integers_only_with_the_residual_extension() -> None:
    assert space_of(residuals=True).parse("111111 911112 121111") == (
        (1, 1, 1, 1, 1, 1),
        (9, 1, 1, 1, 1, 2),
        (1, 2, 1, 1, 1, 1),
    )
    for space, text in ((space_of(), "111111"), (space_of(residuals=True), "11111")):
        with pytest.raises(GenomeError, match=f"{space.genes} are wanted"):
            space.parse(text)
    with pytest.raises(GenomeError, match=r"residual value.* as in the segment before"):
        space_of(residuals=True).parse("111111 911111")
    with pytest.raises(GenomeError, match=r"integer 6 \(residual value\) is 3; allowed: 1 to 2"):
        space_of(residuals=True).parse("111111 911113")


def test_residuals_point_to_the_nearest_earlier_equal() -> None:
    space = space_of(residuals=True)
    plan = space.plan(space.parse("911111 921212 931311 941414 951511 961612"))
    assert [liv.residual for liv in plan] == [None, None, 0, None, 2, 1]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"classes": ()}, "empty"),
        ({"classes": ("SA-1", "SA-9")}, "unknown LIV class 'SA-9'. Did you mean 'SA-"),
        ({"depth": 6, "depth_range": (7, 9)}, "depth 6"),
        ({"depth": 6, "depth_range": (0, 9)}, "fewest"),
        ({"dimensions": Dimensions(width=40)}, "width 40"),
        ({"dimensions": Dimensions(width=80)}, "width 80 has 5 heads"),
    ],
)
def test_impossible_spaces_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        space_of(**settings)


def test_a_width_without_heads_serves_memoryless_backbones() -> None:
    space = space_of(classes=("GMemless",), dimensions=Dimensions(width=40))
    space.check(space.sample(generator(0)))


# Named backbones


@pytest.mark.parametrize("name", NAMED_BACKBONES)
def test_named_backbones_are_valid_at_legal_depths(name: str) -> None:
    space = space_of()
    legal = [2, 4, 8, 24, 48, 50, 512] if name == "transformer++" else [8, 10, 12, 22, 24, 48, 72, 504]
    for depth in legal:
        genome = space.parse(f"{name}@{depth}")
        assert len(genome) == depth
        assert genome == space.named(name, depth)
        assert not list(connections(space.plan(genome)))
    illegal = [1, 3, 25] if name == "transformer++" else [2, 4, 6, 7, 9, 25, 26, 36, 50]
    for depth in illegal:
        with pytest.raises(GenomeError, match=str(depth)):
            space.named(name, depth)


def test_named_backbones_take_the_spaces_depth_and_integers() -> None:
    assert len(space_of(depth=8).parse("striped-mamba")) == 8
    assert {len(segment) for segment in space_of(residuals=True).parse("transformer++")} == {6}
    with pytest.raises(UsageError, match="unknown backbone 'llama'"):
        space_of().named("llama")


def test_stripes_are_where_the_paper_has_them() -> None:
    """docs/spec/star.md#named-backbones: 6 and 18 of 24, ten Mamba, twelve SwiGLU; from 48 on the pattern repeats."""
    space = space_of()
    for name, mixer in (("striped-mamba", 18), ("striped-hyena", 20)):
        classes = [segment[0] for segment in space.named(name, 24)]
        assert [slot for slot, number in enumerate(classes) if number == 1] == [6, 18]
        assert (classes.count(mixer), classes.count(9)) == (10, 12)
        assert classes[1::2] == [9] * 12
        assert [segment[0] for segment in space.named(name, 48)] == classes * 2
        for depth in range(8, 24, 2):
            few = [segment[0] for segment in space.named(name, depth)]
            stripes = [slot for slot, number in enumerate(few) if number == 1]
            assert len(stripes) == 2
            for slot, quarter in zip(stripes, (1, 3), strict=True):
                assert slot % 2 == 0
                assert 0 <= slot - quarter * depth / 4 < 2


def test_initial_genomes_are_simple_hybrids() -> None:
    space = space_of(depth=12)
    seen = set()
    for seed in range(40):
        genome = space.initial(generator(seed))
        assert genome is not None
        assert not list(connections(space.plan(genome)))
        classes = [liv.row for liv in space.plan(genome)]
        assert all(row.name == "GMemless" for row in classes[1::2])
        assert all(row.spec.mixes_tokens and row.differential == "none" for row in classes[0::2])
        assert len({row.name for row in classes[0::2]}) <= 2
        seen |= {row.name for row in classes}
    assert seen == {row.name for row in space.classes.values() if row.differential == "none"}
    assert space_of(classes=("Rec-1",)).initial(generator(0)) is None


# Strategies


@pytest.mark.parametrize("name", EVERY_CLASS)
def test_strategies_and_masks_are_inverse(name: str) -> None:
    spec = OPERATORS.get(name).spec
    for sharing in (SharingOptions(), SharingOptions(queries=True, partial_featurizers=True)):
        features = [feature_mask(spec, s) for s in range(1, sharing.feature_strategies(spec) + 1)]
        assert features[0] == frozenset()
        assert len(set(features)) == len(features)
        assert frozenset().union(*features) == frozenset(sharing.feature_roles(spec))
        assert [feature_strategy(spec, mask) for mask in features] == list(range(1, len(features) + 1))
        tied = [featurizer_mask(spec, s) for s in range(1, sharing.featurizer_strategies(spec) + 1)]
        assert tied[:2] == [frozenset(), frozenset(spec.groups)]
        assert len(set(tied)) == len(tied)
        assert [featurizer_strategy(spec, mask) for mask in tied] == list(range(1, len(tied) + 1))


def test_attention_has_the_papers_four_strategies() -> None:
    """A.6.1: none, key, value, key and value."""
    spec = OPERATORS.get("SA-1").spec
    masks = [set(feature_mask(spec, strategy)) for strategy in (1, 2, 3, 4)]
    assert masks == [set(), {"key"}, {"value"}, {"key", "value"}]
    assert SharingOptions().feature_strategies(spec) == 4
    assert SharingOptions().featurizer_strategies(spec) == 2


# Hash


def _meaning(space: BackboneSpace, genome: BackboneGenome) -> Any:
    return tuple(
        (liv.row.number, tuple(sorted(liv.origin.items())), tuple(sorted(liv.weights.items())), liv.residual)
        for liv in space.plan(genome)
    )


def test_every_pair_of_two_livs_hashes_by_meaning() -> None:
    """Exhaustive: all genomes of two SA-1; equal hashes exactly where the connections are equal."""
    space = space_of(depth=2, classes=("SA-1",))
    segments = list(product([1], [1, 2], [1, 2], [1, 2], [1, 2, 3, 4]))
    by_hash: dict[str, Any] = {}
    by_meaning: dict[Any, str] = {}
    for genome in product(segments, repeat=2):
        space.check(genome)
        digest, meaning = space.hash(genome), _meaning(space, genome)
        assert by_hash.setdefault(digest, meaning) == meaning
        assert by_meaning.setdefault(meaning, digest) == digest
    assert len(by_hash) == 8  # feature strategies 4 x featurizers shared or not


@pytest.mark.parametrize(
    "options",
    [
        {"classes": ("SA-1",)},
        {"classes": ("Rec-1", "GMemless")},
        {"classes": ("GConv-1",), "partial_featurizers": True},
        {"classes": ("SA-1", "GMemless"), "share_queries": True, "partial_featurizers": True, "residuals": True},
    ],
    ids=str,
)
def test_hashes_are_equal_exactly_where_models_are(options: dict[str, Any]) -> None:
    space, rng = space_of(depth=4, **options), generator(1)
    by_hash: dict[Any, Any] = {}
    by_meaning: dict[Any, Any] = {}
    for _ in range(500):
        genome = space.sample(rng)
        canonical, meaning = space.canonical(genome), _meaning(space, genome)
        assert by_hash.setdefault(canonical, meaning) == meaning
        assert by_meaning.setdefault(meaning, canonical) == canonical
    assert 100 < len(by_hash) < 500


def test_remembered_canonical_forms_are_those_of_a_new_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED", 50)
    options = {"depth": 6, "classes": ("SA-1", "GConv-1", "GMemless"), "partial_featurizers": True, "residuals": True}
    space, rng = space_of(**options), generator(1)
    for _ in range(100):
        genome = space.sample(rng)
        canonical = space.canonical(genome)
        assert space_of(**options).canonical(genome) == canonical
        assert space_of(**options).canonical(canonical) == canonical
        assert len(space._canonical_forms) <= 52


def test_bits_without_a_partner_and_groups_of_one_are_dropped() -> None:
    space = space_of()
    plain = space.parse("11111 12121 91111")
    for text in ("11212 12223 91212", "11114 12121 91114", "11211 12121 91111", "12112 11123 91111"):
        assert space.hash(space.parse(text)) == space.hash(plain), text
    assert space.canonical(space.parse("11212 12223 91212")) == plain
    shared = space.parse("11112 12112")
    assert space.hash(space.parse("11114 12112")) == space.hash(shared)  # the value has no partner
    assert space.hash(shared) != space.hash(space.parse("11111 12121"))


def test_hash_is_of_the_genome_alone() -> None:
    """A fixture: a change of this number makes every stored genome a stranger."""
    assert space_of().hash(space_of().parse("11111 91111")) == (
        "0ff0c7080a7d67e6888d3ea53d918afcb15c306fc74c7c6f5461bb2efc5c888f"
    )


def test_unconnected_gives_every_liv_its_own_index() -> None:
    assert unconnected([1, 9, 1]) == ((1, 1, 1, 1, 1), (9, 1, 1, 1, 1), (1, 2, 1, 2, 1))
    assert [segment[5] for segment in unconnected([1, 9, 1], 6)] == [1, 2, 3]


def test_depth_stays_in_its_range() -> None:
    space, rng = space_of(depth_range=(4, 9), mutation_probability=0.5), generator(0)
    genome, depths = space.sample(rng), set()
    for _ in range(300):
        genome = space.mutate(genome, rng)
        depths.add(len(genome))
    assert depths == set(range(4, 10))
    assert {len(space.sample(rng)) for _ in range(200)} == set(range(4, 10))
    short, long = space_of(depth=4).sample(rng), space_of(depth=9).sample(rng)
    for _ in range(50):
        assert sorted(map(len, space.crossover(short, long, rng))) == [4, 9]
