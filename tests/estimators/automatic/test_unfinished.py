"""A fit that was killed goes on where it was: it ends as if nothing had happened."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import evodevo
from evodevo.errors import DiskFullError, RunOwnedError, UsageError
from evodevo.estimators.automatic import search
from evodevo.estimators.automatic.candidates.base import FitCandidate
from evodevo.estimators.automatic.candidates.boosting import Boosting
from evodevo.estimators.automatic.candidates.constant import Constant
from evodevo.estimators.automatic.candidates.forest import ExtraTrees
from evodevo.estimators.automatic.candidates.linear import Linear
from evodevo.estimators.automatic.candidates.neighbours import Neighbours
from evodevo.estimators.automatic.networks.race import NetworkRace
from evodevo.estimators.automatic.unfinished import folder as folders
from evodevo.estimators.automatic.unfinished import writing
from evodevo.estimators.automatic.unfinished.clock import UsedTime
from evodevo.estimators.automatic.unfinished.folder import UNFINISHED
from evodevo.estimators.automatic.unfinished.writing import remove_drafts, remove_folder, write_file, write_folder
from evodevo.randomness import generator
from evodevo.storage.failpoints import VARIABLE

FILES = {"model.json", "arrays.safetensors"}
Messages = list[tuple[str, dict[str, Any]]]


class KilledError(BaseException):
    """Nothing in the house catches it, as nothing catches a kill."""


def rows(count: int = 50, seed: int = 0) -> dict[str, Any]:
    rng = generator(seed, "unfinished")
    number, word = rng.normal(size=count), rng.integers(0, 3, count)
    answer = number + (word == 1) * 2 + rng.normal(size=count) * 0.3 > 0.5
    return {
        "number": number,
        "word": np.asarray(["stone", "river", "cloud"])[word],
        "y": np.where(answer, "yes", "no"),
    }


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    boosted = Boosting("gradient boosting", rate=0.2, leaves=4, fewest=5, penalty=0.0)
    chosen: list[FitCandidate] = [Constant(), Linear(1.0), Neighbours(5), boosted, ExtraTrees(), Linear(10.0)]
    monkeypatch.setattr(search, "plain_candidates", lambda _: chosen)


def fitted(to: Path | None, heard: Messages | None = None, **more: Any) -> evodevo.FittedModel:
    def listen(kind: str, facts: dict[str, Any]) -> None:
        if heard is not None:
            heard.append((kind, facts))

    given = {"networks": False, "time_limit": "30m"} | more
    data = given.pop("data", None) or rows()
    return evodevo.fit(data, "y", to=to, listener=listen, **given)


def killing(monkeypatch: pytest.MonkeyPatch, at: int) -> Callable[[], int]:
    """End the fit at the so-manyth point around a part that is kept; returns how many points were passed."""
    passed = [0]

    def failpoint(name: str) -> None:
        passed[0] += 1
        if passed[0] == at:
            raise KilledError

    monkeypatch.setattr(folders, "failpoint", failpoint)
    return lambda: passed[0]


def same(found: evodevo.FittedModel, wanted: evodevo.FittedModel) -> None:
    """All but the seconds is equal, bit for bit."""
    assert [row.model_copy(update={"seconds": 0.0}) for row in found.rows] == [
        row.model_copy(update={"seconds": 0.0}) for row in wanted.rows
    ]
    assert found.left_out == wanted.left_out
    assert found.others.keys() == wanted.others.keys()
    for name, other in wanted.others.items():
        samples = wanted.reading.read(wanted._rows(rows(30, 1)))
        assert (found.others[name].probabilities(samples) == other.probabilities(samples)).all()
    assert (found.predict_proba(rows(30, 1)) == wanted.predict_proba(rows(30, 1))).all()


@pytest.fixture(scope="module")
def wanted() -> evodevo.FittedModel:
    with pytest.MonkeyPatch.context() as patch:
        boosted = Boosting("gradient boosting", rate=0.2, leaves=4, fewest=5, penalty=0.0)
        chosen: list[FitCandidate] = [Constant(), Linear(1.0), Neighbours(5), boosted, ExtraTrees(), Linear(10.0)]
        patch.setattr(search, "plain_candidates", lambda _: chosen)
        return fitted(None)


@pytest.mark.slow
@example(kills=[24, 1])
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(kills=st.lists(st.integers(1, 24), min_size=1, max_size=4))
def test_a_fit_that_is_killed_anywhere_ends_as_if_it_had_not_been(
    kills: list[int], wanted: evodevo.FittedModel, tmp_path_factory: pytest.TempPathFactory
) -> None:
    to = tmp_path_factory.mktemp("killed") / "model"
    for at in kills:
        before = (to / "model.json").exists()  # of a fit that has ended: it stays until the next one has
        with pytest.MonkeyPatch.context() as patch:
            passed = killing(patch, at)
            try:
                same(fitted(to), wanted)  # fewer points were left
                assert passed() < at
            except KilledError:
                assert (to / UNFINISHED).exists()
                assert before or not (to / "model.json").exists() or passed() > 1
    heard: Messages = []
    same(fitted(to, heard), wanted)
    assert {path.name for path in to.iterdir()} == FILES
    assert (evodevo.FittedModel.load(to).predict_proba(rows()) == wanted.predict_proba(rows())).all()


@pytest.mark.slow
def test_what_is_kept_is_not_trained_again(
    wanted: evodevo.FittedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        killing(patch, 7)  # before the fourth candidate is kept
        with pytest.raises(KilledError):
            fitted(tmp_path)
    trained: list[str] = []
    judge = search.FitSearch._judge

    def judged(self: Any, candidate: Any, limit: Any) -> Any:
        trained.append(candidate.name)
        return judge(self, candidate, limit)

    monkeypatch.setattr(search.FitSearch, "_judge", judged)
    heard: Messages = []
    same(fitted(tmp_path, heard), wanted)
    assert trained == ["gradient boosting", "extremely randomised trees", "logistic regression, C = 10"]
    (plan,) = [facts for kind, facts in heard if kind == "plan"]
    assert plan["kept"] == 3
    assert plan["used"] > 0


@pytest.mark.slow
def test_last_trainings_are_kept_too(wanted: evodevo.FittedModel, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        killing(patch, 16)  # after the second of six
        with pytest.raises(KilledError):
            fitted(tmp_path)
    heard: Messages = []
    same(fitted(tmp_path, heard), wanted)
    assert [kind for kind, _ in heard].count("final") == 4


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["cut", "flipped", "facts", "gone", "draft"])
def test_a_part_that_is_not_whole_is_trained_again(damage: str, wanted: evodevo.FittedModel, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        killing(patch, 8)
        with pytest.raises(KilledError):
            fitted(tmp_path)
    (place,) = (tmp_path / UNFINISHED).glob("plain_logistic_regression*")
    arrays, facts = place / "arrays.safetensors", place / "facts.json"
    data = arrays.read_bytes()
    if damage == "cut":
        arrays.write_bytes(data[: len(data) // 2])
    elif damage == "flipped":
        arrays.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    elif damage == "facts":
        facts.write_text(facts.read_text().replace('"seconds":', '"seconds":1'))
    elif damage == "gone":
        arrays.unlink()
    else:  # what a kill in the middle of writing leaves
        place.rename(place.with_name(".draft-0123"))
    heard: Messages = []
    same(fitted(tmp_path, heard), wanted)
    told = [facts["key"] for kind, facts in heard if kind == "damaged"]
    assert told == ([] if damage == "draft" else ["plain logistic regression, C = 1"])
    assert {path.name for path in tmp_path.iterdir()} == FILES


@pytest.mark.slow
def test_other_data_or_settings_are_refused_with_what_differs(
    wanted: evodevo.FittedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        killing(patch, 4)
        with pytest.raises(KilledError):
            fitted(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    changed = rows()
    changed["number"] = changed["number"] + 1e-9
    cases: list[tuple[dict[str, Any], str]] = [
        ({"seed": 1}, "seed was 0 and is 1"),
        ({"metric": "balanced_accuracy"}, "metric was 'accuracy' and is 'balanced_accuracy'"),
        ({"ignore": ("word",)}, "ignore was .* no more word"),
        ({"data": rows(51)}, "had 50 rows .* have 51"),
        ({"data": changed}, "values of the data differ"),
        ({"data": rows() | {"more": range(0, 100, 2)}}, "new more"),
    ]
    for more, words in cases:
        with pytest.raises(UsageError, match=words) as error:
            fitted(tmp_path, **more)
        assert str(tmp_path / UNFINISHED) in str(error.value)
        assert sorted(tmp_path.rglob("*")) == before
    same(fitted(tmp_path, time_limit="40m"), wanted)  # the time is no such setting


@pytest.mark.slow
def test_time_that_was_used_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.MonkeyPatch.context() as patch:
        killing(patch, 4)
        with pytest.raises(KilledError):
            fitted(tmp_path, time_limit=600)
    assert 0 < float((tmp_path / UNFINISHED / "used").read_text()) < 600
    (tmp_path / UNFINISHED / "used").write_text("599.5\n")
    left: list[float] = []
    run = search.FitSearch.run
    monkeypatch.setattr(search.FitSearch, "run", lambda self, **more: (left.append(self.limit.left), run(self, **more)))
    model = fitted(tmp_path, time_limit=600)
    assert left[0] <= 0.5
    plain = {row.name for row in model.rows if row.kind == "plain"}
    assert plain == {"always the most frequent", "logistic regression, C = 1"}
    assert "gradient boosting: no time" in model.left_out


def test_the_clock_goes_on_where_the_last_note_was(tmp_path: Path) -> None:
    now = [10.0]
    first = UsedTime(tmp_path / "used", 8.0, lambda: now[0])
    assert first.seconds == 2
    now[0] = 15.0
    first.note()
    second = UsedTime(tmp_path / "used", 100.0, lambda: 103.0)
    assert (second.before, second.seconds) == (7, 10)
    for text in ("", "soon", "-4", "nan", "inf"):
        (tmp_path / "used").write_text(text)
        assert UsedTime(tmp_path / "used", 0.0).before == 0


def test_the_clock_notes_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evodevo.estimators.automatic.unfinished.clock.TICK", 0.01)
    now = [0.0]
    clock = UsedTime(tmp_path / "used", 0.0, lambda: now[0])
    clock.start()
    now[0] = 3.0
    ends = time.monotonic() + 30
    while (tmp_path / "used").read_text() != "3.000\n" and time.monotonic() < ends:
        time.sleep(0.01)
    assert (tmp_path / "used").read_text() == "3.000\n"
    clock.end()


@pytest.mark.slow
def test_ctrl_c_leaves_a_model_and_the_same_call_goes_on(wanted: evodevo.FittedModel, tmp_path: Path) -> None:
    judge = search.FitSearch._judge
    seen: list[str] = []

    def interrupted(self: Any, candidate: Any, limit: Any) -> Any:
        if len(seen) == 2:
            raise KeyboardInterrupt
        seen.append(candidate.name)
        return judge(self, candidate, limit)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search.FitSearch, "_judge", interrupted)
        model = fitted(tmp_path)
    assert {row.name for row in model.rows if row.kind == "plain"} == set(seen)
    assert {path.name for path in tmp_path.iterdir()} == {*FILES, UNFINISHED}
    assert evodevo.FittedModel.load(tmp_path).name == model.name
    same(fitted(tmp_path), wanted)
    assert {path.name for path in tmp_path.iterdir()} == FILES


@pytest.mark.slow
def test_a_folder_is_for_one_process(tmp_path: Path) -> None:
    tried: list[str] = []

    def listen(kind: str, facts: dict[str, Any]) -> None:
        if kind == "plan":
            with pytest.raises(RunOwnedError, match="another process"):
                fitted(tmp_path)
            tried.append(kind)

    evodevo.fit(rows(), "y", to=tmp_path, networks=False, listener=listen)
    assert tried


def test_folders_with_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / UNFINISHED).mkdir()
    (tmp_path / UNFINISHED / "mine.txt").write_text("x")
    with pytest.raises(UsageError, match="other files"):
        fitted(tmp_path)
    assert (tmp_path / UNFINISHED / "mine.txt").read_text() == "x"


@pytest.mark.slow
def test_what_is_too_large_to_be_read_is_not_kept(
    wanted: evodevo.FittedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVODEVO_MOST_INPUT_GIB", "0.0001")
    with pytest.MonkeyPatch.context() as patch:
        killing(patch, 10)  # of six candidates the forest is too large, so that these are all
        with pytest.raises(KilledError):
            fitted(tmp_path)
    kept = {path.name.split("-")[0] for path in (tmp_path / UNFINISHED).iterdir() if path.is_dir()}
    assert len(kept) == 5
    assert "plain_extremely_randomised_trees" not in kept
    heard: Messages = []
    same(fitted(tmp_path, heard), wanted)
    assert "damaged" not in [kind for kind, _ in heard]


@pytest.mark.slow
@pytest.mark.parametrize("after", [5, 19])  # among the candidates, and among the last trainings
def test_a_full_disk_ends_the_fit_and_it_goes_on(after: int, wanted: evodevo.FittedModel, tmp_path: Path) -> None:
    write, written = writing._write, [0]

    def full(path: Path, data: bytes) -> None:
        written[0] += 1
        if written[0] > after:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "_write", full)
        with pytest.raises(DiskFullError, match="no space left"):
            fitted(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {UNFINISHED}
    heard: Messages = []
    same(fitted(tmp_path, heard), wanted)
    assert heard[0][1]["kept"] == after // 2


def test_files_and_folders_are_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_file(tmp_path / "a", b"first")
    write_folder(tmp_path / "b", {"x": b"1", "y": b"2"})

    def fails(*_: Any, **__: Any) -> None:
        raise KilledError

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(KilledError):
        write_file(tmp_path / "a", b"second")
    with pytest.raises(KilledError):
        write_folder(tmp_path / "c", {"x": b"1"})
    assert (tmp_path / "a").read_bytes() == b"first"
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b"}
    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", fails)
        with pytest.raises(KilledError):
            remove_folder(tmp_path / "b")
    (left,) = set(tmp_path.iterdir()) - {tmp_path / "a"}
    assert left.name.startswith(".draft-")
    remove_drafts(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"a"}


@pytest.mark.slow
def test_networks_are_kept_fold_by_fold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their steps are counted here, so that the clock decides nothing."""
    run, raced = NetworkRace.run, []

    def counted(self: NetworkRace, seconds: float, report: Any) -> Any:
        self.arms = self.arms[:2]
        raced.append(seconds)
        return run(self, seconds, report, max_steps=12)

    monkeypatch.setattr(NetworkRace, "run", counted)
    monkeypatch.setattr(search, "LEAST_NETWORK_SECONDS", 0.1)
    monkeypatch.setattr(search, "plain_candidates", lambda _: [Constant()])
    whole = fitted(None, networks=True)
    assert {row.kind for row in whole.rows} >= {"plain", "network"}
    assert len(raced) == 5
    for at, left in ((8, 2), (9, 2), (12, 0)):  # after three, before the fourth, and after the last of the folds
        to = tmp_path / str(at)
        with pytest.MonkeyPatch.context() as patch:
            killing(patch, at)
            with pytest.raises(KilledError):
                fitted(to, networks=True)
        raced.clear()
        same(fitted(to, networks=True), whole)
        assert len(raced) == left


@pytest.mark.slow
def test_networks_that_are_kept_take_part_when_the_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = NetworkRace.run

    def counted(self: NetworkRace, seconds: float, report: Any) -> Any:
        self.arms = self.arms[:1]
        return run(self, seconds, report, max_steps=6)

    monkeypatch.setattr(NetworkRace, "run", counted)
    monkeypatch.setattr(search, "plain_candidates", lambda _: [Constant()])
    with pytest.MonkeyPatch.context() as patch:
        killing(patch, 12)
        with pytest.raises(KilledError):
            fitted(tmp_path, networks=True, time_limit=600)
    (tmp_path / UNFINISHED / "used").write_text("599.9\n")
    model = fitted(tmp_path, networks=True, time_limit=600)
    assert "network" in {row.kind for row in model.rows}


@pytest.mark.slow
@pytest.mark.parametrize("point", ["before_fit_part:kill@4", "after_fit_part:kill@9"])
def test_a_process_that_is_killed(point: str, tmp_path: Path) -> None:
    lines = [f"{number % 7},{number % 5},{'odd' if number % 2 else 'even'}" for number in range(60)]
    (tmp_path / "rows.csv").write_text("a,b,class\n" + "\n".join(lines))
    command = [
        sys.executable,
        "-m",
        "evodevo.cli",
        "fit",
        "rows.csv",
        "--label",
        "class",
        "--no-networks",
        "--to",
        "model",
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    killed = subprocess.run(command, cwd=tmp_path, env={**environment, VARIABLE: point}, capture_output=True)
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / "model" / "model.json").exists()
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "goes on with" in done.stderr
    assert {path.name for path in (tmp_path / "model").iterdir()} == FILES
