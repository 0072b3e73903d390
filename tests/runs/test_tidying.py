"""What nothing holds goes while a run goes on, when its disk is nearly full, and at its end."""

from __future__ import annotations

import os
from collections import namedtuple
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evodevo.errors import DiskFullError
from evodevo.runs import tidying
from evodevo.runs.evolve import evolve
from evodevo.runs.tidying import MARK_BYTES, tidied
from evodevo.search.study import Study
from evodevo.storage import Store
from runs.test_resuming import TINY

if TYPE_CHECKING:
    from ..conftest import Small

Usage = namedtuple("Usage", "total used free")


def orphan(store: Store) -> Path:
    """A blob that nothing holds, and no young one."""
    path = store.blobs.path(store.blobs.put_bytes(os.urandom(64)))
    os.utime(path, (0, 0))
    return path


def free(monkeypatch: pytest.MonkeyPatch, amounts: list[int]) -> list[int]:
    """The disk has so many free bytes at one look after the other, and then the last."""
    looks: list[int] = []

    def usage(folder: Any) -> Usage:
        looks.append(amounts[min(len(looks), len(amounts) - 1)])
        return Usage(0, 0, looks[-1])

    monkeypatch.setattr(tidying.shutil, "disk_usage", usage)
    return looks


def test_a_store_is_tidied_below_the_mark_and_looked_at_once_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, told = [100.0], []
    monkeypatch.setattr(tidying.time, "monotonic", lambda: now[0])
    looks = free(monkeypatch, [MARK_BYTES, MARK_BYTES - 1])
    with Store.open(tmp_path / "runs") as store:
        listen, litter = tidied(store, lambda kind, facts: told.append((kind, facts))), orphan(store)
        listen("generation", {"generation": 0})
        assert litter.exists(), "there is room"
        now[0] += 59
        listen("generation", {"generation": 1})
        assert len(looks) == 1
        now[0] += 2
        listen("generation", {"generation": 2})
        assert not litter.exists()
    assert [facts["generation"] for _, facts in told] == [0, 1, 2]


@pytest.fixture
def settings(small: Small, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(small.text.parent / "cache"))
    evaluation = {**TINY["evaluation"], "language": {"context_length": 16, "data": str(small.text)}}
    return {**TINY, "evaluation": evaluation}


@pytest.mark.parametrize("room", [0, MARK_BYTES])
def test_litter_goes_during_a_run_where_the_disk_is_nearly_full_and_else_at_its_end(
    tmp_path: Path, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    free(monkeypatch, [room])
    with Store.open(tmp_path / "runs") as store:
        litter = orphan(store)
    there: dict[str, bool] = {}
    run = evolve(
        "backbone.demo",
        overrides=settings,
        store=tmp_path / "runs",
        listener=lambda kind, facts: there.update({kind: litter.exists()}),
    )
    assert there["finished"] is bool(room)
    assert not litter.exists()
    with run.archive, Store.open(tmp_path / "runs", "ro") as store:
        assert run.state == "finished"
        assert store.check(deep=True).problems == ()


def test_litter_goes_where_the_disk_is_full(
    tmp_path: Path, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(tmp_path / "runs") as store:
        litter = orphan(store)

    def full(study: Study) -> None:
        raise DiskFullError("no space left")

    monkeypatch.setattr(Study, "run", full)
    with pytest.raises(DiskFullError):
        evolve("backbone.demo", overrides=settings, store=tmp_path / "runs")
    assert not litter.exists()
