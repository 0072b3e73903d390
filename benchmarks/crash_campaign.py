"""Many kills of searches with real training, at random places, and what they cost.

Searches are killed again and again (coordinator, workers or both; at a named point, within a training, or at a random
moment) and resumed with one worker or two until they end. After every death: the store passes a deep check, everything
that was printed as finished is recorded, nothing recorded is gone or done again, no process is left. At the end of
every search: slot, genome, parents, operation and score bits equal those of the search that was never interrupted.
Anything else ends the campaign with a traceback.

    python benchmarks/crash_campaign.py --kills 100 --json crashes.json
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from evodevo.storage.failpoints import POINTS
from evodevo.testing.crash_sessions import Kill, Victim, compare

MAX_KILLS_OF_ONE = 12
TEXT = (
    "def add(a, b):\n    return a + b\n\nclass Point:\n    def __init__(self, x, y):\n        self.x, self.y = x, y\n"
)


def draw(rng: np.random.Generator) -> Kill:
    """A kill like any other."""
    who = ("coordinator", "worker", "both")[rng.integers(3)]
    place = rng.integers(3)
    if place == 0:
        return Kill(who, "time", int(rng.integers(100, 1200)))
    if place == 1:
        return Kill(who, "progress", int(rng.integers(1, 40)))
    # Blobs are written by workers, everything else by the coordinator.
    points = [point for point in POINTS if ("blob" in point) == (who != "coordinator")]
    if who == "both":
        points = [point for point in POINTS if "blob" in point]
    return Kill(who, points[rng.integers(len(points))], int(rng.integers(1, 5)))


def campaign(kills: int, seed: int, folder: Path) -> dict[str, object]:
    """Kill until so many have died; searches run one after the other."""
    rng = np.random.default_rng(seed)
    data, cache = folder / "text.py", folder / "cache"
    data.write_text("".join(f"# {number}\n{TEXT}" for number in range(200)))
    cache.mkdir()
    (folder / "reference").mkdir()
    reference = Victim(folder / "reference", data, cache)
    whole = reference.session()
    print(f"uninterrupted: {whole.recorded} evaluations in {whole.seconds:.1f} s", flush=True)
    struck: Counter[str] = Counter()
    sessions = searches = evaluations = 0
    while sum(struck.values()) < kills:
        searches += 1
        home = folder / f"search{searches}"
        home.mkdir()
        victim = Victim(home, data, cache)
        for _ in range(MAX_KILLS_OF_ONE):
            kill = draw(rng) if sum(struck.values()) < kills else Kill()
            report = victim.session(kill, workers=int(rng.integers(1, 3)))
            sessions += 1
            evaluations += report.recorded
            if report.struck:
                struck[f"{kill.who} at {kill.at}"] += 1
            print(f"{sum(struck.values()):4d} kills  {kill}  recorded {report.recorded}", flush=True)
            if not report.killed:
                break
        else:
            report = victim.session()
            sessions += 1
            evaluations += report.recorded
        compare(victim, reference)
        print(f"search {searches} equals the one that was never interrupted", flush=True)
    return {
        "kills": dict(sorted(struck.items())),
        "searches": searches,
        "sessions": sessions,
        "evaluations": evaluations,
        "evaluations_wanted": searches * whole.recorded,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, default=None, help="write everything that was counted to this file")
    options = parser.parse_args(sys.argv[1:])
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        counted = campaign(options.kills, options.seed, Path(folder))
    counted |= {"seconds": round(time.monotonic() - begin), "seed": options.seed}
    assert counted["evaluations"] == counted["evaluations_wanted"], "each evaluation once, no more and no less"
    print(json.dumps(counted, indent=1))
    print("no finished evaluation was lost or done again, every future was the same, no process was left.")
    if options.json is not None:
        options.json.write_text(
            json.dumps({"schema": "evodevo.benchmark/1", "name": "crash_campaign", **counted}) + "\n"
        )


if __name__ == "__main__":
    main()
