"""The static cost: the paper's numbers, the conventions, and what sharing does to them."""

from __future__ import annotations

import time
from typing import Any

import pytest

from evodevo.backbone import cost
from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.errors import UsageError
from evodevo.operators.classes import liv_classes
from evodevo.operators.spec import Dimensions
from evodevo.randomness import generator

SMALL = BackboneSpace(BackboneSettings(depth=24))
LARGE = BackboneSpace(BackboneSettings(depth=48, dimensions=Dimensions(width=2048)))


def named(space: BackboneSpace, name: str, **options: Any) -> Any:
    return space.cost(space.named(name), **({"length": 4096} | options))


# docs/spec/star.md#the-printed-numbers; tables 5.1 and 5.2 of the paper, which truncate


@pytest.mark.parametrize(
    ("space", "name", "cache_bytes", "printed"),
    [
        (SMALL, "transformer++", 150_994_944, 150),
        (SMALL, "striped-mamba", 25_657_344, 25),
        (LARGE, "transformer++", 805_306_368, 805),
        (LARGE, "striped-mamba", 136_839_168, 136),
    ],
)
def test_cache_of_the_papers_baselines(space: BackboneSpace, name: str, cache_bytes: int, printed: int) -> None:
    assert named(space, name).cache_bytes == cache_bytes
    assert cache_bytes // 10**6 == printed


def test_parameters_of_the_papers_baselines() -> None:
    assert named(SMALL, "transformer++").parameters == 84_934_656
    assert named(SMALL, "transformer++", convention="actual").parameters == 84_934_656 + 25 * 768
    striped = named(SMALL, "striped-mamba").parameters
    assert abs(striped - 79.7e6) < 0.05e6
    assert round(striped / 1e6) == 80
    assert round(named(LARGE, "transformer++").parameters / 1e8) == 12  # "1.2B"


def test_the_48_operator_striped_mamba_has_the_papers_size() -> None:
    assert round(named(LARGE, "striped-mamba").parameters / 1e8) == 11  # "1.1B"; expand 2 would be 1.41B


def test_rec_1_in_place_of_mamba_would_print_135() -> None:
    """Why the baselines' Mamba has a class of its own."""
    for space, cache_bytes in ((SMALL, 25_411_584), (LARGE, 135_528_448)):
        genome = tuple(
            (5, *rest) if number == 18 else (number, *rest) for number, *rest in space.named("striped-mamba")
        )
        assert space.cost(genome, length=4096).cache_bytes == cache_bytes


@pytest.mark.parametrize(
    ("name", "millions", "bytes_per_token", "constant_kilobytes"),
    [
        ("SA-1", 2.3593, 3072, 0),
        ("SA-2", 2.3662, 3072, 9.2),
        ("SA-3", 1.4746, 768, 0),
        ("SA-4", 1.7695, 1536, 0),
        ("Rec-1", 1.8073, 0, 29.4),
        ("Rec-2", 1.7857, 0, 7.7),
        ("Mamba", 1.8320, 0, 54.1),
        ("GConv-1", 0.5990, 0, 12.3),
        ("GConv-1-Dense", 2.3616, 0, 3.1),
        ("GConv-2-Dense", 2.39, 0, 33.8),
        ("GMemless", 4.7186, 0, 0),
    ],
)
def test_classes_cost_what_the_table_says(
    name: str, millions: float, bytes_per_token: int, constant_kilobytes: float
) -> None:
    """docs/spec/star.md#static-cost, d = 768: states in 2 bytes too, and gains of a norm not at all."""
    number = next(row.number for row in liv_classes().values() if row.name == name)
    genome = ((number, 1, 1, 1, 1),)
    assert SMALL.cost(genome, length=1).parameters / 1e6 == pytest.approx(
        millions, abs=0.006 if "2-D" in name else 6e-4
    )
    spec = liv_classes()[number].spec
    tensors = spec.state(frozenset(spec.groups), SMALL.settings.dimensions).values()
    growing = sum(2 * tensor.entries(1) for tensor in tensors if tensor.grows)
    constant = sum(2 * tensor.entries(1) for tensor in tensors if not tensor.grows)
    assert growing == bytes_per_token
    # The table keeps Rec's short convolutions on values, writes and reads, and dense GConv-2's on three groups.
    assert constant / 1e3 == pytest.approx(constant_kilobytes, abs=0.06)


def test_literal_gconv_1_is_the_papers_size() -> None:
    assert SMALL.cost(((7, 1, 1, 1, 1),), length=1).parameters == 599_040
    assert SMALL.cost(((8, 1, 1, 1, 1),), length=1).parameters == 622_080


def test_training_flops_of_transformer() -> None:
    """2·P·L + 12·4·L²·d in matrix products with the full square; half of it under the mask."""
    cost = named(SMALL, "transformer++", causal=False)
    products = 2 * 84_934_656 * 4096 + 12 * 4 * 4096**2 * 768
    assert products == pytest.approx(1.31426e12, rel=1e-5)
    gates = 12 * 4096 * (2048 + 768)
    assert cost.flops == cost.executed_flops
    assert cost.flops - products == pytest.approx(gates, abs=gates)  # elementwise work beside the products
    causal = named(SMALL, "transformer++")
    assert cost.flops - causal.flops == 12 * 4 * 768 * (4096**2 - 4096 * 4097 // 2)
    assert causal.executed_flops == cost.flops
    assert named(SMALL, "transformer++", mode="train").flops == 3 * causal.flops


# Laws


def random_genomes(count: int, **settings: Any) -> list[tuple[BackboneSpace, Any]]:
    classes = tuple(row.name for row in liv_classes().values())
    space = BackboneSpace(
        BackboneSettings(
            **(
                {
                    "depth": 12,
                    "classes": classes,
                    "share_queries": True,
                    "partial_featurizers": True,
                    "dimensions": Dimensions(width=64),
                }
                | settings
            )
        )
    )
    rng = generator(11)
    return [(space, space.sample(rng)) for _ in range(count)]


@pytest.mark.slow
def test_sharing_never_costs_more() -> None:
    """One strategy integer from 1 to anything, everything else equal."""
    for space, genome in random_genomes(3):
        for place, name in ((2, "parameters"), (4, "cache_bytes"), (4, "parameters")):
            for position, segment in enumerate(genome):
                alone = list(genome)
                alone[position] = (*segment[:place], 1, *segment[place + 1 :])
                for convention in ("star", "actual"):
                    less = space.cost(genome, length=100, convention=convention)  # type: ignore[arg-type]
                    more = space.cost(tuple(alone), length=100, convention=convention)  # type: ignore[arg-type]
                    assert getattr(less, name) <= getattr(more, name)


def test_featurizer_sharing_saves_no_cache() -> None:
    for space, genome in random_genomes(20):
        alone = tuple((*segment[:2], 1, *segment[3:]) for segment in genome)
        assert space.cost(genome, length=50).cache_bytes == space.cost(alone, length=50).cache_bytes


def test_relations_between_classes() -> None:
    def cache(number: int) -> int:
        return SMALL.cost(((number, 1, 1, 1, 1),), length=512).cache_bytes

    assert cache(3) * 4 == cache(4) * 2 == cache(1) == cache(2) == cache(21)
    for number in range(10, 18):
        assert cache(number) == 2 * cache(number - 9)
        pair, plain = (SMALL.cost(((n, 1, 1, 1, 1),), length=512) for n in (number, number - 9))
        assert pair.parameters == 2 * plain.parameters
        assert pair.flops == 2 * plain.flops


@pytest.mark.parametrize(("strategy", "share"), [(1, 2.0), (2, 1.5), (3, 1.5), (4, 1.0)])
def test_attention_strategies_and_cache(strategy: int, share: float) -> None:
    """Key only or value only halves the borrower's cache, both leave nothing."""
    genome = ((1, 1, 1, 1, strategy), (1, 2, 1, 1, strategy))
    assert SMALL.cost(genome, length=100).cache_bytes == share * SMALL.cost(((1, 1, 1, 1, 1),), length=100).cache_bytes


@pytest.mark.parametrize("strategy", range(1, 33))
def test_recurrent_state_is_one_only_where_it_is_identical(strategy: int) -> None:
    """Value, decay and write together; any proper subset of them saves no state."""
    genome = ((5, 1, 1, 1, strategy), (5, 2, 1, 1, strategy))
    alone = SMALL.cost(((5, 1, 1, 1, 1),), length=100).cache_bytes
    identical = (strategy - 1) & 0b111 == 0b111
    assert SMALL.cost(genome, length=100).cache_bytes == (alone if identical else 2 * alone)


def test_cost_counts_batch_vocabulary_and_bytes() -> None:
    genome = SMALL.named("striped-mamba")
    one, four = (SMALL.cost(genome, length=64, batch=batch) for batch in (1, 4))
    assert four.cache_bytes == 4 * one.cache_bytes
    assert four.flops == 4 * one.flops
    assert four.parameters == one.parameters
    tied, untied = (SMALL.cost(genome, length=64, vocabulary=1000, tied=tied) for tied in (True, False))
    assert (tied.embedding_parameters, untied.embedding_parameters) == (768_000, 1_536_000)
    assert tied.parameters == one.parameters
    assert tied.flops - one.flops == 2 * 64 * 768 * 1000
    half, full = (
        SMALL.cost(SMALL.named("transformer++"), length=9, convention="actual", element_bytes=b) for b in (2, 4)
    )
    assert full.cache_bytes == 2 * half.cache_bytes


def test_decoding_costs_one_token() -> None:
    for space, genome in random_genomes(20):
        prefill, decode = (space.cost(genome, length=512, mode=mode) for mode in ("prefill", "decode"))  # type: ignore[arg-type]
        assert decode.flops < prefill.flops / 50
        assert decode.cache_bytes == prefill.cache_bytes
    one = SMALL.cost(((1, 1, 1, 1, 1),), length=99, mode="decode")
    # Four projections, and scores over the hundred tokens that are then there.
    assert one.flops == pytest.approx(8 * 768**2 + 4 * 768 * 100, rel=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length": 0}, "length is 0; it must be 1 to"),
        ({"length": 1 << 30}, "length"),
        ({"length": 1, "batch": 0}, "batch"),
        ({"length": 1, "vocabulary": -1}, "vocabulary"),
        ({"length": 1, "element_bytes": 16}, "element_bytes"),
    ],
)
def test_impossible_questions_are_refused(options: dict[str, int], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        SMALL.cost(((1, 1, 1, 1, 1),), **options)  # type: ignore[arg-type]


def test_only_filters_of_positions_end() -> None:
    dims = Dimensions(width=64, long_filter="mlp", max_length=100)
    space = BackboneSpace(BackboneSettings(depth=2, dimensions=dims))
    space.cost(((8, 1, 1, 1, 1),), length=100)
    with pytest.raises(UsageError, match="100 positions"):
        space.cost(((8, 1, 1, 1, 1),), length=101)
    for number in (1, 5, 7, 9):  # GConv-1 has a filter too, of three taps
        space.cost(((number, 1, 1, 1, 1),), length=101)
    modal = BackboneSpace(BackboneSettings(depth=2, dimensions=Dimensions(width=64, max_length=100)))
    modal.cost(((8, 1, 1, 1, 1),), length=10_000)


def test_remembered_costs_are_those_of_a_first_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "MOST_LIVS", 5)
    asked = []
    for number, (space, genome) in enumerate(random_genomes(12)):
        for convention in ("star", "actual"):
            options: dict[str, Any] = {
                "length": 7 + 100 * (number % 3),
                "mode": ("prefill", "decode", "train")[number % 3],
                "element_bytes": (None, 1)[number % 2],
                "causal": number % 4 > 0,
                "convention": convention,
            }
            asked.append((space, genome, options, space.cost(genome, **options)))
    for space, genome, options, found in asked:
        cost._table.cache_clear()
        assert space.cost(genome, **options) == found
    assert len({found for *_, found in asked}) == len(asked)


def test_record_is_json() -> None:
    record = named(SMALL, "transformer++").to_json()
    assert record["parameters"] == 84_934_656
    assert set(record) == {"parameters", "embedding_parameters", "cache_bytes", "flops", "executed_flops", "bytes_read"}
    assert all(type(value) is int for value in record.values())


def test_cost_is_cheap() -> None:
    """The gate is 2 ms (a benchmark); ten times that only happens if something quadratic came in."""
    genome = SMALL.sample(generator(3))
    times = []
    for _ in range(20):
        start = time.process_time()
        SMALL.cost(genome, length=4096)
        times.append(time.process_time() - start)
    assert min(times) < 0.02
