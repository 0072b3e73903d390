"""What a worker does with one genome: the same bits every time, also through a checkpoint; divergence is a reason."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from evodevo import canonical
from evodevo.backbone.evaluate import evaluate_backbone
from evodevo.backbone.problem import BackboneProblem
from evodevo.errors import DataError
from evodevo.networks.saved import load_network
from evodevo.search.problem import Outcome
from evodevo.storage.blobs import FolderPool
from evodevo.tasks.text.tokenizers import from_bytes
from evodevo.training import checkpoints, held_out

Make = Callable[..., BackboneProblem]
CHECKPOINTS: dict[str, Any] = {"training": {"checkpoint_every": 3}}


class Cut(BaseException):
    """The process is gone."""


def evaluate(
    problem: BackboneProblem,
    *,
    seed: int = 1,
    resume: str | None = None,
    cut_at: int | None = None,
    name: str = "transformer++",
) -> tuple[Outcome, list[dict[str, Any]]]:
    """The outcome and the live messages; cut short at the checkpoint of that number."""
    messages: list[dict[str, Any]] = []

    def report(message: dict[str, Any]) -> None:
        messages.append(message)
        if sum("checkpoint" in one for one in messages) == cut_at and "checkpoint" in message:
            raise Cut

    payload = problem.payload(problem.space.named(name), seed, resume)
    try:
        return problem.read(evaluate_backbone(payload, report)), messages
    except Cut:
        return Outcome(reason="cut"), messages


def same(one: Outcome, other: Outcome) -> None:
    assert one.reason is None
    assert {name: value.hex() for name, value in one.scores.items()} == {
        name: value.hex() for name, value in other.scores.items()
    }
    assert one.series == other.series
    assert one.extra["loss"] == other.extra["loss"]
    assert one.blobs == other.blobs, "the very same weights"


@pytest.mark.slow
def test_the_same_evaluation_gives_the_same_bits(problem: Make, tmp_path: Path) -> None:
    """With checkpoints on the way and without, and no global generator is drawn from."""
    before = torch.get_rng_state()
    first, messages = evaluate(problem(blobs=tmp_path))
    assert torch.equal(torch.get_rng_state(), before)
    again, _ = evaluate(problem(CHECKPOINTS, blobs=tmp_path))
    same(first, again)
    assert [message["step"] for message in messages] == list(range(1, 9))
    assert messages[-1]["share"] == 1.0
    other, _ = evaluate(problem(blobs=tmp_path), seed=2)
    assert other.scores["quality"] != first.scores["quality"]
    assert other.scores["cache"] == first.scores["cache"]


@pytest.mark.parametrize("number", [1, 2])
def test_a_training_that_was_cut_short_goes_on_to_the_same_bits(problem: Make, tmp_path: Path, number: int) -> None:
    one = problem(CHECKPOINTS, blobs=tmp_path)
    whole, _ = evaluate(one)
    cut, messages = evaluate(one, cut_at=number)
    assert cut.reason == "cut"
    rest, later = evaluate(one, resume=messages[-1]["checkpoint"])
    same(rest, whole)
    assert [message["step"] for message in later if "step" in message] == list(range(3 * number + 1, 9))


@pytest.mark.slow
def test_a_damaged_checkpoint_costs_its_work_and_nothing_else(problem: Make, tmp_path: Path) -> None:
    one = problem(CHECKPOINTS, blobs=tmp_path)
    whole, _ = evaluate(one)
    _, messages = evaluate(one, cut_at=2)
    digest = messages[-1]["checkpoint"]
    pool = FolderPool(tmp_path)
    parts = [digest, *messages[-1]["blobs"]]
    tokenizer = checkpoints.load(pool, digest).manifest.attachments["tokenizer"]
    parts.remove(tokenizer)  # the task has its own
    assert len(parts) >= 4, "manifest, weights, two moments"
    for part in parts:
        path = pool.path(part)
        data = path.read_bytes()
        path.chmod(0o600)
        path.write_bytes(bytes([data[0] ^ 1]) + data[1:])
        rest, later = evaluate(one, resume=digest)
        assert any("restarted" in message for message in later), part
        same(rest, whole)
        path.chmod(0o600)
        path.write_bytes(data)
    path = pool.path(parts[1])
    path.unlink()
    rest, later = evaluate(one, resume=digest)
    assert any("restarted" in message for message in later)
    same(rest, whole)


def test_every_blob_of_a_checkpoint_is_named(problem: Make, tmp_path: Path) -> None:
    one = problem(CHECKPOINTS, blobs=tmp_path)
    outcome, messages = evaluate(one)
    manifest = checkpoints.load(FolderPool(tmp_path), outcome.blobs["weights"]).manifest
    assert set(outcome.blobs.values()) == {outcome.blobs["weights"], *manifest.digests()}
    assert manifest.optimizer is None
    named = set(outcome.blobs.values())
    for message in messages:
        if "checkpoint" in message:
            named |= {message["checkpoint"], *message["blobs"]}
    assert named == set(FolderPool(tmp_path).digests()), "nothing is written that nobody is told of"


def test_the_loaded_model_has_the_recorded_loss_bit_for_bit(problem: Make, tmp_path: Path) -> None:
    # The loaded model computes here, on the CPU, so the recorded one has to.
    one = problem({"objectives": ["quality", "perplexity"], "training": {"device": "cpu"}}, blobs=tmp_path)
    outcome, _ = evaluate(one)
    model, read = load_network(FolderPool(tmp_path), outcome.blobs["weights"])
    assert not model.training
    tokenizer = checkpoints.load(FolderPool(tmp_path), outcome.blobs["weights"]).attachment("tokenizer")
    assert from_bytes(tokenizer).describe() == one.text.tokenizer.describe() == read["tokenizer"]
    places = one.text.spread("validation", one.evaluation.validation_tokens)
    measured = held_out.evaluate(
        model,
        (one.text.fetch("validation", places[start : start + 2]) for start in range(0, len(places), 2)),
        tokens=len(places) * one.text.context_length,
        predicted_bytes=one.text.predicted_bytes("validation", places),
    )
    assert measured.bits_per_byte == outcome.scores["quality"]
    assert measured.perplexity == outcome.scores["perplexity"]


def test_more_windows_at_once_give_the_same_score(problem: Make) -> None:
    scores = [evaluate(problem({"validation_batch": size}))[0].scores["quality"] for size in (None, 8)]
    assert scores[0] == pytest.approx(scores[1], rel=1e-6)


@pytest.mark.parametrize("rate", [1e3, 1e30])
def test_divergence_is_a_reason_with_words(problem: Make, tmp_path: Path, rate: float) -> None:
    changes = {"training": {"optimizer": {"learning_rate": rate, "warmup": 0.0}, "budget": {"steps": 40}}}
    outcome, _ = evaluate(problem(changes, blobs=tmp_path))
    assert outcome.reason in ("diverged", "nan")
    assert outcome.detail
    assert outcome.blobs == {}
    assert outcome.cost["parameters"] > 0, "what is known without training is known"
    assert outcome.values(problem().goals) is None


def test_without_a_pool_nothing_is_written(problem: Make) -> None:
    outcome, messages = evaluate(problem(CHECKPOINTS))
    assert outcome.blobs == {}
    assert not any("checkpoint" in message for message in messages)


def test_weights_are_kept_only_where_that_is_wanted(problem: Make, tmp_path: Path) -> None:
    outcome, _ = evaluate(problem({"keep_weights": False}, blobs=tmp_path))
    assert outcome.blobs == {}
    assert list(FolderPool(tmp_path).digests()) == []


def test_measured_objectives_have_a_spread(problem: Make) -> None:
    outcome, _ = evaluate(problem({"objectives": ["quality", "decode_latency", "prefill_latency"]}))
    assert outcome.scores["decode_latency"] > 0
    assert set(outcome.extra["spreads"]) == {"decode_latency", "prefill_latency"}
    assert all(math.isfinite(spread) and spread >= 0 for spread in outcome.extra["spreads"].values())


def test_data_that_have_changed_under_a_run_are_refused(problem: Make, tmp_path: Path, text: Path) -> None:
    moved = tmp_path / "text.txt"
    moved.write_text(text.read_text())
    one = problem({"language": {"data": str(moved)}})
    payload = canonical.loads(one.payload(one.space.named("transformer++"), 1))
    moved.write_text("other words " * 500)
    payload["cache_folder"] = str(tmp_path / "empty")
    with pytest.raises(DataError, match="is not what it was"):
        evaluate_backbone(canonical.dumps(payload).encode(), lambda message: None)


def test_what_is_known_of_a_genome_beforehand_is_what_its_evaluation_measures(problem: Make) -> None:
    one = problem(
        {"objectives": ["quality", "cache", "parameters", "flops:maximise"], "training": {"budget": {"steps": 1}}}
    )
    outcome, _ = evaluate(one)
    genome = one.space.named("transformer++")
    known = {goal.name: goal.exact(genome) for goal in one.goals if goal.exact is not None}
    assert known == {name: value for name, value in outcome.scores.items() if name != "quality"}
    quality, *others = one.foresee(genome).values
    assert quality is None
    assert others == [known["cache"], known["parameters"], -known["flops"]]
