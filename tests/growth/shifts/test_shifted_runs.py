"""Data that shift while a zoo trains: the stream, the race at the shift, its account, and a killed run is the same."""

from __future__ import annotations

import copy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from evodevo.errors import UsageError
from evodevo.experiments.evaluate import evaluate_network
from evodevo.experiments.trainer import Trainer
from evodevo.experiments.trials import Trial
from evodevo.growth.edits import replay_log
from evodevo.growth.forks.judging import sample_losses
from evodevo.growth.growable import TaskSizes
from evodevo.growth.log import read_log
from evodevo.growth.procedures import grow
from evodevo.growth.procedures.samples import GrowthSamples
from evodevo.growth.procedures.settings import check_caps, check_grow
from evodevo.growth.races import halving
from evodevo.growth.report.data import GrowthHistory
from evodevo.growth.report.shifts import shift_table, shift_words
from evodevo.growth.shifts.entrants import continuations, in_turn, planned_families
from evodevo.growth.spec import GrowthSettings
from evodevo.growth.zoo.growable import GrowableZoo
from evodevo.h_model.network import HModelNetwork
from evodevo.h_model.spec import HModelStructure
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.spec import ZooStructure
from evodevo.networks.saved import load_network
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.search.problem import Outcome
from evodevo.settings import merge
from evodevo.storage.blobs import FolderPool
from evodevo.tasks.base import SampleTask
from evodevo.tasks.before_shift import BeforeShiftTask, targets_of
from evodevo.tasks.held.back import HeldBackTask, with_architecture_split
from evodevo.tasks.reasoning.pointer import PointerTask
from evodevo.testing.small_networks import h_model, problem, settings, small_zoo
from evodevo.training.precision import decide
from fixtures.evaluations import shares_of

pytestmark = pytest.mark.slow  # whole trainings

torch.set_num_threads(1)

STRUCTURE = small_zoo(2)
NAMES = [module.id for module in STRUCTURE.modules]
FLOPS = 1e8
AT = 0.4
SEED = 4
TASK = problem().open_task({})
"""Of four classes, of which two are there before the shift."""
SIZES = TaskSizes(TASK.inputs, TASK.outputs, batch=8)
RACE = {"share": 0.4, "networks": 6, "samples": 12, "least": 2, "average": 0.8}
GROWTH: dict[str, Any] = {
    "strategist": "random",
    "allow": ["grow", "spawn"],
    "race": {"share": 0.15, "samples": 12, "least": 2, "singles": 1.0},
    "events": {"count": 2, "first": 0.2, "last": 0.8, "warm": 0.1, "horizon": 0.15, "overhead": 10.0, "looks": 0},
    "fitness": {"samples": 12},
    "replay": {"capacity": 24, "steps": 2},
    "shift": {"kind": "classes", "at": AT, "race": dict(RACE), "restart": True},
}
SELECT = {"metric": "accuracy"}


class Killed(BaseException):
    """As kill -9."""


def arm(**changes: Any) -> Trial:
    options = merge(GROWTH, changes)
    network = ModuleZooNetwork(structure=STRUCTURE)
    return Trial(name="shifted", network=network, learning_rate=1e-2, procedure="grow", options=options)


def grown(
    one: Trial, pool: Path | None = None, *, resume: str | None = None, report: Any = None, **training: Any
) -> Outcome:
    budget = {"steps": None, "flops": FLOPS}
    changes = {"training": {"budget": budget, "checkpoint_every": 3, **training}, "select": SELECT, "curve_points": 12}
    given = problem(changes, pool, arms=(one,))
    outcome = given.read(evaluate_network(given.payload(one, SEED, resume), report or (lambda message: None)))
    assert outcome.reason is None, outcome.detail
    return outcome


def timeless(outcome: Outcome) -> dict[str, Any]:
    return merge(outcome.extra["growth"], {"overhead": {"seconds": 0, "seconds_share": 0}})


class Seen:
    """Every sample that was read, in which phase; every side of the race, every segment."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.phase = "opened"
        self.read: list[tuple[str, str, set[int]]] = []
        """Phase, split and classes."""
        self.sides: list[dict[str, Any]] = []
        self.segments: list[dict[str, Any]] = []
        self.trainer: Trainer | None = None
        self.network: Any = None
        train_side, train_segment = halving.train_side, Trainer.train
        shifts, ends = GrowthSamples.shift, grow._Run._end

        def noted(kind: type[SampleTask], splits: tuple[str, ...]) -> None:
            fetch = kind.fetch

            def fetched(task: Any, split: Any, indices: Any) -> Any:
                batch = fetch(task, split, indices)
                if split in splits:
                    self.read.append((self.phase, split, set(batch["answer/target"].tolist())))
                return batch

            patch.setattr(kind, "fetch", fetched)

        noted(HeldBackTask, ("train", "architecture"))  # of which the other one has none
        noted(PointerTask, ("validation", "test"))

        def raced(bench: Any, side: Any, training: Any, batches: Any, count: int, **how: Any) -> Any:
            before = {name: value.clone() for name, value in side.zoo.network.state_dict().items()}
            read: list[int] = []
            phase, self.phase = self.phase, "racing"
            result = train_side(bench, side, training, lambda step: read.append(step) or batches(step), count, **how)
            self.phase = phase
            self.sides.append(
                {
                    "ids": side.zoo.live,
                    "structure": side.zoo.network.structure,
                    "before": before,
                    "end": {name: value.clone() for name, value in side.zoo.network.state_dict().items()},
                    "flops": side.flops,
                    "steps": count,
                    "read": read,
                    "judged": side.judged,
                    "snapshot": result.snapshot,
                    "began": copy.deepcopy(side.snapshot),
                }
            )
            return result

        def segment(trainer: Trainer, network: Any, **how: Any) -> Any:
            self.trainer, self.network, border = trainer, network, trainer._border
            self.phase = "before" if self.phase == "opened" else self.phase
            begin = {name: value.clone() for name, value in network.state_dict().items()}
            snapshot = None if border is None else border[0]
            self.segments.append(
                {"phase": self.phase, "ids": getattr(network, "live", ()), "begin": begin, "snapshot": snapshot}
            )
            return train_segment(trainer, network, **how)

        def shifted(samples: GrowthSamples) -> None:
            self.phase = "after"
            self.end = {name: value.clone() for name, value in self.network.state_dict().items()}
            shifts(samples)

        def ended(run: Any, result: Any) -> Any:
            trained = ends(run, result)
            self.phase = "ended"
            return trained

        patch.setattr(halving, "train_side", raced)
        patch.setattr(Trainer, "train", segment)
        patch.setattr(GrowthSamples, "shift", shifted)
        patch.setattr(grow._Run, "_end", ended)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shifted")


@pytest.fixture(scope="module")
def run(pool: Path) -> SimpleNamespace:
    messages: list[dict[str, Any]] = []
    with pytest.MonkeyPatch.context() as patch:
        seen = Seen(patch)
        outcome = grown(arm(), pool, report=messages.append)
    facts = outcome.extra["growth"]
    assert seen.trainer is not None
    shift = facts["shift"]
    (as_it_was,) = (one for one in shift["networks"] if one["name"] == "as it is")
    side = next(side for side in seen.sides if list(side["ids"]) == as_it_was["modules"])
    return SimpleNamespace(
        outcome=outcome,
        seen=seen,
        messages=messages,
        facts=facts,
        shift=shift,
        trainer=seen.trainer,
        chosen=next(one for one in shift["networks"] if one["name"] == shift["chosen"]),
        before=GrowableZoo.of(side["structure"]),
    )


def priced(structure: ZooStructure) -> float:
    """FLOPs of a forward pass in which every module runs."""
    return GrowableZoo.of(structure).prices(SIZES, GrowthSettings().fitness).forward


# The stream


def test_before_the_shift_no_sample_of_a_new_class_is_read_and_afterwards_some_are(run: SimpleNamespace) -> None:
    """Of all that is raced on, trained on, probed, replayed and judged."""
    early, late = (
        [classes for phase, split, classes in run.seen.read if phase == wanted and split in ("train", "architecture")]
        for wanted in ("before", "after")
    )
    assert len(early) > 20
    assert set.union(*early) == {0, 1}
    assert set.union(*late) == {0, 1, 2, 3}
    trained = [classes for phase, split, classes in run.seen.read if phase == "after" and split == "train"]
    assert set.union(*trained) == {0, 1, 2, 3}, "apart from the race"
    split, classes = next((split, classes) for phase, split, classes in run.seen.read if phase == "after")
    assert split == "architecture"
    assert classes > {0, 1}, "the probe at the shift is of the new data"


def test_test_samples_are_read_when_all_is_over_and_validation_is_of_the_new_data(run: SimpleNamespace) -> None:
    assert {phase for phase, split, _ in run.seen.read if split == "test"} == {"ended"}
    looked = [classes for phase, split, classes in run.seen.read if phase == "before" and split == "validation"]
    assert set.union(*looked) == {0, 1, 2, 3}


def test_it_comes_at_its_share_of_the_whole_budget(run: SimpleNamespace) -> None:
    """And not of what the race at the start left."""
    left = 1 - run.facts["race"]["share"]
    assert run.facts["race"]["share"] > 0.05
    began = 1 - left + left * run.shift["share"]
    step = max(side["flops"] for side in run.seen.sides) / FLOPS
    assert AT <= began <= AT + step


def places_read(trial: Trial) -> dict[tuple[bool, int], list[int]]:
    """Training samples of each step of a run, by whether the data have shifted."""
    read: dict[tuple[bool, int], list[int]] = {}
    done: list[bool] = []
    shifts, late, early = GrowthSamples.shift, SampleTask.draw, BeforeShiftTask.draw

    def noted(how: Any) -> Any:
        def draw(task: Any, split: Any, seed: int, step: int, size: int) -> Any:
            places = how(task, split, seed, step, size)
            if split == "train":
                assert read.setdefault((bool(done), step), places.tolist()) == places.tolist()
            return places

        return draw

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GrowthSamples, "shift", lambda samples: (done.append(True), shifts(samples)))
        patch.setattr(HeldBackTask, "draw", noted(late))
        patch.setattr(BeforeShiftTask, "draw", noted(early))
        grown(trial)
    return read


def test_equal_steps_have_equal_samples_in_every_arm() -> None:
    """Whatever network is trained, and whether networks race at the shift."""
    still = {"race": {"share": 0.0}, "events": {"count": 0}, "replay": {"capacity": 0}}
    raced = places_read(arm(**still))
    single = ModuleZooNetwork(structure=STRUCTURE.model_copy(update={"modules": STRUCTURE.modules[:1]}))
    fixed = arm(**still, strategist="fixed", shift={"race": {"share": 0.0}}).model_copy(update={"network": single})
    other = places_read(fixed)
    for shifted in (False, True):
        common = [key for key in raced if key in other and key[0] == shifted]
        assert len(common) > 5
        assert all(raced[key] == other[key] for key in common)


# The race


def test_who_races_follows_from_the_network(run: SimpleNamespace) -> None:
    """As it is, with a family that it has not, with one in the place of a module, and each module alone; in turn."""
    live = [module.id for module in run.before.live]
    kinds = continuations(run.before, planned_families(GrowableZoo.of(STRUCTURE)), 9)
    assert kinds[0][0].name == "as it is"
    assert [one["name"] for one in run.shift["networks"]] == [one.name for one in in_turn(kinds, 6)]
    assert run.shift["left_out"] == sum(map(len, kinds)) - 6
    for one in run.shift["networks"]:
        if one["name"] == "as it is":
            assert one["modules"] == live
        elif one["name"].startswith("with "):
            assert one["modules"][:-1] == live
        elif one["name"].endswith(" alone"):
            assert one["modules"] == [one["name"].removesuffix(" alone")]
        else:
            gone = one["name"].rpartition(" for ")[2]
            assert sorted(one["modules"][:-1]) == sorted(name for name in live if name != gone)


def test_a_race_is_fair(run: SimpleNamespace) -> None:
    """In a rung all have one position, one first batch and as many FLOPs; what is not new has the weights of before."""
    sides, count = run.seen.sides, len(run.shift["networks"])
    first = sides[:count]
    assert [list(side["ids"]) for side in first] == [one["modules"] for one in run.shift["networks"]]
    assert {side["began"].cursor.step for side in first} == {run.shift["step"] - run.facts["race"]["steps"]}
    assert len({side["read"][0] for side in first}) == 1
    amounts = [side["steps"] * side["flops"] + 12 * priced(side["structure"]) for side in first]
    assert max(amounts) - min(amounts) <= max(side["flops"] for side in first)
    assert min(side["steps"] for side in first) >= 2
    for side in first:
        shared = [name for name in side["before"] if name in run.seen.end]
        shared = [name for name in shared if side["before"][name].shape == run.seen.end[name].shape]
        encoders = [name for name in shared if name.startswith("senses.")]
        assert "senses.extractors.text.embedding.weight" in encoders
        assert all(torch.equal(side["before"][name], run.seen.end[name]) for name in encoders)
    moments = [side["began"].optimizer["senses.extractors.text.embedding.weight"] for side in first]
    for name, value in moments[0].items():
        assert all(torch.equal(torch.as_tensor(value), torch.as_tensor(other[name])) for other in moments[1:])


def test_the_best_on_the_new_data_goes_on_with_its_weights(run: SimpleNamespace) -> None:
    networks, sides, shift = run.shift["networks"], run.seen.sides, run.shift
    longest = max(len(one["losses"]) for one in networks)
    assert longest > 1, "there is more than one rung"
    last = {one["name"]: one["losses"][-1] for one in networks if len(one["losses"]) == longest}
    assert shift["chosen"] == min(last, key=last.__getitem__)
    (chosen,) = (one for one in networks if one["name"] == shift["chosen"])
    won = [side for side in sides if list(side["ids"]) == chosen["modules"]]
    after = next(one for one in run.seen.segments if one["phase"] == "after")
    assert list(after["ids"]) == chosen["modules"]
    assert all(torch.equal(value, after["begin"][name]) for name, value in won[-1]["end"].items())
    assert after["snapshot"].optimizer is won[-1]["snapshot"].optimizer, "its moments, too"
    assert shift["steps"] == chosen["steps"] == sum(side["steps"] for side in won)


def test_the_samples_that_judge_are_of_the_new_data(run: SimpleNamespace) -> None:
    """The loss of the network that went on, by its mean weights and on the split after the shift, is recorded."""
    (chosen,) = (one for one in run.shift["networks"] if one["name"] == run.shift["chosen"])
    side = [side for side in run.seen.sides if list(side["ids"]) == chosen["modules"]][-1]
    network = side["judged"]
    assert any(not torch.equal(value, side["end"][name]) for name, value in network.state_dict().items())
    task = with_architecture_split(problem().open_task({}))
    places = halving.places(task, "architecture", 12)
    assert set(targets_of(task, "architecture")[places]) > {0, 1}
    losses = sample_losses(network, task, places, batch_size=32, precision=decide("cpu", "float32"))
    assert float(losses.mean()) == pytest.approx(chosen["losses"][-1], abs=1e-6)


def test_everything_is_in_the_budget(run: SimpleNamespace) -> None:
    shift, sides = run.shift, run.seen.sides
    steps = sum(side["steps"] * side["flops"] for side in sides)
    judged = sum(12 * priced(side["structure"]) for side in sides)
    assert shift["spent"] + shift["winner_flops"] == pytest.approx(steps + judged, rel=1e-9)
    budget = FLOPS * (1 - run.facts["race"]["share"])
    assert shift["spent"] + shift["winner_flops"] <= 0.4 * budget
    assert run.trainer._spent[f"choice {shift['event']}"] == shift["spent"]
    assert run.outcome.extra["training_flops"] == pytest.approx(FLOPS, rel=0.05)


def test_where_the_trend_decides_each_is_judged_once_more() -> None:
    """And whoever is expected to be the best goes on; the loss itself is that of the whole rung."""
    with pytest.MonkeyPatch.context() as patch:
        seen = Seen(patch)
        outcome = grown(arm(shift={"race": {"judge": "trend"}}))
    shift = outcome.extra["growth"]["shift"]
    longest = max(len(one["losses"]) for one in shift["networks"])
    last = {one["name"]: one["expected"] for one in shift["networks"] if len(one["losses"]) == longest}
    assert shift["chosen"] == min(last, key=last.__getitem__)
    assert all(one["expected"] <= one["losses"][-1] for one in shift["networks"])
    assert any(one["expected"] < one["losses"][-1] for one in shift["networks"])
    steps = sum(side["steps"] * side["flops"] for side in seen.sides)
    judged = sum(12 * priced(side["structure"]) for side in seen.sides)
    assert len(seen.sides) == sum(1 + len(one["losses"]) for one in shift["networks"])
    assert shift["spent"] + shift["winner_flops"] == pytest.approx(steps + judged, rel=1e-9)


def test_weights_are_those_of_after_the_shift(run: SimpleNamespace) -> None:
    """However good an earlier point was: the selection has looked at later ones alone."""
    kept = run.outcome.extra["selection"][-1]
    assert kept["step"] + run.facts["race"]["steps"] > run.shift["step"]


def test_a_better_point_before_the_shift_does_not_win(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every measurement is worse than the one before it."""
    values = iter(range(1000, 0, -1))
    monkeypatch.setattr("evodevo.experiments.checkpoint_selection.value_of", lambda *_: float(next(values)))
    outcome = grown(arm(strategist="fixed", events={"count": 0}, shift={"race": {"share": 0.0}}))
    shift, kept = outcome.extra["growth"]["shift"], outcome.extra["selection"][-1]
    assert kept["step"] > shift["step"]
    assert kept["best"] < 1000


# The record


def test_the_log_says_why_and_rebuilds_the_network(run: SimpleNamespace, pool: Path) -> None:
    outcome = run.outcome
    log = read_log(FolderPool(pool).get(outcome.blobs["edits"]))
    own = [edit for edit in log.edits if edit.event == run.shift["event"]]
    assert own, "another network than that of before went on"
    assert all(f"2 of 4 classes appeared; loss after a race: {run.shift['chosen']} " in edit.note for edit in own)
    replayed = replay_log(log.start, log.edits, FolderPool(pool).get, log.birth)
    network, _ = load_network(FolderPool(pool), outcome.blobs["weights"])
    assert {module.id for module in replayed.modules} >= set(network.live)
    assert [module.id for module in replayed.modules] == run.facts["modules"]
    fresh = next(side for side in run.seen.sides if list(side["ids"]) == run.chosen["modules"])["before"]
    for edit in own:
        if edit.born:
            for name, value in replayed.newborns[edit.module].items():
                assert torch.equal(value, fresh[f"pool.parts.{edit.module}.{name}"])


def test_it_is_told_and_tabled(run: SimpleNamespace) -> None:
    shares_of(run.messages, end=0.9)
    (told,) = [message["growth"]["told"] for message in run.messages if "appeared" in str(message.get("growth"))]
    assert (
        told == f"event {run.shift['event']}: 2 of 4 classes appeared; goes on: {run.shift['chosen']}; 6 networks raced"
    )
    growth = GrowthHistory(
        strategist="random",
        events=(),
        lives=(),
        steps=40.0,
        decisions=0,
        differing=(),
        overhead={},
        shift=run.shift,
    )
    (words,) = shift_words(growth)
    assert f"2 of 4 classes appeared; {run.shift['chosen']} was the best of 6 networks" in words
    table = shift_table(growth)
    assert table is not None
    assert [row[-1] for row in table.rows] == ["went on", *["was left"] * 5]
    assert table.rows[0][0] == run.shift["chosen"]


# Interruptions


def test_a_killed_run_is_the_same(run: SimpleNamespace, tmp_path: Path) -> None:
    """Killed at every checkpoint in turn, the last before the shift and the first after it among them."""
    checkpoints = sum("checkpoint" in message for message in run.messages)
    resume, count = None, 0

    def report(message: dict[str, Any]) -> None:
        nonlocal resume, count
        if "checkpoint" in message:
            resume, count = message["checkpoint"], count + 1
            raise Killed

    outcome = None
    while outcome is None:
        try:
            outcome = grown(arm(), tmp_path, resume=resume, report=report)
        except Killed:
            assert count <= checkpoints
    assert count == checkpoints > 5
    assert timeless(outcome) == timeless(run.outcome)
    assert outcome.blobs == run.outcome.blobs
    assert outcome.extra["training_flops"] == run.outcome.extra["training_flops"]
    assert outcome.extra["selection"] == run.outcome.extra["selection"]
    for name in ("validation_loss", "validation_accuracy", "flops"):
        assert outcome.series[name] == run.outcome.series[name]


def test_a_run_that_is_made_again_is_the_same(run: SimpleNamespace, tmp_path: Path) -> None:
    again = grown(arm(), tmp_path)
    assert timeless(again) == timeless(run.outcome)
    assert again.blobs == run.outcome.blobs


# Without a race


@pytest.mark.parametrize("kind", ["no share", "in steps", "too little"])
def test_without_a_race_the_network_goes_on(kind: str, tmp_path: Path) -> None:
    race = {"no share": {"share": 0.0}, "too little": {"share": 0.01}}.get(kind, {})
    budget = {"budget": {"steps": 40}} if kind == "in steps" else {}
    fixed = arm(strategist="fixed", events={"count": 0}, shift={"race": race})
    with pytest.MonkeyPatch.context() as patch:
        seen = Seen(patch)
        outcome = grown(fixed, tmp_path, **budget)
    shift = outcome.extra["growth"]["shift"]
    assert not seen.sides
    assert (shift["chosen"], shift["networks"], shift["winner_flops"], shift["spent"]) == ("as it is", [], 0.0, 0.0)
    assert {"no share": "race.share is 0", "in steps": halving.NO_FLOPS}.get(kind, "have no room") in shift["instead"]
    assert outcome.extra["growth"]["edits"] == []
    after = next(one for one in seen.segments if one["phase"] == "after")
    assert all(torch.equal(value, after["begin"][name]) for name, value in seen.end.items())
    assert set.union(*(classes for phase, split, classes in seen.read if phase == "after" and split == "train")) > {
        0,
        1,
    }


def test_an_h_model_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its data shift as any; it has no modules that could race."""
    options = merge(GROWTH, {"strategist": "fixed", "race": {"share": 0.0}, "shift": {"race": {"share": 0.0}}})
    seen = Seen(monkeypatch)
    outcome = grown(h_model(procedure="grow", options=merge(options, {"events": {"count": 0}})))
    assert outcome.extra["growth"]["shift"]["chosen"] == "as it is"
    assert set.union(*(classes for phase, split, classes in seen.read if (phase, split) == ("before", "train"))) == {
        0,
        1,
    }
    assert set.union(*(classes for phase, split, classes in seen.read if (phase, split) == ("after", "train"))) > {0, 1}


def test_where_all_diverge_the_network_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    really = halving.Halving._rung

    def diverged(races: Any, entrant: Any, *given: Any) -> float:
        spent = really(races, entrant, *given)
        entrant.losses[-1] = None
        return spent

    monkeypatch.setattr(halving.Halving, "_rung", diverged)
    shift = grown(arm()).extra["growth"]["shift"]
    assert shift["instead"] == halving.DIVERGED
    assert (shift["chosen"], shift["winner_flops"], shift["steps"]) == ("as it is", 0.0, 0)


def test_a_setting_without_a_shift_leaves_records_as_they_were() -> None:
    assert "shift" not in GrowthSettings().model_dump(mode="json")
    outcome = grown(arm(shift={"kind": None, "race": {"share": 0.0}}))
    assert "shift" not in outcome.extra["growth"]


# Refusals


def given_settings(**more: Any) -> Any:
    return settings({"training": {"budget": {"steps": None, "flops": FLOPS}}, **more})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"shift": {"at": 1.0}}, "shift.at"),
        ({"shift": {"at": 0.0}}, "shift.at"),
        ({"shift": {"kind": "weather"}}, "shift.kind"),
        ({"shift": {"at": 0.1}}, "the race at the start may take 0.15 of the budget, and the data shift at 0.1"),
    ],
)
def test_a_wrong_setting_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check_grow(given_settings(), arm(**changes))


def test_a_training_that_may_stop_before_is_refused() -> None:
    with pytest.raises(UsageError, match=r"may stop at 0.2 of its budget does not see the data shift at 0.4"):
        check_grow(given_settings(select={"metric": "accuracy", "patience": 3, "min_share": 0.2}), arm())
    check_grow(given_settings(select={"metric": "accuracy", "patience": 3, "min_share": 0.5}), arm())


def test_a_task_without_such_a_shift_is_refused_before_anything_is_trained() -> None:
    task = problem().open_task({})
    with pytest.raises(UsageError, match="a modality can appear where a task has two; this one has only text"):
        check_caps(given_settings(), arm(shift={"kind": "modality"}), task)
    check_caps(given_settings(), arm(), task)


def test_an_h_model_does_not_race_at_a_shift() -> None:
    structure = HModelStructure(width=16, hidden=(TransformerLayer(heads=2),), iterations=1)
    one = arm(race={"share": 0.0}).model_copy(update={"network": HModelNetwork(structure=structure)})
    with pytest.raises(UsageError, match="do not race at a shift"):
        check_grow(given_settings(), one)
