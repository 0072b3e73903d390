"""``train``: one individual again, longer, with several seeds; it goes on from its checkpoint after a kill."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evodevo.errors import NotFoundError, UsageError
from evodevo.runs.archive import Archive, Run
from evodevo.runs.evolve import resume
from evodevo.runs.train import train
from evodevo.storage import Store
from evodevo.testing.histories import evaluated_twice

SERIAL = {"execution": {"executor": "serial"}}


class Killed(BaseException):
    """As kill -9."""


@pytest.fixture
def best(copy: Path, small: Any) -> str:
    with Archive(copy) as archive:
        return next(one.id for one in archive.run(small.run).front() if "same_as" not in one.fact)


def scores(run: Run) -> list[str]:
    """Quality of all trainings, with all bits, in order of their seeds."""
    (one,) = run.individuals()
    rows = {row.seed: row.scores["quality"].value for row in one.evaluations if row.state == "done"}
    wanted = [run.evaluation_seed(number) for number in range(run.settings.study.confirmations + 1)]
    return [rows[seed].hex() for seed in wanted]


@pytest.mark.slow
def test_each_seed_is_a_training_of_its_own(copy: Path, small: Any, best: str) -> None:
    run = train(best[:8], tokens=384, seeds=3, overrides=SERIAL, store=copy)
    budget = run.settings.evaluation.training.budget
    assert (budget.tokens, budget.steps, budget.seconds) == (384, None, None)
    assert (run.kind, run.state, run.recipe) == ("train", "finished", "backbone.demo")
    (one,) = run.individuals()
    assert one.parents == (best,)
    assert one.operation == "retrain"
    assert len(set(scores(run))) == 3
    assert all(row.extra["steps"] == 6 for row in one.evaluations)
    assert run.baselines() == []
    with Archive(copy) as archive:
        assert one.genome == archive.individual(best).genome
        assert archive.store.children(best)[-1].child_id == one.id
        assert archive.run("last").id == run.id
    assert one.load() is not None
    assert one.generate("def", 5, seed=1)
    run.archive.close()


@pytest.mark.slow
def test_the_same_budget_gives_the_scores_of_the_search(copy: Path, small: Any, best: str) -> None:
    run = train(best, overrides=SERIAL, store=copy, baselines=True)
    with Archive(copy) as archive:
        source = archive.run(small.run)
        assert run.individuals()[0].scores == source.individual(best).scores
        drawn = {one.name: one.scores for one in source.baselines()}
    assert {one.name: one.scores for one in run.baselines()} == drawn
    run.archive.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("budget", "asked", "every"),
    [({"steps": 40}, {}, 2), ({"steps": 7, "seconds": 60.0}, {"checkpoint_every": 17}, 17)],
)
def test_the_budget_is_what_was_asked_for_and_checkpoints_come_twenty_times_or_as_asked(
    copy: Path, best: str, budget: dict[str, Any], asked: dict[str, Any], every: int
) -> None:
    run = train(best, **budget, overrides={**SERIAL, "evaluation": {"training": asked}}, store=copy)
    found = run.settings.evaluation.training
    assert (found.budget.tokens, found.budget.steps, found.budget.seconds) == (
        None,
        budget["steps"],
        budget.get("seconds"),
    )
    assert found.checkpoint_every == every
    assert run.archive.store.run_blobs(run.id) == {}, "a checkpoint is let go when its training is over"
    run.archive.close()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"seeds": 0}, "at least one"),
        ({"tokens": -5}, "tokens"),
        ({"steps": 0}, "steps"),
        ({"tokens": 3}, "less than one batch|tokens"),
        ({"overrides": {"evaluation": {"trainign": {}}}}, "did you mean 'training'"),
    ],
)
def test_what_cannot_be_is_refused(copy: Path, best: str, arguments: dict[str, Any], words: str) -> None:
    with Archive(copy) as archive:
        before = len(archive.runs())
    with pytest.raises(NotFoundError):
        train("0000zzzz", store=copy)
    with pytest.raises(UsageError, match=words):
        train(best, store=copy, **{"overrides": SERIAL, **arguments})
    with Archive(copy) as archive:
        assert len(archive.runs()) == before, "no run is left behind"


@pytest.mark.slow
def test_a_genome_a_name_and_a_file_are_trained_at_any_depth_and_width(
    tmp_path: Path, small: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(small.text.parent / "cache"))
    store, motif = tmp_path / "runs", "11114 91111 11114 51111"
    (tmp_path / "mine").write_text(motif)
    short = {"training": {"batch_size": 4}, "language": {"context_length": 16}, "validation_tokens": 64}
    made = []
    for what, depth in ((motif, None), (tmp_path / "mine", 8), ("striped-mamba", None), ("transformer++@2", 6)):
        space = {"dimensions": {"width": 16, "head_size": 4}, **({} if depth is None else {"depth": depth})}
        changes = {**SERIAL, "evaluation": short, "space": space}
        run = train(what, tokens=64, overrides=changes, data=small.text, store=store)
        (one,) = run.individuals()
        assert (run.kind, run.state, run.recipe) == ("train", "finished", "backbone.demo")
        assert (one.operation, one.parents) == ("start", ())
        assert run.settings.space.depth == len(one.genome)
        assert run.settings.study.generations == 1
        assert one.load() is not None
        made.append((one.text, one.row.details))
        again = resume(run.id, store=store)
        assert [row.genome for row in again.individuals()] == [one.genome]
        again.archive.close()
        run.archive.close()
    space = run.space
    assert made[0] == (motif, {"source": "the genome"})
    assert made[1][0] == "11114 91111 12114 51111 13124 92121 14124 52121"
    assert "stacked to 8: 2 copies" in made[1][1]["scaling"]
    assert made[2] == (space.print(space.named("striped-mamba", 8)), {"source": "striped-mamba"})
    assert made[3][0] == space.print(space.named("transformer++", 6))


@pytest.mark.slow
def test_an_individual_is_trained_deeper_and_a_baseline_as_its_builder_has_it(
    copy: Path, small: Any, best: str
) -> None:
    changes = {**SERIAL, "space": {"depth": 16}}
    with Archive(copy) as archive:
        baseline = next(one for one in archive.run(small.run).baselines() if one.name == "striped-mamba")
    run = train(best, tokens=64, overrides=changes, store=copy)
    (one,) = run.individuals()
    assert run.settings.space.depth == len(one.genome) == 16
    assert (one.operation, one.parents) == ("retrain", (best,))
    assert "stacked to 16" in one.row.details["scaling"]
    assert run.space.hash(one.genome[:8]) == run.space.hash(one.run.archive.individual(best).genome)
    run.archive.close()
    run = train(baseline.id, tokens=64, overrides=changes, store=copy)
    assert run.individuals()[0].genome == run.space.named("striped-mamba", 16)
    run.archive.close()


@pytest.mark.slow
def test_a_killed_training_goes_on_from_its_checkpoint_to_the_same_bits(copy: Path, best: str) -> None:
    training = {"evaluation": {"training": {"checkpoint_every": 3, "report_every": 1}}}
    whole = train(best, steps=11, seeds=2, overrides={**SERIAL, **training}, store=copy)
    expected = scores(whole)
    whole.archive.close()
    for damage in (False, True):
        _is_killed_and_goes_on(copy, best, {**SERIAL, **training}, expected, damage)


def _is_killed_and_goes_on(copy: Path, best: str, settings: Any, expected: list[str], damage: bool) -> None:
    heard: list[dict[str, Any]] = []

    def until_the_second_checkpoint(kind: str, facts: dict[str, Any]) -> None:
        if kind == "progress":
            heard.append(facts)
            if sum("checkpoint" in one for one in heard) == 2:
                raise Killed

    with pytest.raises(Killed):
        train(best, steps=11, seeds=2, overrides=settings, store=copy, listener=until_the_second_checkpoint)
    with Archive(copy) as archive:
        run = archive.run("last")
        assert run.state == "interrupted"
        held = archive.store.run_blobs(run.id)
        assert heard[-1]["checkpoint"] in held.values()
        assert set(heard[-1]["blobs"]) <= set(held.values()), "gc leaves all of it"
        if damage:
            largest = max(heard[-1]["blobs"], key=lambda digest: archive.store.blobs.size(digest) or 0)
            path = archive.store.blobs.path(largest)
            data = path.read_bytes()
            path.chmod(0o600)
            path.write_bytes(data[:-1] + bytes([data[-1] ^ 255]))
    with Store.open(copy) as store:
        store.gc(grace_seconds=0)

    later: list[dict[str, Any]] = []
    again = resume("last", store=copy, listener=lambda kind, facts: later.append({"kind": kind, **facts}))
    assert again.id == run.id
    progress = [one for one in later if one["kind"] == "progress"]
    steps = [one["step"] for one in progress if "step" in one]
    assert any("restarted" in one for one in progress) == damage
    assert steps[0] == (1 if damage else 7), "from the second checkpoint on, or anew"
    assert scores(again) == expected
    assert evaluated_twice(again.archive.store, again.id) == []
    again.archive.close()
