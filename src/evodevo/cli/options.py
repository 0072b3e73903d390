"""Options that several commands have, written once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
StoreFolder = Annotated[Path, typer.Option("--store", help="The folder of the store.", metavar="FOLDER")]

DEFAULT_STORE = Path("runs")
