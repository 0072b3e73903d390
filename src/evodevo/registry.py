"""Named tables: operators, tasks, objectives, algorithms, recipes, evaluators, exporters.

A row is a value, or a ``"module:attribute"`` that is imported on first use, so that listing names loads nothing.
Built-in rows of a table's own room are written where the table is; those of higher rooms are declared by string in the
``slice`` module of their room, which imports nothing but this file. An installed package adds rows by the entry-point
group of the table, and they are loaded only when the user enables that package by name; a name in a file selects a row
and is never imported.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any, Generic, TypeVar

from evodevo.errors import UsageError, unknown_name

T = TypeVar("T")

SLICE_MODULES = (
    "evodevo.experiments.slice",
    "evodevo.backbone.slice",
    "evodevo.h_model.slice",
    "evodevo.module_zoo.slice",
    "evodevo.growth.slice",
    "evodevo.multitask.slice",
    "evodevo.testing.slice",
)
"""Modules that declare the rows of their room; all are imported, without torch, before the first look-up."""

TABLE_MODULES = (
    "evodevo.execution.base",
    "evodevo.tasks.base",
    "evodevo.objectives.base",
    "evodevo.operators.classes",
    "evodevo.operators.kernels.table",
    "evodevo.operators.layers.base",
    "evodevo.search.base",
    "evodevo.networks.spec",
    "evodevo.export.base",
    "evodevo.export.models.base",
    "evodevo.h_model.aggregations.base",
    "evodevo.runs.slices",
    "evodevo.runs.recipe",
    "evodevo.experiments.procedures",
    "evodevo.module_zoo.modules.families",
    "evodevo.module_zoo.modules.nodes.base",
    "evodevo.growth.growable",
    "evodevo.growth.around.base",
    "evodevo.growth.in_place.base",
    "evodevo.growth.strategists.base",
    "evodevo.multitask.agent",
    "evodevo.multitask.paths.kinds",
    "evodevo.estimators.automatic.candidates.base",
)
"""Modules with a table, all without torch: a package is enabled in every one, imported so far or not."""

_declared: dict[str, dict[str, str]] = {}
_slices_are_loaded = False


def declare(group: str, rows: Mapping[str, str]) -> None:
    """Rows of a higher room, for ``slice`` modules.

    Args:
        group: entry-point group of the table ("evodevo.layers"); its module need not be imported.
        rows: name -> "module:attribute".

    Raises:
        UsageError: a name of the group is declared already.
    """
    declared = _declared.setdefault(group, {})
    for name, row in rows.items():
        if name in declared:
            raise UsageError(f"{name!r} is declared twice for {group}; choose another name.")
        declared[name] = row


def _load_slices() -> None:
    global _slices_are_loaded
    if not _slices_are_loaded:
        _slices_are_loaded = True
        for module in SLICE_MODULES:
            importlib.import_module(module)


@dataclass
class Registry(Generic[T]):
    """One table.

    Args:
        kind: noun for a row in error messages ("algorithm").
        group: the entry-point group through which packages add rows ("evodevo.algorithms").
    """

    kind: str
    group: str
    _rows: dict[str, T | str] = field(default_factory=dict)

    def _all(self) -> dict[str, T | str]:
        """The rows, with those that slices declare."""
        _load_slices()
        for name, row in _declared.pop(self.group, {}).items():
            self._insert(name, row)
        return self._rows

    def _insert(self, name: str, row: T | str) -> None:
        if name in self._rows and self._rows[name] is not row:
            raise UsageError(f"the {self.kind} {name!r} is registered already; choose another name.")
        self._rows[name] = row

    def add(self, name: str, row: T | str) -> None:
        """Add a row; a built-in name cannot be taken over by a plugin.

        Raises:
            UsageError: the name is taken.
        """
        self._all()  # a name that a slice declares is taken, looked up so far or not
        self._insert(name, row)

    def get(self, name: str) -> T:
        """The row of that name, imported now if it was lazy.

        Raises:
            UsageError: no such name; the message holds the nearest one.
        """
        rows = self._all()
        if name not in rows:
            raise unknown_name(self.kind, name, rows)
        row = rows[name]
        if isinstance(row, str):
            module, _, attribute = row.partition(":")
            row = getattr(importlib.import_module(module), attribute)
            rows[name] = row
        return row

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._all())

    def __contains__(self, name: object) -> bool:
        return name in self._all()

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def enable(self, package: str) -> dict[str, str]:
        """Load the rows that an installed package offers for this table.

        Returns:
            name -> version of the package, to be recorded with the run.

        Raises:
            UsageError: a name of the package is taken.
        """
        added: dict[str, str] = {}
        for point in metadata.entry_points(group=self.group):
            if point.dist is not None and point.dist.name == package:
                self.add(point.name, point.load())
                added[point.name] = point.dist.version
        return added


TABLES: dict[str, Registry[Any]] = {}


def table(kind: str, group: str) -> Registry[Any]:
    """Create a table and list it, so that ``enable_packages`` reaches it; ``TABLE_MODULES`` names its module."""
    registry: Registry[Any] = Registry(kind, group)
    TABLES[group] = registry
    return registry


def enable_packages(packages: tuple[str, ...]) -> dict[str, str]:
    """Load the rows of these packages into every table.

    Returns:
        package -> version.

    Raises:
        UsageError: a package is not installed or offers nothing.
    """
    versions: dict[str, str] = {}
    if packages:
        for module in TABLE_MODULES:
            importlib.import_module(module)
    for package in packages:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            raise UsageError(f"the package {package!r} is not installed; install it or leave it out.") from None
        groups = {point.group for point in metadata.distribution(package).entry_points}
        if not any(group in TABLES for group in groups):
            raise UsageError(f"the package {package!r} adds no row to any evodevo table ({', '.join(sorted(TABLES))}).")
        for registry in TABLES.values():
            registry.enable(package)
        if package not in _PACKAGES:
            _PACKAGES.append(package)
    return versions


def enabled_packages() -> tuple[str, ...]:
    """All packages that ``enable_packages`` has loaded in this process."""
    return tuple(_PACKAGES)


_PACKAGES: list[str] = []
