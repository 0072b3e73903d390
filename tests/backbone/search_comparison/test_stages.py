"""A comparison of searches from its first search to its table; killed and resumed it is the same."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evodevo.backbone.search_comparison.record import read_search_comparison
from evodevo.errors import UsageError
from evodevo.runs.archive import Archive, Run
from evodevo.runs.composed import stage_runs
from evodevo.runs.evolve import evolve, resume
from evodevo.settings import merge
from evodevo.storage import Store
from evodevo.testing.histories import difference, evaluated_twice, history

if TYPE_CHECKING:
    from .conftest import Compared

pytestmark = pytest.mark.slow


class Killed(BaseException):
    """As kill -9."""


def test_every_search_is_a_run_of_its_own_seed_by_seed(algorithms: Compared, comparison: Run) -> None:
    assert (comparison.kind, comparison.state) == ("search_comparison", "finished")
    names = [f"{arm}/{seed}" for seed in range(2) for arm in ("genetic", "surrogate", "random")]
    assert algorithms.stages == names
    runs = stage_runs(comparison)
    assert list(runs) == names
    assert {run.kind for run in runs.values()} == {"evolve"}
    assert [run.settings.study.algorithm for run in runs.values()] == ["genetic", "surrogate", "random"] * 2
    assert [run.seed for run in runs.values()] == [0, 0, 0, 1, 1, 1]
    assert comparison.archive.run("last").id == comparison.id, "the newest run is one of its stages"


def test_all_arms_of_a_seed_begin_with_the_same_generation(comparison: Run) -> None:
    first = {
        stage: [(one.text, one.scores) for one in run.individuals() if one.generation == 0]
        for stage, run in stage_runs(comparison).items()
    }
    for seed in range(2):
        assert first[f"genetic/{seed}"] == first[f"surrogate/{seed}"] == first[f"random/{seed}"]
    assert first["random/0"] != first["random/1"]


def test_with_elites_a_search_has_more_generations_for_as_many_evaluations(comparison: Run) -> None:
    counts = {stage: len(run.individuals()) for stage, run in stage_runs(comparison).items()}
    assert set(counts.values()) == {4}
    generations = {stage: len(run.generations()) for stage, run in stage_runs(comparison).items()}
    assert (generations["genetic/0"], generations["random/0"]) == (3, 2)


def test_killed_and_resumed_it_is_the_uninterrupted_one(algorithms: Compared, tmp_path: Path) -> None:
    """Killed inside the first search, between two searches, and inside the last; finished work is not repeated."""
    heard: list[str] = []
    kills = [("genetic/0", "evaluated"), ("random/0", "stage"), ("random/1", "generation")]

    def hear(kind: str, facts: dict[str, Any]) -> None:
        if kind == "stage":
            heard.append(facts["stage"])
        if kills and heard and (heard[-1], kind) == kills[0]:
            kills.pop(0)
            raise Killed

    store, others = tmp_path / "runs", {"listener": hear, "cache_folder": algorithms.cache}
    with pytest.raises(Killed):
        evolve(algorithms.recipe, overrides=algorithms.changes, store=store, **others)
    with Archive(store) as archive:
        name = next(run.id for run in archive.runs() if run.kind == "search_comparison")
        assert "has not ended" in read_search_comparison(archive.run(name)).sentences[0]
    while kills:
        with pytest.raises(Killed):
            resume(name, store=store, **others)
    ended = resume(name, store=store, **others)
    assert ended.state == "finished"
    ended.archive.close()
    with Archive(algorithms.store) as first, Archive(store) as second:
        whole, parts = first.run(algorithms.run), second.run(name)
        with Store.open(algorithms.store, "ro") as ours, Store.open(store, "ro") as theirs:
            for stage, run in stage_runs(whole).items():
                other = stage_runs(parts)[stage]
                assert not difference(history(ours, run.id), history(theirs, other.id)), stage
                assert evaluated_twice(theirs, other.id) == []
        assert _plain(read_search_comparison(whole).to_json()) == _plain(read_search_comparison(parts).to_json())


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    """Without ids, which are random."""
    arms = [{**arm, "searches": [{**row, "run": ""} for row in arm["searches"]]} for arm in record["arms"]]
    return {**record, "run": "", "stages": {}, "arms": arms}


def test_only_the_workers_change_on_resume(algorithms: Compared) -> None:
    with pytest.raises(UsageError, match="only the workers, their number and where they are, can change"):
        resume(algorithms.run, overrides={"study": {"generations": 3}}, store=algorithms.store)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"depth": 7, "final": {"tokens": 640}}, "even depth"),
        ({"arms": [{"name": "a", "changes": {"study": {"algorithm": "wrong"}}}]}, "algorithm"),
        ({"arms": [{"name": "a", "changes": {"studies": {}}}]}, "'a'"),
        ({"arms": [{"name": "a"}, {"name": "a"}]}, "two arms"),
        ({"arms": [{"name": "random"}]}, "every comparison"),
        ({"arms": [{"name": "a", "changes": {"space": {"depth": 2}}}]}, "another size"),
        ({"final": {"tokens": 3}}, "less than one batch"),
        ({"final": {"tokens": 640}, "arms": [{"name": "a", "changes": {"space": {"depth": 3}}}]}, "divides 4"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_recorded(
    algorithms: Compared, tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    comparison = {name: value for name, value in changes.items() if name != "depth"}
    overrides = merge(
        algorithms.changes, {"space": {"depth": changes.get("depth", 4)}, "search_comparison": comparison}
    )
    with pytest.raises(UsageError, match=words):
        evolve(algorithms.recipe, overrides=overrides, store=tmp_path / "runs", cache_folder=algorithms.cache)
    assert not (tmp_path / "runs").exists()
