"""Options that several commands of ``extend`` share."""

from __future__ import annotations

from typing import Annotated

import typer

SystemName = Annotated[str, typer.Argument(metavar="SYSTEM", help="A system: its name, or any unique beginning.")]
Document = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


def words_of(text: str) -> list[str]:
    """Names from a text with commas between them."""
    return [word.strip() for word in text.split(",") if word.strip()]
