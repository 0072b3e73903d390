"""The command that makes a run: recorded when it begins, so that a report shows what ran and not what might have."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evodevo.errors import UsageError
from evodevo.runs.recipe import Driver
from evodevo.runs.resolve import resolve
from evodevo.settings import assignments, merge
from evodevo.storage import Lease, Store
from evodevo.storage.base import names_of

if TYPE_CHECKING:
    from evodevo.runs.archive import Individual, Run

EVENT = "run.command"
_DEFAULT_STORE = "runs"
_LONGEST_PATH = 4096


@dataclass(frozen=True)
class Command:
    """One command of evodevo.

    Attributes:
        verb: Name of the command.
        subject: Recipe, individual or run that it is given.
        options: Option without dashes -> value, or a list of them; None leaves it out.
        overrides: Nested settings that are given with ``--set``.
    """

    verb: str
    subject: str
    options: Mapping[str, object] = field(default_factory=dict)
    overrides: Mapping[str, Any] = field(default_factory=dict)

    def words(self) -> list[str]:
        """The command's words after ``evodevo``."""
        options = []
        for name, value in self.options.items():
            for one in value if isinstance(value, list) else [] if value is None else [value]:
                options += [f"--{name}", str(one)]
        sets = [word for text in assignments(self.overrides) for word in ("--set", text)]
        return [self.verb, self.subject, *options, *sets]

    def found_from_anywhere(self, paths: Mapping[str, Any]) -> Command:
        """The same with absolute paths.

        Args:
            paths: Settings that are paths, made absolute, as nested changes.
        """
        return replace(self, overrides=_absolute(self.overrides, set(_texts(paths))))


def record_command(store: Store, lease: Lease, command: Command) -> None:
    """Record the command that begins a run, or changes it."""
    store.add_event(lease, EVENT, command.verb, {"words": command.words()})


def commands(run: Run) -> list[str]:
    """The commands that made a run, in their order, ready for a shell.

    Those of a run that was stored without them are found from its settings, where a search of the recipe with
    ``--set`` gives exactly these; else there are none.
    """
    recorded = [event.fact("words", names_of) for event in run.events() if event.type == EVENT]
    found = recorded or [words for words in [_found(run)] if words is not None]
    folder = str(run.archive.folder)
    where = [] if folder == _DEFAULT_STORE else ["--store", folder]
    return [shlex.join(["evodevo", *words, *where]) for words in found]


def _found(run: Run) -> list[str] | None:
    drivers: dict[str, Driver] = {"evolve": "evolve", "train": "train"}
    if run.kind not in drivers or (run.kind == "train" and not run.is_experiment):
        return None
    candidates = []
    for size in ("quick", "full"):
        try:
            made = resolve(run.recipe, size=size, driver=drivers[run.kind], overrides={})
            changes = _differences(made.model_dump(mode="json"), run.row.settings)
            again = resolve(run.recipe, size=size, driver=drivers[run.kind], overrides=changes)
        except UsageError:  # a recipe or settings that this evodevo does not have
            continue
        if again.model_dump(mode="json") == run.settings.model_dump(mode="json"):
            candidates.append(Command(run.kind, run.recipe, {"size": size}, changes).words())
    return min(candidates, key=len, default=None)


def _differences(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that, merged into ``below``, give ``above``."""
    changes: dict[str, Any] = {}
    for name, value in above.items():
        if isinstance(value, dict) and isinstance(below.get(name), dict):
            inside = _differences(below[name], value)
            changes |= {name: inside} if inside else {}
        elif name not in below or below[name] != value:
            changes[name] = value
    return changes


def _texts(values: Any) -> Iterator[str]:
    if isinstance(values, str):
        yield values
    elif isinstance(values, Mapping):
        for value in values.values():
            yield from _texts(value)
    elif isinstance(values, Sequence):
        for value in values:
            yield from _texts(value)


def _absolute(value: Any, paths: Collection[str]) -> Any:
    """The value with every text that names one of these paths made absolute."""
    if isinstance(value, Mapping):
        return {name: _absolute(inside, paths) for name, inside in value.items()}
    if isinstance(value, (list, tuple)):
        return [_absolute(inside, paths) for inside in value]
    if isinstance(value, str) and value and "\0" not in value:
        whole = str(Path(value).expanduser().absolute())
        return whole if whole in paths else value
    return value


def named(architecture: str | Path | Individual) -> str:
    """The word for an architecture that the user gave: an absolute path where it is a file, an id, or its text."""
    if not isinstance(architecture, (str, Path)):
        return str(architecture.id)
    text = str(architecture)
    is_file = "\0" not in text and len(text) < _LONGEST_PATH and Path(text).expanduser().is_file()
    return str(Path(text).expanduser().absolute()) if is_file else text


def with_data(recipe: str, overrides: Mapping[str, Any] | None, data: str | Path | None) -> dict[str, Any]:
    """Nested settings with the user's data at the place where a recipe reads them."""
    if data is None:
        return dict(overrides or {})
    room = "language" if recipe.startswith("backbone.") else "task_settings"
    return merge(dict(overrides or {}), {"evaluation": {room: {"data": str(data)}}})
