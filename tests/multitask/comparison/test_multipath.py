"""Continuations of the same systems: variants begin alike, cost alike, and are compared in pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from evodevo import canonical
from evodevo.errors import UsageError
from evodevo.execution.serial import SerialExecutor
from evodevo.experiments.paired import paired_p
from evodevo.multitask.comparison.results import RecipeResult
from evodevo.multitask.comparison.runner import run_recipe
from evodevo.multitask.system import System
from evodevo.storage import Store

VARIANTS = [
    {"name": "full"},
    {"name": "no_router", "structure": {"aggregation": "sum"}},
    {"name": "forced", "first": "upper"},
    {"name": "singlepath", "agent": "singlepath"},
    {"name": "head", "agent": "head"},
]
SMALL: dict[str, Any] = {
    "system": {
        "tasks": [
            {"name": "digits", "source": {"batch": 256}},
            {"name": "upper", "source": {"question": "upper_half", "batch": 256}},
        ],
        "root": {"name": "parity", "source": {"question": "parity", "batch": 256}},
        "agent": {
            "structure": {"patch": 4, "width": 8, "hidden": 8},
            "hyperparameters": {"num_layers": {"values": [1, 2], "default": 1}},
        },
    },
    "compared": {"targets": ["digits"], "variants": VARIANTS},
    "study": {"copies": 2, "cycles": 1, "extra": 1, "cycle": {"samples": 1, "generation_size": 1}},
    "evaluation": {"training": {"validations": 1, "most_between": 256}, "root_validations": 1},
}
Finished = tuple[Path, RecipeResult]


def multipath(folder: Path, **more: Any) -> RecipeResult:
    with SerialExecutor() as executor:
        return run_recipe(
            "multitask.multipath",
            store=folder / "runs",
            overrides={**SMALL, **more},
            cache_folder=folder / "cache",
            executor=executor,
        )


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("multipath")
    return folder, multipath(folder)


@pytest.mark.slow
def test_every_variant_has_its_row_and_the_same_budget(finished: Finished) -> None:
    _, result = finished
    document = result.document
    canonical.loads(canonical.dumps(document))
    rows = {one["variant"]: one["targets"] for one in document["variants"]}
    assert list(rows) == ["base", *(one["name"] for one in VARIANTS)]
    for name, targets in rows.items():
        assert len(targets["digits"]["copies"]) == 2
        assert targets["digits"]["accuracy"] == pytest.approx(np.mean(targets["digits"]["copies"]))
        assert targets["mean"]["copies"] == targets["digits"]["copies"], "of one target it is that target"
        seen = targets["digits"]["samples_seen"]
        assert seen == (0 if name == "base" else 2 * document["planned_samples"]["digits"])
    assert rows["full"]["digits"]["p"] is None
    assert 0 < rows["full"]["digits"]["main_weight"] < 1
    assert rows["full"]["digits"]["of"] == 2
    for name in ("no_router", "singlepath", "head"):
        assert rows[name]["digits"]["main_weight"] is None, "there is no router"
    assert {one["control"] for one in document["controls"]} == {"singlepath", "head", "base"}
    assert len(result.csv.splitlines()) == 1 + 2 * (1 + len(VARIANTS))


@pytest.mark.slow
def test_variants_continue_the_same_systems(finished: Finished) -> None:
    folder, result = finished
    with Store.open(folder / "runs") as store:
        for seed in (0, 1):
            base = System.open(store, f"{result.label}.base.{seed}")
            before = base.recorded()
            for variant in VARIANTS:
                system = System.open(store, f"{result.label}.{variant['name']}.{seed}")
                assert system.recorded()[: len(before)] == before
                assert len(system.recorded()) == len(before) + 1
            forced = System.open(store, f"{result.label}.forced.{seed}").view().offers["MultiVitTiny~digits"]
            assert forced.path.paths[1].agent == "VitTiny~upper"
            head = System.open(store, f"{result.label}.head.{seed}").view().offers["VitTiny~digits.head"]
            main = base.view().offers["VitTiny~digits"]
            theirs = {part.role: part.id for part in main.components}
            new = [part.role for part in head.components if part.id != theirs[part.role]]
            assert new == ["head"], "all but the head is the main path's"
        digests = [System.open(store, f"{result.label}.base.{seed}").view().offers for seed in (0, 1)]
        assert digests[0]["VitTiny~digits"].components[0].digest != digests[1]["VitTiny~digits"].components[0].digest


@pytest.mark.slow
def test_a_finished_recipe_is_read(finished: Finished, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, result = finished

    def refused(*_: Any) -> None:
        raise AssertionError("a worker was asked for")

    monkeypatch.setattr(SerialExecutor, "submit", refused)
    assert multipath(folder) == result


def test_p_is_that_of_a_paired_test_and_silent_where_nothing_varies() -> None:
    ours, theirs = [0.8, 0.82, 0.79, 0.85], [0.78, 0.81, 0.79, 0.8]
    gaps = np.asarray(ours) - np.asarray(theirs)
    t = gaps.mean() / (gaps.std(ddof=1) / 2)
    assert paired_p(ours, theirs) == pytest.approx(2 * stats.t.sf(abs(t), 3))
    assert paired_p([0.5], [0.4]) is None
    assert paired_p([0.5, 0.6], [0.4, 0.5]) is None


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"targets": ["digits", "nobody"], "variants": VARIANTS}, "nobody"),
        ({"targets": ["digits"], "variants": VARIANTS, "reference": "none"}, "none"),
        ({"targets": ["digits"], "variants": [*VARIANTS, {"name": "other", "first": "who"}]}, "who"),
    ],
)
def test_unknown_names_are_refused_before_anything_is_made(more: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        multipath(tmp_path, compared=more)
    assert not (tmp_path / "runs").exists()
