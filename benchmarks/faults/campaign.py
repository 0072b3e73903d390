"""The frame of all campaigns of faults: cases that promise something, each with a seed and a process of its own.

A campaign is a function of a ``Case``, which does some harm and then states for each promise whether it was kept:

    def case(case: Case) -> None:
        ...
        case.promise("nothing finished is lost", broken=" ".join(lost))  # kept where the text is empty

    if __name__ == "__main__":
        Campaign("kill", case).main(__doc__, cases=100)

Each case runs in a fork, with a random generator of (seed, number), so that ``--seed 3 --only 17`` replays it alone.
The frame promises three things for every case: it ends in time, it raises nothing, and it leaves no process. It ends
with 1 where a promise is broken. What cases share is made once, by ``prepare``, in a fork too, so that this process
keeps one thread.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import multiprocessing
import multiprocessing.connection
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evodevo.execution.family import adopt_orphans, children, descendants
from evodevo.testing.executors import wait_until_gone

IN_TIME, RAISES_NOTHING, LEAVES_NOTHING = "each case ends in time", "no case raises", "no process is left"
NUMBERS = "numbers.json"
"""File in the shared folder with the numbers of all cases, for a ``prepare`` that makes only what they need."""
FORKS = multiprocessing.get_context("fork")


@dataclass
class Case:
    """One case of a campaign.

    Attributes:
        number: from 0.
        rng: the only source of chance.
        folder: an empty folder of its own.
        shared: the folder that ``prepare`` filled; read only.
        promises: every promise that was examined: its words, and the evidence against it (empty: kept).
        counts: row and column of what this case adds to the campaign's table.
        facts: what the JSON file says of the case.
        options: the campaign's own numbers, see ``Campaign.numbers``.
        skipped: why the case could not be tried here; empty = it was.
    """

    number: int
    rng: random.Random
    folder: Path
    shared: Path
    promises: list[tuple[str, str]] = field(default_factory=list)
    counts: list[tuple[str, str]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    skipped: str = ""
    options: dict[str, int] = field(default_factory=dict)

    def promise(self, words: str, broken: str = "") -> None:
        """Count a promise as kept, or as broken where there is evidence."""
        self.promises.append((words, broken))

    def count(self, row: str, column: str) -> None:
        """Add one to a cell of the campaign's table."""
        self.counts.append((row, column))

    def note(self, **facts: Any) -> None:
        """Keep facts (JSON) about the case."""
        self.facts |= facts


@dataclass(frozen=True)
class Campaign:
    """A campaign, whatever it harms.

    Attributes:
        name: first word of its row.
        case: does and judges one case.
        prepare: fills the folder that all cases read; None = nothing is shared.
        seconds: longest time of one case.
        imports: modules that are imported before the forks, so that not every case imports them.
        always: whether the facts of every case are printed, not only those of broken ones.
        numbers: options of the campaign's own: name -> default.
        reason_to_skip: why nothing can be tried on this machine; empty = everything can.
    """

    name: str
    case: Callable[[Case], None]
    prepare: Callable[[Path], None] | None = None
    seconds: float = 120.0
    imports: Sequence[str] = ()
    always: bool = False
    numbers: Mapping[str, int] = field(default_factory=dict)
    reason_to_skip: Callable[[], str] = str

    def main(self, words: str | None, *, cases: int = 100, minutes: float = 30.0) -> None:
        """The command line: run the cases, print tables and the row of the campaign, exit with 1 if one broke.

        Args:
            words: help text.
            cases: default number of cases.
            minutes: default time after which no case is begun.
        """
        parser = argparse.ArgumentParser(description=words, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--cases", type=int, default=cases, help=f"number of cases, default {cases}")
        parser.add_argument("--seed", type=int, default=0, help="default 0")
        parser.add_argument("--only", type=int, action="append", help="replay the case of this number; repeatable")
        parser.add_argument("--minutes", type=float, default=minutes, help=f"begin no case later, default {minutes:g}")
        parser.add_argument("--workers", type=int, default=1, help="cases at a time, default 1")
        parser.add_argument("--json", type=Path, help="file for all cases")
        parser.add_argument("--keep", type=Path, help="folder for what broken cases leave behind")
        for name, default in self.numbers.items():
            parser.add_argument(f"--{name}", type=int, default=default, help=f"default {default}")
        options = parser.parse_args()
        if reason := self.reason_to_skip():
            print(f"{self.name}: skipped: {reason}")
            return
        numbers = options.only or range(options.cases)
        with tempfile.TemporaryDirectory(prefix=f"{self.name}-") as folder:
            run = _Run(self, options.seed, Path(folder), options.keep, time.monotonic() + 60 * options.minutes)
            run.options = {name: getattr(options, name) for name in self.numbers}
            run.all(list(numbers), options.workers)
        run.show()
        if options.json is not None:
            options.json.write_text(json.dumps(run.document(), indent=1) + "\n", encoding="utf-8")
        sys.exit(130 if run.stopped else bool(run.broken))


class _Run:
    """One run of a campaign."""

    def __init__(self, campaign: Campaign, seed: int, folder: Path, keep: Path | None, end: float) -> None:
        self.campaign, self.seed, self.folder, self.keep, self.end = campaign, seed, folder, keep, end
        self.options: dict[str, int] = {}
        self.done: list[Case] = []
        self.begun, self.stopped = time.monotonic(), False
        self._running: dict[multiprocessing.connection.Connection, tuple[Case, Any, float]] = {}

    @property
    def broken(self) -> list[tuple[Case, str, str]]:
        """Every broken promise: the case, the promise, the evidence."""
        return [(case, words, found) for case in self.done for words, found in case.promises if found]

    def all(self, numbers: list[int], workers: int) -> None:
        """Run these cases, so many at a time, until the time is over."""
        shared = self.folder / "shared"
        shared.mkdir()
        (shared / NUMBERS).write_text(json.dumps(numbers))
        for module in self.campaign.imports:
            importlib.import_module(module)
        if self.campaign.prepare is not None:
            worker = FORKS.Process(target=self.campaign.prepare, args=(shared,))
            worker.start()
            worker.join()
            if worker.exitcode != 0:
                sys.exit(f"{self.campaign.name}: what the cases share could not be made (exit code {worker.exitcode})")
        waiting = list(reversed(numbers))
        try:
            while waiting or self._running:
                while waiting and len(self._running) < workers:
                    if time.monotonic() > self.end:
                        print(f"ended with {len(waiting)} cases to go: the time is over", flush=True)
                        waiting.clear()
                        break
                    self._start(waiting.pop(), shared)
                for connection in multiprocessing.connection.wait(list(self._running), timeout=0.2):
                    self._collect(connection)
                for connection, (_, _, deadline) in list(self._running.items()):
                    if time.monotonic() > deadline:
                        self._collect(connection, late=True)
        except KeyboardInterrupt:
            self.stopped = True
            for _, worker, _ in self._running.values():
                _end(worker)

    def _start(self, number: int, shared: Path) -> None:
        folder = self.folder / f"case{number}"
        folder.mkdir()
        case = Case(number, random.Random(f"{self.seed}/{number}"), folder, shared, options=self.options)
        ours, theirs = FORKS.Pipe(duplex=False)
        worker = FORKS.Process(target=_work, args=(self.campaign.case, case, theirs))
        worker.start()
        theirs.close()
        self._running[ours] = (case, worker, time.monotonic() + self.campaign.seconds)

    def _collect(self, connection: Any, *, late: bool = False) -> None:
        case, worker, _ = self._running.pop(connection)
        words = IN_TIME if late else RAISES_NOTHING
        problem = f"it ran for more than {self.campaign.seconds:g} s" if late else ""
        if not late:
            try:
                case.promises, case.counts, case.facts, case.skipped, problem = connection.recv()
            except (EOFError, OSError):
                worker.join(10)
                problem = f"its process ended with {worker.exitcode}"
            case.promise(IN_TIME)
        _end(worker)
        connection.close()
        case.promise(words, problem)
        self.done.append(case)
        if self.campaign.always or any(found for _, found in case.promises):
            self._report(case)
        shutil.rmtree(case.folder, ignore_errors=True)

    def _report(self, case: Case) -> None:
        for words, found in case.promises:
            if found:
                print(f"BROKEN: case {case.number} ({self._replay(case)}): {words}: {found[-1500:]}", flush=True)
        if case.facts:
            print(f"  {json.dumps(case.facts)[:1500]}", flush=True)
        if self.keep is not None and any(found for _, found in case.promises):
            shutil.copytree(case.folder, self.keep / case.folder.name, symlinks=True, dirs_exist_ok=True)

    def _replay(self, case: Case) -> str:
        return f"--seed {self.seed} --only {case.number}"

    def show(self) -> None:
        """Print the tables, the row, and how to replay what broke."""
        tried = [case for case in self.done if not case.skipped]
        _print_counts([cell for case in tried for cell in case.counts])
        kept: Counter[str] = Counter()
        lost: Counter[str] = Counter()
        for case in tried:
            for words, found in case.promises:
                (lost if found else kept)[words] += 1
        for words in dict.fromkeys([*kept, *lost]):
            print(f"{kept[words]:7} kept {lost[words]:5} broken  {words}")
        for reason, count in Counter(case.skipped for case in self.done if case.skipped).items():
            print(f"{count:7} skipped: {reason}")
        replays = dict.fromkeys(self._replay(case) for case, _, _ in self.broken)
        if replays:
            print("replay with: " + "; ".join(replays))
        print("| campaign | cases | seed | promises kept | broken | seconds |")
        print(
            f"| {self.campaign.name} | {len(tried)} | {self.seed} | {kept.total()} | {lost.total()} "
            f"| {time.monotonic() - self.begun:.0f} |"
        )

    def document(self) -> dict[str, Any]:
        """Everything, as JSON."""
        tried = [case for case in self.done if not case.skipped]
        return {
            "schema": "evodevo.campaign/1",
            "name": self.campaign.name,
            "seed": self.seed,
            "cases": len(tried),
            "skipped": len(self.done) - len(tried),
            "kept": sum(not found for case in tried for _, found in case.promises),
            "broken": len(self.broken),
            "seconds": round(time.monotonic() - self.begun, 1),
            "every_case": [
                {
                    "number": case.number,
                    "replay": self._replay(case),
                    "skipped": case.skipped or None,
                    "broken": [[words, found] for words, found in case.promises if found],
                    "kept": [words for words, found in case.promises if not found],
                    "counts": case.counts,
                    "facts": case.facts,
                }
                for case in sorted(self.done, key=lambda case: case.number)
            ],
        }


def _work(run: Callable[[Case], None], case: Case, connection: multiprocessing.connection.Connection) -> None:
    """In the fork: run the case, and answer with its promises."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.setsid()
    adopt_orphans()  # what the case leaves behind becomes a child of this process
    with (case.folder.parent / f"{case.folder.name}.out").open("wb", buffering=0) as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    problem = ""
    try:
        run(case)
    except BaseException:
        problem = traceback.format_exc()
    if not case.skipped:
        left = wait_until_gone(children(os.getpid()))
        case.promise(LEAVES_NOTHING, ", ".join(_command(pid) for pid in left))
    connection.send((case.promises, case.counts, case.facts, case.skipped, problem))
    connection.close()


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return f"{pid} ({Path(f'/proc/{pid}/cmdline').read_text().replace(chr(0), ' ')[:200]})"
    return str(pid)


def _end(worker: Any) -> None:
    """Kill a case's process and everything below it."""
    while worker.is_alive():
        for pid in reversed(descendants(worker.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        worker.join(0.2)
    worker.close()


def _print_counts(cells: list[tuple[str, str]]) -> None:
    """How often each row met each column."""
    counts = Counter(cells)
    rows, columns = ([*dict.fromkeys(cell[place] for cell in sorted(counts))] for place in (0, 1))
    columns.sort()
    widths = [max(8, len(column) + 2) for column in columns]
    first = max(map(len, rows), default=0) + 2
    if rows:
        print(" " * first + "".join(column.rjust(width) for column, width in zip(columns, widths, strict=True)))
    for row in rows:
        numbers = (str(counts[row, column]).rjust(width) for column, width in zip(columns, widths, strict=True))
        print(row.ljust(first) + "".join(numbers))
