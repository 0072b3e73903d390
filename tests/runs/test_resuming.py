"""Beginning, stopping, going on, and what may not change in between; damage is found and mended."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from evodevo.errors import DataError, EvodevoError, ExitCode, NotFoundError, StoreDamagedError, UsageError
from evodevo.execution.serial import SerialExecutor
from evodevo.runs.archive import Archive
from evodevo.runs.evolve import _changed, evolve, resume
from evodevo.runs.resolve import resolve
from evodevo.search.settings import StudySettings
from evodevo.search.study import Study
from evodevo.settings import merge
from evodevo.storage import Store
from evodevo.testing.histories import evaluated_twice, history, hypervolumes
from evodevo.testing.real_vector import RealVectorSpace, zdt1

TINY: dict[str, Any] = {
    "space": {"depth": 4, "dimensions": {"width": 16, "head_size": 4}},
    "evaluation": {
        "language": {"context_length": 16},
        "training": {"budget": {"tokens": 128}, "batch_size": 4},
        "validation_tokens": 128,
    },
    "study": {"population": 3, "generations": 2, "confirmations": 1},
    "execution": {"executor": "serial"},
}


class Killed(BaseException):
    """As kill -9."""


@pytest.fixture
def settings(small: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(small.text.parent / "cache"))
    evaluation = {**TINY["evaluation"], "language": {"context_length": 16, "data": str(small.text)}}
    return {**TINY, "evaluation": evaluation}


def told(folder: Path, run: str) -> Any:
    with Store.open(folder, "ro") as store:
        assert evaluated_twice(store, run) == []
        assert store.run(run).state == "finished"
        return history(store, run), hypervolumes(store, run)


@pytest.mark.slow
def test_stopped_and_resumed_and_in_two_workers_it_is_the_same_run(tmp_path: Path, settings: dict[str, Any]) -> None:
    whole = evolve("backbone.demo", overrides=settings, store=tmp_path / "whole")
    parts = tmp_path / "parts"
    studies: list[Study] = []

    def listen(kind: str, facts: dict[str, Any]) -> None:
        if kind == "evaluated" and len(studies[-1].members) == 1 + 3:
            studies[-1].stop()

    first = evolve("backbone.demo", overrides=settings, store=parts, listener=listen, on_start=studies.append)
    assert first.state == "interrupted"

    def die(kind: str, facts: dict[str, Any]) -> None:
        if kind == "generation":
            raise Killed

    with pytest.raises(Killed):
        resume(first.id, store=parts, listener=die)
    with Archive(parts) as archive:
        assert archive.run("last").state == "interrupted", "nobody holds it"
    last = resume("last", store=parts)
    assert last.state == "finished"
    assert told(parts, last.id) == told(tmp_path / "whole", whole.id)
    several = {"evaluations": 3}  # in a process
    workers = {**settings, "execution": {"executor": "processes", "workers": 2, "options": several}}
    apart = evolve("backbone.demo", overrides=workers, store=tmp_path / "apart")
    assert told(tmp_path / "apart", apart.id) == told(tmp_path / "whole", whole.id)
    for run in (whole, first, last, apart):
        run.archive.close()


# What may change on resume


@pytest.mark.parametrize(
    ("room", "key", "value"),
    [
        ("space", "dimensions", {"width": 32}),
        ("evaluation", "objectives", ["quality"]),
        ("evaluation", "training", {"batch_size": 2}),
        ("evaluation", "language", {"context_length": 8}),
        ("evaluation", "max_parameters", 10),
        ("study", "seed", 5),
        ("study", "population", 5),
        ("study", "algorithm", "random"),
        ("execution", "threads", 2),
        ("execution", "packages", ["one"]),
    ],
)
def test_what_would_spoil_the_scores_cannot_change(copy: Path, small: Any, room: str, key: str, value: Any) -> None:
    with pytest.raises(UsageError, match=rf"{room}\.{key} cannot change on resume.*study\.generations") as caught:
        resume(small.run, overrides={room: {key: value}}, store=copy)
    assert caught.value.exit_code == ExitCode.USAGE
    with Archive(copy) as archive:
        assert not any(event.type == "run.settings" for event in archive.run(small.run).events())


def test_workers_may_be_elsewhere_and_options_of_another_executor_are_dropped() -> None:
    there = {"executor": "ray", "options": {"address": "auto"}}
    settings = resolve("backbone.demo", overrides={"execution": there})
    moved = _changed(settings, {"execution": {"options": {"gpus": 1}}})
    assert moved.execution.options == {"address": "auto", "gpus": 1}
    back = _changed(moved, {"execution": {"executor": "processes"}})
    assert back.execution.options == {}
    assert back.model_dump(mode="json") == resolve("backbone.demo", overrides={}).model_dump(mode="json")


@pytest.mark.parametrize(
    ("execution", "words"),
    [
        ({"executor": "rya"}, "unknown executor 'rya'. Did you mean 'ray'"),
        ({"executor": "forked"}, "'forked' cannot be chosen by name"),
        ({"options": {"address": "auto"}}, "options of the executor 'processes': unknown key 'address'"),
        ({"executor": "ray", "options": {"gpu": 1}}, "did you mean 'gpus'"),
    ],
)
def test_an_executor_that_cannot_be_is_refused_before_anything_is_recorded(
    execution: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=words):
        evolve("backbone.demo", overrides={**TINY, "execution": execution}, store=tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_what_has_the_same_value_has_not_changed_and_an_unknown_run_is_named(copy: Path, small: Any) -> None:
    with pytest.raises(NotFoundError, match="r0000"):
        resume("r0000", store=copy)
    with pytest.raises(NotFoundError):
        resume("last", store=copy.parent / "nowhere")
    resume(small.run, overrides={"study": {"population": 4, "seed": 0}}, store=copy).archive.close()
    with Archive(copy) as archive:
        assert not any(event.type == "run.settings" for event in archive.run(small.run).events())


@pytest.mark.slow
def test_a_longer_run_is_the_same_run_and_says_so(copy: Path, small: Any) -> None:
    with Archive(copy) as archive:
        before = archive.run(small.run)
        known = {one.id for one in before.individuals()}
    changes = {"study": {"generations": 3, "confirmations": 3, "max_failed_share": 0.5}, "execution": {"workers": 1}}
    run = resume(small.run[:6], overrides={**changes, "evaluation": {"keep_weights": False}}, store=copy)
    assert run.id == small.run
    assert (run.settings.study.generations, run.settings.study.confirmations) == (3, 3)
    assert len(run.individuals()) == 4 * 3
    assert known < {one.id for one in run.individuals()}
    for one in [*run.front(), *run.baselines()]:
        assert len(one.values("quality", fresh=True)) == 3
    (event,) = [event for event in run.events() if event.type == "run.settings"]
    assert event.payload["before"]["study"]["generations"] == 2
    assert event.payload["after"]["study"]["generations"] == 3
    assert "weights" not in run.individuals()[-1].evaluations[0].blobs
    run.archive.close()


def test_a_run_of_ones_own_is_not_for_the_command_line(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        chosen = StudySettings(population=2, generations=1)
        run = (
            Study(RealVectorSpace(3), zdt1, goals=("a", "b"), settings=chosen, store=store, executor=SerialExecutor())
            .run()
            .run
        )
    with pytest.raises(UsageError, match=r"Study\(…, run="):
        resume(run, store=tmp_path)
    with Archive(tmp_path) as archive:
        found = archive.run(run)
        assert found.facts()["scored"] == 2, "and yet it can be counted"
        assert [goal.name for goal in found.goals] == ["a", "b"]
        assert all(set(one.scores) == {"a", "b"} for one in found.front())


# Data


@pytest.mark.slow
def test_data_are_found_from_any_folder_and_stop_a_resume_where_gone_or_changed(
    tmp_path: Path, settings: dict[str, Any], small: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Path(shutil.copytree(small.text, tmp_path / "own"))
    monkeypatch.chdir(tmp_path)
    changes = {**settings, "evaluation": {**TINY["evaluation"], "language": {"context_length": 16, "data": "own"}}}
    run = evolve("backbone.demo", overrides=changes, store=tmp_path / "runs")
    assert run.settings.evaluation.language.data == str(own), "found from any folder"
    run.archive.close()
    monkeypatch.chdir(small.text)
    before = told(tmp_path / "runs", run.id)
    longer = {"study": {"generations": 3}}

    own.rename(tmp_path / "moved")
    with pytest.raises(EvodevoError, match=str(own)) as caught:
        resume(run.id, overrides=longer, store=tmp_path / "runs")
    assert caught.value.exit_code in (ExitCode.USAGE, ExitCode.NOT_FOUND)

    (tmp_path / "moved").rename(own)
    changed = own / "file_0.txt"
    words = changed.read_text()
    changed.write_text(words + "one more line\n")
    with pytest.raises(UsageError, match=f"not those of run {run.id}.*Restore"):
        resume(run.id, overrides=longer, store=tmp_path / "runs")
    assert told(tmp_path / "runs", run.id) == before
    with Archive(tmp_path / "runs") as archive:
        assert archive.run(run.id).settings.study.generations == 2, "a refused resume changes nothing"

    changed.write_text(words)
    again = resume(run.id, overrides=longer, store=tmp_path / "runs")
    assert again.state == "finished"
    again.archive.close()


@pytest.mark.parametrize(
    "changes",
    [
        {"evaluation": {"language": {"data": "/nowhere/at/all"}}},
        {"evaluation": {"objectives": ["qualty"]}},
        {"evaluation": {"training": {"budget": {"tokens": 0}}}},
        {"space": {"depth": 513}},
        {"space": {"dimensions": {"width": 17}}},
        {"space": {"classes": ["SA-1000"]}},
        {"study": {"algorithm": "nsga3"}},
        {"study": {"algorithm_settings": {"no_such": 1}}},
        {"execution": {"packages": ["no-such-package-anywhere"]}},
    ],
)
def test_what_cannot_begin_leaves_nothing_behind(
    tmp_path: Path, settings: dict[str, Any], changes: dict[str, Any]
) -> None:
    with pytest.raises((UsageError, NotFoundError, DataError)) as caught:
        evolve("backbone.demo", overrides=merge(settings, changes), store=tmp_path / "runs")
    assert len(str(caught.value)) > 20
    if (tmp_path / "runs").exists():
        with Store.open(tmp_path / "runs") as store:
            assert store.runs() == []


# Damage


@pytest.mark.slow
@pytest.mark.parametrize("part", ["manifest", "weights"])
def test_damaged_weights_are_found_mended_and_trained_again(copy: Path, small: Any, part: str) -> None:
    with Archive(copy) as archive:
        run = archive.run(small.run)
        scores = {one.id: one.scores for one in run.individuals()}
        one = next(one for one in run.front() if "same_as" not in one.fact)
        assert one.evaluation is not None
        blobs = one.evaluation.blobs
        digest = blobs["weights"] if part == "manifest" else _largest(archive, blobs)
        path = archive.store.blobs.path(digest)
        data = path.read_bytes()
        path.chmod(0o600)
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 255]))
        with pytest.raises(StoreDamagedError, match="evodevo repair") as caught:
            one.load()
        assert caught.value.exit_code == ExitCode.STORE_DAMAGED
        rows = {row.id: row.finished_seq for row in archive.store.evaluations(run.id)}
    with Store.open(copy) as store:
        assert not store.check(deep=True).ok
        report = store.repair()
        assert digest in report.quarantined
        assert report.remaining == ()
    lost = set(report.lost_evaluations)
    assert one.evaluation.id in lost
    again = resume(small.run, store=copy)
    after = {row.id: row.finished_seq for row in again.archive.store.evaluations(run.id)}
    assert {name for name, seq in rows.items() if after.get(name) != seq} == set(), "what was recorded stays"
    assert len(after) == len(rows) + len(lost), "what was lost was done again, and nothing else"
    assert {one.id: one.scores for one in again.individuals()} == scores, "to the same bits"
    again.individual(one.id).load()
    assert again.archive.store.check(deep=True).ok
    again.archive.close()


def test_garbage_is_collected_around_everything_that_is_needed(copy: Path, small: Any) -> None:
    with Store.open(copy) as store:
        orphan = store.blobs.put_bytes(b"nobody holds this")
        assert store.gc(grace_seconds=0).blobs == (orphan,)
        assert store.check(deep=True).ok
    with Archive(copy) as archive:
        for one in archive.run(small.run).individuals():
            one.load()


def _largest(archive: Archive, blobs: dict[str, str]) -> str:
    return max(blobs.values(), key=lambda digest: archive.store.blobs.size(digest) or 0)
