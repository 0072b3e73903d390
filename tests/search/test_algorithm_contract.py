"""Every algorithm in the table is tested by being listed."""

from __future__ import annotations

import pytest

from evodevo.errors import UsageError
from evodevo.search.base import ALGORITHMS, Algorithm, create
from evodevo.testing.algorithms import AlgorithmTests

# A change here makes recorded runs impossible to resume: say so in the changelog.
PERMANENCE = {
    "firefly": "e093354dc970e2d0b6469f063758265a7e3ba78af04902ec55b4b115db4cf94e",
    "genetic": "f327603b5b01207c7b0e5edaea7caac577f160a4a7c4c98756081ab592d68308",
    "nsga2": "c447c03be52fe1b5d0d148455189f5c316b043c9a539e47681066f10164a716f",
    "random": "6ccc4f89a2ebf08f18687a60a11caea1d7e32f333f527a2d23d1f481948fb8db",
    "regularized": "246a17981c1b9babc1f65952b434555bfad169fb26a6864505ff5beebfb66b8f",
    "surrogate": "f6d6e85d7d14a5f79653e3e0d3f8edfce1c67619d3fe972d8794f4911fd1e91a",
}


def _suite(name: str) -> type[AlgorithmTests]:
    def make_algorithm(self: AlgorithmTests) -> Algorithm:
        return create(name)

    members = {"make_algorithm": make_algorithm, "permanence": PERMANENCE[name]}
    return type(f"Test_{name}", (AlgorithmTests,), members)


for _name in ALGORITHMS.names():
    globals()[f"Test_{_name}"] = _suite(_name)


class TestNSGA2WithElites(AlgorithmTests):
    permanence = "f3c023b8a16ae5ce48d9e913bc1ae8016fb81ca94c7abe9709273eeddfe20419"

    def make_algorithm(self) -> Algorithm:
        return create("nsga2", {"survival": "elites"})


class TestTheSmallestPopulation(AlgorithmTests):
    permanence = "2be74772ee2f910566195b4c3e10a3e132e97dd42e2a05546ce9454ee3662960"

    def make_algorithm(self) -> Algorithm:
        return create("nsga2", {"population": 2, "tournament_size": 5})


@pytest.mark.slow
def test_without_a_fingerprint_another_process_is_asked() -> None:
    suite = TestNSGA2WithElites()
    suite.permanence = None  # type: ignore[misc]
    suite.test_another_process_gives_the_same_search()


def test_the_table_has_the_six_algorithms_and_no_other() -> None:
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
