"""Two processes that share the samples of every step train what one process trains."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from evodevo import canonical
from evodevo.backbone.evaluate import evaluate_backbone
from evodevo.backbone.problem import BackboneProblem
from evodevo.errors import UsageError
from evodevo.execution.family import descendants
from evodevo.experiments.problem import NetworkProblem
from evodevo.experiments.replicated import ReplicaFailedError
from evodevo.experiments.settings import NetworkEvaluationSettings
from evodevo.networks.saved import load_network
from evodevo.search.problem import Outcome
from evodevo.settings import validate
from evodevo.storage.blobs import FolderPool
from evodevo.training.settings import Budget, TrainingSettings

Make = Callable[..., BackboneProblem]
TRAINING: dict[str, Any] = {"training": {"batch_size": 8, "checkpoint_every": 4, "budget": {"steps": 8}}}
TWO: dict[str, Any] = {"training": {**TRAINING["training"], "replicas": 2, "parts": 2}}


def evaluate(problem: BackboneProblem, resume: str | None = None) -> tuple[Outcome, list[dict[str, Any]]]:
    messages: list[dict[str, Any]] = []
    payload = problem.payload(problem.space.named("transformer++"), 1, resume)
    return problem.read(evaluate_backbone(payload, messages.append)), messages


def near(one: Outcome, other: Outcome, pools: tuple[Path, Path]) -> None:
    assert (one.reason, other.reason) == (None, None)
    assert one.scores["quality"] == pytest.approx(other.scores["quality"], rel=1e-4)
    for (tokens, loss), (same, near_by) in zip(one.series["train_loss"], other.series["train_loss"], strict=True):
        assert (tokens, loss) == (same, pytest.approx(near_by, rel=1e-4))
    networks = [
        load_network(FolderPool(pool), outcome.blobs["weights"])[0].state_dict()
        for pool, outcome in zip(pools, (one, other), strict=True)
    ]
    for name, value in networks[0].items():
        torch.testing.assert_close(value, networks[1][name], rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_they_are_one_training_also_after_an_interruption_and_one_of_them_writes(problem: Make, tmp_path: Path) -> None:
    alone, together = tmp_path / "alone", tmp_path / "together"
    one, told = evaluate(problem(TRAINING, blobs=alone))
    two, messages = evaluate(problem(TWO, blobs=together))
    near(one, two, (alone, together))
    assert [sorted(message) for message in messages] == [sorted(message) for message in told]
    checkpoints = [message["checkpoint"] for message in messages if "checkpoint" in message]
    assert len(checkpoints) == 2
    again, later = evaluate(problem(TWO, blobs=together), resume=checkpoints[0])
    assert [message["step"] for message in later if "step" in message] == [5, 6, 7, 8]
    assert again.blobs == two.blobs, "to the bit"


def test_a_replica_that_has_done_its_part_cannot_fail_at_its_end() -> None:
    code = "import atexit, os; from evodevo.experiments import replicated; atexit.register(os.abort); "
    ended = [subprocess.run([sys.executable, "-c", code + last], check=False) for last in ("replicated.end()", "")]
    assert [one.returncode for one in ended] == [0, -signal.SIGABRT]


@pytest.mark.slow
def test_a_replica_that_fails_ends_all_with_its_reason(problem: Make) -> None:
    one = problem(TWO)
    payload = canonical.loads(one.payload(one.space.named("transformer++"), 1), what="a payload")
    payload["evaluation"]["objectives"] = ["no such thing"]
    with pytest.raises(ReplicaFailedError, match="no such thing"):
        evaluate_backbone(canonical.dumps(payload).encode(), lambda message: None)
    assert descendants(os.getpid())[1:] == []

    def kill() -> None:
        """The second replica, as soon as there are two below torchrun."""
        while len(found := [pid for pid in descendants(os.getpid())[2:] if b"replicated" in command(pid)]) < 2:
            time.sleep(0.05)
        os.kill(found[1], signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    with pytest.raises(ReplicaFailedError, match="torchrun ended with status 1"):
        evaluate(one)
    thread.join()
    assert descendants(os.getpid())[1:] == []


def command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_what_cannot_be_shared_is_refused() -> None:
    for changes, words in (
        ({"batch_size": 8, "parts": 2, "replicas": 3}, "no 2 equal parts in each of 3 replicas"),
        ({"replicas": 2, "budget": {"seconds": 3.0}}, "clocks of their own"),
    ):
        with pytest.raises(UsageError, match=words):
            validate(TrainingSettings, {"budget": {"steps": 1}, **changes}, what="settings")


def test_other_networks_are_refused_before_anything_begins() -> None:
    training = TrainingSettings(budget=Budget(steps=1), batch_size=8, replicas=2)
    with pytest.raises(UsageError, match="trainings of backbones alone"):
        NetworkProblem(lambda genome: genome, NetworkEvaluationSettings(task="no such task", training=training))
