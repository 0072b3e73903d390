"""Differences of two genomes by the settings of their envelopes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evodevo.runs.differences import NOTHING, setting_differences

GENES = st.recursive(
    st.integers(0, 2) | st.text("ab", max_size=1),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=8,
)


def test_values_that_differ_are_listed_by_their_dotted_keys() -> None:
    left = {"layers": [{"kind": "mlp"}, {"kind": "lstm"}], "width": 8}
    right = {"layers": [{"kind": "mlp"}, {"kind": "mlp", "hidden": 4}], "width": 8}
    assert setting_differences(left, right) == [
        {"setting": "layers.1.kind", "a": "lstm", "b": "mlp"},
        {"setting": "layers.1.hidden", "a": NOTHING, "b": 4},
    ]


@given(GENES, GENES)
def test_there_are_none_exactly_where_genes_are_equal(left: object, right: object) -> None:
    assert setting_differences(left, left) == []
    assert bool(setting_differences(left, right)) == (left != right)
    swapped = [(row["setting"], row["b"], row["a"]) for row in setting_differences(right, left)]
    assert sorted(swapped, key=str) == sorted(
        [(row["setting"], row["a"], row["b"]) for row in setting_differences(left, right)], key=str
    )
