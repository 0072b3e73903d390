"""Two tiny comparisons of searches, carried out once for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from evodevo.runs.archive import Archive, Run
from evodevo.runs.evolve import evolve
from evodevo.settings import merge

TINY: dict[str, Any] = {
    "space": {"depth": 4, "dimensions": {"width": 16, "head_size": 4}},
    "evaluation": {
        "language": {"context_length": 16},
        "training": {"budget": {"tokens": 128}, "batch_size": 4, "device": "cpu"},
        "validation_tokens": 256,
    },
    "study": {"population": 2, "generations": 2},
    "execution": {"executor": "serial"},
}
ALGORITHMS: dict[str, Any] = {
    "search_comparison": {
        "arms": [
            {"name": "genetic", "changes": {"study": {"algorithm": "genetic", "algorithm_settings": {"elites": 1}}}},
            {"name": "surrogate", "changes": {"study": {"algorithm": "surrogate"}}},
        ],
        "seeds": 2,
    }
}
SCALES: dict[str, Any] = {
    "space": {"depth": 8},
    "search_comparison": {
        "arms": [
            {"name": "motif", "changes": {"space": {"depth": 4}}},
            {"name": "width", "changes": {"space": {"dimensions": {"width": 8, "head_size": 2}}}},
        ],
        "seeds": 1,
        "final": {"finalists": 2, "tokens": 192, "test_tokens": 256, "curve_points": 1},
    },
}


@dataclass(frozen=True)
class Compared:
    """A comparison that was carried out.

    Attributes:
        recipe: its recipe.
        store: folder of its store.
        run: id of its run.
        changes: what was changed in the recipe.
        cache: folder of prepared data.
        stages: stages in the order in which they were announced.
    """

    recipe: str
    store: Path
    run: str
    changes: dict[str, Any]
    cache: Path
    stages: list[str]


def _carried(recipe: str, own: dict[str, Any], novel: Path, folder: Path) -> Compared:
    changes = merge(merge(TINY, own), {"evaluation": {"language": {"data": str(novel)}}})
    stages: list[str] = []

    def hear(kind: str, facts: dict[str, Any]) -> None:
        if kind == "stage":
            stages.append(facts["stage"])

    cache = folder / "cache"
    run = evolve(recipe, overrides=changes, store=folder / "runs", listener=hear, cache_folder=cache)
    run.archive.close()
    return Compared(recipe, folder / "runs", run.id, changes, cache, stages)


@pytest.fixture(scope="session")
def algorithms(tmp_path_factory: pytest.TempPathFactory, novel: Path) -> Compared:
    """Two algorithms and random search, two seeds, by their own scores."""
    return _carried("backbone.algorithms", ALGORITHMS, novel, tmp_path_factory.mktemp("algorithms"))


@pytest.fixture(scope="session")
def scales(tmp_path_factory: pytest.TempPathFactory, novel: Path) -> Compared:
    """Motifs, reduced width and random search at full size, one seed, compared at the full size."""
    return _carried("backbone.scales", SCALES, novel, tmp_path_factory.mktemp("scales"))


@pytest.fixture
def comparison(algorithms: Compared) -> Iterator[Run]:
    """The run of ``algorithms``, for reading."""
    with Archive(algorithms.store) as archive:
        yield archive.run(algorithms.run)


@pytest.fixture
def scaled(scales: Compared) -> Iterator[Run]:
    """The run of ``scales``, for reading."""
    with Archive(scales.store) as archive:
        yield archive.run(scales.run)
