"""The small search of ``tests/conftest.py`` opened; a copy of it to be changed; runs that were never run."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evodevo.backbone.space import BackboneSpace
from evodevo.runs.archive import Archive, Run
from evodevo.runs.resolve import resolve
from evodevo.search.members import BASELINE
from evodevo.search.problem import Outcome
from evodevo.search.record import to_evaluation
from evodevo.storage import NewIndividual, Store, individual_id


@pytest.fixture
def run(small: Any) -> Iterator[Run]:
    """The small search, for reading."""
    with Archive(small.store) as archive:
        yield archive.run(small.run)


@pytest.fixture
def copy(small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of its store, which a test may change; its data are prepared."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(small.text.parent / "cache"))
    return Path(shutil.copytree(small.store, tmp_path / "copy"))


Rows = Mapping[str, Mapping[int, Mapping[str, float] | str]]
Recorded = Callable[..., Run]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    """``recorded({"a": {0: {"quality": 2.0, "cache": 10.0}, 1: "crash"}}, drawn={...}, space={...})``

    A run whose individuals have these scores (or failed for this reason) per number of the seed; ``drawn`` are
    baselines. Nothing was trained.
    """
    opened: list[Archive] = []

    def make(
        rows: Rows, *, drawn: Rows | None = None, genomes: Any = None, kind: str = "evolve", **overrides: Any
    ) -> Run:
        settings = resolve("backbone.demo", overrides=overrides)
        space = BackboneSpace(settings.space)
        folder = tmp_path_factory.mktemp("recorded") / "runs"
        with Store.open(folder) as store:
            run_id = store.create_run(kind, "backbone.demo", settings.model_dump(mode="json"), settings.study.seed)
            with Archive(folder) as archive:
                seed_of = archive.run(run_id).evaluation_seed
            lease = store.acquire(run_id)
            for operation, group in ((BASELINE, drawn or {}), ("sample", rows)):
                for slot, (name, outcomes) in enumerate(group.items()):
                    birth = f"{operation}/{name}"
                    genome = genomes[slot] if genomes else space.sample(np.random.default_rng([slot, len(name)]))
                    one = NewIndividual(
                        individual_id(run_id, birth), birth, 0, slot, space.to_json(genome), space.hash(genome),
                        operation, {"name": name},
                    )  # fmt: skip
                    store.add_individuals(lease, [one])
                    for number, given in outcomes.items():
                        outcome = Outcome(reason=given) if isinstance(given, str) else Outcome(scores=given)
                        store.finish_evaluation(lease, to_evaluation(one.id, "none", seed_of(number), 1, outcome))
            store.finish_run(lease, "finished")
        opened.append(Archive(folder))
        return opened[-1].run(run_id)

    yield make
    for archive in opened:
        archive.close()
