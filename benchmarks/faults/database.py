"""Faults of a store's database on a server: is something finished lost, is something done twice, is a future another?

Each case starts a PostgreSQL server of its own, and does one of these:

- kill: a search runs; the server is killed (-9) at a random moment, and started again. The search goes on by itself, or
  is resumed;
- cut: the same behind a network that is cut, stalls, or loses a commit's request or answer, at random moments;
- coordinator: the coordinator of the search is killed at a random moment, and the search is resumed;
- rivals: two coordinators take one run at once: one works, one is refused with exit code 6;
- clients: eight clients write runs beside each other while connections are cut.

What a search recorded is compared with the same search in a folder, to the bit: births, parents, scores.

    python benchmarks/faults/database.py --cases 20 --seed 0
"""

from __future__ import annotations

import contextlib
import io
import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from campaign import Campaign, Case

from evodevo.errors import EvodevoError, ExitCode
from evodevo.storage import Store
from evodevo.testing.stores import postgres
from evodevo.testing.stores.proxy import Proxy
from evodevo.testing.stores.searches import EVALUATIONS, record, search, write

SEEDS = 4
PAUSE = 0.05
FORKS = multiprocessing.get_context("fork")
LOST, TWICE, FUTURE = "nothing finished is lost", "nothing is done twice", "the record is that of an unharmed search"
WHOLE, ENDS, ONE = "the store is whole", "the search comes to its end", "of two coordinators one works"
BLOBS = "blobs"


def prepare(shared: Path) -> None:
    """Searches without harm, in a folder."""
    Store.open(shared / "runs").close()
    with contextlib.redirect_stdout(io.StringIO()), Store.open(shared / "runs") as store:
        records = {seed: repr(record(store, search(str(shared / "runs"), seed))) for seed in range(SEEDS)}
    (shared / "records.json").write_text(json.dumps(records))


class Work:
    """A function in a process of its own, whose output goes to a file."""

    def __init__(self, folder: Path, work: Callable[..., Any], *arguments: Any, **settings: Any) -> None:
        self._file = folder / f"out{time.monotonic_ns()}"
        self._file.touch()
        self._process = FORKS.Process(target=self._run, args=(work, arguments, settings))
        self._process.start()

    def _run(self, work: Callable[..., Any], arguments: Any, settings: Any) -> None:
        out = os.open(self._file, os.O_WRONLY | os.O_APPEND)
        os.dup2(out, 1)
        os.dup2(out, 2)
        sys.stdout = sys.stderr = os.fdopen(1, "w", buffering=1, closefd=False)
        try:
            work(*arguments, **settings)
        except EvodevoError as error:
            print("error", type(error).__name__, error, flush=True)
            os._exit(int(error.exit_code))
        os._exit(0)

    def lines(self, word: str) -> list[str]:
        """The words after one that lines begin with."""
        return [line.split()[1] for line in self._file.read_text().splitlines() if line.startswith(word + " ")]

    def text(self) -> str:
        """All that it printed."""
        return self._file.read_text()

    def wait_for(self, count: int) -> None:
        """Wait until so many evaluations are finished, or its end."""
        while len(self.lines("finished")) < count and self._process.is_alive():
            time.sleep(0.005)

    def end(self) -> int:
        """Its exit code."""
        self._process.join()
        return int(self._process.exitcode or 0)

    def kill(self) -> None:
        """Kill -9."""
        assert self._process.pid is not None, "it was started"
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.join()


def case(case: Case) -> None:
    """One fault, and what it left."""
    kinds = (kill, cut, coordinator, rivals, clients)
    kind = kinds[case.number % len(kinds)]
    case.note(kind=kind.__name__)
    with postgres.server() as server:
        address = server.address(server.schema(), tcp=True)
        Store.open(address, blobs=case.folder / BLOBS).close()
        kind(case, server, address)
        case.count(kind.__name__, "cases")


def _harmed(case: Case, work: Work, address: str, seed: int) -> None:
    """Bring a search to its end, and compare its record."""
    code = work.end()
    told, attempts = work.lines("finished"), 0
    run = next(iter(work.lines("run")), None)
    while code != 0 and run is not None and attempts < 3:
        attempts += 1
        again = Work(case.folder, search, address, seed, run=run)
        code = again.end()
        told += again.lines("finished")
        work = again
    case.note(resumes=attempts)
    case.promise(ENDS, "" if code == 0 and run is not None else work.text())
    if run is None:
        return
    with Store.open(address) as store:
        problems = store.check(deep=True).problems
        case.promise(WHOLE, " ".join(problem.message for problem in problems))
        done = [row.individual_id for row in store.evaluations(run, state="done")]
        case.promise(LOST, " ".join(set(told) - set(done)))
        case.promise(TWICE, "" if len(done) == len(set(done)) <= EVALUATIONS else f"{len(done)} evaluations")
        expected = json.loads((case.shared / "records.json").read_text())[str(seed)]
        case.promise(FUTURE, "" if repr(record(store, run)) == expected else repr(record(store, run))[:600])


def kill(case: Case, server: postgres.Server, address: str) -> None:
    """The server dies, and comes back."""
    seed = case.rng.randrange(SEEDS)
    work = Work(case.folder, search, address, seed, pause=PAUSE)
    work.wait_for(case.rng.randrange(EVALUATIONS - 1))
    time.sleep(case.rng.random() * 0.1)
    server.kill()
    time.sleep(case.rng.random())
    server.start()
    _harmed(case, work, address, seed)


def cut(case: Case, server: postgres.Server, address: str) -> None:
    """The network fails again and again."""
    seed = case.rng.randrange(SEEDS)
    proxy = Process(server.port)
    with proxy.running() as port:
        through = address.replace(f":{server.port}/", f":{port}/")
        work = Work(case.folder, search, through, seed, pause=PAUSE)
        work.wait_for(1)  # a first connection that fails ends the command
        for _ in range(case.rng.randint(1, 6)):
            work.wait_for(len(work.lines("finished")) + case.rng.randint(0, 3))
            proxy.do(case.rng.choice(("cut", "request", "answer", "answer", "stall")), case.rng.random())
        code = work.end()
    case.note(code=code)
    _harmed(case, work, address, seed)


def coordinator(case: Case, server: postgres.Server, address: str) -> None:
    """The coordinator dies."""
    seed = case.rng.randrange(SEEDS)
    work = Work(case.folder, search, address, seed, pause=PAUSE)
    work.wait_for(case.rng.randrange(1, EVALUATIONS - 1))
    time.sleep(case.rng.random() * 0.1)
    work.kill()
    _harmed(case, work, address, seed)


def rivals(case: Case, server: postgres.Server, address: str) -> None:
    """Two coordinators of one run."""
    seed = case.rng.randrange(SEEDS)
    first = Work(case.folder, search, address, seed, pause=PAUSE)
    first.wait_for(case.rng.randrange(1, EVALUATIONS // 2))
    first.kill()
    (run,) = first.lines("run")
    both = [Work(case.folder, search, address, seed, run=run, pause=PAUSE) for _ in range(2)]
    codes = sorted(work.end() for work in both)
    case.promise(
        ONE, "" if codes == [0, ExitCode.RUN_OWNED] else f"exit codes {codes}: {both[0].text()} {both[1].text()}"
    )
    _harmed(case, first, address, seed)


def clients(case: Case, server: postgres.Server, address: str) -> None:
    """Eight clients write, while their connections are cut."""
    count = case.rng.randint(5, 20)
    proxy = Process(server.port)
    with proxy.running() as port:
        through = address.replace(f":{server.port}/", f":{port}/")
        work = [Work(case.folder, write, through, count, blob_bytes=100) for _ in range(8)]
        for _ in range(case.rng.randint(1, 6)):
            time.sleep(case.rng.random())
            proxy.do(case.rng.choice(("cut", "request", "answer")), 0.0)
        codes = [each.end() for each in work]
    case.promise(ENDS, "" if codes == [0] * 8 else " ".join(each.text() for each in work)[:1000])
    with Store.open(address) as store:
        problems = store.check(deep=True).problems
        case.promise(WHOLE, " ".join(problem.message for problem in problems))
        runs = store.runs()
        rows = {run.id: [row.scores["loss"].value for row in store.evaluations(run.id)] for run in runs}
        expected = [float(number) for number in range(count)]
        case.promise(LOST, " ".join(run for run, values in rows.items() if not set(expected) <= set(values)))
        case.promise(
            TWICE,
            f"{len(runs)} runs"
            if len(runs) != 8
            else "".join(run for run, values in rows.items() if len(values) > count),
        )


class Process:
    """A proxy in a process of its own: this one must keep one thread, so that it may fork."""

    def __init__(self, port: int) -> None:
        self._server = port
        self._ours, self._theirs = FORKS.Pipe()

    @contextlib.contextmanager
    def running(self) -> Iterator[int]:
        """Its port, while it runs."""
        process = FORKS.Process(target=self._run)
        process.start()
        try:
            yield int(self._ours.recv())
        finally:
            process.kill()
            process.join()

    def do(self, what: str, seconds: float) -> None:
        """Cut, stall for so long and then cut, or lose the next commit's request or answer."""
        self._ours.send((what, seconds))

    def _run(self) -> None:
        with Proxy(self._server) as proxy:
            self._theirs.send(proxy.port)
            while True:
                what, seconds = self._theirs.recv()
                if what == "cut":
                    proxy.cut()
                elif what == "stall":
                    proxy.stalled = True
                    time.sleep(seconds)
                    proxy.cut()
                    proxy.stalled = False
                else:
                    proxy.lose_commit(what)


if __name__ == "__main__":
    Campaign(
        "database",
        case,
        prepare=prepare,
        seconds=180.0,
        imports=("psycopg", "sqlalchemy.dialects.postgresql.psycopg", "alembic.command", "evodevo.storage.serving"),
        reason_to_skip=postgres.reason_to_skip,
    ).main(__doc__, cases=20, minutes=10.0)
