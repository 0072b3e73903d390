"""A training in a worker: what comes back, what is kept, and that an interruption leaves no trace."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evodevo.errors import DataError, UnsafeFileError, UsageError
from evodevo.experiments.correct_bits import unpack
from evodevo.experiments.evaluate import measure_pace
from evodevo.experiments.flop_counter import look_at_step
from evodevo.experiments.measure import measure, places
from evodevo.experiments.problem import NetworkProblem
from evodevo.experiments.procedures import PROCEDURES, TrainedBy
from evodevo.experiments.settings import NetworkEvaluationSettings
from evodevo.experiments.trained import Trained
from evodevo.experiments.trainer import CURVE, Trainer
from evodevo.h_model.model import HModel
from evodevo.h_model.network import HModelNetwork
from evodevo.h_model.spec import HModelStructure
from evodevo.h_model.trace.file import FORMAT, trace_from_bytes, trace_to_bytes
from evodevo.networks.build import build_network
from evodevo.networks.saved import load_network
from evodevo.operators.layers.mlp import MLPLayer
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.search.problem import Outcome
from evodevo.settings import validate
from evodevo.storage.blobs import FolderPool
from evodevo.tasks.reasoning.pointer import PointerTask
from evodevo.testing.small_networks import h_model, problem, settings, transformer
from evodevo.training import checkpoints
from evodevo.training.precision import decide
from fixtures.evaluations import Killed, Told, assert_equal, evaluate, outcome_of


def in_two_stages(bench: Trainer, options: Mapping[str, Any]) -> Trained:
    """Train, look, train again at another rate: what a longer history does."""
    network = bench.build()
    bench.train(network)
    looked = bench.once("between", lambda: bench.measure(network, samples=20).to_json())
    faster = bench.training.model_copy(
        update={"optimizer": bench.training.optimizer.model_copy(update={"learning_rate": 2e-3})}
    )
    return Trained(network, bench.train(network, training=faster), extra={"looked": looked})


PROCEDURES.add("testing.two_stages", TrainedBy(in_two_stages))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[NetworkProblem, FolderPool, Outcome]:
    """An H-Model of which everything is asked."""
    folder = tmp_path_factory.mktemp("trained")
    probes = [
        {"name": "T = 5", "iterations": 5},
        {"name": "m = 1", "inference": {"mode": "target_topm", "m": 1}},
        {"name": "shuffled", "shuffle": ["text"]},
    ]
    objectives = ["error", "executed_flops", "auc", "f1", "log_loss", "calibration_error"]
    given = problem({"probes": probes, "trace_course": True, "objectives": objectives}, folder)
    return given, FolderPool(folder), evaluate(given, h_model())


@pytest.mark.slow
def test_everything_comes_back(trained: tuple[NetworkProblem, FolderPool, Outcome]) -> None:
    _, _, outcome = trained
    assert set(outcome.scores) == {"error", "executed_flops", "auc", "f1", "log_loss", "calibration_error"}
    facts = outcome.extra
    assert (facts["steps"], facts["samples"], facts["epochs"], facts["selection"]) == (8, 64, 64 / 400, [])
    assert outcome.scores["error"] == pytest.approx(1 - facts["validation"]["accuracy"])
    assert facts["validation"]["samples"] == facts["test"]["samples"] == 40
    assert set(facts["validation"]["groups"]["hops"]) == {"1", "2"}
    assert set(facts["probes"]) == {"T = 5", "m = 1", "shuffled"}
    dense = outcome.cost["executed_flops"]
    assert facts["probes"]["T = 5"]["executed_flops"] > dense > facts["probes"]["m = 1"]["executed_flops"]
    assert {"depth used", "paths"} <= set(facts["inside"])
    assert facts["gradient_norms"]["before"].keys() == facts["gradient_norms"]["after"].keys()
    steps = [[step for step, _ in outcome.series[name]] for name in CURVE]
    assert steps == [[2, 4, 6, 8]] * len(CURVE)
    flops = [value for _, value in outcome.series["flops"]]
    assert flops[-1] == pytest.approx(facts["training_flops"])
    assert flops == sorted(flops)
    assert len(outcome.series["train_loss"]) == 8
    kept = [role for role in outcome.blobs if role.startswith("course/")]
    assert kept == ["course/2", "course/4", "course/6", "course/8"]
    answer = facts["validation"]["outputs"]["answer"]
    assert outcome.scores["auc"] == answer["auc"]
    assert outcome.scores["f1"] == answer["f1_macro"]
    assert outcome.scores["log_loss"] == answer["log_loss"] == pytest.approx(answer["loss"], rel=1e-5)
    assert 0 <= outcome.scores["calibration_error"] <= 1
    assert unpack(facts["test"]["right"]).mean() == pytest.approx(facts["test"]["accuracy"])
    assert facts["peak_memory_bytes"] > 1 << 20


@pytest.mark.slow
def test_the_network_and_its_trace_come_back_from_their_blobs(
    trained: tuple[NetworkProblem, FolderPool, Outcome],
) -> None:
    given, pool, outcome = trained
    network, about = load_network(pool, outcome.blobs["weights"])
    assert isinstance(network, HModel)
    assert about["task"] == "pointer"
    assert about["task_settings"]["nodes"] == 4
    chosen = places(given.task, "validation", 40)
    again = measure(network, given.task, "validation", chosen, batch_size=64, precision=decide("cpu"))
    assert again.loss == pytest.approx(outcome.extra["validation"]["loss"])
    data = pool.get(outcome.blobs["trace"])
    trace = trace_from_bytes(data)
    assert trace_to_bytes(trace) == data
    assert (trace.count, trace.iterations, set(trace.facts)) == (6, 2, {"hops", "answer"})
    assert all("hop" in sample["text"] for sample in trace.samples)
    for broken in (b"", b"nonsense", data[:-5], data.replace(FORMAT.encode(), b"evodevo.trace/9")):
        with pytest.raises(UnsafeFileError):
            trace_from_bytes(broken)
    with pytest.raises(UnsafeFileError, match="trace"):
        trace_from_bytes(pool.get(outcome.blobs["weights/0"]))


def test_an_objective_that_is_not_defined_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    given = problem({"objectives": ["auc"]})
    fetch = PointerTask.fetch

    def one_class(self: PointerTask, split: Any, chosen: Any) -> Any:
        return {**fetch(self, split, chosen), "answer/target": np.zeros(len(chosen), dtype=np.int64)}

    monkeypatch.setattr(PointerTask, "fetch", one_class)
    outcome = outcome_of(given, h_model())
    assert outcome.reason == "nan"
    assert "auc (answer: the split has one class)" in outcome.detail


def test_a_stack_has_no_routes_and_no_probes_of_routing(tmp_path: Path) -> None:
    outcome = evaluate(problem({"probes": [{"name": "T = 5", "iterations": 5}]}, tmp_path), transformer())
    assert outcome.extra["probes"] == {}
    assert outcome.extra["inside"] == {}
    assert "trace" not in outcome.blobs


@pytest.mark.slow
def test_the_seed_is_the_arms_and_the_runs() -> None:
    given = problem({"training": {"budget": {"steps": 2}}})
    losses = [evaluate(given, h_model(seed=seed)).series["train_loss"] for seed in (0, 0, 1)]
    assert [one == losses[0] for one in losses] == [True, True, False]


def test_flops_are_those_of_the_beginning_wherever_a_training_goes_on(tmp_path: Path) -> None:
    """Which layers of a carried stream run depends on weights: who counts again where it goes on counts otherwise."""
    hidden = (TransformerLayer(heads=2), MLPLayer(hidden=2), TransformerLayer(heads=2, feedforward=200))
    carried = HModelStructure(
        width=16, hidden=hidden, iterations=2, input_blocks=0, output_blocks=0, regularisation={"balance": 0.0}
    )
    network = HModelNetwork(structure=carried)
    given, told = problem({"training": {"checkpoint_every": 2, "budget": {"steps": 8}}}, tmp_path), Told()
    arm = h_model(network=network, learning_rate=0.1)
    whole = evaluate(given, arm, report=told.append)
    end, _ = load_network(FolderPool(tmp_path), whole.blobs["weights"])
    first = build_network(network, *(getattr(given.open_task({}), name) for name in ("inputs", "outputs")), seed=5)
    batch = decide("cpu").place(given.open_task({}).batch("train", 5, 0, 8))
    assert look_at_step(first, batch).flops != look_at_step(end, batch).flops, "else the case tests nothing"
    assert len(told.checkpoints) >= 3
    for checkpoint in told.checkpoints:
        resumed = evaluate(given, arm, resume=checkpoint)
        assert_equal(resumed, whole, "flops", "training_flops", "steps")


@pytest.mark.slow
def test_stages_go_on_from_any_checkpoint_to_the_same_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evodevo.experiments.evaluate.look_inside", lambda *_: {})
    given = problem({"training": {"checkpoint_every": 2, "budget": {"steps": 5}}}, tmp_path)
    arm, told = h_model(procedure="testing.two_stages"), Told()

    def die(message: dict[str, Any]) -> None:
        told.append(message)
        if len(told.checkpoints) == 3:
            raise Killed

    with pytest.raises(Killed):
        evaluate(given, arm, report=die)
    whole = evaluate(given, arm)
    assert whole.extra["steps"] == 10
    for checkpoint in (told.checkpoints[0], told.checkpoints[2]):
        resumed = evaluate(given, arm, resume=checkpoint)
        assert_equal(resumed, whole, "validation_loss", "validation_error", "flops", "steps", "facts")


@pytest.mark.slow
def test_a_damaged_checkpoint_costs_its_work_alone(tmp_path: Path) -> None:
    given, told = problem({"training": {"checkpoint_every": 2, "budget": {"steps": 4}}}, tmp_path), Told()
    whole = evaluate(given, h_model(), report=told.append)
    manifest = told.checkpoints[0]
    part = checkpoints.load(FolderPool(tmp_path), manifest).manifest.digests()[0]
    path = next(one for one in tmp_path.rglob("*") if one.is_file() and part.endswith(one.name))
    path.chmod(0o600)
    path.write_bytes(b"nonsense")
    for resume in (manifest, "0" * 64):
        told.clear()
        assert evaluate(given, h_model(), resume=resume, report=told.append).scores == whole.scores
        assert told.all_of("restarted")


def test_a_divergence_is_a_result() -> None:
    outcome = outcome_of(problem(), h_model(learning_rate=1e30))
    assert outcome.reason in ("nan", "diverged")
    assert outcome.scores == {}


def test_a_pace_is_a_time() -> None:
    answer = json.loads(measure_pace(problem().payload(h_model(), 0), lambda message: None))
    assert 0 < answer["step"] < 10
    assert answer["begin"] > 0


def test_what_cannot_be_is_refused_before_anything_is_trained() -> None:
    for changes, words in (
        ({"objectives": ["quality"]}, "cannot be asked of a network; what can: .*error"),
        ({"objectives": []}, "for example error"),
        ({"task": "ponter"}, "pointer"),
        ({"task_settings": {"nodse": 5}}, "did you mean 'nodes'"),
        ({"probes": [{"name": "x", "task": {"nodes": -1}}]}, "nodes"),
    ):
        values = {**settings().model_dump(mode="json"), **changes}
        with pytest.raises((UsageError, DataError), match=words):
            NetworkProblem(lambda arm: arm, validate(NetworkEvaluationSettings, values, what="settings"))
    for arm, words in (
        (h_model(procedure="trian"), "unknown procedure 'trian'.*train"),
        (h_model(task={"nodse": 1}), "did you mean 'nodes'"),
        (h_model(training={"batch_syze": 1}), "did you mean 'batch_size'"),
    ):
        with pytest.raises(UsageError, match=words):
            problem(arms=[arm])


def test_an_arms_budget_replaces_the_common_one() -> None:
    given = problem()
    assert given.steps(h_model()) == 8
    assert given.steps(h_model(training={"budget": {"steps": 20}})) == 20
    assert given.steps(h_model(training={"budget": {"tokens": 80}})) == 10
    assert given.steps(h_model(training={"budget": {"seconds": 1.0}})) is None
    assert problem({"validation_samples": 39}).fidelity != given.fidelity
    assert problem({"training": {"report_every": 5}}).fidelity == given.fidelity
    assert math.isclose(evaluate(given, h_model(training={"budget": {"steps": 3}})).extra["steps"], 3)
