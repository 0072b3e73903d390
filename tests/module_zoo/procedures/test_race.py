"""Races of modules and pairs: within the budget, blind to validation, resumable; the winner keeps its weights."""

from __future__ import annotations

import math
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import torch

from evodevo.errors import UsageError
from evodevo.experiments.trainer import Trainer
from evodevo.experiments.trials import Trial
from evodevo.module_zoo.cost import zoo_cost
from evodevo.module_zoo.modules.zoo import start_zoo
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.procedures import race
from evodevo.module_zoo.spec import ZooStructure
from evodevo.networks.saved import load_network
from evodevo.networks.towers.spec import ExtractorStructure
from evodevo.storage.blobs import FolderPool
from evodevo.tasks.held.back import HeldBackTask
from fixtures.evaluations import lines_of, shares_of
from module_zoo.procedures.test_searches import evaluate, problem_of

WIDTH = 16
STRUCTURE = ZooStructure(width=WIDTH, modules=start_zoo(WIDTH)[:3], extractor=ExtractorStructure(blocks=0))
IDS = [module.id for module in STRUCTURE.modules]
OPTIONS: dict[str, Any] = {"share": 0.5, "samples": 20, "least": 2}
STEPS = 60


def raced(options: dict[str, Any] | None = None, **more: Any) -> Trial:
    values = {"name": "race", "network": ModuleZooNetwork(structure=STRUCTURE), "procedure": "race"}
    training = {"budget": {"steps": STEPS}}
    changes = {"learning_rate": 1e-2, "options": {**OPTIONS, **(options or {})}, "training": training}
    return Trial(**{**values, **changes, **more})


class Seen:
    """The stages of a race, as they were trained."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stages: list[dict[str, Any]] = []
        self.batches: list[list[torch.Tensor]] = []
        self.trainer: Trainer | None = None
        train = Trainer.train

        def told(trainer: Trainer, network: Any, **how: Any) -> Any:
            self.trainer = trainer
            begin = {name: value.clone() for name, value in network.state_dict().items()}
            result = train(trainer, network, **how)
            end = {name: value.clone() for name, value in network.state_dict().items()}
            batch = how["batch_at"](0)
            ids = tuple(module.id for module in network.structure.modules)
            self.stages.append({"ids": ids, "begin": begin, "end": end, "batch": batch, "steps": result.steps, **how})
            return result

        monkeypatch.setattr(Trainer, "train", told)


def equal(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(bool((one[name] == other[name]).all()) for name in one)


@pytest.mark.slow
@pytest.mark.parametrize("kept", [True, False])
def test_a_race_keeps_its_share_and_the_winner_its_weights(
    kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Seen(monkeypatch)
    outcome = evaluate(problem_of(tmp_path if kept else None, (raced(),)), raced())
    facts = outcome.extra["search"]
    *before, last = seen.stages
    assert sum(stage["steps"] for stage in seen.stages) == outcome.extra["steps"] <= STEPS
    assert facts["steps"] == sum(stage["steps"] for stage in before) <= STEPS / 2
    assert facts["share"] == facts["steps"] / STEPS
    assert all(stage["watched"] is False and isinstance(stage["task"], HeldBackTask) for stage in before)
    assert min(step for step, _ in outcome.series["validation_loss"]) > facts["steps"], "blind to validation samples"
    course = [step for step, _ in outcome.series["train_loss"]]
    assert facts["steps"] < min(course) <= max(course) == STEPS, "the curve of the training goes on after the race"
    singles, pairs = facts["heats"]
    assert singles["arms"] == IDS
    assert set(singles["rungs"][0]) == set(IDS)
    final = {name: told["loss"] for name, told in {**singles["rungs"][-1], **pairs["rungs"][-1]}.items()}
    assert " + ".join(facts["chosen"]) == min(final, key=final.__getitem__)
    assert len(singles["rungs"]) == len(pairs["rungs"])
    own = [stage for stage in before if stage["ids"] == tuple(facts["chosen"])]
    assert equal(own[-1]["end"], last["begin"]), "goes on with its weights"
    assert last["ids"] == own[0]["ids"]
    assert seen.trainer is not None
    for number, stage in enumerate(seen.stages):
        done = sum(one["steps"] for one in seen.stages[:number] if one["ids"] == stage["ids"])
        task = stage.get("task") or seen.trainer.task
        assert equal(stage["batch"], task.batch("train", seen.trainer.seed, done, 8)), "an arm goes on where it was"
    if kept:
        network, _ = load_network(FolderPool(tmp_path), outcome.blobs["weights"])
        assert [module.id for module in network.structure.modules] == facts["chosen"]


@pytest.mark.parametrize("budget", [{"steps": STEPS}, {"flops": 1e8}], ids=["steps", "flops"])
def test_it_is_told_who_leads_and_who_goes_on(budget: dict[str, float]) -> None:
    arm = raced(training={"budget": {"steps": None, **budget}, "report_every": 1})
    messages: list[dict[str, Any]] = []
    facts = evaluate(problem_of(None, (arm,)), arm, report=messages.append).extra["search"]
    shares, lines = shares_of(messages), lines_of(messages)
    assert len([line for line in lines if re.search(r"rung \d of \d: .+ leads \d", line)]) == sum(
        len(heat["rungs"]) for heat in facts["heats"]
    )
    assert any(line.startswith("race, heat 2, rung 1 of ") for line in lines)
    assert lines[-1].startswith(f"It goes on with {' + '.join(facts['chosen'])}, the winner of a race of ")
    assert len(shares) > facts["steps"]
    before = [share for share in shares if share < facts["share"]]
    assert before, "the race is a part of the whole budget"


def test_no_room_for_a_race_is_told() -> None:
    arm = raced({"least": 1000})
    messages: list[dict[str, Any]] = []
    evaluate(problem_of(None, (arm,)), arm, report=messages.append)
    assert lines_of(messages) == [f"No race: the budget has no room for two networks; {' + '.join(IDS)} is trained."]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("budget", "options", "every", "empty"),
    [
        ({"steps": STEPS}, {}, 2, False),
        ({"flops": 1e8}, {}, 5, False),
        ({"flops": 1.6e8}, {"judge": "trend", "identity": True}, 9, False),
        ({"steps": 40}, {"judge": "trend", "identity": True}, 2, True),
    ],
    ids=["steps", "flops", "trend", "no module"],
)
def test_a_race_goes_on_from_any_checkpoint_to_the_same_network(
    budget: dict[str, float], options: dict[str, Any], every: int, empty: bool, tmp_path: Path
) -> None:
    arm = raced(options, training={"budget": budget, "checkpoint_every": every})
    of = problem_of(tmp_path, (arm,))
    messages: list[dict[str, Any]] = []
    outcome = evaluate(of, arm, report=messages.append)
    kept = [message for message in messages if message.get("checkpoint")]
    assert len(kept) > 12
    assert len(outcome.extra["search"]["heats"]) == 2
    assert (outcome.extra["search"]["chosen"] == ["identity"]) == empty
    pool = FolderPool(tmp_path)
    for number, message in enumerate(kept[:: len(kept) // 6]):
        # What a checkpoint names is enough: everything else may have been collected.
        own = FolderPool(tmp_path / str(number))
        for digest in (message["checkpoint"], *message["blobs"]):
            own.put_bytes(pool.get(digest))
        told: list[dict[str, Any]] = []
        lone = problem_of(tmp_path / str(number), (arm,))
        resumed = evaluate(lone, arm, resume=message["checkpoint"], report=told.append)
        assert not [one for one in told if "restarted" in one]
        assert resumed.extra["search"] == outcome.extra["search"]
        assert resumed.blobs["weights"] == outcome.blobs["weights"]
        assert resumed.scores == outcome.scores


@pytest.mark.slow
def test_flops_of_steps_and_judgements_count(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Seen(monkeypatch)
    evaluate(problem_of(), raced())
    assert seen.trainer is not None
    assert seen.trainer.spent == 0, "a budget in steps has no place for judgements"
    whole = 3e8
    outcome = evaluate(problem_of(), raced(training={"budget": {"flops": whole}}))
    trainer, facts = seen.trainer, outcome.extra["search"]
    assert trainer.spent > 0
    assert facts["heats"], "there is room for a race"
    assert 0.5 * OPTIONS["share"] < facts["share"] < 1.05 * OPTIONS["share"], "counted, against stated when planned"
    assert 0.9 * whole < trainer.flops <= whole


@pytest.mark.slow
def test_in_seconds_networks_are_timed_and_all_of_it_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dearer network makes fewer steps; who was timed once is not timed again."""
    told: dict[str, float] = {}
    timed = race.ModuleRace._timed

    def one(self: race.ModuleRace, arm: Any) -> float:
        seconds = told[arm.name] = {IDS[0]: 0.02, IDS[1]: 0.005, IDS[2]: 0.01}[arm.name]
        first = timed(self, arm)
        assert 0 < first == timed(self, arm)
        assert self.account.used_seconds >= first
        return seconds

    monkeypatch.setattr(race.ModuleRace, "_timed", one)
    seen = Seen(monkeypatch)
    options = {"singles": 1.0, "samples": 1}
    outcome = evaluate(problem_of(), raced(options, training={"budget": {"seconds": 4.0}}))
    facts = outcome.extra["search"]
    assert list(told) == IDS
    first = facts["heats"][0]["rungs"][0]
    assert first[IDS[1]]["steps"] > first[IDS[2]]["steps"] > first[IDS[0]]["steps"] >= 2
    judged = sum(fact["seconds"] for name, fact in seen.trainer.facts.items() if name.startswith("judged"))  # type: ignore[union-attr]
    assert judged > 0
    assert facts["share"] * 4.0 > judged
    assert seen.stages[-1]["training"].budget.seconds == pytest.approx(4.0 * (1 - facts["share"]))


@pytest.mark.slow
def test_in_seconds_a_race_lasts_no_longer_than_planned_though_steps_take_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(race.ModuleRace, "_timed", lambda self, arm: 1e-4)
    seen = Seen(monkeypatch)
    options = {"singles": 1.0, "samples": 1, "judge": "trend"}
    facts = evaluate(problem_of(), raced(options, training={"budget": {"seconds": 4.0}})).extra["search"]
    rungs = facts["heats"][0]["rungs"]
    assert max(told["steps"] for told in rungs[0].values()) < 0.5 * 4.0 / 5 / 1e-4 / 2, "ended by the clock"
    assert facts["share"] < 0.75
    assert sum(stage["steps"] for stage in seen.stages[:-1]) >= facts["steps"]
    won = rungs[-1][" + ".join(facts["chosen"])]["steps"]
    expected = seen.trainer.task.batch("train", seen.trainer.seed, won, 8)  # type: ignore[union-attr]
    assert equal(seen.stages[-1]["batch"], expected), "it goes on where it was"


@pytest.mark.slow
def test_the_best_of_pairs_and_the_best_module_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, c = IDS
    losses = {(a,): 1.0, (b,): 2.0, (c,): 3.0, (a, b): 1.5, (a, c): 0.9, (b, c): 0.5}

    def judged(self: Any, name: str, arm: Any, network: Any) -> float:
        return losses[arm.ids]

    monkeypatch.setattr(race.ModuleRace, "_judged", judged)
    assert evaluate(problem_of(), raced()).extra["search"]["chosen"] == [b, c]
    losses[a,] = 0.4
    assert evaluate(problem_of(), raced()).extra["search"]["chosen"] == [a], "no pair is better"


@pytest.mark.slow
def test_with_the_whole_race_for_modules_alone_there_are_no_pairs_and_longer_rungs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    half, whole = (evaluate(problem_of(), raced({"singles": singles})).extra["search"] for singles in (0.5, 1.0))
    assert [len(found["heats"]) for found in (half, whole)] == [2, 1]
    steps = [found["heats"][0]["rungs"][0][IDS[0]]["steps"] for found in (half, whole)]
    assert steps[1] == 2 * steps[0]
    assert whole["share"] <= OPTIONS["share"]


@pytest.mark.slow
def test_no_module_takes_part_where_that_is_wanted_and_is_in_no_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[tuple[str, ...]] = []

    def loss(self: Any, name: str, arm: Any, network: Any) -> float:
        judged.append(arm.ids)
        return 0.1 if arm.ids == ("identity",) else 1.0 + len(judged) / 100

    monkeypatch.setattr(race.ModuleRace, "_judged", loss)
    seen = Seen(monkeypatch)
    outcome = evaluate(problem_of(), raced({"identity": True}))
    facts = outcome.extra["search"]
    assert facts["heats"][0]["arms"] == [*IDS, "identity"]
    assert facts["chosen"] == ["identity"]
    assert seen.stages[-1]["ids"] == ("identity",), "it is trained on"
    assert not [name for name in seen.stages[-1]["end"] if name.startswith("pool.")], "without a weight of a module"
    pairs = [ids for ids in judged if len(ids) == 2]
    assert pairs
    assert not [ids for ids in pairs if "identity" in ids]
    assert "identity" not in evaluate(problem_of(), raced()).extra["search"]["heats"][0]["arms"], "unasked"


@pytest.mark.slow
def test_by_its_trend_a_network_that_learns_beats_one_that_has_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first leads all the time and stands still; the others fall, the second faster."""
    a, b, c = IDS
    falls = {a: [1.0], b: [3.0, 1.5, 1.2, 1.1], c: [2.0, 1.8, 1.7, 1.6]}
    names: list[str] = []

    def judged(self: Any, name: str, arm: Any, network: Any) -> float:
        names.append(name)
        return falls[arm.ids[0]][min(sum(arm.name in one for one in names), len(falls[arm.ids[0]])) - 1]

    monkeypatch.setattr(race.ModuleRace, "_judged", judged)
    seen = Seen(monkeypatch)
    options = {"singles": 1.0, "judge": "trend"}
    facts = evaluate(problem_of(), raced(options)).extra["search"]
    assert facts["chosen"] == [b]
    rungs = facts["heats"][0]["rungs"]
    assert set(rungs[0][a]) == {"steps", "loss", "expected"}
    assert rungs[0][a] == {"steps": rungs[0][a]["steps"], "loss": 1.0, "expected": 1.0}
    assert rungs[0][b]["expected"] == 0, (
        "1.5 after 3.0 at half of it: it would fall below 0 in eight times as many steps"
    )
    assert sorted(name for name in names if name.endswith("half of it")) == [
        f"heat 1, rung 1: {name}, half of it" for name in sorted(IDS)
    ]
    halves = [stage for stage in seen.stages if stage.get("until")]
    assert [stage["steps"] for stage in halves] == [stage["until"] for stage in halves]
    names.clear()
    assert evaluate(problem_of(), raced({**options, "judge": "loss"})).extra["search"]["chosen"] == [a]


@pytest.mark.slow
def test_without_room_for_two_the_whole_zoo_is_trained() -> None:
    outcome = evaluate(problem_of(), raced({"least": 1000}))
    assert outcome.extra["search"] == {"tried": 0, "chosen": IDS, "steps": 0, "share": 0.0, "heats": []}
    assert outcome.extra["steps"] == STEPS


@pytest.mark.slow
def test_without_room_for_two_the_mlp_is_trained_where_that_is_wanted() -> None:
    """It is the training of a zoo of the MLP alone, to the bit; a zoo without one is trained whole."""
    plain = next(module for module in STRUCTURE.modules if module.genotype.archetype == "mlp")
    outcome = evaluate(problem_of(), raced({"least": 1000, "otherwise": "mlp"}))
    assert outcome.extra["search"]["chosen"] == [plain.id]
    lone = ModuleZooNetwork(structure=STRUCTURE.model_copy(update={"modules": (plain,)}))
    alone = raced(network=lone, procedure="train", options={})
    assert outcome.scores == evaluate(problem_of(None, (alone,)), alone).scores
    others = tuple(module for module in STRUCTURE.modules if module.id != plain.id)
    without = ModuleZooNetwork(structure=STRUCTURE.model_copy(update={"modules": others}))
    whole = raced({"least": 1000, "otherwise": "mlp"}, network=without)
    assert evaluate(problem_of(None, (whole,)), whole).extra["search"]["chosen"] == [module.id for module in others]


@pytest.mark.parametrize(
    ("arm", "words"),
    [
        (raced(network=ModuleZooNetwork(structure=STRUCTURE.model_copy(update={"disabled": tuple(IDS[1:])}))), "two"),
        (raced({"lest": 3}), "did you mean 'least'"),
        (raced(training={"budget": {"steps": 1}}), "1 steps are too few"),
    ],
)
def test_what_cannot_race_is_refused_before_anything_is_trained(arm: Trial, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        problem_of(None, (arm,))


def flops_of(*names: str) -> int:
    """FLOPs of a sample with these modules alone."""
    task = problem_of().open_task({})
    modules = tuple(module for module in STRUCTURE.modules if module.id in names)
    structure = STRUCTURE.model_copy(update={"modules": modules})
    return zoo_cost(structure, inputs=task.inputs, outputs=task.outputs).executed_flops


@pytest.mark.parametrize("options", [{}, {"begin": 0.5}, {"judge": "trend", "identity": True}, {"singles": 1.0}])
@pytest.mark.parametrize(
    "budget", [{"flops": 1e6}, {"steps": 5}, {"flops": 1e6, "steps": 5}], ids=["flops", "steps", "both"]
)
def test_a_budget_without_room_under_a_limit_is_refused_with_one_that_has_it(
    options: dict[str, Any], budget: dict[str, float]
) -> None:
    """Before anything is trained; the same race with the budget that is named leaves somebody, and with less fails."""
    limit = {"flops": max(flops_of(name) for name in IDS)}

    def late(factor: float) -> Trial:
        amounts = {unit: type(amount)(math.ceil(amount * factor)) for unit, amount in budget.items()}
        return raced({**limit, **options}, training={"budget": {"steps": None, **amounts}})

    with pytest.raises(UsageError, match="race: the budget has no room for a race of two networks under") as refused:
        problem_of(None, (late(1.0),))
    with pytest.raises(UsageError, match="no room for a race of two networks under"):
        evaluate(problem_of(), late(1.0))
    (factor,) = re.findall(r"Give ([0-9.e+]+) times as much", str(refused.value))
    enough = late(float(factor))
    problem_of(None, (enough,))
    if "steps" not in budget:  # steps are whole numbers
        with pytest.raises(UsageError, match="no room for a race of two networks under"):
            problem_of(None, (late(0.97 * float(factor)),))
    assert evaluate(problem_of(), enough).extra["search"]["heats"][0]["rungs"]


def test_a_limit_under_which_fewer_than_two_modules_are_is_refused() -> None:
    costs = sorted((flops_of(name), name) for name in IDS)
    flops = {"budget": {"steps": None, "seconds": 60.0}}
    for training in (flops, {}):
        with pytest.raises(UsageError, match=f"race: only {costs[0][1]} alone is under the"):
            problem_of(None, (raced({"flops": costs[0][0]}, training=training),))
        with pytest.raises(UsageError, match="race: no module alone is under the"):
            problem_of(None, (raced({"flops": costs[0][0] - 1}, training=training),))
    problem_of(None, (raced({"flops": costs[1][0]}),))


@pytest.mark.slow
def test_a_race_that_begins_late_has_the_rest_of_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the race of a smaller budget, to the bit."""
    late = evaluate(problem_of(), raced({"begin": 0.5}))
    small = evaluate(problem_of(), raced(training={"budget": {"steps": STEPS // 2}}))
    assert late.extra["search"] == small.extra["search"]
    assert late.extra["steps"] == small.extra["steps"] == STEPS // 2
    assert late.scores == small.scores


@pytest.mark.slow
def test_nobody_over_the_limit_races(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = sorted((flops_of(*pair), pair) for pair in combinations(IDS, 2))
    facts = evaluate(problem_of(), raced({"flops": pairs[0][0]})).extra["search"]
    first, *second = facts["heats"]
    assert set(first["arms"]) == {name for name in IDS if flops_of(name) <= pairs[0][0]}
    assert all(set(heat["arms"] + heat["left_out"]) == {" + ".join(pairs[0][1])} for heat in second)
    assert flops_of(*facts["chosen"]) <= pairs[0][0]
    cheapest = min(flops_of(name) for name in IDS)
    with pytest.raises(UsageError, match="no module alone is under"):
        evaluate(problem_of(), raced({"flops": cheapest - 1}))
    with pytest.raises(UsageError, match="no room for a race of two networks under"):
        evaluate(problem_of(), raced({"flops": cheapest}))
