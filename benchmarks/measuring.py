"""How the benchmarks measure: side by side in one process, in turns, in CPU time of one thread.

Every script compares candidates that do the same work. They run in rotating turns after a warm-up, so that whatever
else the machine does hits all of them; a ratio is the median over the rounds of (theirs / ours) of one round.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import importlib.metadata
import json
import math
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from scipy import stats

THREADS = 1
PACKAGES = ("torch", "transformers", "numpy", "evodevo")


@dataclass
class Spread:
    """Median and quartiles of repeated measurements."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: list[float]) -> Spread:
        """Of at least two values."""
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(median, low, high)

    def show(self, unit: float = 1.0, digits: int = 3) -> str:
        """Median with its quartiles, times ``unit``."""
        numbers = [f"{value * unit:.{digits}g}" for value in (self.median, self.low, self.high)]
        return f"{numbers[0]} ({numbers[1]} to {numbers[2]})"


@dataclass
class Gate:
    """One claim, with what was measured."""

    statement: str
    measured: float
    wanted: str
    met: bool


@dataclass
class Report:
    """What a script found: rows for its table, gates, and everything needed to read them later."""

    name: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    gates: list[Gate] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    clock: str = "CPU time"

    def at_least(self, statement: str, measured: float, bound: float) -> None:
        """Record a gate ``measured >= bound``."""
        self.gates.append(Gate(statement, measured, f">= {bound:g}", measured >= bound))

    def at_most(self, statement: str, measured: float, bound: float) -> None:
        """Record a gate ``measured <= bound``."""
        self.gates.append(Gate(statement, measured, f"<= {bound:g}", measured <= bound))

    def finish(self, path: Path | None) -> None:
        """Print the table and the gates; write everything as JSON where asked."""
        machine = surroundings()
        print(f"# {self.name}, {machine['date']}")
        print(f"  {machine['processor']}, {machine['cores']} cores, {THREADS} thread used; {self.clock}")
        print("  " + ", ".join(f"{name} {version}" for name, version in machine["versions"].items()))
        for key, value in self.settings.items():
            print(f"  {key}: {value}")
        print_table(self.rows)
        for gate in self.gates:
            print(
                f"  {'met   ' if gate.met else 'MISSED'} {gate.statement}: {gate.measured:.3g} (wanted {gate.wanted})"
            )
        if path is not None:
            data = {"schema": "evodevo.benchmark/1"} | asdict(self) | {"machine": machine}
            path.write_text(json.dumps(data, indent=1) + "\n")


def surroundings() -> dict[str, Any]:
    """Hardware, versions and date."""
    processor = platform.processor()
    information = Path("/proc/cpuinfo")
    cores = 0
    if information.exists():
        lines = information.read_text().splitlines()
        cores = sum(line.startswith("processor") for line in lines)
        processor = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), processor)
    return {
        "processor": processor,
        "cores": cores,
        "threads": torch.get_num_threads(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: importlib.metadata.version(name) for name in PACKAGES},
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }


def print_table(rows: list[dict[str, Any]]) -> None:
    """Rows of equal keys, as aligned columns."""
    if not rows:
        return
    cells = [list(rows[0])] + [[str(value) for value in row.values()] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    for row in cells:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def mean_in_words(gaps: list[float]) -> str:
    """The mean of paired differences with its 95 % interval (t distribution); of a single one without; else empty."""
    if not gaps:
        return ""
    mean = statistics.fmean(gaps)
    if len(gaps) == 1:
        return f"{mean:+.1f}"
    reach = stats.t.ppf(0.975, len(gaps) - 1) * statistics.stdev(gaps) / math.sqrt(len(gaps))
    return f"{mean:+.1f} ({mean - reach:+.1f} to {mean + reach:+.1f})"


def take_turns(
    candidates: dict[str, Callable[[], object]],
    rounds: int,
    *,
    settle: bool = True,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, list[float]]:
    """Seconds of CPU (or of another clock) per call of each candidate, one number a round.

    The order rotates from round to round. Each turn is two calls of which the second counts, so that nobody pays for
    the memory and the caches that the one before left behind (``settle=False``: one call, for what takes minutes).
    Garbage is collected between turns and never during a call.
    """
    names = list(candidates)
    for name in names:
        candidates[name]()
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        for place in range(len(names)):
            name = names[(number + place) % len(names)]
            gc.collect()
            if settle:
                candidates[name]()
            gc.disable()
            start = clock()
            candidates[name]()
            seconds[name].append(clock() - start)
            gc.enable()
    return seconds


def ratio(theirs: list[float], ours: list[float]) -> Spread:
    """How many times as fast ours is, round by round."""
    return Spread.of([a / b for a, b in zip(theirs, ours, strict=True)])


def arguments(description: str, **defaults: int | str) -> argparse.Namespace:
    """The command line of a benchmark: ``--json``, and integers and words with their defaults. Fixes the threads."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", type=Path, default=None, help="write everything measured to this file")
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=type(default), default=default, help=f"default {default}")
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    return parser.parse_args(sys.argv[1:])
