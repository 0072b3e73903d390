"""Growth costs what it may, and probes come first (issue 5.5)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evodevo.growth.thrift import FEWEST, SLOWEST, STEP, Means, portions
from evodevo.settings import validate
from evodevo.spaces.zoo_growth import GrowthSettings

MEANS = st.builds(
    Means,
    training=st.floats(0, 1e15),
    spent=st.floats(0, 1e14),
    forward=st.floats(1e3, 1e9),
    batch=st.integers(1, 512),
    probes=st.integers(1, 20),
    pace=st.floats(0, 20),
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


def cost(found: object, means: Means) -> float:
    samples, distil, replay = (getattr(found, name) for name in ("samples", "distil_steps", "replay_steps"))
    return float(means.forward * (samples * means.probes + STEP * means.batch * (distil + replay)))


@given(SETTINGS, MEANS)
def test_no_more_than_allowed_is_spent_and_no_more_than_wished(settings: GrowthSettings, means: Means) -> None:
    found = portions(settings, means)
    assert found.samples <= settings.fitness.samples
    assert found.distil_steps <= settings.prune.distil_steps
    assert found.replay_steps <= settings.replay.steps
    left = settings.events.overhead * means.training / min(max(means.pace, 1.0), SLOWEST) - means.spent
    fewest = means.forward * means.probes * min(FEWEST, settings.fitness.samples)
    assert cost(found, means) <= max(left, fewest) * (1 + 1e-9)


@given(SETTINGS, MEANS)
def test_with_plenty_everything_is_as_wished(settings: GrowthSettings, means: Means) -> None:
    rich = Means(1e22, 0.0, means.forward, means.batch, means.probes)
    found = portions(settings, rich)
    assert found.samples == settings.fitness.samples
    assert found.distil_steps == settings.prune.distil_steps
    assert found.replay_steps == settings.replay.steps


def test_slow_growth_gets_less() -> None:
    def at(pace: float) -> float:
        means = Means(5e8, 0.0, 1e4, 32, 4, pace)
        return cost(portions(GrowthSettings(), means), means)

    assert at(4.0) == at(SLOWEST) < at(1.5) < at(1.0) == at(0.5)
