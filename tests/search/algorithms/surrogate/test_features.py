"""Features: their distances are what a double loop over the segments counts."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from evodevo.search.algorithms.surrogate.features import OWN_SCALES, encode

SEGMENTS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=0, max_size=12).map(tuple)


def mismatches(a: tuple[object, ...], b: tuple[object, ...], longest: int) -> int:
    left, right = [*a, *[None] * (longest - len(a))], [*b, *[None] * (longest - len(b))]
    return sum(x != y for x, y in zip(left, right, strict=True))


@settings(max_examples=40, deadline=None, database=None)
@given(st.lists(SEGMENTS, min_size=2, max_size=6).filter(lambda genomes: any(genomes)))
def test_distances_are_mismatches_and_exchanges(genomes: list[tuple[tuple[int, int], ...]]) -> None:
    features = encode(genomes)
    everybody = np.arange(len(genomes))
    longest = max(map(len, genomes))
    own = longest * 2 <= OWN_SCALES
    distances = dict(zip(features.names, features.by_group(everybody, everybody), strict=True))
    zero = np.zeros((len(genomes), len(genomes)))
    for place in (0, 1):
        columns = [tuple(segment[place] for segment in genome) for genome in genomes]
        by_position = sum(
            (grid for name, grid in distances.items() if name.startswith(f"place {place} ") and "content" not in name),
            zero,
        )
        by_content = distances.get(f"place {place} by content", zero)
        for i, a in enumerate(columns):
            for j, b in enumerate(columns):
                counts, others = Counter(a), Counter(b)
                exchanged = sum(abs(counts[value] - others[value]) for value in counts | others) / 2
                np.testing.assert_allclose(
                    by_position[i, j], mismatches(a, b, longest) / (1 if own else longest), atol=1e-12
                )
                np.testing.assert_allclose(by_content[i, j], exchanged / longest, atol=1e-12)


def test_segments_that_are_no_tuples_and_mixed_ones_are_compared_as_a_whole() -> None:
    features = encode([("a", ("x", 1), 3), ("a", ("x", 2), 3), ("b", ("x", 1))])
    everybody = np.arange(3)
    assert features.distance(everybody, everybody, np.ones(len(features.names)))[0, 1] > 0
    assert set(features.names) == {"segment at 0", "segment at 1", "segment at 2", "segment by content"}


def test_the_weighted_sum_is_that_of_the_groups() -> None:
    features = encode([tuple(row) for row in np.random.default_rng(0).integers(4, size=(7, 5)).tolist()])
    everybody = np.arange(7)
    scales = np.arange(1.0, len(features.names) + 1)
    expected = np.tensordot(scales, features.by_group(everybody, everybody), 1)
    np.testing.assert_allclose(features.distance(everybody, everybody, scales), expected, atol=1e-12)


def test_equal_genomes_have_no_features() -> None:
    features = encode([(1, 2), (1, 2)])
    assert features.names == ()
    assert features.distance(np.arange(2), np.arange(2), np.zeros(0)).tolist() == [[0, 0], [0, 0]]
