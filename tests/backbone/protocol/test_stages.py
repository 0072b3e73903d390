"""A protocol from its first stage to its table; killed and resumed it is the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evodevo.backbone.protocol import derived
from evodevo.backbone.protocol.record import TEST, read_protocol
from evodevo.backbone.protocol.stages import STAGES
from evodevo.errors import UsageError
from evodevo.experiments.comparison import compare_arms
from evodevo.runs.archive import Archive, Run
from evodevo.runs.composed import stage_runs
from evodevo.runs.evolve import evolve, resume
from evodevo.storage import Store
from evodevo.testing.histories import difference, evaluated_twice, history

if TYPE_CHECKING:
    from .conftest import Carried

pytestmark = pytest.mark.slow


class Killed(BaseException):
    """As kill -9."""


def test_every_stage_is_a_run_of_its_own_that_has_finished(carried: Carried, protocol: Run) -> None:
    assert (protocol.kind, protocol.recipe, protocol.state) == ("protocol", "backbone.cache", "finished")
    assert tuple(carried.stages) == STAGES
    runs = stage_runs(protocol)
    assert tuple(runs) == STAGES[:-1]
    assert [run.kind for run in runs.values()] == ["train", "evolve", "evolve", "train", "train"]
    assert {run.state for run in runs.values()} == {"finished"}
    assert protocol.archive.run("last").id == protocol.id, "the newest run is one of its stages"


def test_random_search_has_as_many_evaluations_and_the_same_beginning(protocol: Run) -> None:
    search, random = (stage_runs(protocol)[name] for name in ("search", "random"))
    assert len(search.individuals()) == len(random.individuals()) == 8
    assert random.settings.study.algorithm == "random"
    ours, theirs = search.settings.evaluation, random.settings.evaluation
    assert ours == theirs
    firsts = [[one.text for one in run.individuals() if one.generation == 0] for run in (search, random)]
    assert firsts[0] == firsts[1]


def test_rates_are_tuned_on_validation_and_used_in_what_follows(protocol: Run) -> None:
    runs = stage_runs(protocol)
    trials = {row.name: row for name in ("baselines", "tuning") for row in compare_arms(runs[name]).rows}
    assert set(trials) == {"transformer++", "striped-mamba", "star-1", "star-2", "random-1"}
    for row in compare_arms(runs["training"]).rows:
        rates = trials[row.name].rates
        assert len(rates) == 2
        assert row.learning_rate == min(rates, key=lambda rate: rates[rate])
    means = {
        rate: sum(trials[name].rates[rate] for name in ("transformer++", "striped-mamba"))
        for rate in trials["transformer++"].rates
    }
    assert runs["search"].settings.evaluation.training.optimizer.learning_rate == min(
        means, key=lambda rate: means[rate]
    )


def test_the_best_the_control_and_the_baselines_have_all_seeds(protocol: Run) -> None:
    seeds = {row.name: row.seeds for row in read_protocol(protocol).rows}
    assert seeds == {"transformer++": 2, "striped-mamba": 2, "star-1": 2, "star-2": 1, "random-1": 2}


def test_finalists_are_below_both_baselines_and_descend_from_the_search(protocol: Run) -> None:
    record = read_protocol(protocol)
    bound = min(row.cache_bytes for row in record.rows if row.role == "baseline")
    runs = stage_runs(protocol)
    for row in record.rows:
        if row.role == "baseline":
            continue
        assert row.cache_bytes < bound
        source = runs["search" if row.role == "finalist" else "random"].individual(row.individual)
        assert source.text == row.genome
        trained = [runs["training"].individual(identity) for identity in row.trainings]
        assert all(one.parents == (row.individual,) for one in trained)


def test_the_test_split_is_read_once_at_the_end(carried: Carried, protocol: Run) -> None:
    assert carried.readings
    assert {stage for stage, _ in carried.readings} == {"test"}
    assert sum(event.type == TEST for event in protocol.events()) == 1
    for run in stage_runs(protocol).values():
        assert all("test" not in one.fact for one in [*run.individuals(), *run.baselines()])
        described = [event.payload for event in run.events() if event.type == "task"]
        assert all("test" not in facts.get("baselines", {}) for facts in described)


def test_the_test_scores_are_those_of_the_kept_weights(carried: Carried, protocol: Run) -> None:
    from evodevo.tasks.text.language import LanguageTask
    from evodevo.training import held_out
    from evodevo.training.precision import decide

    (event,) = [event for event in protocol.events() if event.type == TEST]
    training = stage_runs(protocol)["training"]
    assert event.payload["results"].keys() == {one.id for one in training.individuals()}
    task = LanguageTask.open(protocol.settings.evaluation.language, carried.cache)
    places = task.spread("test", 256)
    one = training.individuals()[0]
    measured = held_out.evaluate(
        one.load(),
        [task.fetch("test", places)],
        tokens=256,
        predicted_bytes=task.predicted_bytes("test", places),
        precision=decide("cpu"),
    )
    assert event.payload["results"][one.id]["bits_per_byte"] == pytest.approx(measured.bits_per_byte, rel=1e-5)


def test_killed_and_resumed_it_is_the_uninterrupted_one(carried: Carried, tmp_path: Path) -> None:
    """Killed in each stage, between two, and before the test; finished work is not repeated."""
    heard: list[tuple[str, str]] = []
    kills = [
        ("baselines", "evaluated"),
        ("search", "generation"),
        ("random", "stage"),
        ("training", "progress"),
        ("test", "stage"),
    ]

    def hear(kind: str, facts: dict[str, Any]) -> None:
        if kind == "stage":
            heard.append(("stage", facts["stage"]))
        checkpoint = kind != "progress" or "checkpoint" in facts
        if kills and heard and checkpoint and (heard[-1][1], kind) == kills[0]:
            kills.pop(0)
            raise Killed

    store = tmp_path / "runs"
    with pytest.raises(Killed):
        evolve("backbone.cache", overrides=carried.changes, store=store, listener=hear, cache_folder=carried.cache)
    with Archive(store) as archive:
        name = next(run.id for run in archive.runs() if run.kind == "protocol")
    while kills:
        with Archive(store) as archive:
            assert archive.run(name).state == "interrupted"
        with pytest.raises(Killed):
            resume(name, store=store, listener=hear, cache_folder=carried.cache)
    ended = resume(name, store=store, listener=hear, cache_folder=carried.cache)
    assert ended.state == "finished"
    ended.archive.close()
    with Archive(carried.store) as first, Archive(store) as second:
        whole, parts = first.run(carried.run), second.run(name)
        for stage, run in stage_runs(whole).items():
            other = stage_runs(parts)[stage]
            with Store.open(carried.store, "ro") as ours, Store.open(store, "ro") as theirs:
                if run.kind == "evolve":
                    assert not difference(history(ours, run.id), history(theirs, other.id)), stage
                assert evaluated_twice(theirs, other.id) == []
        assert _plain(read_protocol(whole)) == _plain(read_protocol(parts))


def _plain(record: Any) -> Any:
    """Without ids, which are random."""
    rows = [{**row, "individual": "", "trainings": []} for row in record.to_json()["rows"]]
    return {**record.to_json(), "run": "", "stages": {}, "rows": rows}


def test_only_the_workers_change_on_resume(carried: Carried) -> None:
    with pytest.raises(UsageError, match="only the workers, their number and where they are, can change"):
        resume(carried.run, overrides={"study": {"generations": 3}}, store=carried.store, cache_folder=carried.cache)
    again = resume(
        carried.run, overrides={"execution": {"workers": 3}}, store=carried.store, cache_folder=carried.cache
    )
    assert again.state == "finished"
    again.archive.close()


def test_a_wrong_file_of_questions_is_refused_before_anything_is_recorded(carried: Carried, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text('{"question": "a", "choices": ["b", "c"], "answer": 0}\n{"question": "a"}\n')
    changes = {**carried.changes, "protocol": {**carried.changes["protocol"], "tasks": [str(tmp_path / "bad.jsonl")]}}
    with pytest.raises(UsageError, match="line 2"):
        evolve("backbone.cache", overrides=changes, store=tmp_path / "runs", cache_folder=carried.cache)
    assert not (tmp_path / "runs").exists()


def test_a_depth_without_baselines_is_refused_before_anything_is_recorded(carried: Carried, tmp_path: Path) -> None:
    changes = {**carried.changes, "space": {**carried.changes["space"], "depth": 7}}
    with pytest.raises(UsageError, match="even depth"):
        evolve("backbone.cache", overrides=changes, store=tmp_path / "runs", cache_folder=carried.cache)
    assert not (tmp_path / "runs").exists()


def test_a_search_that_finds_nothing_below_the_baselines_says_so(carried: Carried, protocol: Run) -> None:
    from evodevo.backbone.protocol.record import chosen

    settings = protocol.settings
    assert len(chosen(stage_runs(protocol)["search"], settings, 100)) < 8, "some are above"
    costs = derived.cost(settings, derived.baselines(settings)["transformer++"])
    assert costs["cache_bytes"] == 8 // 2 * 2 * 16 * 4096 * 4


def test_who_stopped_at_a_rung_is_never_chosen(protocol: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from evodevo.backbone.protocol.record import chosen

    search, settings = stage_runs(protocol)["search"], protocol.settings
    first, *others = [one.id for one in chosen(search, settings, 100)]
    monkeypatch.setitem(search.individual(first).evaluation.extra, "share", 0.25)  # type: ignore[union-attr]
    assert [one.id for one in chosen(search, settings, 100)] == others


def test_what_was_not_tested_dominates_nothing(protocol: Run) -> None:
    from evodevo.backbone.protocol.record import goals_of
    from evodevo.runs.verdict import dominates

    goals = ("quality", "cache")
    rows = {row.name: row for row in read_protocol(protocol).rows}
    ours, theirs = (replace(rows[name], test=None) for name in ("star-1", "transformer++"))
    assert ours.cache_bytes < theirs.cache_bytes
    assert not dominates(goals_of(ours, goals), goals_of(theirs, goals))
