"""Runs of commit 1a4e4f9 made anew: its genomes, hashes, draws and edges, which no processor decides."""

from __future__ import annotations

import importlib.util
import json
import lzma
import math
import sys
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).resolve().parent
TREE = HERE.parents[1]


@pytest.fixture(scope="module")
def golden() -> ModuleType:
    """``benchmarks/golden.py``."""
    spec = importlib.util.spec_from_file_location("golden", TREE / "benchmarks" / "golden.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["golden"] = module  # where dataclasses look for annotations
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("case", ["search", "grown", "system"])
def test_genomes_draws_and_edges_are_those_of_the_reference(case: str, golden: ModuleType) -> None:
    reference = json.loads(lzma.decompress((HERE / f"{case}.json.xz").read_bytes()))
    record = golden.record(TREE, [case], brief=True)[case]
    assert record["ended early"] is None
    assert all(code == 0 for _, code in record["exit codes"])
    made = golden.portable(record)
    assert made.keys() == reference.keys()
    for name, rows in reference.items():
        rows = golden.by_content(rows) if name == "edits" else rows
        assert golden.difference(rows, made[name], name) is None


@pytest.mark.parametrize(
    ("left", "right", "place"),
    [
        ({"a": [0.0]}, {"a": [-0.0]}, "a[0]"),
        ({"a": 1}, {"a": 1.0}, "a"),
        ({"a": 1}, {}, "a"),
        ({}, {"a": {"b": 1}}, "a"),
        ([1, 2], [1], "value"),
        ([[0.1]], [[math.nextafter(0.1, 1.0)]], "[0][0]"),
        ("x", "y", "value"),
        (None, False, "value"),
    ],
)
def test_the_comparison_finds_a_difference_of_one_bit(
    left: object, right: object, place: str, golden: ModuleType
) -> None:
    found = golden.difference(left, right)
    assert found is not None
    assert found.startswith(f"{place}: ")
    assert golden.difference(left, left) is None
    assert golden.difference(right, right) is None


def test_not_a_number_equals_itself(golden: ModuleType) -> None:
    assert golden.difference([math.nan], [math.nan]) is None
