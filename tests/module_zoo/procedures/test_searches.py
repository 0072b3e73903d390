"""Searches over zoos: within one budget, blind to validation samples, resumable, honest; the policy of ENAS learns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
from evodevo.module_zoo.procedures.sub_pools import SubPoolPolicy
from evodevo.module_zoo.spec import ZooStructure
from evodevo.networks.saved import load_network
from evodevo.networks.towers.spec import ExtractorStructure
from evodevo.randomness import generator
from evodevo.search.problem import Outcome
from evodevo.storage.blobs import FolderPool
from evodevo.tasks.held.back import HeldBackTask
from evodevo.tasks.reasoning.pointer import PointerTask
from evodevo.testing.small_networks import problem, transformer

WIDTH = 16
STRUCTURE = ZooStructure(width=WIDTH, modules=start_zoo(WIDTH)[:4], extractor=ExtractorStructure(blocks=0))
SMALL: dict[str, Any] = {
    "best_single": {"share": 0.5, "samples": 40},
    "random_pools": {"candidates": 2, "modules": 2, "samples": 40},
    "darts": {"top_k": 2, "samples": 40},
    "enas": {"size": 2, "finalists": 3, "samples": 40},
}


def searched(procedure: str, options: dict[str, Any] | None = None, **more: Any) -> Trial:
    network = ModuleZooNetwork(structure=STRUCTURE)
    values = {"name": procedure, "network": network, "learning_rate": 1e-2, "procedure": procedure}
    return Trial(**{**values, "options": {**SMALL[procedure], **(options or {})}, **more})


def problem_of(blobs: Path | None = None, arms: tuple[Trial, ...] = (), **training: Any) -> NetworkProblem:
    few = {"test_samples": 10, "validation_samples": 20, "curve_samples": 10, "trace_samples": 1}
    return problem({"training": {"budget": {"steps": 16}, **training}, **few}, blobs, arms=arms)


def evaluate(of: NetworkProblem, arm: Trial, *, resume: str | None = None, report: Any = None) -> Outcome:
    outcome = of.read(evaluate_network(of.payload(arm, 5, resume), report or (lambda message: None)))
    assert outcome.reason is None, outcome.detail
    return outcome


@dataclass
class Searched:
    """A search that has ended: its checkpoints, and on what its judged networks were trained."""

    of: NetworkProblem
    blobs: FolderPool
    arm: Trial
    outcome: Outcome
    checkpoints: list[str]
    tasks: list[Any]

    @property
    def facts(self) -> dict[str, Any]:
        """What it tells of itself."""
        found: dict[str, Any] = self.outcome.extra["search"]
        return found


@pytest.fixture(scope="module", params=["best_single", "darts", "enas"])
def search(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Searched:
    arm = searched(request.param)
    blobs = tmp_path_factory.mktemp("blobs")
    of = problem_of(blobs, (arm,), checkpoint_every=1 if arm.name == "best_single" else 2)
    checkpoints: list[str] = []
    tasks: list[Any] = []
    train = Trainer.train

    def told(self: Trainer, network: Any, **how: Any) -> Any:
        if not how.get("watched", True):
            tasks.append(how.get("task"))
        return train(self, network, **how)

    def keep(message: dict[str, Any]) -> None:
        checkpoints.extend(filter(None, [message.get("checkpoint")]))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "train", told)
        return Searched(of, FolderPool(blobs), arm, evaluate(of, arm, report=keep), checkpoints, tasks)


@pytest.mark.slow
def test_a_search_stays_within_its_budget_and_keeps_what_it_found(search: Searched) -> None:
    outcome, facts, procedure = search.outcome, search.facts, search.arm.procedure
    assert outcome.extra["steps"] == 16, "search and training together"
    assert facts["steps"] == 8
    assert facts["tried"] == {"best_single": 4, "darts": 1}.get(procedure, facts["tried"])
    network, _ = load_network(search.blobs, outcome.blobs["weights"])
    assert sorted(module.id for module in network.structure.modules) == sorted(facts["chosen"])
    assert len(facts["chosen"]) == {"best_single": 1}.get(procedure, 2)
    assert network.structure.router == STRUCTURE.router
    steps = [step for step, _ in outcome.series["validation_loss"]]
    assert min(steps) > 8, "the search is not watched on validation samples"
    assert search.tasks
    assert all(isinstance(task, HeldBackTask) for task in search.tasks), "nor trained on samples by which it judges"
    if procedure == "best_single":
        assert facts["values"][facts["best"]] == max(facts["values"].values())
    if procedure == "enas":
        assert facts["chosen"] == max(facts["values"], key=lambda one: one["value"])["modules"]
        assert facts["drawn"] == 8
    if procedure == "darts":
        weights = facts["weights"]
        assert sum(weights.values()) == pytest.approx(1)
        assert facts["chosen"] == sorted(weights, key=lambda name: -weights[name])[:2]
        assert len(set(facts["logits"].values())) > 1, "the architecture has learned"
        assert sum(facts["kinds"].values()) == 2
        assert facts["moved"] > 0
        still = evaluate(problem_of(), searched("darts", {"factor": 1e-6})).extra["search"]
        spread = [max(one["logits"].values()) - min(one["logits"].values()) for one in (facts, still)]
        assert spread[1] < 1e-3 * spread[0], "its learning rate is its own"


@pytest.mark.slow
def test_no_search_sees_validation_or_test_samples(search: Searched, monkeypatch: pytest.MonkeyPatch) -> None:
    fetch, batch = PointerTask.fetch, HeldBackTask.batch
    splits: list[str] = []

    def lying(self: PointerTask, split: Any, chosen: Any) -> Any:
        batch = fetch(self, split, chosen)
        return batch if split == "train" else {**batch, "answer/target": np.zeros_like(batch["answer/target"])}

    def told(self: HeldBackTask, split: Any, *rest: Any) -> Any:
        splits.append(split)
        return batch(self, split, *rest)

    def finish(self: PoolSearch, structure: ZooStructure, facts: dict[str, Any]) -> Any:
        chosen = [module.id for module in structure.modules]
        assert {"chosen": chosen, "steps": self.bench.steps, **facts} == search.facts
        raise UsageError("that is all")

    monkeypatch.setattr(PointerTask, "fetch", lying)
    monkeypatch.setattr(HeldBackTask, "batch", told)
    monkeypatch.setattr(PoolSearch, "finish", finish)
    with pytest.raises(UsageError, match="that is all"):
        evaluate(problem_of(), search.arm)
    if search.arm.procedure == "enas":
        assert splits.count("architecture") == 8, "a batch for each step of the policy"


@pytest.mark.slow
def test_a_search_goes_on_from_a_checkpoint_to_the_same_network(search: Searched) -> None:
    resumed = evaluate(search.of, search.arm, resume=search.checkpoints[2])
    assert resumed.blobs["weights"] == search.outcome.blobs["weights"]
    assert resumed.extra["search"] == search.facts
    assert resumed.scores == search.outcome.scores


@pytest.mark.slow
def test_a_budget_may_be_samples_or_seconds() -> None:
    samples = evaluate(problem_of(), searched("random_pools", training={"budget": {"tokens": 128}}))
    assert samples.extra["samples"] == 128
    facts = samples.extra["search"]
    assert (facts["tried"], len(facts["chosen"])) == (2, 2), "random pools are tried as single modules are"
    assert facts["values"][facts["best"]] == max(facts["values"].values())
    seconds = evaluate(problem_of(), searched("darts", training={"budget": {"seconds": 0.3}}))
    assert seconds.extra["search"]["steps"] < seconds.extra["steps"]


@pytest.mark.slow
def test_seconds_of_judging_are_taken_from_the_final_training(monkeypatch: pytest.MonkeyPatch) -> None:
    judged, rest, found = PoolSearch._judged, PoolSearch.rest, []

    def slow(self: PoolSearch, network: ModuleZoo) -> dict[str, Any]:
        return {**judged(self, network), "seconds": 100.0}

    def told(self: PoolSearch) -> Any:
        training = self.bench.training
        for budget in (300.0, 1000.0):
            changed = training.budget.model_copy(update={"seconds": budget})
            self.bench.training = training.model_copy(update={"budget": changed})
            found.append(rest(self).budget.seconds)
        raise UsageError("that is all")

    monkeypatch.setattr(PoolSearch, "_judged", slow)
    monkeypatch.setattr(PoolSearch, "rest", told)
    with pytest.raises(UsageError, match="that is all"):
        evaluate(problem_of(), searched("best_single", training={"budget": {"steps": 16, "seconds": 1000.0}}))
    least, seconds = found
    assert least == 15, "of 300 seconds a share is kept"
    assert 500 < seconds <= 600, "four modules were judged, and training them took a moment"


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
    assert words in found if words else not found


@pytest.mark.slow
def test_terms_of_the_loss_have_curves() -> None:
    arm = Trial(name="zoo", network=ModuleZooNetwork(structure=STRUCTURE), learning_rate=1e-2)
    outcome = evaluate(problem_of(), arm)
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
        problem_of(None, (arm,))


# The policy of ENAS


IDS = ("a", "b", "c", "d", "e")


def policy(size: int = 1, rate: float = 0.1) -> SubPoolPolicy:
    return SubPoolPolicy(IDS, size, rate, 0.9)


def log_probability(logits: np.ndarray, drawn: tuple[int, ...]) -> float:
    left, total = list(range(len(logits))), 0.0
    for place in drawn:
        total += logits[place] - math.log(sum(math.exp(logits[one]) for one in left))
        left.remove(place)
    return total


@pytest.mark.parametrize("size", [1, 2])
def test_on_a_bandit_it_learns_what_pays(size: int) -> None:
    learner = policy(size)
    for number in range(300):
        drawn = learner.draw(generator(0, number))
        noise = generator(1, number).normal() * 0.1
        learner.learn(drawn, 0.5 * (2 in drawn) + 0.5 * (size > 1 and 4 in drawn) + noise)
    chances = learner.probabilities()
    wanted = {"c"} if size == 1 else {"c", "e"}
    assert sum(chances[name] for name in wanted) > 0.9


@settings(max_examples=15, deadline=None)
@given(st.lists(st.floats(-3, 3), min_size=5, max_size=5), st.permutations(range(5)), st.integers(1, 5))
def test_the_gradient_is_that_of_the_probability(logits: list[float], order: list[int], size: int) -> None:
    learner, drawn = policy(size), tuple(order[:size])
    learner.logits = np.asarray(logits)
    step = 1e-5
    for place in range(5):
        up, down = learner.logits.copy(), learner.logits.copy()
        up[place] += step
        down[place] -= step
        slope = (log_probability(up, drawn) - log_probability(down, drawn)) / (2 * step)
        assert learner.gradient(drawn)[place] == pytest.approx(slope, abs=1e-6)


def test_draws_have_the_probabilities_of_their_logits() -> None:
    learner = policy(2)
    learner.logits = np.asarray([1.0, 0.0, -1.0, 0.5, 0.0])
    count = 20_000
    rng = np.random.default_rng(0)
    drawn = [learner.draw(rng) for _ in range(count)]
    for pair in permutations(range(5), 2):
        share = sum(one == pair for one in drawn) / count
        assert share == pytest.approx(math.exp(log_probability(learner.logits, pair)), abs=0.012)
    assert learner.names((3, 0)) == ("a", "d"), "in the order of the pool"


def test_it_goes_on_where_it_was() -> None:
    whole, part = policy(2), policy(2)
    for number in range(20):
        if number == 9:
            part = SubPoolPolicy(IDS, 2, 0.1, 0.9, part.to_json())
        for one in (whole, part):
            drawn = one.draw(generator(3, number))
            one.learn(drawn, math.nan if number == 4 else float(sum(drawn)))
    assert whole.to_json() == part.to_json()
    assert whole.decisions == 20

    equal = policy(2)
    for number in range(50):
        equal.learn(equal.draw(generator(0, number)), 0.7)
    assert equal.logits.tolist() == [0.0] * 5, "equal rewards teach nothing"
