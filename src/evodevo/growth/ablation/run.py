"""``evodevo ablate``: what each part of a zoo is good for, row by row, as one resumable experiment.

Source: docs/spec/architect_thyself.md#ablation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from evodevo.errors import UsageError
from evodevo.experiments.problem import NetworkProblem
from evodevo.experiments.recipe import ExperimentSettings
from evodevo.growth.ablation.recipe import SkippedRow, ablation
from evodevo.growth.ablation.rows import TABLE_3, chosen_rows, names_of
from evodevo.runs.archive import Run
from evodevo.runs.command import Command
from evodevo.runs.drive import ABLATE
from evodevo.runs.evolve import begin
from evodevo.runs.resolve import GROW, of_growth, resolve
from evodevo.runs.slices import slice_of
from evodevo.search.members import Listener
from evodevo.search.study import Study
from evodevo.settings import merge

DEFAULT_ROWS = TABLE_3


def ablate(
    recipe: str = "module_zoo.classifier",
    *,
    rows: str | Sequence[str] = DEFAULT_ROWS,
    size: str = "quick",
    overrides: dict[str, Any] | None = None,
    store: str | Path = "runs",
    listener: Listener | None = None,
    on_start: Callable[[Study], None] | None = None,
    cache_folder: Path | None = None,
) -> Run:
    """Train the zoo of a recipe without one part after another, and the base of each block.

    Args:
        recipe: name of the recipe; see ``evodevo recipes``.
        rows: ``table_3``, ``all``, blocks (A, B, C, D, more) and names of rows; see ``ablation_rows``.
        size: quick or full.
        overrides: nested settings that replace the recipe's, for example ``{"experiment": {"seeds": 3}}``; ``grow``
            changes how all growing arms grow.
        store, listener, on_start, cache_folder: as for ``evolve``.

    Returns:
        A run of kind ``ablate``; see ``growth.ablation.table`` for its table.

    Raises:
        UsageError, DataError: rows, settings or data cannot be used; nothing was recorded then.
    """
    settings, _ = plan(recipe, rows=rows, size=size, overrides=overrides, cache_folder=cache_folder)
    named = rows if isinstance(rows, str) else ",".join(rows)
    return begin(
        ABLATE,
        recipe,
        settings,
        store=store,
        listener=listener,
        on_start=on_start,
        cache_folder=cache_folder,
        command=Command("ablate", recipe, {"rows": named, "size": size}, overrides or {}),
    )


def plan(
    recipe: str,
    *,
    rows: str | Sequence[str] = DEFAULT_ROWS,
    size: str = "quick",
    overrides: dict[str, Any] | None = None,
    cache_folder: Path | None = None,
) -> tuple[ExperimentSettings, tuple[SkippedRow, ...]]:
    """The settings of an ablation, and the rows that are left out; arguments as ``ablate``.

    Raises:
        UsageError: see ``ablate``; also rows that were named and cannot be had.
    """
    wanted = chosen_rows(rows)
    strategists, changes = of_growth(overrides or {})
    if strategists:
        if len(strategists) > 1:
            raise UsageError("the base of an ablation grows by one strategist; others are rows (strategist_random, …).")
        changes = merge(changes, {"evaluation": {"options": {GROW: {"strategist": strategists[0]}}}})
    settings = resolve(recipe, size=size, driver="ablate", baselines="none", overrides=changes)
    if not isinstance(settings, ExperimentSettings):
        raise UsageError(f"the recipe {recipe!r} compares no networks; an ablation needs one that does.")
    problem = slice_of(recipe, type(settings).model_fields).problem(settings, cache_folder=cache_folder)
    assert isinstance(problem, NetworkProblem), "of every experiment"
    made, left = ablation(settings, wanted, problem.task.inputs)
    named = names_of(rows)
    refused = [row for row in left if row.row.name in named]
    if refused:
        raise UsageError(" ".join(f"{row}." for row in refused))
    return made, left
