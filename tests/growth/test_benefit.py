"""The bound of a module's benefit is a one-sided paired interval, of all samples and of each class."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from evodevo.growth import benefit
from evodevo.growth.benefit import ClassMembers, benefit_bound
from evodevo.growth.compute_budget import FEWEST
from evodevo.growth.spec import GrowthSettings, PruneSettings
from evodevo.tasks.base import NO_TARGET, OutputSpec

RNG = np.random.default_rng(3)
ONE = np.ones((60, 1), np.bool_)


def test_it_is_the_paired_interval_of_scipy() -> None:
    right, without = RNG.random(60) < 0.8, RNG.random(60) < 0.6
    sample = right.astype(float) - without
    interval = stats.ttest_1samp(sample, 0.0, alternative="less").confidence_interval(0.95)
    assert benefit_bound(right, without, ONE) == pytest.approx(100 * interval.high)


def test_the_class_that_needs_it_most_counts() -> None:
    right, members = np.ones(60, np.bool_), np.arange(60)[:, None] % 3 == np.arange(3)
    without = ~(members[:, 1] & (np.arange(60) < 30))  # half of one class is lost without it
    own = (right.astype(float) - without)[members[:, 1]]
    wanted = 100 * stats.ttest_1samp(own, 0.0, alternative="less").confidence_interval(0.95).high
    assert benefit_bound(right, without, members) == pytest.approx(wanted)
    assert benefit_bound(right, without, ONE) < wanted


def test_no_changed_answer_is_no_benefit_and_a_class_of_one_has_no_interval() -> None:
    right = RNG.random(60) < 0.5
    single = np.zeros((60, 2), np.bool_)
    single[0, 0] = True  # and a class that nobody is of
    assert benefit_bound(right, right, single) == 0
    without = right.copy()
    without[0] = not right[0]
    assert benefit_bound(right, without, single) == 100


def test_what_none_of_so_many_samples_bounds_is_documented() -> None:
    """That no answer changed is no bound of 0 points; the page and the settings say which one it is."""
    page = (Path(__file__).parents[2] / "docs" / "growth.md").read_text(encoding="utf-8")
    header, points = (
        [cell.strip() for cell in line.strip("|\n").split("|")[1:]]
        for line in re.findall(r"^\| (?:samples|points) \|.*$", page, re.M)
    )
    counts = [int(cell.split()[0]) for cell in header]
    assert GrowthSettings().fitness.samples in counts
    assert FEWEST in counts
    for count, cell in zip(counts, points, strict=True):
        exact = 100 * stats.binomtest(0, count, alternative="less").proportion_ci(0.95, "exact").high
        assert float(cell) == pytest.approx(exact, abs=0.5 * 10.0 ** -len(cell.partition(".")[2]))
        assert exact == pytest.approx(100 * (1 - 0.05 ** (1 / count)))
    everything = [page, *map(str, (PruneSettings.__doc__, benefit.__doc__, benefit_bound.__doc__))]
    assert not any("for certain" in text or "holds for certain" in text for text in everything)
    assert all(".05^(1/" in text for text in (page, str(PruneSettings.__doc__), str(benefit_bound.__doc__)))


@pytest.mark.parametrize("changed", [True, False])
def test_at_the_usual_number_of_samples_any_changed_answer_is_a_reason_to_stay(changed: bool) -> None:
    """For worse or for better: in a class of some 25 samples the interval of a single change is wide."""
    count = GrowthSettings().fitness.samples
    members = np.arange(count)[:, None] % 10 == np.arange(10)
    right = RNG.random(count) < 0.8
    without = right.copy()
    without[np.flatnonzero(right == changed)[0]] = not changed
    assert benefit_bound(right, right, members) < PruneSettings().benefit < benefit_bound(right, without, members)


def test_harm_is_no_benefit_where_it_is_certain() -> None:
    right = np.arange(60) % 2 == 0
    assert benefit_bound(right, np.ones(60, np.bool_), ONE) == 0


def test_classes_are_targets_and_labels_and_samples_without_any_do_not_count() -> None:
    members = ClassMembers((OutputSpec("a", "class", 3), OutputSpec("b", "labels", 2)))
    nothing = float("nan")
    members.add(
        {
            "a/target": torch.tensor([2, NO_TARGET, NO_TARGET]),
            "b/target": torch.tensor([[1.0, 0.0], [nothing, 1.0], [nothing, nothing]]),
        }
    )
    assert members.members().astype(int).tolist() == [[0, 0, 1, 1, 0], [0, 0, 0, 0, 1]]
