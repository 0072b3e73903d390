"""Names of columns, written as one text."""

from __future__ import annotations

from evodevo.errors import UsageError


def split_names(text: str) -> tuple[str, ...]:
    """The names in a text with commas between them.

    Raises:
        UsageError: There is no name, or one twice.
    """
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names or len(set(names)) < len(names):
        raise UsageError(f"columns of texts have different names with commas between them; got {text!r}.")
    return names
