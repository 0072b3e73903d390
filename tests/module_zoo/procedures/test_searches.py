"""Searches over zoos: within one budget, blind to validation samples, resumable, and honest about what they came to."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from evodevo.errors import UsageError
from evodevo.experiments.evaluate import evaluate_network
from evodevo.experiments.problem import NetworkProblem
from evodevo.experiments.trainer import Trainer
from evodevo.experiments.trials import Trial
from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.modules.zoo import start_zoo
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.procedures.darts import collapse
from evodevo.module_zoo.procedures.searching import PoolSearch
from evodevo.module_zoo.spec import ZooStructure
from evodevo.networks.saved import load_network
from evodevo.networks.towers.spec import ExtractorStructure
from evodevo.search.problem import Outcome
from evodevo.storage.blobs import FolderPool
from evodevo.tasks.held_back import HeldBackTask
from evodevo.tasks.reasoning.pointer import PointerTask
from evodevo.testing.small_networks import problem, transformer
from evodevo.training.settings import TrainingSettings

WIDTH = 16
STRUCTURE = ZooStructure(width=WIDTH, modules=start_zoo(WIDTH)[:4], extractor=ExtractorStructure(blocks=0))
IDS = [module.id for module in STRUCTURE.modules]
SMALL: dict[str, Any] = {
    "best_single": {"share": 0.5, "samples": 40},
    "random_pools": {"candidates": 2, "modules": 2, "samples": 40},
    "darts": {"top_k": 2, "samples": 40},
    "enas": {"size": 2, "finalists": 3, "samples": 40},
}


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def searched(procedure: str, options: dict[str, Any] | None = None, **more: Any) -> Trial:
    network = ModuleZooNetwork(structure=STRUCTURE)
    values = {"name": procedure, "network": network, "learning_rate": 1e-2, "procedure": procedure}
    return Trial(**{**values, "options": {**SMALL[procedure], **(options or {})}, **more})


def given(blobs: Path | None = None, arms: tuple[Trial, ...] = (), **training: Any) -> NetworkProblem:
    return problem({"training": {"budget": {"steps": 16}, **training}}, blobs, arms=arms)


def evaluate(of: NetworkProblem, arm: Trial, *, resume: str | None = None, report: Any = None) -> Outcome:
    return of.read(evaluate_network(of.payload(arm, 5, resume), report or (lambda message: None)))


@functools.cache
def found_by(procedure: str) -> dict[str, Any]:
    """What a search without stored weights tells of itself."""
    outcome = evaluate(given(), searched(procedure))
    assert outcome.reason is None, outcome.detail
    facts: dict[str, Any] = outcome.extra["search"]
    return facts


@pytest.mark.slow
@pytest.mark.parametrize("procedure", SMALL)
def test_a_search_stays_within_its_budget_and_keeps_what_it_found(tmp_path: Path, procedure: str) -> None:
    arm = searched(procedure)
    outcome = evaluate(given(tmp_path, (arm,)), arm)
    assert outcome.reason is None, outcome.detail
    assert outcome.extra["steps"] == 16, "search and training together"
    facts = outcome.extra["search"]
    assert facts["steps"] == 8
    assert facts["tried"] == {"best_single": 4, "random_pools": 2, "darts": 1}.get(procedure, facts["tried"])
    network, _ = load_network(FolderPool(tmp_path), outcome.blobs["weights"])
    assert isinstance(network, ModuleZoo)
    assert sorted(module.id for module in network.structure.modules) == sorted(facts["chosen"])
    assert len(facts["chosen"]) == {"best_single": 1}.get(procedure, 2)
    assert network.structure.router == STRUCTURE.router
    steps = [step for step, _ in outcome.series["validation_loss"]]
    assert min(steps) > 8, "the search is not watched on validation samples"


@pytest.mark.slow
@pytest.mark.parametrize("procedure", SMALL)
def test_no_search_sees_validation_or_test_samples(monkeypatch: pytest.MonkeyPatch, procedure: str) -> None:
    whole = found_by(procedure)
    fetch = PointerTask.fetch

    def lying(self: PointerTask, split: Any, chosen: Any) -> Any:
        batch = fetch(self, split, chosen)
        return batch if split == "train" else {**batch, "answer/target": np.zeros_like(batch["answer/target"])}

    monkeypatch.setattr(PointerTask, "fetch", lying)
    blind = evaluate(given(), searched(procedure)).extra["search"]
    assert blind == whole


@pytest.mark.slow
@pytest.mark.parametrize("procedure", SMALL)
def test_a_search_goes_on_from_any_checkpoint_to_the_same_network(tmp_path: Path, procedure: str) -> None:
    of, arm = given(tmp_path, checkpoint_every=2 if procedure != "best_single" else 1), searched(procedure)
    found: list[str] = []
    whole = evaluate(of, arm, report=lambda message: found.append(message.get("checkpoint", "")))
    checkpoints = list(filter(None, found))
    for checkpoint in (checkpoints[0], checkpoints[2]):
        resumed = evaluate(of, arm, resume=checkpoint)
        assert resumed.blobs["weights"] == whole.blobs["weights"]
        assert resumed.extra["search"] == whole.extra["search"]
        assert resumed.scores == whole.scores


@pytest.mark.slow
@pytest.mark.parametrize("procedure", SMALL)
def test_a_budget_may_be_samples_or_seconds(procedure: str) -> None:
    samples = evaluate(given(), searched(procedure, training={"budget": {"tokens": 128}}))
    assert samples.extra["samples"] == 128
    seconds = evaluate(given(), searched(procedure, training={"budget": {"seconds": 0.4}}))
    assert seconds.reason is None, seconds.detail
    assert seconds.extra["search"]["steps"] < seconds.extra["steps"]


@pytest.mark.slow
@pytest.mark.parametrize("procedure", SMALL)
def test_no_search_trains_on_the_samples_by_which_it_judges(monkeypatch: pytest.MonkeyPatch, procedure: str) -> None:
    train, seen = Trainer.train, []

    def told(self: Trainer, network: Any, **how: Any) -> Any:
        if not how.get("watched", True):
            seen.append(how.get("task"))
        return train(self, network, **how)

    monkeypatch.setattr(Trainer, "train", told)
    assert evaluate(given(), searched(procedure)).reason is None
    assert seen
    assert all(isinstance(task, HeldBackTask) for task in seen)


@pytest.mark.slow
def test_the_policy_of_enas_learns_from_the_architecture_split(monkeypatch: pytest.MonkeyPatch) -> None:
    batch, seen = HeldBackTask.batch, []

    def told(self: HeldBackTask, split: Any, *rest: Any) -> Any:
        seen.append(split)
        return batch(self, split, *rest)

    monkeypatch.setattr(HeldBackTask, "batch", told)
    assert evaluate(given(), searched("enas")).reason is None
    assert seen.count("architecture") == 8, "a batch for each step of the search"


@pytest.mark.slow
@pytest.mark.parametrize(("budget", "left"), [(1000.0, 600.0), (300.0, 15.0)], ids=["the rest", "the least"])
def test_seconds_of_judging_are_taken_from_the_final_training(
    monkeypatch: pytest.MonkeyPatch, budget: float, left: float
) -> None:
    judged, rest, found = PoolSearch._judged, PoolSearch._rest, []

    def slow(self: PoolSearch, network: ModuleZoo) -> dict[str, Any]:
        return {**judged(self, network), "seconds": 100.0}

    def told(self: PoolSearch) -> TrainingSettings:
        settings = rest(self)
        found.append(settings.budget.seconds)
        return settings

    monkeypatch.setattr(PoolSearch, "_judged", slow)
    monkeypatch.setattr(PoolSearch, "_rest", told)
    outcome = evaluate(given(), searched("best_single", training={"budget": {"steps": 16, "seconds": budget}}))
    assert outcome.reason is None, outcome.detail
    (seconds,) = found
    assert left - 100 < seconds <= left, "four modules were judged, and training them took a moment"


@pytest.mark.slow
def test_the_best_is_the_best() -> None:
    for procedure in ("best_single", "random_pools"):
        facts = found_by(procedure)
        assert facts["values"][facts["best"]] == max(facts["values"].values())
    facts = found_by("enas")
    best = max(facts["values"], key=lambda one: one["value"])
    assert facts["chosen"] == best["modules"]
    assert facts["drawn"] == 8


@pytest.mark.slow
def test_darts_cuts_down_to_the_heaviest_and_moves_both_sides() -> None:
    facts = found_by("darts")
    weights = facts["weights"]
    assert sum(weights.values()) == pytest.approx(1)
    assert facts["chosen"] == sorted(weights, key=lambda name: -weights[name])[:2]
    assert len(set(facts["logits"].values())) > 1, "the architecture has learned"
    assert sum(facts["kinds"].values()) == 2
    assert facts["moved"] > 0
    still = evaluate(given(), searched("darts", {"factor": 1e-6})).extra["search"]
    spread = [max(one["logits"].values()) - min(one["logits"].values()) for one in (facts, still)]
    assert spread[1] < 1e-3 * spread[0], "its learning rate is its own"


@pytest.mark.parametrize(
    ("kinds", "weights", "moved", "words"),
    [
        ({"mlp": 1, "lstm": 1}, {"a": 0.5, "b": 0.5}, 0.5, ""),
        ({"mlp": 2}, {"a": 0.5, "b": 0.5}, 0.5, "one kind: mlp"),
        ({"mlp": 1}, {"a": 0.5, "b": 0.5}, 0.5, ""),
        ({"mlp": 1, "lstm": 1}, {"a": 0.95, "b": 0.05}, 0.5, "one module: a"),
        ({"mlp": 1, "lstm": 1}, {"a": 0.5, "b": 0.5}, 0.01, "skip"),
    ],
)
def test_a_collapse_is_said(kinds: dict[str, int], weights: dict[str, float], moved: float, words: str) -> None:
    found = collapse(kinds, weights, moved)
    assert words in found
    assert bool(words) == bool(found)


@pytest.mark.slow
def test_terms_of_the_loss_have_curves() -> None:
    arm = Trial(name="zoo", network=ModuleZooNetwork(structure=STRUCTURE), learning_rate=1e-2)
    outcome = evaluate(given(), arm)
    assert outcome.reason is None, outcome.detail
    task = outcome.series["loss/task"]
    assert [step for step, _ in task] == [step for step, _ in outcome.series["validation_loss"]]
    names = [name for name in outcome.series if name.startswith("loss/")]
    assert {"loss/task", "loss/load", "loss/z"} <= set(names)
    totals = [sum(values) for values in zip(*([y for _, y in outcome.series[name]] for name in names), strict=False)]
    losses = [loss for _, loss in outcome.series["train_loss"]]
    assert totals[0] == pytest.approx(np.mean(losses[:4]), rel=1e-4)


@pytest.mark.parametrize(
    ("arm", "words"),
    [
        (searched("darts", {"top_k": 4}), "top_k is 4, and the zoo has 4 live modules"),
        (searched("enas", {"size": 9}), "size is 9"),
        (searched("enas", {"finalist": 9}), "did you mean 'finalists'"),
        (searched("best_single", network=transformer().network), "searches a zoo; best_single is a stack"),
        (searched("random_pools", {"candidates": 100}), "too few to try 100 networks"),
        (searched("darts", {"share": 1.5}), "share"),
    ],
)
def test_what_cannot_be_searched_is_refused_before_anything_is_trained(arm: Trial, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        given(None, (arm,))
