"""Growth costs what it may, and probes come first (docs/spec/architect_thyself.md#events)."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from evodevo.growth.compute_budget import FEWEST, SLOWEST, USUAL, Means, Portions, portions
from evodevo.growth.flops import STEP, Prices
from evodevo.growth.spec import GrowthSettings
from evodevo.settings import validate

PRICES = st.builds(
    lambda forward, probe, share: Prices(forward, forward * probe, share),
    st.floats(1e3, 1e9),
    st.floats(1, 20),
    st.floats(0.1, 1),
)
MEANS = st.builds(
    Means,
    training=st.floats(0, 1e15),
    spent=st.floats(0, 1e14),
    prices=PRICES,
    batch=st.integers(1, 512),
    probes=st.integers(1, 20),
    looks=st.integers(0, 20),
    refined=st.floats(0, 1e12),
    pace=st.none() | st.floats(0, 20),
)
SETTINGS = st.builds(
    lambda overhead, samples, distil, replay: validate(
        GrowthSettings,
        {
            "events": {"overhead": overhead},
            "fitness": {"samples": samples},
            "prune": {"distil_steps": distil},
            "replay": {"steps": replay},
        },
        what="settings",
    ),
    st.floats(0.01, 1),
    st.integers(2, 2000),
    st.integers(0, 500),
    st.integers(0, 500),
)


def cost(found: Portions, means: Means) -> float:
    probes = means.probes + found.mature + found.looks
    lessons = means.prices.distillation(found.distil_steps, found.distil_steps)
    replay = STEP * means.prices.forward * found.replay_steps
    return means.prices.probe * found.samples * probes + means.batch * (lessons + replay)


def may(settings: GrowthSettings, means: Means) -> float:
    pace = USUAL if means.pace is None else min(max(means.pace, 1.0), SLOWEST)
    return settings.events.overhead * means.training / pace - means.spent - means.refined


@given(SETTINGS, MEANS)
def test_no_more_than_allowed_is_spent_and_no_more_than_wished(settings: GrowthSettings, means: Means) -> None:
    found = portions(settings, means)
    assert found.samples <= settings.fitness.samples
    assert found.distil_steps <= settings.prune.distil_steps
    assert found.replay_steps <= settings.replay.steps
    assert found.looks <= means.looks
    # Only what must be goes beyond: the smallest probe at the event, of its reward, in the end.
    fewest = means.prices.probe * means.probes * min(FEWEST, settings.fitness.samples)
    assert cost(found, means) <= max(may(settings, means), fewest) * (1 + 1e-9)


@given(SETTINGS, MEANS)
def test_looks_are_left_out_first_and_then_the_probe_of_newborns(settings: GrowthSettings, means: Means) -> None:
    found, fewest = portions(settings, means), min(FEWEST, settings.fitness.samples)
    one = means.prices.probe * fewest
    beside = found.mature + found.looks
    if found.looks < means.looks:
        assert found.samples == fewest
        assert one * (means.probes + beside + 1) > may(settings, means) * (1 - 1e-9)
    if not found.mature:
        assert not found.looks
        assert not found.distil_steps + found.replay_steps
        assert one * (means.probes + 1) > may(settings, means) * (1 - 1e-9)


@given(st.integers(0, 20), st.integers(1, 20))
def test_as_many_looks_are_made_as_may_be_and_evenly(looks: int, wished: int) -> None:
    portioned = Portions(samples=2, distil_steps=0, replay_steps=0, looks=looks)
    made = [place for place in range(wished) if portioned.looks_at(place, wished)]
    assert len(made) == min(looks, wished)
    gaps = {after - before for before, after in pairwise(made)}
    assert not gaps or max(gaps) - min(gaps) <= 1


@given(SETTINGS, MEANS)
def test_with_plenty_everything_is_as_wished(settings: GrowthSettings, means: Means) -> None:
    rich = Means(1e24, 0.0, means.prices, means.batch, means.probes, means.looks)
    found = portions(settings, rich)
    assert found == Portions(
        samples=settings.fitness.samples,
        distil_steps=settings.prune.distil_steps,
        replay_steps=settings.replay.steps,
        looks=means.looks,
        mature=True,
    )


def test_slow_growth_gets_less() -> None:
    def at(pace: float | None) -> float:
        means = Means(5e8, 0.0, Prices(1e4, 1e4, 1.0), 32, 4, pace=pace)
        return cost(portions(GrowthSettings(), means), means)

    assert at(4.0) == at(SLOWEST) < at(2.0) < at(None) < at(1.0) == at(0.5)
