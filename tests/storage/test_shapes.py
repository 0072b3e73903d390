"""Facts inside payloads that evodevo did not write are damage of a named row, never an error of ours."""

from __future__ import annotations

from typing import Any

import pytest

from evodevo.errors import StoreDamagedError
from evodevo.multitask.recorded import supports_in
from evodevo.multitask.report.outcomes import path_name
from evodevo.storage.base import EventRow, IndividualRow, names_of


def individual(details: Any, genome: Any = None) -> IndividualRow:
    return IndividualRow("i1", "r1", "0", 0, 0, genome or {}, "hash", "mutation", details, (), 0, 1, "now")


@pytest.mark.parametrize("value", [3, None, "swap", {"swap": 1}, ["swap", 1]])
def test_operations_of_another_shape_are_damage(value: Any) -> None:
    with pytest.raises(StoreDamagedError, match="individual i1 has a 'operations'"):
        _ = individual({"operations": value}).operations


def test_operations_are_read_and_may_be_absent() -> None:
    assert individual({"operations": ["swap", "class"]}).operations == ["swap", "class"]
    assert individual({}).operations == []
    with pytest.raises(StoreDamagedError, match="'draws'"):
        individual({}).detail("draws", int)


@pytest.mark.parametrize("payload", [{}, {"front": "i1"}, {"front": [1]}, {"front": None}])
def test_facts_of_events_of_another_shape_are_damage(payload: dict[str, Any]) -> None:
    event = EventRow(7, "r1", "now", "generation", "0", payload)
    with pytest.raises(StoreDamagedError, match=r"event 7 \(generation\) has a 'front'"):
        event.fact("front", names_of)


@pytest.mark.parametrize(
    "genes", [None, 3, {}, {"paths": {"a": {}}}, {"paths": [{"agent": "A~a"}, "x"]}, {"paths": [{}, {}]}]
)
def test_genomes_of_paths_of_another_shape_are_damage(genes: Any) -> None:
    if genes == {}:
        with pytest.raises(StoreDamagedError, match="individual i1 has a genome"):
            path_name(individual({}, {"genes": genes}))
    with pytest.raises(StoreDamagedError, match="individual i1 has a genome"):
        supports_in(individual({}, {"genes": genes}))


def test_supports_of_a_multipath_genome() -> None:
    genes = {"agent": "M~a", "paths": [{"agent": "A~a"}, {"agent": "A~b"}]}
    assert supports_in(individual({}, {"genes": genes})) == ("A~b",)
