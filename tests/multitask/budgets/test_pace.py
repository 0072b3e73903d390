"""How long a step takes, and what happens where a budget is over before that is known."""

from __future__ import annotations

import time
from typing import Any

import pytest

from evodevo.errors import UsageError
from evodevo.execution.serial import SerialExecutor
from evodevo.multitask.budgets import pace
from evodevo.storage import Store
from evodevo.testing.multitask.paths import new_system, tasks_of


def measured(monkeypatch: pytest.MonkeyPatch, until: float | None) -> tuple[dict[str, float], list[int]]:
    """Paces where a training takes two seconds and a tenth of one for each step, and the steps of each."""
    made: list[int] = []

    def timed(executor: Any, payload: dict[str, Any], name: str, what: str) -> float:
        made.append(payload["training"]["steps"])
        return 2 + 0.1 * made[-1]

    monkeypatch.setattr(pace, "timed", timed)
    monkeypatch.setattr(pace, "root_payload", lambda *given: {"training": {}, "task": {}})
    system = new_system(Store.memory())
    agents = [agent for agent in tasks_of(system) if not agent.kind.startswith(pace.PREFIX)][:1]
    assert agents
    with SerialExecutor() as executor:
        return pace.paces(system, agents, executor, None, until), made


@pytest.mark.parametrize("left", [None, 1e6])
def test_the_beginning_of_a_child_is_a_part_of_its_pace(monkeypatch: pytest.MonkeyPatch, left: float | None) -> None:
    found, made = measured(monkeypatch, None if left is None else time.monotonic() + left)
    assert list(found.values()) == [pytest.approx(0.1 + 2 / pace.FEWEST)]
    assert made[0] == made[1] < made[2]


def test_a_budget_that_is_over_after_a_few_steps_is_refused_before_more_are_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(UsageError, match=r"over before a child of \S+ could begin: \d+ steps .* take 2\.\d s"):
        measured(monkeypatch, time.monotonic() - 1)
