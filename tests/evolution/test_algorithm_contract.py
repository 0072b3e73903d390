"""Every algorithm in the table is tested by being listed."""

from __future__ import annotations

import pytest

from evodevo.errors import UsageError
from evodevo.evolution.base import ALGORITHMS, Algorithm, create
from evodevo.testing.algorithms import AlgorithmTests

# A change here makes recorded runs impossible to resume: say so in the changelog.
PERMANENCE = {
    "firefly": "ae6d5153b54c99f84db047cb0e8e33eb289aa4e103eaa5c61e9261109fc246c8",
    "genetic": "02116b914f4b4924e5b0f8898d87b7c00d32da7ebf7d861983705e00e6e31358",
    "nsga2": "e034987e8e1cc3acda7faddf795ee59e0df832b43bf08a40bb249c0c4ba347eb",
    "random": "6ccc4f89a2ebf08f18687a60a11caea1d7e32f333f527a2d23d1f481948fb8db",
    "regularized": "a6cb11c1a275c74cd8a570d656d26cc2ab54cc02b6cd403670633e2ce8b091bc",
}


def _suite(name: str) -> type[AlgorithmTests]:
    def make_algorithm(self: AlgorithmTests) -> Algorithm:
        return create(name)

    members = {"make_algorithm": make_algorithm, "permanence": PERMANENCE[name]}
    return type(f"Test_{name}", (AlgorithmTests,), members)


for _name in ALGORITHMS.names():
    globals()[f"Test_{_name}"] = _suite(_name)


class TestNSGA2WithElites(AlgorithmTests):
    permanence = "3e588b870c735777b959d0f243aac072b98f84f85ebf6653c09787d8c8b24736"

    def make_algorithm(self) -> Algorithm:
        return create("nsga2", {"survival": "elites"})


class TestTheSmallestPopulation(AlgorithmTests):
    permanence = "e49e3528362bc2c70879be4133a15df1a05936337d3baab5d0a37aba54bf3a19"

    def make_algorithm(self) -> Algorithm:
        return create("nsga2", {"population": 2, "tournament_size": 5})


def test_the_table_has_the_five_algorithms_and_no_other() -> None:
    assert ALGORITHMS.names() == sorted(PERMANENCE)
    for name in ALGORITHMS:
        assert ALGORITHMS.get(name).name == name


def test_wrong_names_and_settings_are_refused_in_words() -> None:
    with pytest.raises(UsageError, match="Did you mean 'nsga2'"):
        create("nsga-2")
    with pytest.raises(UsageError, match="did you mean 'population'"):
        create("nsga2", {"populaton": 8})
    with pytest.raises(UsageError, match="population"):
        create("nsga2", {"population": 1})
    with pytest.raises(UsageError, match=r"elites \(8\) must leave room"):
        create("genetic", {"population": 8, "elites": 8})
    with pytest.raises(UsageError, match=r"elites \(9\) must leave room"):
        create("nsga2", {"population": 8, "elites": 9, "survival": "elites"})
