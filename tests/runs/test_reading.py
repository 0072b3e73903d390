"""What a run says of itself once it is over: front, models, text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from evodevo.backbone.problem import BackboneProblem
from evodevo.errors import NotFoundError, UsageError
from evodevo.networks.sampling import SamplingSettings
from evodevo.runs.archive import Archive, Run
from evodevo.storage import Store
from evodevo.training import held_out


def test_a_run_counts_what_it_holds(run: Run) -> None:
    facts = run.facts()
    assert (facts["state"], facts["kind"], facts["recipe"]) == ("finished", "evolve", "backbone.demo")
    assert facts["individuals"] == facts["scored"] == 4 * 2
    assert facts["generations"] == facts["generations_wanted"] == 2
    assert facts["front"] == len(run.front()) > 0
    assert facts["hypervolume"] == run.generations()[-1]["hypervolume"]
    assert [one.name for one in run.baselines()] == ["transformer++", "striped-mamba"]
    assert [(one.generation, one.slot) for one in run.individuals()] == [(g, s) for g in range(2) for s in range(4)]


def test_the_front_is_that_of_the_scores_and_has_fresh_seeds(run: Run) -> None:
    scores = {one.id: (one.scores["quality"], one.scores["cache"]) for one in run.individuals()}
    expected = {
        one
        for one, (a, b) in scores.items()
        if not any(c <= a and d <= b and (c, d) != (a, b) for c, d in scores.values())
    }
    front = run.front()
    assert {one.id for one in front} == expected
    assert [one.scores["quality"] for one in front] == sorted(one.scores["quality"] for one in front)
    for one in [*front, *run.baselines()]:
        found = one.summary("quality")
        assert found is not None
        assert (found.fresh, found.seeds) == (True, 2)
        assert found.low <= found.mean <= found.high
        assert one.scores["quality"] not in one.values("quality", fresh=True)


def test_equal_genomes_were_trained_once(run: Run) -> None:
    by_hash: dict[str, list[Any]] = {}
    for one in [*run.baselines(), *run.individuals()]:
        by_hash.setdefault(one.row.genome_hash, []).append(one)
    for group in by_hash.values():
        assert len({one.scores["quality"] for one in group}) == 1
        assert sum("same_as" not in one.fact for one in group) == 1


def test_a_loaded_model_has_the_recorded_loss_bit_for_bit(run: Run, small: Any) -> None:
    settings = run.settings.evaluation
    problem = BackboneProblem(run.space, settings, cache_folder=small.text.parent / "cache" / "evodevo")
    task, size = problem.text, settings.windows_at_once
    places = task.spread("validation", settings.validation_tokens)
    for one in [*run.front(), *run.baselines()]:
        measured = held_out.evaluate(
            one.load(),
            (task.fetch("validation", places[start : start + size]) for start in range(0, len(places), size)),
            tokens=len(places) * task.context_length,
            predicted_bytes=task.predicted_bytes("validation", places),
        )
        assert measured.bits_per_byte == one.scores["quality"]


def test_text_follows_from_the_seed(run: Run) -> None:
    one = run.front()[0]
    first = one.generate("def f", 20, seed=1)
    assert first == one.generate("def f", 20, seed=1)
    assert first != one.generate("def f", 20, seed=2)
    greedy = SamplingSettings(temperature=0)
    assert one.generate("def f", 20, seed=1, sampling=greedy) == one.generate("def f", 20, seed=2, sampling=greedy)
    before = torch.get_rng_state()
    one.generate("x", 3)
    assert torch.equal(torch.get_rng_state(), before)
    for prompt in ("", "x" * (2**20 + 1)):
        with pytest.raises(UsageError, match="prompt"):
            one.generate(prompt)


def test_whoever_has_no_weights_says_how_to_get_some(recorded: Any) -> None:
    run = recorded({"good": {0: {"quality": 1.0, "cache": 1.0}}, "bad": {0: "crash"}})
    good, bad = run.individuals()
    with pytest.raises(NotFoundError, match=f"evodevo train {good.id}"):
        good.load()
    with pytest.raises(NotFoundError, match="crash"):
        bad.generate("x")


def test_names_lead_to_runs_and_individuals(run: Run) -> None:
    archive, one = run.archive, run.front()[0]
    assert archive.run(run.id[:6]).id == archive.run("last").id == run.id
    assert archive.individual(one.id[:8]).id == one.id
    with pytest.raises(NotFoundError, match="is an individual; a run is wanted"):
        archive.run(one.id)
    with pytest.raises(NotFoundError, match="is a run; an individual is wanted"):
        archive.individual(run.id)


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        Archive(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()
    with Store.open(tmp_path / "empty"):
        pass
    with Archive(tmp_path / "empty") as archive, pytest.raises(NotFoundError, match="evodevo evolve"):
        archive.run("last")
