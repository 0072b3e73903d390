"""Evaluations per second that clients record in a store at once: SQLite in a folder beside PostgreSQL, in one run.

Each client is a process with a run of its own. An evaluation is what a search records of one: individual, start, scores
and finish, three durable transactions, without training and blobs. Both databases write to the same disk, with fsync;
they take turns, so that what else the machine does meets both.

    python benchmarks/store_clients.py --seconds 5 --rounds 2
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from evodevo.storage import Evaluation, NewIndividual, Score, Store, individual_id
from evodevo.testing.stores import postgres

FORKS = multiprocessing.get_context("fork")
DURABLE = ("fsync=on", "full_page_writes=on", "synchronous_commit=on")


def client(place: str, begin: Any, seconds: float, counts: Any, number: int) -> None:
    """Record evaluations in a run of one's own until the time is over."""
    with Store.open(place, create=False) as store:
        run_id = store.create_run("evolve", "clients", {}, 0)
        lease = store.acquire(run_id)
        begin.wait()
        end, count = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            birth = f"0/{count}"
            one = NewIndividual(individual_id(run_id, birth), birth, 0, count, {"genes": [count]}, birth, "sample")
            store.add_individuals(lease, [one])
            attempt = store.start_evaluation(lease, one.id, "quick", 0)
            scores = {"loss": Score(float(count)), "cache": Score(1.0)}
            store.finish_evaluation(lease, Evaluation(one.id, "quick", 0, attempt, scores=scores))
            count += 1
        counts[number] = count


def rate(place: str, clients: int, seconds: float) -> float:
    """Evaluations per second of so many clients."""
    begin, counts = FORKS.Barrier(clients), FORKS.Array("l", clients)
    work = [FORKS.Process(target=client, args=(place, begin, seconds, counts, number)) for number in range(clients)]
    for each in work:
        each.start()
    for each in work:
        each.join()
    if any(each.exitcode for each in work):
        raise SystemExit(f"a client ended with {[each.exitcode for each in work]}")
    return sum(counts) / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement, default 5")
    parser.add_argument("--rounds", type=int, default=2, help="measurements of each, default 2")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if reason := postgres.reason_to_skip():
        raise SystemExit(f"PostgreSQL cannot be measured: {reason}")
    with tempfile.TemporaryDirectory(dir="/tmp") as name, postgres.server(DURABLE, folder=Path("/tmp")) as server:
        folder = Path(name)
        places = {"SQLite": str(folder / "runs"), "PostgreSQL": server.address(server.schema())}
        Store.open(places["SQLite"]).close()
        Store.open(places["PostgreSQL"], blobs=folder / "blobs").close()
        rows: dict[tuple[str, int], list[float]] = {}
        for clients in options.clients:
            for _ in range(options.rounds):
                for database, place in places.items():
                    rows.setdefault((database, clients), []).append(rate(place, clients, options.seconds))
    print("| clients | SQLite, evaluations/s | PostgreSQL, evaluations/s | PostgreSQL / SQLite |")
    print("|---|---|---|---|")
    table = []
    for clients in options.clients:
        ours, theirs = (rows[database, clients] for database in places)
        ratio = statistics.mean(theirs) / statistics.mean(ours)
        shown = [f"{statistics.mean(each):.0f} ({min(each):.0f} to {max(each):.0f})" for each in (ours, theirs)]
        print(f"| {clients} | {shown[0]} | {shown[1]} | {ratio:.2f} |")
        table.append({"clients": clients, "sqlite": ours, "postgresql": theirs, "ratio": ratio})
    if options.json is not None:
        options.json.write_text(json.dumps({"schema": "evodevo.store_clients/1", "rows": table}, indent=1) + "\n")


if __name__ == "__main__":
    main()
