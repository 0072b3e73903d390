"""A language-modelling problem as the coordinator sees it: what decides a score, and what is refused unseen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evodevo import canonical
from evodevo.backbone.problem import BackboneProblem
from evodevo.errors import DataError, NotFoundError, UsageError
from evodevo.runs.resolve import resolve
from evodevo.search.problem import INFEASIBLE

Make = Callable[..., BackboneProblem]


@pytest.mark.parametrize(
    ("changes", "space"),
    [
        ({"training": {"budget": {"steps": 9}}}, {}),
        ({"training": {"budget": {"tokens": 500}}}, {}),
        ({"training": {"batch_size": 3}}, {}),
        ({"training": {"optimizer": {"learning_rate": 1e-4}}}, {}),
        ({"training": {"optimizer": {"warmup": 0.5}}}, {}),
        ({"training": {"optimizer": {"clip": 0.5}}}, {}),
        ({"training": {"precision": "bfloat16"}}, {}),
        ({"training": {"divergence": 3.0}}, {}),
        ({"tied": True}, {}),
        ({"validation_tokens": 64}, {}),
        ({"validation_tokens": None}, {}),
        ({"validation_batch": 32}, {}),
        ({"language": {"context_length": 8}}, {}),
        ({"language": {"max_bytes": 6000}}, {}),
        ({"length": 999}, {}),
        ({"convention": "star"}, {}),
        ({}, {"dimensions": {"width": 128}}),
        ({}, {"dimensions": {"width": 64, "modes": 4}}),
        ({}, {"dimensions": {"width": 64, "band": 8}}),
    ],
)
def test_whatever_decides_a_score_changes_the_fidelity(
    problem: Make, changes: dict[str, Any], space: dict[str, Any]
) -> None:
    assert problem(changes, space=space).fidelity != problem().fidelity


@pytest.mark.parametrize(
    ("changes", "space"),
    [
        ({}, {}),
        ({"training": {"report_every": 3}}, {}),
        ({"training": {"checkpoint_every": 2}}, {}),
        ({"seconds": 5.0}, {}),
        ({"memory_bytes": 10**9}, {}),
        ({"keep_weights": False}, {}),
        ({"max_parameters": 10}, {}),
        ({"max_cache_bytes": 10}, {}),
        ({"objectives": ["quality", "parameters"]}, {}),
        ({}, {"mutation_probability": 0.5}),
        ({}, {"crossover_points": 1}),
        ({}, {"depth": 6}),
        ({}, {"classes": ["SA-1"]}),
    ],
)
def test_nothing_else_does(problem: Make, changes: dict[str, Any], space: dict[str, Any]) -> None:
    assert problem(changes, space=space).fidelity == problem().fidelity


def test_other_text_is_another_fidelity(problem: Make, tmp_path: Path, text: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text(text.read_text() + "!")
    assert problem({"language": {"data": str(other)}}).fidelity != problem().fidelity
    moved = tmp_path / "moved.txt"
    moved.write_text(text.read_text())
    assert problem({"language": {"data": str(moved)}}).fidelity == problem().fidelity, "the words count, not the place"


def test_the_fidelity_says_the_budget_in_words(problem: Make) -> None:
    assert problem().fidelity.startswith("steps=8;")
    assert problem({"training": {"budget": {"tokens": 500, "seconds": 2.5}}}).fidelity.startswith(
        "tokens=500,steps=8,s"
    )


@pytest.mark.parametrize(("limit", "name"), [("max_parameters", "parameters"), ("max_cache_bytes", "cache_bytes")])
def test_constraints_are_judged_on_the_static_cost(problem: Make, limit: str, name: str) -> None:
    space = problem().space
    genome = space.named("transformer++")
    exact = space.cost(genome, length=16, convention="actual", vocabulary=problem().text.vocabulary).to_json()[name]
    assert problem({limit: exact}).screen(genome) is None, "the limit itself is allowed"
    refused = problem({limit: exact - 1}).screen(genome)
    assert refused is not None
    assert refused.reason == INFEASIBLE
    assert refused.violation == pytest.approx(1 / (exact - 1))
    assert f"{exact:,}" in refused.detail
    assert f"{exact - 1:,}" in refused.detail
    assert refused.cost[name] == exact
    half = problem({limit: exact // 2}).screen(genome)
    assert half is not None
    assert half.violation > refused.violation


def test_violations_add_up(problem: Make) -> None:
    genome = problem().space.named("transformer++")
    parts = [problem(limits).screen(genome) for limits in ({"max_parameters": 9}, {"max_cache_bytes": 9})]
    both = problem({"max_parameters": 9, "max_cache_bytes": 9}).screen(genome)
    assert both is not None
    assert both.violation == pytest.approx(sum(part.violation for part in parts if part is not None))
    assert both.detail.count("at most") == 2


def test_the_payload_is_all_that_a_worker_needs(problem: Make, tmp_path: Path) -> None:
    one = problem(blobs=tmp_path)
    genome = one.space.named("transformer++")
    data = canonical.loads(one.payload(genome, 5, "f" * 64))
    assert data["arm"]["network"]["structure"]["genome"] == one.space.print(genome)
    assert (data["seed"], data["resume"], data["blobs"]) == (5, "f" * 64, str(tmp_path))
    assert one.payload(genome, 5) == one.payload(genome, 5)
    assert one.payload(genome, 5) != one.payload(genome, 6)


def test_baselines_are_those_that_exist_at_this_depth(problem: Make) -> None:
    assert list(problem().baselines()) == ["transformer++"]
    found = problem(space={"depth": 8}).baselines()
    assert list(found) == ["transformer++", "striped-mamba"]
    assert all(len(genome) == 8 for genome in found.values())


def test_the_data_are_described_with_what_a_model_must_beat(problem: Make) -> None:
    facts = problem().describe()
    canonical.dumps(facts)
    models = facts["count_models"]
    assert 0 < models["byte_bigram"] < models["byte_unigram"] < 8
    assert facts["digest"] == problem().task.digest


def test_goals_are_the_objectives(problem: Make) -> None:
    one = problem({"objectives": ["quality", "cache:maximise"]})
    assert [(goal.name, goal.unit, goal.direction) for goal in one.goals] == [
        ("quality", "bits/byte", "minimise"),
        ("cache", "bytes", "maximise"),
    ]


def test_what_cannot_be_used_is_said_before_anything_is_trained(problem: Make, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Did you mean 'quality'"):
        problem({"objectives": ["qualty"]})
    with pytest.raises((DataError, NotFoundError), match="nowhere"):
        problem({"language": {"data": str(tmp_path / "nowhere")}})
    with pytest.raises(DataError):
        problem({"language": {"context_length": 100_000}})


def test_more_windows_are_measured_at_once_than_are_trained_but_not_more_tokens_than_fit(problem: Make) -> None:
    def at_once(**changes: Any) -> int:
        return problem(changes).evaluation.windows_at_once

    assert at_once() == 2, "as before, the training's batch"
    assert at_once(validation_batch=32) == 32
    assert at_once(validation_batch=32, training={"batch_size": 64}) == 64
    long = problem().evaluation.model_copy(
        update={
            "validation_batch": 32,
            "language": problem().evaluation.language.model_copy(update={"context_length": 4096}),
        }
    )
    assert long.windows_at_once == 8
    assert resolve("backbone.demo", overrides={}).evaluation.validation_batch == 32, "new runs"
