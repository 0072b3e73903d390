"""One tiny protocol, carried out once for all tests of this folder, while every reading of the test split is noted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from evodevo.runs.archive import Archive, Run
from evodevo.runs.evolve import evolve
from evodevo.settings import merge
from evodevo.tasks.text.language import LanguageTask

TINY: dict[str, Any] = {
    "space": {"depth": 8, "dimensions": {"width": 16, "head_size": 4}},
    "evaluation": {
        "language": {"context_length": 16},
        "training": {"budget": {"tokens": 128}, "batch_size": 4, "report_every": 1, "device": "cpu"},
        "validation_tokens": 256,
    },
    "study": {"population": 4, "generations": 2},
    "execution": {"executor": "serial"},
    "protocol": {
        "learning_rates": [1e-3, 1e-2],
        "tuning_tokens": 128,
        "final_tokens": 384,
        "finalists": 2,
        "best": 1,
        "seeds": 2,
        "test_tokens": 256,
        "curve_points": 1,
    },
}
READERS = ("windows", "text", "baselines", "predicted_bytes")
"""Methods of the task that read what a split holds."""


@dataclass(frozen=True)
class Carried:
    """A protocol that was carried out.

    Attributes:
        store: folder of its store.
        run: id of its run.
        changes: what was changed in the recipe.
        cache: folder of prepared data.
        readings: (stage, method) of every reading of the test split.
        stages: stages in the order in which they were announced.
    """

    store: Path
    run: str
    changes: dict[str, Any]
    cache: Path
    readings: list[tuple[str, str]]
    stages: list[str]


@pytest.fixture(scope="session")
def tiny(novel: Path) -> dict[str, Any]:
    """Changes that make a protocol tiny."""
    return merge(TINY, {"evaluation": {"language": {"data": str(novel)}}})


@pytest.fixture(scope="session")
def carried(tmp_path_factory: pytest.TempPathFactory, novel: Path) -> Carried:
    """The protocol for quality and cache, uninterrupted."""
    folder = tmp_path_factory.mktemp("protocol")
    asked = tmp_path_factory.mktemp("asked") / "fox.jsonl"
    questions = [{"question": "the quick brown", "choices": ["fox", "dog"], "answer": n % 2} for n in range(4)]
    asked.write_text("\n".join(map(json.dumps, questions)))
    given = {"evaluation": {"language": {"data": str(novel)}}, "protocol": {"tasks": [str(asked)]}}
    changes = merge(TINY, given)
    made = Carried(folder / "runs", "", changes, folder / "cache", [], [])

    def hear(kind: str, facts: dict[str, Any]) -> None:
        if kind == "stage":
            made.stages.append(facts["stage"])

    with pytest.MonkeyPatch.context() as patch:
        for name in READERS:
            patch.setattr(LanguageTask, name, _noted(name, made))
        run = evolve("backbone.cache", overrides=changes, store=made.store, listener=hear, cache_folder=made.cache)
    run.archive.close()
    return Carried(made.store, run.id, changes, made.cache, made.readings, made.stages)


def _noted(name: str, made: Carried) -> Any:
    original = getattr(LanguageTask, name)

    def method(self: LanguageTask, split: Any, *rest: Any) -> Any:
        if split == "test":
            made.readings.append((made.stages[-1] if made.stages else "before", name))
        return original(self, split, *rest)

    return method


@pytest.fixture
def protocol(carried: Carried) -> Iterator[Run]:
    """Its run, for reading."""
    with Archive(carried.store) as archive:
        yield archive.run(carried.run)
