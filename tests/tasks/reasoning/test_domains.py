"""The domains task: answers are what the tables say, and the sample tells nothing of them."""

from __future__ import annotations

import re

import numpy as np
import pytest

from evodevo.errors import UsageError
from evodevo.settings import validate
from evodevo.tasks.generated import SplitSizes
from evodevo.tasks.reasoning.domains import DomainsSettings, DomainsTask


def opened(**changes: int) -> DomainsTask:
    sizes = SplitSizes(train=4_000, validation=400, test=400)
    return DomainsTask.open(DomainsSettings(domains=5, values=6, samples=sizes).model_copy(update=changes))


def test_steps_are_one_table_applied_again() -> None:
    task = opened(steps_max=3)
    known: dict[tuple[str, str, int], str] = {}
    for place in range(4_000):
        shown = task.show("train", place)
        domain, value, times = re.fullmatch(r"table (\d+), value (\d+), (once|\d times)", shown["question"]).groups()  # type: ignore[union-attr]
        count = 1 if times == "once" else int(times[0])
        assert known.setdefault((domain, value, count), shown["answer"]) == shown["answer"]
    assert len(known) == 5 * 6 * 3, "every question is asked"
    for (domain, value, count), answer in known.items():
        if count > 1:
            assert answer == known[domain, known[domain, value, count - 1], 1]
    for domain in range(5):
        assert len({known[str(domain), str(value), 1] for value in range(6)}) == 6, "a permutation"


def test_codes_are_of_value_domain_and_steps() -> None:
    task = opened()
    batch = task.fetch("test", np.arange(400))
    question, groups = batch["question"], task.groups("test", np.arange(400))
    assert question.shape == (400, 6 + 5 + 2)
    assert np.array_equal(question[:, 6:11].argmax(1), groups["domain"])
    assert np.array_equal(question[:, 11:].argmax(1), groups["steps"])
    assert np.array_equal(question.sum(1), np.full(400, 3.0))


def test_shortcuts_do_not_help_and_ranges_are_checked() -> None:
    assert max(DomainsTask.open(DomainsSettings()).baselines("test").values()) < 0.15
    with pytest.raises(UsageError, match="the smaller comes first"):
        validate(DomainsSettings, {"steps_min": 3, "steps_max": 2}, what="x")
