"""Forks where the budget is in seconds: both sides have equal time, and all of it counts.

The clock is one of the tests' own, which a forward pass moves by as much as the network has modules, and by one more
with maps of positions: nothing depends on the machine.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import torch

from evodevo.errors import UsageError
from evodevo.experiments.evaluate import evaluate_network
from evodevo.experiments.trainer import Trainer
from evodevo.experiments.trials import Trial
from evodevo.growth.forks import running, sides
from evodevo.growth.forks.plan import ForkSamples, plan_forks
from evodevo.growth.forks.unit import unit_of
from evodevo.growth.procedures.settings import check_caps
from evodevo.growth.report.forks import fork_table, fork_words
from evodevo.growth.spec import ForkSettings
from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.spec import ZooStructure
from evodevo.settings import merge
from evodevo.testing.small_networks import problem, settings, small_zoo
from evodevo.training.settings import Budget

torch.set_num_threads(1)

STRUCTURE = small_zoo(2)
SECONDS = 60.0
A_SAMPLE = 0.005
"""Seconds of a forward pass on one sample for each part; a step has three."""
GROWTH: dict[str, Any] = {
    "strategist": "heuristic",
    "allow": ["map_positions"],
    "around": {"tries": 1},
    "forks": {"share": 0.3, "samples": 12, "least": 2, "orders": 1},
    "events": {"count": 1, "first": 0.2, "last": 0.2, "actions": 1, "overhead": 10.0},
    "fitness": {"samples": 12},
}


def parts_of(network: Any) -> int:
    """Parts that take time."""
    structure: ZooStructure = network.structure
    return len(structure.live) + (structure.pool == "positions")


class Killed(BaseException):
    """As kill -9."""


class Clock:
    """Seconds that passes move."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    own, passage = Clock(), ModuleZoo.passage

    def passed(network: ModuleZoo, batch: dict[str, torch.Tensor]) -> Any:
        samples = len(next(iter(batch.values())))
        passes = 3 if network.training else 1
        own.now += A_SAMPLE * samples * passes * parts_of(network)
        return passage(network, batch)

    monkeypatch.setattr(ModuleZoo, "passage", passed)
    monkeypatch.setattr(time, "monotonic", own)
    monkeypatch.setattr(time, "perf_counter", own)
    return own


def arm(**changes: Any) -> Trial:
    network = ModuleZooNetwork(structure=STRUCTURE)
    return Trial(name="forked", network=network, learning_rate=1e-2, procedure="grow", options=merge(GROWTH, changes))


def grown(one: Trial, pool: Path | None = None, *, resume: str | None = None, report: Any = None) -> dict[str, Any]:
    budget = {"steps": None, "seconds": SECONDS}
    given = problem({"training": {"budget": budget, "checkpoint_every": 3}}, pool, arms=(one,))
    outcome = given.read(evaluate_network(given.payload(one, 5, resume), report or (lambda message: None)))
    assert outcome.reason is None, outcome.detail
    facts: dict[str, Any] = outcome.extra["growth"]
    return facts


class Seen:
    """Sides as they were trained, and what the trainer came to."""

    def __init__(self, patch: pytest.MonkeyPatch, clock: Clock) -> None:
        self.sides: list[dict[str, float]] = []
        self.trainer: Trainer | None = None
        self.began: list[float] = []
        train_side, train_segment = running.train_side, Trainer.train

        def trained(bench: Trainer, side: sides.Side, *given: Any, **how: Any) -> Any:
            begin = clock.now
            result = train_side(bench, side, *given, **how)
            seen = {"took": clock.now - begin, "step": side.seconds, "begin": begin}
            self.sides.append({**seen, "parts": parts_of(side.zoo.network)})
            return result

        def segment(trainer: Trainer, *given: Any, **how: Any) -> Any:
            self.trainer = trainer
            self.began.append(clock.now)
            return train_segment(trainer, *given, **how)

        patch.setattr(running, "train_side", trained)
        patch.setattr(Trainer, "train", segment)


def test_both_sides_have_equal_time_and_all_of_it_counts(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Seen(monkeypatch, clock)
    facts = grown(arm())
    (fork,) = facts["forks"]["tried"]
    edited, without, other = seen.sides
    assert edited["parts"] == without["parts"] + 1 == 3
    assert without["step"] == pytest.approx(3 * 8 * 2 * A_SAMPLE), "a batch of 8"
    assert edited["step"] == pytest.approx(3 * 8 * 3 * A_SAMPLE)
    assert edited["took"] == pytest.approx(without["took"], abs=edited["step"])
    assert fork["steps"][1] > fork["steps"][0] > 2, "the cheaper network makes more steps"
    assert other["took"] == pytest.approx(without["took"])
    kept = edited if fork["kept"] else without
    assert fork["winner_seconds"] == pytest.approx(kept["took"])
    assert fork["seconds"] > edited["took"] + without["took"] + other["took"], "and the judgement"
    forks = facts["forks"]
    assert forks["unit"] == "seconds"
    assert forks["share"] == pytest.approx(fork["seconds"] / SECONDS)
    # Timing the sides is not planned: four steps each.
    timed = 4 * (edited["step"] + without["step"])
    assert 0.5 * GROWTH["forks"]["share"] < forks["share"] <= GROWTH["forks"]["share"] + timed / SECONDS
    trainer = seen.trainer
    assert trainer is not None
    used = clock.now - seen.began[0]
    assert trainer.used_seconds == pytest.approx(SECONDS, abs=edited["step"]), "the budget, and not a step more"
    assert trainer.used_seconds <= used
    assert facts["overhead"]["seconds"] < fork["seconds"], "what a fork takes is no overhead of events"
    assert fork["winner_flops"] > 0 < fork["spent"], "and FLOPs are counted as ever"


def test_killed_after_the_fork_it_goes_on_with_what_the_fork_decided(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    messages: list[dict[str, Any]] = []

    def report(message: dict[str, Any]) -> None:
        messages.append(message)
        if message.get("event", {}).get("name") == "event 1":
            raise Killed

    with pytest.raises(Killed):
        grown(arm(), tmp_path, report=report)
    (told,) = [one["event"]["payload"]["event"] for one in messages if one.get("event", {}).get("name") == "event 1"]
    checkpoint = [message["checkpoint"] for message in messages if message.get("checkpoint")][-1]
    seen = Seen(monkeypatch, clock)
    facts = grown(arm(), tmp_path, resume=checkpoint)
    assert not seen.sides, "the fork is not repeated"
    (fork,) = facts["forks"]["tried"]
    assert {name: fork[name] for name in told["fork"]} == told["fork"]
    assert seen.trainer is not None
    assert seen.trainer.used_seconds == pytest.approx(SECONDS, abs=3 * 8 * 3 * A_SAMPLE)


def test_the_plan_is_that_of_the_same_numbers_in_flops() -> None:
    given, samples = ForkSettings(share=0.2, least=10), ForkSamples(40, 40)
    one = plan_forks(given, 600.0, 3, 0.25, 0.01, samples)
    other = plan_forks(given, 600.0, 3, 0.25, 0.01, samples, "seconds")
    assert one.most > 1
    assert one.model_copy(update={"unit": "seconds"}) == other
    none = plan_forks(given, 6.0, 3, 0.25, 0.01, samples, "seconds")
    assert none.most == 0
    least = float(none.instead.split("give ")[1].split(" seconds")[0])
    assert none.instead.startswith("0.2 of 6 seconds has no room")
    assert plan_forks(given, 1.01 * least, 3, 0.25, 0.01, samples, "seconds").most == 1
    assert plan_forks(given, 0.99 * least, 3, 0.25, 0.01, samples, "seconds").most == 0


def test_budgets_have_one_unit_or_none() -> None:
    assert unit_of(Budget(flops=1e9)) == "flops"
    assert unit_of(Budget(seconds=60)) == "seconds"
    for mixed in (
        {"flops": 1e9, "seconds": 60},
        {"steps": 5},
        {"seconds": 60, "steps": 5},
        {"flops": 1e9, "tokens": 5},
    ):
        assert unit_of(Budget(**mixed)) is None  # type: ignore[arg-type]
    task = problem().open_task({})
    check_caps(settings({"training": {"budget": {"steps": None, "seconds": 60}}}), arm(), task)
    with pytest.raises(UsageError, match="in FLOPs or in seconds"):
        check_caps(settings({"training": {"budget": {"steps": 60}}}), arm(), task)


def test_the_table_names_equal_time(clock: Clock) -> None:
    facts = grown(arm())
    growth: Any = type("Growth", (), {"forks": facts["forks"]})
    table = fork_table(growth.forks)
    assert table is not None
    assert "after equal time on the same batches" in table.caption
    assert f"They took {100 * facts['forks']['share']:.1f} % of the budget." in fork_words(growth.forks)[0]
