"""Options that several commands have, written once."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Annotated

import typer

DEFAULT_STORE = Path("runs")

_COUNT = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)([kKMG]?)", re.ASCII)
_FACTORS = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9}


def parse_count(text: str | int) -> int:
    """A whole number, where K, M and G stand for thousands, millions and billions: ``5M``, ``1.5K``, ``300000``.

    Numbers, which typer hands over as defaults, are themselves.
    """
    match = _COUNT.fullmatch(str(text).strip())
    value = Decimal(match[1]) * _FACTORS[match[2]] if match else None
    if value is None or value != int(value):
        raise typer.BadParameter(f"{str(text)[:40]!r} is not a whole number such as 300000, 600K or 5M")
    return int(value)


Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
Events = Annotated[bool, typer.Option("--json", help="One JSON event per line on stdout, as it happens.")]
StoreFolder = Annotated[Path, typer.Option("--store", help="The folder of the store.", metavar="FOLDER")]
RunName = Annotated[str, typer.Argument(metavar="RUN", help="A run: any unique beginning of its id, or last.")]
IndividualName = Annotated[str, typer.Argument(metavar="INDIVIDUAL", help="Any unique beginning of its id.")]
Assignments = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="One setting, for example study.confirmations=3; repeatable."),
]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Settings in TOML; see: evodevo recipes show NAME")
]
Workers = Annotated[int | None, typer.Option(help="Evaluations at a time.")]
Generations = Annotated[int | None, typer.Option(help="Generations; the first one counts.")]
FailedShare = Annotated[
    float | None, typer.Option("--max-failed-share", help="End with exit code 5 where more fail, 0 to 1.")
]


def count_option(help: str) -> typer.models.OptionInfo:
    """An option that takes ``5M`` for five million."""
    option: typer.models.OptionInfo = typer.Option(parser=parse_count, metavar="COUNT", help=help)
    return option
