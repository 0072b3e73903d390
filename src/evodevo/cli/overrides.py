"""A user's changes to a recipe: a file, then ``--set``, then flags, each over the one before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evodevo.errors import UsageError


def overrides(config: Path | None, assignments: Sequence[str], flags: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings to be merged over those of a recipe or of a recorded run.

    Args:
        config: TOML file with the tables space, evaluation, study and execution; None for none.
        assignments: Texts ``key.sub=value``.
        flags: Value by dotted key; None leaves the setting as it is.

    Raises:
        NotFoundError, UsageError: A file that cannot be read, or a text that is no assignment.
    """
    from evodevo.settings import assign, merge, nested, read_toml

    values: dict[str, Any] = read_toml(config) if config is not None else {}
    for text in assignments:
        key, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--set needs key=value, for example study.population=8; got {text[:60]!r}.")
        assign(values, key.strip(), value.strip())
    for dotted, value in flags.items():
        if value is not None:
            values = merge(values, nested(dotted, value))
    return values
