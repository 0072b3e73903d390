"""Backbones that race for what a growth begins with."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from evodevo.errors import DataError, GenomeError, UsageError
from evodevo.experiments.procedures import PROCEDURES
from evodevo.experiments.racing.race import TrainingRace
from evodevo.experiments.trainer import Trainer
from evodevo.growth.backbone import drawing
from evodevo.growth.backbone.arms import GrowingBackbone
from evodevo.growth.backbone.records import EVENTS, RACE, BackboneEvent, BackboneRaceRecord
from evodevo.growth.backbone.spec import BackboneRaceSettings, TryingSettings, starts_of
from evodevo.growth.backbone.stack import StackEdit
from evodevo.growth.replay_run import replay
from evodevo.growth.spec import ForkSettings
from evodevo.networks.saved import load_network
from evodevo.runs.resolve import resolve
from evodevo.settings import validate
from evodevo.storage.blobs import FolderPool
from evodevo.tasks.held.stretches import HeldStretchesTask
from fixtures.evaluations import lines_of, shares_of
from growth.backbone.small_growths import BATCH, evaluate, problem, small_run, trial

pytestmark = pytest.mark.slow  # whole trainings

FLOPS = 2e9
RECURRENT, DEEPER = "51111 91111", "51111 91111 52121 92121"
START = GrowingBackbone(
    depth=2,
    width=16,
    head_size=8,
    classes=("SA-1", "GMemless", "Rec-1"),
    tokens=8,
    edits=(),
    choices=(StackEdit(),),
    events=TryingSettings(count=1, first=0.4, last=0.4),
    forks=ForkSettings(share=0.2, orders=0, paired=True, average=0.5, samples=12, least=3),
    starts=(RECURRENT, DEEPER),
    race=BackboneRaceSettings(share=0.3, samples=8, least=4),
)


def planned() -> Any:
    return START.structures()[0]


def best(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let a race judge this network as the best, whatever it measures."""
    judged = TrainingRace._judged

    def told(self: Any, told_as: str, arm: Any, network: Any) -> float | None:
        judged(self, told_as, arm, network)
        return float(arm.name != name) + 1.0

    monkeypatch.setattr(TrainingRace, "_judged", told)


def race_of(outcome: Any) -> BackboneRaceRecord:
    return validate(BackboneRaceRecord, outcome.extra[RACE], what="a race")


@pytest.mark.parametrize(
    ("name", "livs"),
    [
        ("transformer++", ("SA-1", "GMemless")),
        (RECURRENT, ("Rec-1", "GMemless")),
        (DEEPER, ("Rec-1", "GMemless", "Rec-1", "GMemless")),
    ],
)
def test_the_winner_goes_on_with_its_weights(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, livs: tuple[str, ...]
) -> None:
    best(monkeypatch, name)
    outcome = evaluate(problem(text, FLOPS, tmp_path, arms=(trial(START),)), trial(START))
    race = race_of(outcome)
    assert (race.chosen, race.livs, race.instead) == (name, livs, "")
    assert race.heats[0]["arms"] == ["transformer++", RECURRENT, DEEPER]
    assert race.told.endswith(f"{', '.join(livs)} goes on.")
    assert outcome.extra["stages"][0]["livs"] == len(livs)
    network, _ = load_network(FolderPool(tmp_path), outcome.blobs["weights"])
    classes = [plan.row.name for plan in network.plans]
    assert classes == list(livs) * (2 if outcome.extra[EVENTS][0]["kept"] else 1)


def test_the_race_and_what_follows_are_one_budget_and_no_batch_comes_twice(
    text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    best(monkeypatch, RECURRENT)
    read: list[tuple[int, int]] = []
    train = Trainer.train

    def told(trainer: Trainer, network: Any, **how: Any) -> Any:
        batch_at = how["batch_at"]
        how["batch_at"] = lambda step: (read.append((id(network), step)), batch_at(step))[1]
        return train(trainer, network, **how)

    monkeypatch.setattr(Trainer, "train", told)
    outcome = evaluate(problem(text, FLOPS, arms=(trial(START),)), trial(START))
    race, stages = race_of(outcome), outcome.extra["stages"]
    spent = outcome.extra["training_flops"]
    assert abs(spent - FLOPS) < 1.5 * max(stage["flops"] for stage in stages)
    assert 0.1 < race.share <= START.race.share
    # The cost model by which rungs are planned is that of the counted steps, about.
    last = race.heats[0]["rungs"][-1]
    assert all(entry["steps"] >= START.race.least for entry in last.values())
    costs = Counter({name: entry["steps"] for name, entry in race.heats[0]["rungs"][0].items()})
    assert costs["transformer++"] > costs[DEEPER], "in a rung all cost the same, and a cheap one makes more steps"


def test_no_batch_of_a_race_comes_again(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks of a race read the same batches; what follows reads those behind them."""
    best(monkeypatch, DEEPER)
    numbers: list[int] = []
    batch = HeldStretchesTask.batch

    def read(task: HeldStretchesTask, split: Any, seed: int, step: int, size: int) -> Any:
        if split == "train" and size == BATCH:
            numbers.append(step)
        return batch(task, split, seed, step, size)

    monkeypatch.setattr(HeldStretchesTask, "batch", read)
    still = START.model_copy(update={"choices": (), "events": TryingSettings()})
    race = race_of(evaluate(problem(text, FLOPS, arms=(trial(still),)), trial(still)))
    own = race.heats[0]["rungs"]
    steps = [max(entry["steps"] for entry in rung.values()) for rung in own]
    assert race.steps >= max(steps) > 0
    seen = Counter(numbers)
    first = max(number for number, times in seen.items() if times > 1) + 1
    after = [number for number in numbers if number >= first]
    assert after == list(range(first, first + len(after))), "each once, in order"
    assert len(after) > race.steps
    assert first <= race.steps


def test_marks_of_the_picture_are_behind_the_steps_of_the_race(novel: Path, tmp_path: Path) -> None:
    run = small_run(START, novel, tmp_path / "store", FLOPS)
    with run.archive:
        grown, _ = run.individuals()
        (event,) = grown.fact[EVENTS]
        mark = drawing._mark(validate(BackboneEvent, event, what="an event"), grown.fact[RACE]["steps"])
        assert mark.x == grown.fact[RACE]["steps"] + event["step"] > event["step"]
        marks: list[Any] = []
        drawn = drawing.growth_curve
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                drawing, "growth_curve", lambda lines, own, *axes: (marks.extend(own), drawn(lines, own, *axes))[1]
            )
            drawing.growth_drawing(grown)
        assert marks == [mark]


def test_an_interrupted_training_ends_as_one_that_was_not(text: Path, tmp_path: Path) -> None:
    of = problem(text, FLOPS, tmp_path, arms=(trial(START),), checkpoint_every=5)
    told: list[dict[str, Any]] = []
    whole = evaluate(of, trial(START), report=told.append)
    checkpoints = [message["checkpoint"] for message in told if "checkpoint" in message]
    assert len(checkpoints) > 5
    shares, lines = shares_of(told), lines_of(told)
    race = race_of(whole)
    rungs = [line for line in lines if re.match(r"race, rung \d of \d: .+ leads \d", line)]
    assert len(rungs) == len(race.heats[0]["rungs"])
    assert race.told in lines
    first = next(place for place, message in enumerate(told) if "growth" in message)
    early = [message["share"] for message in told[:first] if "share" in message]
    assert early[-1] < race.share < shares[-1], "the first line comes within the race"
    for checkpoint in checkpoints[:: max(1, len(checkpoints) // 5)]:
        resumed = evaluate(of, trial(START), resume=checkpoint)
        for fact in (RACE, "stages", EVENTS, "forks", "training_flops"):
            assert resumed.extra[fact] == whole.extra[fact], fact
        assert resumed.blobs["weights"] == whole.blobs["weights"]
        assert resumed.scores == whole.scores


def test_where_there_is_no_room_the_planned_one_goes_on_and_the_run_says_what_would_do(text: Path) -> None:
    few = START.model_copy(update={"race": START.race.model_copy(update={"least": 200})})
    outcome = evaluate(problem(text, FLOPS, arms=(trial(few),)), trial(few))
    race = race_of(outcome)
    assert race.chosen == "transformer++"
    told, _, amount = race.told.partition("; give ")
    assert told == "No race: 0.3 of the budget has no room for two of the networks with rungs of at least 200 steps"
    assert race.share == race.steps == 0
    assert outcome.extra["stages"][0]["livs"] == 2
    enough = 1.01 * float(amount.split()[0])
    assert enough > FLOPS
    assert race_of(evaluate(problem(text, enough, arms=(trial(few),)), trial(few))).instead == ""


def test_where_all_diverge_the_planned_one_begins_anew(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged = TrainingRace._judged
    begun: list[dict[str, Any]] = []
    train = Trainer.train

    def told(self: Any, told_as: str, arm: Any, network: Any) -> None:
        judged(self, told_as, arm, network)

    def watched(trainer: Trainer, network: Any, **how: Any) -> Any:
        if how.get("watched", True):
            begun.append({name: values.clone() for name, values in network.state_dict().items()})
        return train(trainer, network, **how)

    monkeypatch.setattr(TrainingRace, "_judged", told)
    monkeypatch.setattr(Trainer, "train", watched)
    still = START.model_copy(update={"choices": ()})
    race = race_of(evaluate(problem(text, FLOPS, arms=(trial(still),)), trial(still)))
    assert race.chosen == "transformer++"
    assert race.told == "No race: no network of the race could be trained."
    raced, begun = begun[0], []
    alone = still.model_copy(update={"starts": ()})
    evaluate(problem(text, FLOPS, arms=(trial(alone),)), trial(alone))
    assert all(torch.equal(values, raced[name]) for name, values in begun[0].items()), "weights of no rung"


def test_what_is_too_dear_is_left_out(text: Path) -> None:
    wide = START.model_copy(update={"starts": (RECURRENT, "transformer++@64")})
    race = race_of(evaluate(problem(text, FLOPS, arms=(trial(wide),)), trial(wide)))
    assert len(race.heats[0]["left_out"]) == 1
    assert "A race of 2 backbones (1 too dear for it) took" in race.told


def test_a_network_is_there_once_however_it_is_written() -> None:
    starts = starts_of(planned(), ("11111 91111", "transformer++@2", RECURRENT, "52111 91111"[:0] + RECURRENT))
    assert [start.genome for start in starts] == ["transformer++", RECURRENT]
    assert [start.space.depth for start in starts_of(planned(), (DEEPER,))] == [2, 4]


@pytest.mark.parametrize("start", ["01111 91111", "transformer--", "11111 91111 13111", "transformer++@3"])
def test_what_is_no_backbone_is_refused_before_anything_is_trained(text: Path, start: str) -> None:
    arm = trial(START).model_copy(update={"options": {**trial(START).options, "starts": [start]}})
    with pytest.raises(GenomeError):
        problem(text, FLOPS, arms=(arm,))


def test_a_race_takes_a_share() -> None:
    with pytest.raises(UsageError, match="share"):
        resolve("backbone.growing", size="quick", driver="grow", overrides={"backbone": {"race": {"share": 0}}})


def test_a_run_of_a_race_is_shown_loaded_and_replayed(novel: Path, tmp_path: Path) -> None:
    run = small_run(START, novel, tmp_path / "store", FLOPS)
    with run.archive:
        grown, _ = run.individuals()
        row = PROCEDURES.get("grow_backbone")
        assert grown.load().structure == row.network(grown).structure
        assert row.words(grown)[0].startswith("A race of 3 backbones took")
        page = run.report(tmp_path / "page.html").read_text()
        assert "race of grown" in page
        assert f"{RECURRENT} (Rec-1, GMemless)" in page
        again = replay(grown)
        assert again.is_compared
        assert again.start == tuple(grown.fact[RACE]["livs"])
        grown.fact[RACE]["chosen"] = DEEPER if grown.fact[RACE]["chosen"] != DEEPER else RECURRENT
        with pytest.raises(DataError, match="begins with another network"):
            replay(grown)


def test_with_a_budget_in_seconds_race_and_forks_are_charged_in_them(text: Path) -> None:
    seconds = 4.0
    outcome = evaluate(problem(text, FLOPS, arms=(trial(START),), budget={"seconds": seconds}), trial(START))
    race, forks = race_of(outcome), outcome.extra["forks"]
    assert forks["unit"] == "seconds"
    assert race.instead == ""
    assert 0 < race.share < 2 * START.race.share, "the clock of a busy machine is no law"
    assert all(row["seconds"] > 0 for row in forks["tried"] if row["spent"])
    network = outcome.extra["stages"][0]
    assert network["livs"] == len(race.livs)
