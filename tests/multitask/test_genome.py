"""Paths as plain data: names of agents, and what a path may not hold."""

from __future__ import annotations

import pytest

from evodevo.errors import UsageError
from evodevo.multitask.genome import Path, agent_name
from evodevo.settings import validate


def test_names_of_agents() -> None:
    assert agent_name("Vit", "cmaterdb/bangla") == "Vit~cmaterdb~bangla"
    assert agent_name("MultiVit", "mnist") == "MultiVit~mnist"
    for wrong in ("a~b", "", "a//b", "a b", "../x", "/a", "a/", "x" * 101):
        with pytest.raises(ValueError, match="is no name of a task"):
            agent_name("Vit", wrong)


@pytest.mark.parametrize(
    "changes",
    [
        {"components": [{"role": "head", "id": "Vit~a:1"}, {"role": "head", "id": "Vit~a:2"}]},
        {"paths": [{"agent": "Vit~a", "number": 1}, {"agent": "Vit~a", "number": 2}]},
        {"components": [{"role": "head", "id": "Vit:1"}]},
        {"agent": "Vit"},
    ],
)
def test_what_a_path_may_not_hold(changes: dict[str, object]) -> None:
    values = {"agent": "Vit~a", "number": 0, "task": "a", "classes": 2}
    assert validate(Path, values, what="a path").id == "Vit~a/0"
    with pytest.raises(UsageError):
        validate(Path, {**values, **changes}, what="a path")
