"""Races of modules and pairs: within the budget, blind to validation, resumable; the winner keeps its weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from evodevo.errors import UsageError
from evodevo.experiments.trainer import Trainer
from evodevo.experiments.trials import Trial
from evodevo.module_zoo.modules.zoo import start_zoo
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.procedures import race
from evodevo.module_zoo.spec import ZooStructure
from evodevo.networks.saved import load_network
from evodevo.networks.towers.spec import ExtractorStructure
from evodevo.storage.blobs import FolderPool
from evodevo.tasks.held_back import HeldBackTask
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


@pytest.mark.slow
@pytest.mark.parametrize("budget", [{"steps": STEPS}, {"flops": 2e8}], ids=lambda budget: next(iter(budget)))
def test_a_race_goes_on_from_any_checkpoint_to_the_same_network(budget: dict[str, float], tmp_path: Path) -> None:
    arm = raced(training={"budget": budget, "checkpoint_every": 2})
    of = problem_of(tmp_path, (arm,))
    messages: list[dict[str, Any]] = []
    outcome = evaluate(of, arm, report=messages.append)
    kept = [message for message in messages if message.get("checkpoint")]
    assert len(kept) > 12
    assert len(outcome.extra["search"]["heats"]) == 2
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
def test_without_room_for_two_the_whole_zoo_is_trained() -> None:
    outcome = evaluate(problem_of(), raced({"least": 1000}))
    assert outcome.extra["search"] == {"tried": 0, "chosen": IDS, "steps": 0, "share": 0.0, "heats": []}
    assert outcome.extra["steps"] == STEPS


@pytest.mark.parametrize(
    ("arm", "words"),
    [
        (raced(training={"budget": {"seconds": 5.0}}), "planned in steps"),
        (raced(network=ModuleZooNetwork(structure=STRUCTURE.model_copy(update={"disabled": tuple(IDS[1:])}))), "two"),
        (raced({"lest": 3}), "did you mean 'least'"),
        (raced(training={"budget": {"steps": 1}}), "1 steps are too few"),
    ],
)
def test_what_cannot_race_is_refused_before_anything_is_trained(arm: Trial, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        problem_of(None, (arm,))
