"""A zoo whose cap falls while it trains: it obeys, counts everything, and a killed run is the same."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
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
from evodevo.growth.procedures.settings import check_caps, check_grow
from evodevo.growth.races import halving
from evodevo.growth.report.caps import cap_table, cap_words
from evodevo.growth.report.data import GrowthHistory
from evodevo.growth.report.drawing import cap_drawings
from evodevo.growth.resources import Resources
from evodevo.growth.spec import GrowthSettings
from evodevo.growth.training.distillation_buffer import Distilled
from evodevo.growth.zoo.growable import GrowableZoo
from evodevo.growth.zoo.growing import GrowingZoo
from evodevo.h_model.network import HModelNetwork
from evodevo.h_model.spec import HModelStructure
from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.modules.zoo import start_zoo
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.spec import ZooRouterStructure, ZooStructure
from evodevo.networks.saved import load_network
from evodevo.networks.towers.spec import ExtractorStructure
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.search.problem import Outcome
from evodevo.settings import merge
from evodevo.storage.blobs import FolderPool
from evodevo.tasks.held.back import with_architecture_split
from evodevo.testing.small_networks import problem, settings
from evodevo.training.precision import decide
from evodevo.training.settings import OptimizerSettings
from fixtures.evaluations import shares_of

pytestmark = pytest.mark.slow  # whole trainings

torch.set_num_threads(1)

STRUCTURE = ZooStructure(
    width=16,
    modules=tuple(start_zoo(16)[place] for place in (1, 4, 5)),
    extractor=ExtractorStructure(blocks=0),
    router=ZooRouterStructure(heads=2),
)
NAMES = [module.id for module in STRUCTURE.modules]
TASK = problem().open_task({})
SIZES = TaskSizes(TASK.inputs, TASK.outputs, batch=8)


def cost(*names: str) -> int:
    """FLOPs of a sample with these modules."""
    modules = tuple(module for module in STRUCTURE.modules if module.id in names)
    return Resources.of(GrowableZoo.of(STRUCTURE.model_copy(update={"modules": modules})), SIZES).flops


PAIR = max(cost(*pair) for pair in (NAMES[:2], NAMES[1:], (NAMES[0], NAMES[2])))
"""Every pair fits, and the three do not."""
ALONE = max(cost(name) for name in NAMES)
FLOPS = 1e8
SEED = 4
"""With which a pair goes on at the first fall, so that there is a second choice."""
GROWTH: dict[str, Any] = {
    "strategist": "fixed",
    "events": {"count": 1, "first": 0.2, "last": 0.8, "warm": 0.1, "horizon": 0.1, "overhead": 10.0},
    "fitness": {"samples": 12},
    "prune": {"distil_steps": 2},
    "replay": {"capacity": 24, "steps": 2},
    "caps": {
        "schedule": [{"at": 0.3, "flops": PAIR}, {"at": 0.6, "flops": ALONE}],
        "race": {"share": 0.5, "samples": 12, "least": 2},
        "restart": True,
    },
}


class Killed(BaseException):
    """As kill -9."""


def arm(**changes: Any) -> Trial:
    options = merge(GROWTH, changes)
    network = ModuleZooNetwork(structure=STRUCTURE)
    return Trial(name="falling", network=network, learning_rate=1e-2, procedure="grow", options=options)


def grown(
    one: Trial, pool: Path | None = None, *, resume: str | None = None, report: Any = None, **training: Any
) -> Outcome:
    budget = {"steps": None, "flops": FLOPS}
    given = problem({"training": {"budget": budget, "checkpoint_every": 3, **training}}, pool, arms=(one,))
    outcome = given.read(evaluate_network(given.payload(one, SEED, resume), report or (lambda message: None)))
    assert outcome.reason is None, outcome.detail
    return outcome


def timeless(outcome: Outcome) -> dict[str, Any]:
    return merge(outcome.extra["growth"], {"overhead": {"seconds": 0, "seconds_share": 0}})


class Seen:
    """Every step with its share of the budget and its structure, every side of a race, and what was distilled."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.steps: list[tuple[float, ZooStructure]] = []
        self.sides: list[dict[str, Any]] = []
        self.distilled: list[tuple[str, int]] = []
        self.segments: list[tuple[tuple[str, ...], dict[str, torch.Tensor], Any]] = []
        self.trainer: Trainer | None = None
        train_side, train_segment, loss, distil = halving.train_side, Trainer.train, ModuleZoo.loss, GrowingZoo.distil
        self.racing = False

        def raced(bench: Any, side: Any, training: Any, batches: Any, count: int, **how: Any) -> Any:
            before = {name: value.clone() for name, value in side.zoo.network.state_dict().items()}
            self.racing = True
            read: list[int] = []
            result = train_side(bench, side, training, lambda step: read.append(step) or batches(step), count, **how)
            self.racing = False
            self.sides.append(
                {
                    "ids": side.zoo.live,
                    "structure": side.zoo.network.structure,
                    "before": before,
                    "end": {name: value.clone() for name, value in side.zoo.network.state_dict().items()},
                    "flops": side.flops,
                    "steps": count,
                    "read": read,
                    "snapshot": result.snapshot,
                    "began": copy.deepcopy(side.snapshot),
                }
            )
            return result

        def segment(trainer: Trainer, network: Any, **how: Any) -> Any:
            self.trainer = trainer
            border = trainer._border
            begin = {name: value.clone() for name, value in network.state_dict().items()}
            self.segments.append((network.live, begin, None if border is None else border[0]))
            return train_segment(trainer, network, **how)

        def counted(network: ModuleZoo, batch: Any) -> Any:
            if network.training and not self.racing:
                self.steps.append((network.progress, network.structure))
            return loss(network, batch)

        def taught(zoo: GrowingZoo, name: str, *given: Any, **how: Any) -> Distilled:
            done = distil(zoo, name, *given, **how)
            self.distilled.append((name, done.steps))
            return done

        patch.setattr(halving, "train_side", raced)
        patch.setattr(Trainer, "train", segment)
        patch.setattr(ModuleZoo, "loss", counted)
        patch.setattr(GrowingZoo, "distil", taught)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("falling")


@pytest.fixture(scope="module")
def run(pool: Path) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    with pytest.MonkeyPatch.context() as patch:
        seen = Seen(patch)
        outcome = grown(arm(), pool, report=messages.append)
    facts = outcome.extra["growth"]
    return {"outcome": outcome, "seen": seen, "messages": messages, "facts": facts, "falls": facts["caps"]["falls"]}


def used_by(structure: ZooStructure) -> int:
    return Resources.of(GrowableZoo.of(structure), SIZES).flops


# The law


def test_the_network_is_under_the_cap_at_every_step_after_a_fall(run: dict[str, Any]) -> None:
    """Of every step of the training, and of every step of every network that races."""
    falls = run["falls"]
    assert [fall["share"] >= at for fall, at in zip(falls, (0.3, 0.6), strict=True)] == [True, True]
    steps = [(share, used_by(structure)) for share, structure in run["seen"].steps]
    assert [used_by(seen) for seen in (run["seen"].steps[0][1], run["seen"].steps[-1][1])] == [
        cost(*NAMES),
        cost(*run["facts"]["modules"]),
    ]
    for share, flops in steps:
        assert flops <= (ALONE if share > falls[1]["share"] else PAIR if share > falls[0]["share"] else cost(*NAMES))
    sides = run["seen"].sides
    assert {len(side["ids"]) for side in sides} == {1, 2}
    assert all(used_by(side["structure"]) <= (PAIR if len(side["ids"]) == 2 else ALONE) for side in sides)
    assert max(row["costs"]["flops"] for row in run["facts"]["caps"]["costs"][:1]) == cost(*NAMES) > PAIR
    last = run["facts"]["caps"]["costs"][-1]["costs"]["flops"]
    assert last == cost(*run["facts"]["modules"]) <= ALONE


def test_every_network_under_the_cap_was_judged_and_the_best_goes_on(run: dict[str, Any]) -> None:
    """Pairs fill the first cap, and each module alone races beside them; under the second there are these alone."""
    first, second = run["falls"]
    pairs = [list(pair) for pair in combinations(NAMES, 2)]
    alone = [[name] for name in NAMES]
    assert sorted(network["modules"] for network in first["networks"]) == sorted([*pairs, *alone])
    assert sorted(network["modules"] for network in second["networks"]) == sorted([name] for name in first["chosen"])
    for fall in run["falls"]:
        networks = fall["networks"]
        assert all(network["before"] is not None and network["losses"] for network in networks)
        longest = max(len(network["losses"]) for network in networks)
        last = {
            tuple(network["modules"]): network["losses"][-1]
            for network in networks
            if len(network["losses"]) == longest
        }
        assert tuple(fall["chosen"]) == min(last, key=last.__getitem__)
        assert fall["instead"] == ""
    assert run["facts"]["modules"] == run["falls"][-1]["chosen"]


def test_a_race_is_fair(run: dict[str, Any]) -> None:
    """In a rung all have one position, one first batch and as many FLOPs; each begins with the weights of the whole."""
    sides, falls = run["seen"].sides, run["falls"]
    first = sides[: len(falls[0]["networks"])]
    assert sorted(side["ids"] for side in first) == sorted(tuple(one["modules"]) for one in falls[0]["networks"])
    assert len({side["read"][0] for side in first}) == 1
    assert {side["began"].cursor.step for side in first} == {falls[0]["step"]}
    amounts = [side["steps"] * side["flops"] + 12 * used_by_all(side["ids"]) for side in first]
    assert max(amounts) - min(amounts) <= max(side["flops"] for side in first)
    assert min(side["steps"] for side in first) >= 2
    shared = [name for name in first[0]["before"] if "pool.parts" not in name and "rows" not in name]
    same = [
        all(
            torch.equal(first[0]["before"][name], other["before"][name])
            for other in first[1:]
            if name in other["before"] and other["before"][name].shape == first[0]["before"][name].shape
        )
        for name in shared
    ]
    assert len(same) > 10
    assert all(same)


def test_the_winner_keeps_its_weights_and_its_steps_are_the_trainings(run: dict[str, Any]) -> None:
    sides, falls, seen = run["seen"].sides, run["falls"], run["seen"]
    chosen = tuple(falls[0]["chosen"])
    won = [side for side in sides if side["ids"] == chosen]
    assert falls[0]["steps"] == sum(side["steps"] for side in won)
    assert falls[0]["winner_flops"] == pytest.approx(sum(side["steps"] * side["flops"] for side in won))
    lost = [side for side in sides if side["began"].cursor.step < falls[1]["step"] and side["ids"] != chosen]
    # A judgement is a forward pass, and a step three of them; the first look has a quarter of the samples.
    judged = sum(used_by_all(one["modules"]) * (3 + 12 * len(one["losses"])) for one in falls[0]["networks"])
    assert falls[0]["spent"] == pytest.approx(judged + sum(side["steps"] * side["flops"] for side in lost), rel=1e-9)
    assert seen.trainer is not None
    spent = seen.trainer._spent
    assert [spent[f"choice {fall['event']}"] for fall in falls] == [fall["spent"] for fall in falls]
    assert run["outcome"].extra["training_flops"] == pytest.approx(FLOPS, rel=0.05), "everything is in the budget"
    _, begin, border = next(segment for segment in seen.segments if segment[0] == chosen)
    assert all(torch.equal(value, begin[name]) for name, value in won[-1]["end"].items())
    assert border.optimizer is won[-1]["snapshot"].optimizer, "its moments, too"
    # The first step after the fall is the one after the race.
    after = next(structure for share, structure in seen.steps if share > falls[0]["share"])
    assert [module.id for module in after.modules] == falls[0]["chosen"]


def used_by_all(names: Sequence[str]) -> float:
    """FLOPs of a forward pass in which every one of these modules runs."""
    modules = tuple(module for module in STRUCTURE.modules if module.id in names)
    zoo = GrowableZoo.of(STRUCTURE.model_copy(update={"modules": modules}))
    return zoo.prices(SIZES, GrowthSettings().fitness).forward


def test_the_log_says_why_and_rebuilds_the_network(run: dict[str, Any], pool: Path) -> None:
    outcome = run["outcome"]
    log = read_log(FolderPool(pool).get(outcome.blobs["edits"]))
    assert [edit.action.operation for edit in log.edits] == ["prune", "prune"]
    assert [edit.event for edit in log.edits] == [2, 3], "the event came before"
    for edit, fall in zip(log.edits, run["falls"], strict=True):
        assert edit.module is not None
        assert f"over the cap of flops, {fall['limits']['flops']:,.0f};" in edit.note
        assert f"loss after a race: {' + '.join(fall['chosen'])} " in edit.note
    replayed = replay_log(log.start, log.edits, FolderPool(pool).get, log.birth)
    network, _ = load_network(FolderPool(pool), outcome.blobs["weights"])
    assert [module.id for module in replayed.modules] == list(network.live) == run["facts"]["modules"]


def test_it_is_told_and_drawn(run: dict[str, Any]) -> None:
    told = [message["growth"]["told"] for message in run["messages"] if "told" in message.get("growth", {})]
    assert len(told) == 2
    shares_of(run["messages"], end=0.9)
    assert told[0].startswith(f"event 2: the cap falls to {PAIR:,} flops: ")
    assert told[0].endswith("6 networks raced")
    growth = GrowthHistory(
        strategist="fixed",
        events=(),
        lives=(),
        steps=40.0,
        decisions=0,
        differing=(),
        overhead={},
        caps=run["facts"]["caps"],
    )
    words = cap_words(growth)
    assert "the best of 6 that raced, of 6 that were looked at" in words[0]
    table = cap_table(growth)
    assert table is not None
    assert [row[-1] for row in table.rows] == ["went on", *["was left"] * 5, "went on", "was left"]
    ((name, drawing),) = cap_drawings(growth)
    assert name == "flops"
    assert drawing.count('class="line') == 2
    assert "the network" in drawing


@pytest.mark.parametrize(("share", "raced"), [(0.5, True), (1e-4, False)])
def test_every_single_module_races_where_they_come_first_or_those_that_fill_the_cap_are_compared(
    share: float, raced: bool
) -> None:
    outcome = grown(arm(caps={"race": {"alone": True, "networks": 3, "share": share}}))
    first = outcome.extra["growth"]["caps"]["falls"][0]
    who = {tuple(network["modules"]) for network in first["networks"]}
    if raced:
        assert who == {(name,) for name in NAMES}
        assert all(network["losses"] for network in first["networks"])
        assert (len(first["chosen"]), first["instead"]) == (1, "")
    else:
        assert all(len(ids) == 2 for ids in who), "pairs fill this cap"
        assert "no room for a race of two networks" in first["instead"]
        assert len(first["chosen"]) == 2


def test_where_not_all_have_room_the_dearest_single_module_is_left_out_whatever_its_loss() -> None:
    outcome = grown(arm(caps={"race": {"alone": True, "networks": 3, "share": 0.1, "least": 4}}))
    (first, *_) = outcome.extra["growth"]["caps"]["falls"]
    dearest = max(NAMES, key=cost)
    by_loss = sorted(first["networks"], key=lambda network: network["before"])
    assert by_loss[0]["modules"] == [dearest], "by its loss it would have raced"
    assert [bool(network["losses"]) for network in by_loss] == [False, True, True]


@pytest.mark.parametrize("restart", [True, False])
def test_the_learning_rate_is_the_highest_again_where_modules_went(
    monkeypatch: pytest.MonkeyPatch, restart: bool
) -> None:
    """Of the training, of what races and of the sides of a later fork, and of no fall at which nothing went."""
    rates: list[tuple[float, float]] = []
    rate_at = OptimizerSettings.rate_at

    def read(settings: OptimizerSettings, step: int, steps: int | None, share: float) -> float:
        rates.append((share, rate_at(settings, step, steps, share)))
        return rates[-1][1]

    monkeypatch.setattr(OptimizerSettings, "rate_at", read)
    whole = {"at": 0.2, "flops": used_by(STRUCTURE)}
    growing = {
        "strategist": "random",
        "events": {"first": 0.7, "last": 0.7, "warm": 0.02, "horizon": 0.02},
        "forks": {"share": 0.3, "least": 1, "samples": 12, "orders": 0},
        "birth": {"most": 4},
    }
    caps = {"restart": restart, "schedule": [whole, *GROWTH["caps"]["schedule"][:1]]}
    outcome = grown(arm(**growing, caps={**caps, "race": {"share": 0.2}}))
    (fork,) = outcome.extra["growth"]["forks"]["tried"]
    assert fork["steps"], "a fork after the fall"
    falls = outcome.extra["growth"]["caps"]["falls"]
    begins = [fall["share"] for fall in falls if fall["excess"]]
    assert len(falls) == 2 > len(begins) == 1
    usual = OptimizerSettings(learning_rate=1e-2)
    for share, rate in rates:
        begun = [begin for begin in begins if begin < share] if restart else []
        if begun:
            descent = min(1.0, (share - begun[-1]) / (1 - begun[-1]))
            assert rate == pytest.approx(1e-2 * (0.1 + 0.9 * (1 + math.cos(math.pi * descent)) / 2))
        else:
            assert rate == rate_at(usual, 0, None, share)


# Interruptions


def test_a_killed_run_is_the_same(run: dict[str, Any], tmp_path: Path) -> None:
    """Killed at every checkpoint in turn, the last before a fall and the first after it among them."""
    checkpoints = sum("checkpoint" in message for message in run["messages"])
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
    assert timeless(outcome) == timeless(run["outcome"])
    assert outcome.blobs == run["outcome"].blobs
    assert outcome.extra["training_flops"] == run["outcome"].extra["training_flops"]


# Without a race


@pytest.mark.parametrize("kind", ["no share", "in steps", "in steps too"])
def test_without_a_race_the_loss_right_after_the_removal_decides(kind: str, tmp_path: Path) -> None:
    one = arm(caps={"race": {"share": 0.0}}) if kind == "no share" else arm()
    flops = {"flops": FLOPS} if kind == "in steps too" else {}
    budget = {} if kind == "no share" else {"budget": {"steps": 20, **flops}}
    with pytest.MonkeyPatch.context() as patch:
        seen = Seen(patch)
        looked: list[tuple[tuple[str, ...], float]] = []
        really = halving.sample_losses

        def judged(network: ModuleZoo, *given: Any, **how: Any) -> Any:
            losses = really(network, *given, **how)
            looked.append((network.live, float(losses.mean())))
            return losses

        patch.setattr(halving, "sample_losses", judged)
        outcome = grown(one, tmp_path, **budget)
    falls = outcome.extra["growth"]["caps"]["falls"]
    assert not seen.sides
    for fall in falls:
        best = min(fall["networks"], key=lambda network: network["before"])
        assert fall["chosen"] == best["modules"]
        assert fall["instead"] == ("race.share is 0" if kind == "no share" else halving.NO_FLOPS)
        assert fall["winner_flops"] == 0
        assert (tuple(best["modules"]), best["before"]) in looked
    gone = [edit["module"] for edit in outcome.extra["growth"]["edits"]]
    assert [name for name, _ in seen.distilled] == gone, "the others learn from it before"
    assert all("distilled in 2 steps" in edit["note"] for edit in outcome.extra["growth"]["edits"])
    assert all(used_by(structure) <= ALONE for share, structure in seen.steps if share > falls[-1]["share"])


def test_where_all_diverge_the_best_untrained_one_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    really = halving.Halving._rung

    def diverged(races: Any, entrant: Any, *given: Any) -> float:
        spent = really(races, entrant, *given)
        entrant.losses[-1] = None
        return spent

    monkeypatch.setattr(halving.Halving, "_rung", diverged)
    falls = grown(arm()).extra["growth"]["caps"]["falls"]
    for fall in falls:
        assert fall["instead"] == halving.DIVERGED
        assert fall["chosen"] == min(fall["networks"], key=lambda network: network["before"])["modules"]
        assert fall["winner_flops"] == fall["steps"] == 0


# What equals what


def test_one_cap_from_the_start_equals_the_fixed_cap(tmp_path: Path) -> None:
    top = cost(*NAMES)
    fixed, stepped = (
        grown(
            arm(strategist="random", caps={"schedule": [], "race": {}, **caps}),
            tmp_path,
        )
        for caps in ({"flops": top}, {"schedule": [{"at": 0.0, "flops": top}]})
    )
    assert timeless(fixed) == timeless(stepped)
    assert fixed.blobs == stepped.blobs


def test_a_cap_that_falls_to_what_the_network_costs_removes_nobody() -> None:
    outcome = grown(arm(caps={"schedule": [{"at": 0.3, "flops": cost(*NAMES)}]}))
    (fall,) = outcome.extra["growth"]["caps"]["falls"]
    assert (fall["excess"], fall["networks"], fall["chosen"], fall["spent"]) == ("", [], [], 0.0)
    assert outcome.extra["growth"]["modules"] == NAMES


@pytest.mark.slow
@pytest.mark.parametrize("strategist", ["random", "heuristic"])
def test_who_grows_beside_it_obeys_too(strategist: str) -> None:
    """Births, replacements and prunings between the falls never lead to a cap that cannot be kept."""
    changes = {
        "strategist": strategist,
        "allow": ["prune", "grow", "spawn", "hybridise", "replace"],
        "prune": {"rule": "quantile", "age": 0, "least": 1, "quantile": 0.6},
        "events": {"count": 4, "first": 0.1, "last": 0.8, "warm": 0.05, "horizon": 0.05, "births": 2},
    }
    cheapest = min(cost(name) for name in NAMES)
    last = {"schedule": [{"at": 0.35, "flops": PAIR}, {"at": 0.7, "flops": cheapest}]}
    with pytest.MonkeyPatch.context() as patch:
        seen = Seen(patch)
        outcome = grown(arm(**changes, caps=last))
    falls = outcome.extra["growth"]["caps"]["falls"]
    for share, structure in seen.steps:
        cap = cheapest if share > falls[1]["share"] else PAIR if share > falls[0]["share"] else float("inf")
        assert used_by(structure) <= cap


def test_a_race_ends_before_the_next_fall() -> None:
    """However large a share the races have, and whatever the next cap is, which is then obeyed in time."""
    outcome = grown(
        arm(
            caps={
                "schedule": [{"at": 0.3, "flops": PAIR}, {"at": 0.45, "flops": ALONE}],
                "race": {"share": 0.9, "samples": 2, "least": 1},
            }
        )
    )
    first, second = outcome.extra["growth"]["caps"]["falls"]
    used = (first["spent"] + first["winner_flops"]) / FLOPS
    assert first["instead"] == ""
    assert 0.05 < used <= 0.15
    assert 0.45 <= second["share"] < 0.5, "a step of the whole network is 2 % of the budget"


# Refusals


def given_settings(**training: Any) -> Any:
    return settings({"training": {"budget": {"steps": None, "flops": FLOPS}, **training}})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"allow": ["grow"]}, "name prune in allow"),
        ({"race": {"share": 0.2}}, "Set race.share to 0"),
    ],
)
def test_what_does_not_go_with_a_fall_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check_grow(given_settings(), arm(**changes))


def test_an_h_model_has_no_falling_cap() -> None:
    structure = HModelStructure(width=16, hidden=(TransformerLayer(heads=2),), iterations=1)
    one = arm().model_copy(update={"network": HModelNetwork(structure=structure)})
    with pytest.raises(UsageError, match="caps of H-Models do not fall"):
        check_grow(given_settings(), one)


def test_a_schedule_out_of_reach_is_refused_before_anything_is_trained() -> None:
    low = {"schedule": [{"at": 0.5, "flops": min(cost(name) for name in NAMES) - 1}]}
    with pytest.raises(UsageError, match="falls lower than the smallest network that is left, one module"):
        check_caps(given_settings(), arm(caps=low), TASK)
    check_caps(given_settings(), arm(), TASK)


# Latency


def test_a_cap_of_latency_falls_by_its_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a table that is given: seconds by the number of FLOPs alone."""
    from evodevo.growth.latency import LatencyTable, Rate, latency

    table = LatencyTable(batch=8, length=4, around=0.0, rates={"linear": Rate(call=0.0, flop=1e-6)})
    monkeypatch.setattr(GrowingZoo, "calibrate", lambda zoo, batch: table)
    seconds = {
        name: latency(STRUCTURE.model_copy(update={"modules": (module,)}), table)
        for name, module in zip(NAMES, STRUCTURE.modules, strict=True)
    }
    low = sorted(seconds.values())[1]
    outcome = grown(arm(caps={"schedule": [{"at": 0.3, "latency": low}]}))
    (fall,) = outcome.extra["growth"]["caps"]["falls"]
    assert "over the cap of latency" in fall["excess"]
    assert sorted(map(tuple, (one["modules"] for one in fall["networks"]))) == sorted(
        (name,) for name in NAMES if seconds[name] <= low
    )
    with pytest.raises(UsageError, match="falls lower than the smallest"):
        grown(arm(caps={"schedule": [{"at": 0.3, "latency": min(seconds.values()) / 2}]}))


def test_the_samples_that_judge_are_of_the_split_architecture(run: dict[str, Any]) -> None:
    """The loss of a network that went on, measured anew on the split, is the recorded one."""
    fall = run["falls"][-1]
    side = [side for side in run["seen"].sides if list(side["ids"]) == fall["chosen"]][-1]
    bench = run["seen"].trainer
    network = bench.build(ModuleZooNetwork(structure=side["structure"]))
    network.load_state_dict(side["end"])
    task = with_architecture_split(TASK)
    places = halving.places(task, "architecture", 12)
    losses = sample_losses(network, task, places, batch_size=32, precision=decide("cpu", "float32"))
    (recorded,) = (one["losses"][-1] for one in fall["networks"] if one["modules"] == fall["chosen"])
    assert float(losses.mean()) == pytest.approx(recorded, abs=1e-6)
