"""The bound of a module's benefit is a one-sided paired interval, of all samples and of each class."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from evodevo.growth.benefit import ClassMembers, benefit_bound
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
