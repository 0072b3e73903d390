"""The learned mutation function: laws of single decisions, and frequencies (docs/spec/munet.md#laws)."""

from __future__ import annotations

import numpy as np
import pytest

from evodevo.errors import UsageError
from evodevo.multitask.hyperparameters import MU, Hyperparameter, singlepath_hyperparameters
from evodevo.multitask.search.mutation import MutationSettings, Mutator, decide, entry, incremental
from evodevo.randomness import generator

LARGE = singlepath_hyperparameters("L")
RATES = LARGE.rates
CLONES = ["clone:embedding", "clone:cls", "clone:posembed_input", *(f"clone:encoderblock_{i}" for i in range(24))]
ACTIONS = [f"hp:{key}" for key in LARGE.tuned[1:]] + CLONES
FREE = MutationSettings(forced=())


def child(
    mu: dict[str, float], rng: np.random.Generator, settings: MutationSettings = FREE
) -> tuple[dict[str, float], int]:
    """A child's table, and how many of the 42 actions were taken on it."""
    mutator = Mutator(mu, RATES, rng, settings)
    mutator.mutate_rate()
    for action in ACTIONS:
        mutator.applies(action)
    return mutator.mu, sum(one.applied for one in mutator.decisions)


def test_moves_are_even_inside_and_half_of_them_stay_at_the_ends() -> None:
    row = Hyperparameter(key="a", values=(1, 2, 3), default=2)
    rng = generator(0, "moves")
    ups = np.mean([incremental(row, 2, rng) == 3 for _ in range(30_000)])
    assert abs(ups - 0.5) < 0.01
    assert {incremental(row, 2, rng) for _ in range(50)} == {1, 3}
    for end, near in ((1, 2), (3, 2)):
        moved = [incremental(row, end, rng) for _ in range(10_000)]
        assert set(moved) == {end, near}
        assert abs(np.mean([one == end for one in moved]) - 0.5) < 0.03


def test_what_is_forced_is_taken_and_leaves_no_trace() -> None:
    settings = MutationSettings(forced=("clone:encoder_*",), forbidden=("clone:*",))
    rng, other = generator(1), generator(1)
    mutator = Mutator({MU: 0.02}, RATES, rng, settings)
    assert all(mutator.applies("clone:encoder_norm") for _ in range(200))
    assert not any(mutator.applies("clone:encoderblock_0") for _ in range(200))
    assert mutator.mu == {MU: 0.02}
    assert rng.random() == other.random()


def test_entries_stay_in_the_list_and_are_inherited() -> None:
    rng = generator(2, "inherited")
    mu = {MU: 0.2}
    for _ in range(300):
        after, _ = child(mu, rng)
        assert set(after.values()) <= set(RATES.values)
        assert set(mu) <= set(after)
        for key, value in after.items():
            if key in mu:
                assert abs(RATES.index(value) - RATES.index(mu[key])) <= 1
        mu = after
    assert set(mu) == {MU, entry(f"hp:{MU}"), *map(entry, ACTIONS)}


@pytest.mark.slow
def test_the_mean_number_of_actions_is_that_of_the_specification() -> None:
    assert len(ACTIONS) + 1 == 42
    rng = generator(3, "count")
    counts = [child({MU: 0.2}, rng)[1] for _ in range(4_000)]
    assert 8.1 <= np.mean(counts) <= 8.7
    assert 2.5 <= np.std(counts) <= 2.8


@pytest.mark.slow
def test_without_selection_the_global_rate_drifts_around_its_start() -> None:
    rng = generator(4, "drift")
    ends = []
    for _ in range(3_000):
        mutator = Mutator({MU: 0.2}, RATES, rng, FREE)
        for _ in range(20):
            mutator.mutate_rate()
        ends.append(mutator.mu[MU])
    assert abs(np.mean(ends) - 0.2) < 0.004
    low, high = np.quantile(ends, [0.05, 0.95])
    assert 0.12 <= low <= 0.16
    assert 0.24 <= high <= 0.28


def test_an_action_follows_the_global_rate_until_its_own_moves() -> None:
    rng = generator(5)
    for _ in range(500):
        one = decide("clone:cls", {MU: 0.2}, RATES, rng, FREE)
        assert one.rate_draw is not None
        assert one.draw is not None
        assert (one.after is None) == (one.rate_draw >= 0.2)
        assert one.probability in ((0.2,) if one.after is None else (0.18, 0.22))
        assert one.applied == (one.draw < one.probability)


def test_the_table_moves_with_the_global_rate_not_with_its_own() -> None:
    rng = generator(8)
    mu = {MU: 0.02, entry("clone:cls"): 0.3}
    drawn = [decide("clone:cls", mu, RATES, rng, FREE) for _ in range(5_000)]
    moved = [one.after != 0.3 for one in drawn]
    assert moved == [one.rate_draw is not None and one.rate_draw < 0.02 and one.after == 0.28 for one in drawn]
    # At the end of its list a rate stays where it is half of the time.
    assert 0.005 < np.mean(moved) < 0.016


def test_a_value_moves_only_where_its_action_is_taken_and_every_move_is_recorded() -> None:
    row = LARGE.by_key["opt_lr"]
    mutator = Mutator({MU: 0.3}, RATES, generator(9), FREE)
    value = row.default
    for _ in range(200):
        after = mutator.mutate(row, value)
        if mutator.decisions[-1].applied:
            move = mutator.moves[-1]
            assert (move.key, move.before, move.after) == ("opt_lr", value, after)
        else:
            assert after == value
        value = after
    assert len(mutator.moves) == sum(one.applied for one in mutator.decisions)


def test_a_rate_that_is_in_no_list_is_refused() -> None:
    with pytest.raises(UsageError, match="_mu_"):
        Mutator({MU: 0.25}, RATES, generator(10), MutationSettings(forced=("hp:_mu_",))).mutate_rate()
