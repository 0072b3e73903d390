"""Options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from evodevo.errors import UsageError

DEFAULT_STORE = Path("runs")

_COUNT = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)([kKMG]?)", re.ASCII)
_FACTORS = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9}
_AMOUNT = re.compile(r"([0-9][0-9.]*[kKMGTP]?)\s*([a-z]+)", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600}
_STEPS, _SAMPLES, _FLOPS = ("steps", "step"), ("samples", "sample", "tokens"), ("flops", "flop")
_POWERS = {"": 0, "k": 3, "K": 3, "M": 6, "G": 9, "T": 12, "P": 15}


def parse_count(text: str | int) -> int:
    """A whole number, in which K, M and G mean thousands, millions and billions: ``5M``, ``1.5K``, ``300000``.

    Numbers, which typer passes as defaults, are returned as they are.
    """
    match = _COUNT.fullmatch(str(text).strip())
    value = Decimal(match[1]) * _FACTORS[match[2]] if match else None
    if value is None or value != int(value):
        raise typer.BadParameter(f"{str(text)[:40]!r} is not a whole number such as 300000, 600K or 5M")
    return int(value)


@dataclass(frozen=True)
class GivenBudget:
    """Limits of a training, as fields of ``training.settings.Budget``; exactly one is not None."""

    seconds: float | None = None
    steps: int | None = None
    tokens: int | None = None
    flops: float | None = None


def parse_budget(text: str | GivenBudget) -> GivenBudget:
    """``10m``, ``90s``, ``1.5h`` of time, ``1000steps`` or ``5Ksteps``, ``1Msamples``, ``2.5Tflops``."""
    if isinstance(text, GivenBudget):
        return text
    match = _AMOUNT.fullmatch(text.strip())
    amount, unit = (match[1], match[2]) if match else ("", "")
    if unit in _SECONDS and re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", amount):
        budget = GivenBudget(seconds=float(Decimal(amount) * _SECONDS[unit]))
    elif unit in _FLOPS and (parts := re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([kKMGTP]?)", amount)):
        budget = GivenBudget(flops=float(Decimal(parts[1]).scaleb(_POWERS[parts[2]])))
    elif unit in (*_STEPS, *_SAMPLES) and _COUNT.fullmatch(amount):
        count = parse_count(amount)
        budget = GivenBudget(steps=count) if unit in _STEPS else GivenBudget(tokens=count)
    else:
        raise typer.BadParameter(f"{text[:40]!r} is no budget such as 10m, 90s, 1.5h, 1000steps, 50Ksamples or 2Tflops")
    if not any((budget.seconds, budget.steps, budget.tokens, budget.flops)):
        raise typer.BadParameter(f"{text[:40]!r} leaves nothing; give a budget such as 10m, 90s or 1000steps")
    return budget


def _parse_place(text: str | Path) -> Place:
    if not str(text).startswith("postgres"):
        return Path(text)  # without loading the storage
    from evodevo.storage.addresses import place

    return place(text)


Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
Events = Annotated[bool, typer.Option("--json", help="One JSON event per line on stdout, as it happens.")]
if TYPE_CHECKING:
    from evodevo.storage.addresses import Place

    StoreFolder = Place
    """A folder, or a database."""
else:
    # Typer takes no unions.
    StoreFolder = Annotated[
        Path,
        typer.Option(
            "--store", parser=_parse_place, help="The folder of the store, or postgresql://...", metavar="STORE"
        ),
    ]
BlobsAddress = Annotated[
    str | None,
    typer.Option(
        "--blobs",
        metavar="ADDRESS",
        help="Where a new store keeps weights: a folder, or s3://bucket/prefix; of a database, also EVODEVO_BLOBS.",
    ),
]
RunName = Annotated[str, typer.Argument(metavar="RUN", help="A run: any unique beginning of its id, or last.")]
IndividualName = Annotated[
    str, typer.Argument(metavar="INDIVIDUAL", help="Any unique beginning of its id, or last: the newest run's best.")
]
Depth = Annotated[int | None, typer.Option(help="LIVs of the backbones; what is given is stacked or trimmed.")]
Width = Annotated[int | None, typer.Option(help="Channels of the residual stream.")]
Assignments = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="One setting, for example study.confirmations=3; repeatable."),
]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Settings in TOML; see: evodevo recipes show NAME")
]
Workers = Annotated[int | None, typer.Option(help="Number of evaluations at a time.")]
ExecutorName = Annotated[
    str | None,
    typer.Option("--executor", metavar="NAME", help="Where evaluations run: processes, serial, ray, slurm."),
]
ClusterAddress = Annotated[
    str | None,
    typer.Option("--address", help="Of a Ray cluster: HOST:PORT, or auto.  [default: $RAY_ADDRESS, or this machine]"),
]
Generations = Annotated[int | None, typer.Option(help="Number of generations, the first included.")]
FailedShare = Annotated[
    float | None,
    typer.Option(
        "--max-failed-share", help="Largest share of failed evaluations, 0 to 1; above it the exit code is 5."
    ),
]

Given = Annotated[
    list[str] | None,
    typer.Option("--input", metavar="NAME=VALUE", help="An input of your own: a file, a text or numbers."),
]


def parse_given(given: list[str]) -> dict[str, str]:
    """A user's own inputs by name, from ``NAME=VALUE`` each.

    Raises:
        UsageError: Something else, or a name twice.
    """
    values: dict[str, str] = {}
    for text in given:
        name, mark, value = text.partition("=")
        if not mark or not name or name in values:
            raise UsageError(f"--input {text[:60]!r} is not NAME=VALUE, or names an input twice.")
        values[name] = value
    return values


def count_option(help: str) -> typer.models.OptionInfo:
    """An option that takes ``5M`` for five million."""
    option: typer.models.OptionInfo = typer.Option(parser=parse_count, metavar="COUNT", help=help)
    return option


def execution_flags(workers: int | None, executor: str | None, address: str | None) -> dict[str, Any]:
    """The settings of these options by dotted key, as ``overrides`` takes them; None leaves a setting as it is."""
    return {"execution.workers": workers, "execution.executor": executor, "execution.options.address": address}


def implied(option: str, value: str, allowed: Collection[str]) -> type[TyperCommand]:
    """A class of command for which ``option`` without an allowed value after it means ``option value``."""

    class WithImplied(TyperCommand):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            spelled = []
            for place, word in enumerate(args):
                alone = word == option and (place + 1 == len(args) or args[place + 1] not in allowed)
                spelled.append(f"{option}={value}" if alone else word)
            return super().parse_args(ctx, spelled)

    return WithImplied
