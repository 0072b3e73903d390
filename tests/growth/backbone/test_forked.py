"""Backbones whose edits a fork has to confirm: what is kept, what it costs, and the same after an interruption."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from evodevo.backbone.network import BackboneNetwork
from evodevo.errors import DataError, UsageError
from evodevo.experiments.procedures import PROCEDURES
from evodevo.experiments.trainer import Trainer
from evodevo.growth.backbone.arms import GrowingBackbone
from evodevo.growth.backbone.choosing import choose
from evodevo.growth.backbone.forking import BackboneForks, ForkedBackbone
from evodevo.growth.backbone.insert import InsertEdit
from evodevo.growth.backbone.lengthen import LengthenEdit
from evodevo.growth.backbone.log import read_log, write_log
from evodevo.growth.backbone.records import EVENTS, NOTHING_TRIED, BackboneEvent, grown_structure
from evodevo.growth.backbone.remove import RemoveEdit
from evodevo.growth.backbone.replaying import replay_backbone
from evodevo.growth.backbone.spec import GrowthPlan, TryingSettings
from evodevo.growth.backbone.stack import StackEdit
from evodevo.growth.backbone.widen import WidenEdit
from evodevo.growth.forks import decision, running
from evodevo.growth.forks.records import ForkGain, ForkRecord
from evodevo.growth.forks.running import NONE_LEFT
from evodevo.growth.replay_run import replay
from evodevo.growth.report.forks import fork_words
from evodevo.growth.spec import ForkSettings
from evodevo.networks.saved import load_network
from evodevo.networks.spec import NetworkEnvelope
from evodevo.runs.resolve import resolve
from evodevo.search.problem import Outcome
from evodevo.settings import validate
from evodevo.storage.blobs import FolderPool
from growth.backbone.small_growths import BATCH, LENGTH, evaluate, problem, small_run, trial

pytestmark = pytest.mark.slow  # whole trainings

FLOPS = 2.4e9
REC = InsertEdit(liv="Rec-1", place=1)
START = GrowingBackbone(
    starts=(),
    depth=2,
    width=16,
    head_size=8,
    classes=("SA-1", "GMemless", "Rec-1"),
    tokens=8,
    edits=(WidenEdit(at=0.3),),
    choices=(REC, StackEdit(), LengthenEdit(tokens=LENGTH)),
    events=TryingSettings(count=3, first=0.1, last=0.6),
    forks=ForkSettings(share=0.3, orders=0, paired=True, average=0.5, samples=12, least=3),
)


def decided(monkeypatch: pytest.MonkeyPatch, *keep: bool) -> None:
    """Let forks decide so, one after the other, whatever they measured; which network goes on is theirs."""
    left = list(keep)

    def told(*args: Any, **how: Any) -> ForkRecord:
        kept = left.pop(0)
        return decision.decided(*args, **how).model_copy(
            update={"kept": kept, "reason": "" if kept else "it was told so"}
        )

    monkeypatch.setattr(running, "decided", told)


def events_of(outcome: Outcome) -> list[BackboneEvent]:
    return [validate(BackboneEvent, event, what="an event") for event in outcome.extra[EVENTS]]


def test_a_fork_keeps_what_it_kept_and_nothing_else(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decided(monkeypatch, True, False, True)
    of = problem(text, FLOPS, tmp_path, arms=(trial(START),))
    outcome = evaluate(of, trial(START))
    events = events_of(outcome)
    assert [event.kept for event in events] == [True, True, False, True]
    assert [event.fork is None for event in events] == [False, True, False, False], "what is planned is made"
    assert [[edit.kind for edit in event.edits] for event in events] == [["insert"], ["widen"], ["stack"], ["lengthen"]]
    assert [(stage["livs"], stage["width"], stage["window"]) for stage in outcome.extra["stages"]] == [
        (2, 16, 8),
        (3, 16, 8),
        (3, 32, 8),
        (3, 32, 16),
    ]
    network, _ = load_network(FolderPool(tmp_path), outcome.blobs["weights"])
    assert network.structure == grown_structure(START.structures()[0], events)
    assert [event.told for event in events][1:3] == [
        "event 2: twice the width made",
        "event 3: its LIVs 2 times refused: it was told so",
    ]


@pytest.mark.parametrize("keep", [(True, False, True), (False, True, False)], ids=str)
def test_all_that_forks_compute_is_in_the_one_budget(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: tuple[bool, ...]
) -> None:
    decided(monkeypatch, *keep)
    outcome = evaluate(problem(text, FLOPS, tmp_path, arms=(trial(START),)), trial(START))
    stages, events, spent = outcome.extra["stages"], events_of(outcome), outcome.extra["training_flops"]
    assert abs(spent - FLOPS) < 1.5 * max(stage["flops"] for stage in stages)
    forks = [event.fork for event in events if event.fork is not None]
    facts = outcome.extra["forks"]
    assert facts["share"] == pytest.approx(sum(fork.spent + fork.winner_flops for fork in forks) / FLOPS)
    assert facts["share"] <= START.forks.share
    assert [row["event"] for row in facts["tried"]] == [event.number for event in events if event.fork]
    # Both sides for equal FLOPs, to a step; the winner's are a part of the training.
    costs = [stage["flops"] for stage in stages]
    for event, fork in zip((event for event in events if event.fork), forks, strict=True):
        assert min(fork.steps) > 0
        own = fork.steps[0 if event.kept else 1]
        assert any(fork.winner_flops == pytest.approx(own * cost) for cost in costs)
        assert 0 <= fork.side_flops - fork.winner_flops < max(costs) * 1.01


@pytest.mark.parametrize("keep", [(True, False, True), (False, True, False)], ids=str)
def test_the_account_is_steps_looks_and_what_forks_use_up(
    text: Path, monkeypatch: pytest.MonkeyPatch, keep: tuple[bool, ...]
) -> None:
    decided(monkeypatch, *keep)
    looks: dict[str, float] = {}
    spend = Trainer.spend

    def noted(trainer: Trainer, name: str, flops: float) -> None:
        looks.update({name: flops} if name.startswith("edits") else {})
        spend(trainer, name, flops)

    monkeypatch.setattr(Trainer, "spend", noted)
    of = problem(text, FLOPS, arms=(trial(START),))
    told: list[dict[str, Any]] = []
    outcome = evaluate(of, trial(START), report=told.append)
    stages = outcome.extra["stages"]
    ends = [*(stage["step"] for stage in stages[1:]), max(message.get("step", 0) for message in told)]
    trained = sum(stage["flops"] * (end - stage["step"]) for stage, end in zip(stages, ends, strict=True))
    forks = sum(event.fork.spent for event in events_of(outcome) if event.fork is not None)
    assert len(looks) == 4
    assert forks > 0.1 * FLOPS
    assert outcome.extra["training_flops"] == pytest.approx(trained + sum(looks.values()) + forks)


def test_a_planned_edit_that_a_fork_made_impossible_is_left_out(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decided(monkeypatch, True)
    once = TryingSettings(count=1, first=0.2, last=0.2)
    twice = {"edits": (RemoveEdit(liv="SA-1", at=0.6),), "choices": (RemoveEdit(liv="SA-1"),), "events": once}
    start = START.model_copy(update=twice)
    outcome = evaluate(problem(text, FLOPS, arms=(trial(start),)), trial(start))
    made, left_out = events_of(outcome)
    assert made.kept
    assert not left_out.edits
    assert left_out.told == "event 2: no edit: the backbone has no LIV SA-1 to remove; it has GMemless."
    assert [stage["livs"] for stage in outcome.extra["stages"]] == [2, 1]


def test_steps_go_on_where_the_winner_is(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches are not trained on twice: the winner's steps of a fork are counted, the loser's are not."""
    decided(monkeypatch, True, False, True)
    steps: list[int] = []
    of = problem(text, FLOPS, tmp_path, arms=(trial(START),))
    told: list[dict[str, Any]] = []
    outcome = evaluate(of, trial(START), report=told.append)
    events = events_of(outcome)
    steps = [message["step"] for message in told if "step" in message]
    assert steps == sorted(steps)
    for event in events:
        if event.fork is not None:
            own = event.fork.steps[0 if event.kept else 1]
            between = [step for step in steps if event.step < step <= event.step + own]
            assert not between, "the segment that follows begins behind the winner's steps"
            assert event.step + own + 1 in steps


@pytest.mark.parametrize("keep", [(True, False, True), (False, True, True)], ids=str)
def test_an_interrupted_training_ends_as_one_that_was_not(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: tuple[bool, ...]
) -> None:
    of = problem(text, FLOPS, tmp_path, arms=(trial(START),), checkpoint_every=4)
    told: list[dict[str, Any]] = []
    decided(monkeypatch, *keep)
    whole = evaluate(of, trial(START), report=told.append)
    checkpoints = [message["checkpoint"] for message in told if "checkpoint" in message]
    assert len(checkpoints) > 6
    # The forks that lie behind a checkpoint decide anew.
    steps = [4 * number for number in range(1, len(checkpoints) + 1)]
    forked = [event.step for event in events_of(whole) if event.fork is not None]
    seen = set()
    for checkpoint, step in zip(checkpoints, steps, strict=True):
        behind = sum(begin >= step for begin in forked)
        if behind in seen:
            continue
        seen.add(behind)
        decided(monkeypatch, *keep[len(keep) - behind :])
        resumed = evaluate(of, trial(START), resume=checkpoint)
        assert resumed.extra["stages"] == whole.extra["stages"]
        assert resumed.extra[EVENTS] == whole.extra[EVENTS]
        assert resumed.extra["forks"] == whole.extra["forks"]
        assert resumed.blobs["weights"] == whole.blobs["weights"]
        assert resumed.blobs["edits"] == whole.blobs["edits"]
        assert resumed.scores == whole.scores
    assert len(seen) == 4, "before, between and after the forks"


def test_a_budget_without_room_tries_nothing_and_says_so(text: Path) -> None:
    few = START.model_copy(update={"forks": START.forks.model_copy(update={"least": 4000})})
    outcome = evaluate(problem(text, FLOPS, arms=(trial(few),)), trial(few))
    assert [event.edits[0].kind for event in events_of(outcome)] == ["widen"], "what is planned is made all the same"
    assert "has no room for a fork of 4000 steps a side" in outcome.extra["forks"]["instead"]
    assert not outcome.extra["forks"]["tried"]
    (told,) = fork_words(outcome.extra["forks"], NOTHING_TRIED)
    assert told.startswith("No forks: 0.3 of ")
    assert told.endswith(" or more. None of the choices is tried.")


def test_events_that_no_fork_is_left_for_try_nothing(text: Path) -> None:
    few = START.model_copy(update={"edits": (), "forks": START.forks.model_copy(update={"least": 60})})
    outcome = evaluate(problem(text, FLOPS, arms=(trial(few),)), trial(few))
    most = outcome.extra["forks"]["most"]
    events = events_of(outcome)
    assert 0 < most < len(events) == 3
    assert [bool(event.edits) for event in events] == [number < most for number in range(3)]
    assert {event.note for event in events[most:]} == {NONE_LEFT}
    assert {event.told for event in events[2:]} == {"event 3: no edit: no fork is left"}


def test_copies_for_other_orders_share_nothing_with_the_sides(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What other orders train is no part of the training; so it ends with the same weights, whatever they see."""
    spared: list[tuple[ForkedBackbone, ForkedBackbone]] = []
    spare = ForkedBackbone.spare

    def noted(side: ForkedBackbone, moved: Any) -> ForkedBackbone:
        copied = spare(side, moved)
        spared.append((side, copied))
        return copied

    monkeypatch.setattr(ForkedBackbone, "spare", noted)
    decided(monkeypatch, True, True, True)
    other = START.model_copy(update={"forks": START.forks.model_copy(update={"orders": 1, "share": 0.4})})
    outcome = evaluate(problem(text, FLOPS, arms=(trial(other),)), trial(other))
    assert outcome.extra["forks"]["tried"][0]["noise"] is not None
    assert spared
    for side, copied in spared:
        own, others = (
            {parameter.untyped_storage().data_ptr() for parameter in one.network.parameters()} for one in (side, copied)
        )
        assert not own & others
        assert copied.window == side.window
        assert any(
            not torch.equal(first, second)
            for first, second in zip(side.network.parameters(), copied.network.parameters(), strict=True)
        ), "each is trained by itself"


def test_forks_judge_windows_that_no_batch_has(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[BackboneForks] = []
    init = BackboneForks.__init__
    monkeypatch.setattr(
        BackboneForks, "__init__", lambda forks, *args, **how: (seen.append(forks), init(forks, *args, **how))[1]
    )
    evaluate(problem(text, FLOPS, arms=(trial(START),)), trial(START))
    (forks,) = seen
    assert "architecture" in forks.task.splits
    assert forks.task.count("train") < forks.bench.task.count("train")
    assert forks.batches(3)["text"].shape == (BATCH, LENGTH), "sides cut their windows themselves"


def test_the_fork_measures_the_difference_of_two_trainings(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an edit that changes nothing the gain is 0, with as many steps on either side."""

    class Nothing(LengthenEdit):
        def misfit(self, *args: Any) -> str:
            return ""

        def length(self, length: int) -> int:
            return length

    still = START.model_copy(update={"choices": (LengthenEdit(tokens=8),), "edits": ()})
    monkeypatch.setattr(LengthenEdit, "misfit", Nothing.misfit)
    outcome = evaluate(problem(text, FLOPS, arms=(trial(still),)), trial(still))
    fork = events_of(outcome)[0].fork
    assert fork is not None
    assert fork.chose is not None
    assert fork.steps[0] == fork.steps[1] > 0
    assert fork.chose.gain == pytest.approx(0, abs=1e-6)
    assert not fork.kept


# The choice of what is tried


def refused(number: int, *edits: Any) -> BackboneEvent:
    fork = ForkRecord(edits=("x",), spent=1.0)
    return BackboneEvent(number=number, at=0.1, step=1, edits=edits, kept=False, note="no gain", fork=fork)


def kept(number: int, *edits: Any) -> BackboneEvent:
    gain = ForkGain(gain=0.1, lower=0.05, upper=0.15, samples=9)
    fork = ForkRecord(edits=("x",), spent=1.0, kept=True, chose=gain)
    return BackboneEvent(number=number, at=0.1, step=1, edits=edits, fork=fork)


def chosen(earlier: list[BackboneEvent], window: int = 8, seed: int = 0, **events: Any) -> tuple[Any, str]:
    plan = GrowthPlan(tokens=8, choices=START.choices, events=TryingSettings(**events), forks=START.forks)
    structure = START.structures()[0]
    number = len(earlier) + 1
    return choose(plan, number, structure, window, whole=LENGTH, earlier=earlier, seed=seed)


def test_in_turn_tries_what_was_tried_longest_ago_and_what_was_refused_after_the_next_gain_only() -> None:
    rec, stack, longer = START.choices
    assert chosen([]) == ((rec,), "")
    assert chosen([refused(1, rec)]) == ((stack,), "")
    assert chosen([refused(1, rec), refused(2, stack)]) == ((longer,), "")
    none, why = chosen([refused(1, rec), refused(2, stack), refused(3, longer)])
    assert none == ()
    assert why == "no edit of the choices can be tried: it was refused, and nothing was kept since"
    assert chosen([refused(1, rec), kept(2, stack)]) == ((longer,), "")
    again = [refused(1, rec), kept(2, stack), refused(3, longer)]
    assert chosen(again) == ((rec,), ""), "another network: it may pay now"
    none, why = chosen([*again, refused(4, rec), refused(5, stack)], window=LENGTH)
    assert none == ()
    # A planned edit is none that a fork kept, and makes another network all the same.
    planned = BackboneEvent(number=2, at=0.1, step=1, edits=(WidenEdit(at=0.1),))
    assert chosen([refused(1, rec), planned]) == ((stack,), "")
    assert chosen([refused(1, rec), planned, refused(3, stack), refused(4, longer)]) == ((rec,), "")


def test_a_window_as_long_already_is_none_to_try() -> None:
    rec, stack, _ = START.choices
    none, why = chosen([refused(1, rec), refused(2, stack)], window=LENGTH)
    assert none == ()
    assert why.endswith("it was refused, and nothing was kept since; windows have 16 tokens already")


def test_random_draws_of_those_that_fit_by_the_seed() -> None:
    drawn = [chosen([], seed=seed, strategist="random")[0][0] for seed in range(40)]
    assert {edit.kind for edit in drawn} == {"insert", "stack", "lengthen"}
    assert drawn == [chosen([], seed=seed, strategist="random")[0][0] for seed in range(40)]
    short = [chosen([], window=LENGTH, seed=seed, strategist="random")[0][0] for seed in range(40)]
    assert {edit.kind for edit in short} == {"insert", "stack"}


def test_a_recorded_run_chooses_again_as_it_chose() -> None:
    """The events of ``recorded/forked_backbone.json``, of a run on Shakespeare's plays."""
    record = json.loads((Path(__file__).parent / "recorded" / "forked_backbone.json").read_text())
    plan = validate(GrowthPlan, record["plan"], what="the plan")
    start = validate(type(START.structures()[0]), record["start"], what="the start")
    events = tuple(validate(BackboneEvent, event, what="an event") for event in record["events"])
    structure, window = start, plan.lengths(record["whole"])[0]
    for place, event in enumerate(events):
        edits, note = choose(
            plan, event.number, structure, window, whole=record["whole"], earlier=events[:place], seed=record["seed"]
        )
        assert (edits, note) == (event.edits, event.note if not event.edits else "")
        if event.kept:
            structure = grown_structure(structure, (event,))
            for edit in event.edits:
                window = edit.length(window)
    assert {event.kept for event in events if event.edits} == {True, False}, "some were kept, some refused"


# What the user gives


@pytest.mark.parametrize(
    ("part", "match"),
    [
        ({"choices": [{"kind": "stack"}], "forks": {"share": 0}}, "of choices a fork keeps what pays"),
        ({"choices": [{"kind": "stack", "at": 0.2}], "forks": {"share": 0.1}}, "choices have no share 'at'"),
        ({"edits": [{"kind": "stack"}]}, "each of the edits has a share 'at'"),
        ({"events": {"first": 0.5, "last": 0.2}}, "the first event comes at 0.5"),
        ({"events": {"strategist": "oracle"}}, "in_turn"),
    ],
    ids=str,
)
def test_a_wrong_plan_is_a_sentence(part: dict[str, Any], match: str) -> None:
    with pytest.raises(UsageError, match=match):
        resolve("backbone.growing", size="quick", driver="grow", overrides={"backbone": part})


def test_what_does_not_fit_is_refused_before_anything_is_trained(text: Path) -> None:
    longer = START.model_copy(update={"choices": (LengthenEdit(tokens=8),)})
    with pytest.raises(UsageError, match="none of the choices of grow_backbone can be made at the start: windows have"):
        problem(text, FLOPS, arms=(trial(longer),))
    for edit in (InsertEdit(liv="Rek-1"), RemoveEdit(liv="Rek-1")):
        unknown = START.model_copy(update={"choices": (edit, StackEdit())})
        with pytest.raises(UsageError, match=r"LIV class 'Rek-1'. Did you mean 'Rec-1'"):
            problem(text, FLOPS, arms=(trial(unknown),))
    absent = START.model_copy(update={"choices": (RemoveEdit(liv="Rec-1"), StackEdit())})
    problem(text, FLOPS, arms=(trial(absent),))
    with pytest.raises(UsageError, match=r"forks are charged in FLOPs or in seconds.*leave choices out"):
        problem(text, FLOPS, arms=(trial(START),), budget={"steps": 100})


# Runs


def test_a_run_shows_what_was_tried(novel: Path, tmp_path: Path) -> None:
    run = small_run(START, novel, tmp_path / "store", 1.8e9)
    with run.archive:
        grown, fixed = run.individuals()
        row = PROCEDURES.get("grow_backbone")
        network = grown.load()
        assert network.structure == row.network(grown).structure
        assert fixed.genome.network.structure == START.structures()[-1], "with what is planned alone"
        tried = [event for event in grown.fact[EVENTS] if event["fork"] and event["fork"]["spent"]]
        assert tried
        assert any(f"of {len(tried)} forks kept their edits" in sentence for sentence in row.words(grown))
        page = run.report(tmp_path / "page.html").read_text()
        assert "forks of grown" in page.lower()
        assert f"loss over steps, {len(grown.fact[EVENTS])} event" in page
        assert "widened in place" in page, "what was planned is in the picture"
        again = replay(grown)
        assert again.is_compared
        assert len(again.edits) == sum(len(event["edits"]) for event in grown.fact[EVENTS])
        assert again.start == ("SA-1", "GMemless")
        made = [edit for edit in again.edits if edit.child is not None]
        assert len(made) == sum(len(event["edits"]) for event in grown.fact[EVENTS] if event["kept"])
        log = read_log(run.archive.store.blobs.get(dict(grown.evaluation.blobs)["edits"]), what="the log")
        assert read_log(write_log(log), what="the log") == log
        other = replace(log, events=log.events[:-1])
        with pytest.raises(DataError, match="is not what was recorded when its training ended"):
            replay_backbone(grown, other, None, 0)
        envelope = NetworkEnvelope(network=BackboneNetwork(structure=WidenEdit(at=0.5).after(network.structure)))
        with pytest.raises(DataError, match="does not lead to its kept network"):
            replay_backbone(grown, log, envelope, 0)
        with pytest.raises(DataError, match="has the format"):
            read_log(write_log(log).replace(b"backbone_edits/1", b"backbone_edits/9"), what="the log")
        with pytest.raises(DataError, match="cannot be read"):
            read_log(b'{"format": "evodevo.backbone_edits/1"}', what="the log")
