"""A procedure that alternates segments and edits: one training, killed anywhere or not."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from evodevo.errors import UsageError
from evodevo.experiments import trainer as bench
from evodevo.experiments.procedures import PROCEDURES, TrainedBy
from evodevo.experiments.racing.account import SearchAccount
from evodevo.experiments.trained import Trained
from evodevo.experiments.trainer import Trainer, _shape
from evodevo.growth.training.replay import ReplayedBatches, SampleReplay, with_replay
from evodevo.h_model.model import HModel
from evodevo.networks.saved import load_network
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.storage.blobs import FolderPool
from evodevo.testing.small_networks import h_model, problem
from fixtures.evaluations import Told, assert_equal, evaluate, shares_of, weights

STEPS = 12
TRAINING: dict[str, Any] = {"budget": {"steps": STEPS}, "checkpoint_every": 2}


def in_segments(bench: Trainer, options: Mapping[str, Any]) -> Trained:
    """Segments, without any change between them."""
    network = bench.build()
    for border in options.get("borders", ()):
        assert bench.train(network, until=border).state == "paused"
    for share in options.get("shares", ()):
        assert bench.train(network, until_share=share).state == "paused"
    return Trained(network, bench.train(network), extra={"steps after": bench.steps})


def growing(bench: Trainer, options: Mapping[str, Any]) -> Trained:
    """A layer comes after 4 steps, another one at 7, which is when the first one goes; each time samples are replayed.

    What is decided depends on a measurement, and the rate of what is new on the segment.
    """
    network = bench.build()
    assert isinstance(network, HModel)
    state = bench.state.setdefault("replay", {})
    batches = ReplayedBatches(
        bench.task, SampleReplay(24, seed=bench.seed, state=state), seed=bench.seed, size=8, steps=2
    )

    def go_on(until: int | None, factors: Mapping[str, float] | None = None) -> Any:
        return bench.train(network, batch_at=batches, loss_function=with_replay(0.5), until=until, factors=factors)

    recalled = [bench.recalls]
    go_on(4)
    loss = bench.once("first", lambda: bench.measure(network, "validation", samples=20).loss)
    change = network.add_node(TransformerLayer(heads=2), enabled=True, seed=int(loss * 1e6))
    bench.carry(change.origins)
    first = change.place
    bench.spend("looking", 1e6)
    batches.edited(4)
    recalled.append(bench.recalls)
    go_on(7, {f"core.layers.{first}": 0.1})
    change = network.add_node(TransformerLayer(heads=4), enabled=True, seed=int(loss * 1e6) + 1)
    bench.carry(change.origins)
    second = change.place
    bench.carry(network.remove_node(first).origins)
    batches.edited(7)
    recalled.append(bench.recalls)
    result = go_on(None, {f"core.layers.{min(first, second)}": 0.5})
    return Trained(network, result, extra={"loss": loss, "recalled": recalled})


def telling(bench: Trainer, options: Mapping[str, Any]) -> Trained:
    """Work beside the training counts against its budget, and is told of."""
    network = bench.build()
    bench.train(network, until_share=0.5)
    flops = bench.once("work", lambda: 2 * bench.flops_per_step)
    bench.spend("work", flops)
    bench.record_event("testing", "half", {"steps": bench.steps}, shown=1)
    result = bench.train(network)
    bench.record_event("testing", "end", {})
    bench.flush()
    return Trained(network, result)


PROCEDURES.add("testing.telling", TrainedBy(telling))

PROCEDURES.add("testing.in_segments", TrainedBy(in_segments))
PROCEDURES.add("testing.growing", TrainedBy(growing))


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each time that a trainer counted the FLOPs of a step. Nobody looks at the trained network."""
    found: list[int] = []
    really = bench.look_at_step

    def counting(*given: Any) -> Any:
        found.append(1)
        return really(*given)

    monkeypatch.setattr(bench, "look_at_step", counting)
    monkeypatch.setattr("evodevo.experiments.evaluate.look_inside", lambda *_: {})
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "select"),
    [
        ({"borders": [1, 5, 6]}, {"metric": "accuracy", "patience": 2, "min_share": 0.5}),
        ({"shares": [0.1, 0.55]}, {"metric": "loss"}),
    ],
)
def test_segments_without_edits_are_one_stage(
    tmp_path: Path, options: dict[str, Any], select: dict[str, Any], counted: list[int]
) -> None:
    given = problem({"training": TRAINING, "select": select, "curve_points": 6}, tmp_path)
    whole = evaluate(given, h_model())
    counted.clear()
    parts = evaluate(given, h_model(procedure="testing.in_segments", options=options))
    assert len(counted) == 1, "the network has not changed"
    assert parts.scores == whole.scores
    assert weights(tmp_path, parts) == weights(tmp_path, whole)
    for name in ("validation_loss", "validation_error", "flops", "train_loss"):
        assert parts.series[name] == whole.series[name], name
    for name in ("steps", "samples", "training_flops", "epochs"):
        assert parts.extra[name] == whole.extra[name], name
    stages = [{**one, "stage": 0} for one in parts.extra["selection"]]
    assert stages == whole.extra["selection"]


@pytest.mark.slow
def test_segments_with_edits_survive_being_killed_anywhere(tmp_path: Path, counted: list[int]) -> None:
    given, told = problem({"training": TRAINING, "curve_points": 6}, tmp_path), Told()
    arm = h_model(procedure="testing.growing")
    whole = evaluate(given, arm, report=told.append)
    found = told.checkpoints
    assert len(found) == STEPS // 2
    assert len(counted) == 3, "once for each network that was trained"
    assert whole.extra["recalled"] == [False, False, False]
    assert whole.extra["steps"] == STEPS
    network, _ = load_network(FolderPool(tmp_path), whole.blobs["weights"])
    assert isinstance(network, HModel)
    assert [layer.heads for layer in network.structure.hidden if isinstance(layer, TransformerLayer)] == [2, 2, 4]
    assert any(value for _, value in whole.series["loss/replay"])
    # Steps of 2, of 3 (or 1, and what was looked at) and again of 3 layers, each by its own count.
    marks = dict(whole.series["flops"])
    assert marks[12.0] == pytest.approx(whole.extra["training_flops"])
    assert marks[6.0] - marks[4.0] - 1e6 > marks[4.0] - marks[2.0]
    for number in (1, 2, 4):  # after 4, 6 and 10 steps: at the border of a segment, and within the others
        resumed = evaluate(given, arm, resume=found[number])
        assert_equal(resumed, whole, "validation_loss", "flops", "loss/replay", "train_loss", "training_flops")
        assert resumed.extra["recalled"] == [True, number >= 2, number >= 3]


@pytest.mark.slow
def test_time_between_segments_counts_against_the_budget_but_is_no_training(tmp_path: Path) -> None:
    seconds: dict[str, float] = {}

    def sleeping(bench: Trainer, options: Mapping[str, Any]) -> Trained:
        network = bench.build()
        before = bench.train(network, until=STEPS - 1).seconds
        trained = bench.seconds
        time.sleep(0.2)
        result = bench.train(network)
        seconds.update(used=result.seconds - before, trained=bench.seconds - trained, whole=bench.used_seconds)
        assert bench.used_seconds == result.seconds
        return Trained(network, result)

    PROCEDURES.add("testing.sleeping", TrainedBy(sleeping))
    evaluate(problem({"training": TRAINING}, tmp_path), h_model(procedure="testing.sleeping"))
    assert seconds["used"] - seconds["trained"] >= 0.2


@pytest.mark.slow
def test_work_between_segments_counts_against_a_budget_in_flops(tmp_path: Path) -> None:
    a_step = evaluate(problem({"training": {"budget": {"steps": 1}}}), h_model()).extra["training_flops"]
    training = {"budget": {"steps": None, "flops": 10 * a_step}, "checkpoint_every": 3}
    given, told = problem({"training": training}, tmp_path), Told()
    arm = h_model(procedure="testing.telling")
    whole = evaluate(given, arm, report=told.append)
    assert whole.extra["steps"] == 8
    assert whole.extra["training_flops"] == pytest.approx(10 * a_step)
    assert [event["name"] for event in told.all_of("event")] == ["half", "end"]
    # A resume tells it again, and trains the same.
    for checkpoint in (told.checkpoints[0], told.checkpoints[-1]):
        again = Told()
        assert_equal(evaluate(given, arm, resume=checkpoint, report=again.append), whole)
        assert again.all_of("event") == told.all_of("event")


@pytest.mark.slow
def test_of_a_budget_in_seconds_nothing_is_told_before_a_checkpoint_holds_it(tmp_path: Path) -> None:
    training = {"budget": {"steps": 8, "seconds": 600.0}, "checkpoint_every": 100}
    given, told, again = problem({"training": training}, tmp_path), Told(), Told()
    evaluate(given, h_model(procedure="testing.telling"), report=told.append)
    kinds = [kind for message in told for kind in ("event", "checkpoint") if kind in message]
    assert kinds == ["checkpoint", "event", "event"]
    (kept,) = told.checkpoints
    evaluate(given, h_model(procedure="testing.telling"), resume=kept, report=again.append)
    assert again.all_of("event") == told.all_of("event")


def in_stages(bench: Trainer, options: Mapping[str, Any]) -> Trained:
    """Short trainings of other networks, judged and then dropped; the last one has what is left of the budget."""
    account = SearchAccount(bench, share=0.5)
    for number in range(2):
        bench.train(bench.build(), training=account.limited(steps=3), watched=False)
        bench.once(f"judged {number}", lambda: {"value": 0.0, "seconds": options.get("judging", 0.0)})
        bench.spend(f"judged {number}", bench.once(f"a step {number}", lambda: bench.flops_per_step))
    network, rest = bench.build(), account.rest()
    bench.train(network, training=rest, until_share=0.5)
    return Trained(network, bench.train(network, training=rest))


PROCEDURES.add("testing.in_stages", TrainedBy(in_stages))


@pytest.mark.parametrize("unit", ["steps", "tokens", "flops", "seconds"])
def test_the_share_of_all_stages_is_that_of_the_whole_budget(tmp_path: Path, unit: str) -> None:
    a_step = evaluate(problem({"training": {"budget": {"steps": 1}}}), h_model()).extra["training_flops"]
    budgets = {"steps": 20, "tokens": 20 * 8 + 3, "flops": 22 * a_step, "seconds": 1.0}
    training = {"budget": {"steps": None, unit: budgets[unit]}, "checkpoint_every": 2, "report_every": 1}
    given, told = problem({"training": training, "curve_points": 1}, tmp_path), Told()
    arm = h_model(procedure="testing.in_stages", options={"judging": 0.2 if unit == "seconds" else 0.0})
    evaluate(given, arm, report=told.append)
    shares = shares_of(told)
    if unit == "seconds":
        assert shares[3] > 0.2, "a judgement counts"
        assert shares[6] > 0.4, "so do both"
        return
    wanted = {
        "steps": [step / 20 for step in range(1, 21)],
        "tokens": [step / 20 for step in range(1, 21)],
        "flops": [step / 22 for step in (1, 2, 3, 5, 6, 7, *range(9, 23))],
    }
    assert shares == pytest.approx(wanted[unit])
    places = [place for place, message in enumerate(told) if "checkpoint" in message]
    for place in places[:: len(places) // 4]:
        before = [message["share"] for message in told[:place] if "share" in message]
        again = Told()
        evaluate(given, arm, resume=told[place]["checkpoint"], report=again.append)
        assert shares_of(again, begin=before[-1]) == pytest.approx(shares[len(before) :] or [1.0])


@pytest.mark.parametrize(
    ("procedure", "every", "shares"),
    [
        ("testing.in_stages", 5, [11 / STEPS, 1.0]),
        ("testing.in_stages", 3, [3 / STEPS, 6 / STEPS, 9 / STEPS, 1.0]),  # the last step was told
        ("testing.in_segments", 5, [5 / STEPS, 10 / STEPS]),  # one stage, as always
        ("train", 5, [5 / STEPS, 10 / STEPS]),
    ],
)
def test_the_end_of_several_stages_is_told_once(
    procedure: str, every: int, shares: list[float], tmp_path: Path
) -> None:
    told = Told()
    training = {"budget": {"steps": STEPS}, "report_every": every}
    evaluate(problem({"training": training}, tmp_path), h_model(procedure=procedure), report=told.append)
    assert told.all_of("share") == shares


def test_a_name_that_kept_another_shape_is_an_error(tmp_path: Path) -> None:
    def careless(bench: Trainer, options: Mapping[str, Any]) -> Trained:
        network = bench.build()
        bench.train(network, until=3)
        assert isinstance(network, HModel)
        network.add_node(TransformerLayer(heads=2), enabled=True)
        with pytest.raises(UsageError, match="does not fit its parameter"):
            bench.train(network)
        raise UsageError("as expected")

    PROCEDURES.add("testing.careless", TrainedBy(careless))
    given = problem({"training": TRAINING}, tmp_path)
    with pytest.raises(UsageError, match="as expected"):
        evaluate(given, h_model(procedure="testing.careless"))


def test_the_shape_of_a_parameter_is_known_from_what_any_optimiser_keeps() -> None:
    for kind, more in (("SGD", {"momentum": 0.9}), ("Adam", {}), ("AdamW", {}), ("RMSprop", {}), ("Adagrad", {})):
        parameters = [torch.nn.Parameter(torch.ones(shape)) for shape in ((3, 2), (4,), ())]
        optimizer = getattr(torch.optim, kind)(parameters, lr=0.1, **more)
        torch.stack([one.sum() for one in parameters]).sum().backward()
        optimizer.step()
        assert [_shape(optimizer.state[one]) for one in parameters] == [one.shape for one in parameters], kind


def test_progress_has_the_last_error_on_validation_samples(tmp_path: Path) -> None:
    reports: list[Mapping[str, Any]] = []
    given = problem({"training": {"budget": {"steps": STEPS}, "report_every": 1}, "curve_points": 3}, tmp_path)
    whole = evaluate(given, h_model(), report=reports.append)
    course = dict(whole.series["validation_error"])
    steps = {facts["step"]: facts.get("validation_error") for facts in reports if "step" in facts}
    measured = [step for step in course if 0 < step < STEPS]
    assert len(measured) >= 2
    for step, told in steps.items():
        before = [place for place in course if place <= step]
        assert told == (course[max(before)] if before else None), step
