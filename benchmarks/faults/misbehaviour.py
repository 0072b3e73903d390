"""A study of one's own function that crashes, hangs, kills and lies: is each a row with its reason, and nothing else?

Each case is a search of 32 evaluations in a store of its own, whose function misbehaves at a third of its points in
ways of ``evodevo.testing.misbehaviour``. Promises: each failure is recorded with the expected reason; genomes, parents,
scores and hypervolumes are those of the search in which the same points fail plainly; the store has no damage; no
process stays.

    python benchmarks/faults/misbehaviour.py --cases 100 --seed 0
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from evodevo.execution.family import adopt_orphans, children
from evodevo.execution.forked import is_forkable
from evodevo.execution.serial import SerialExecutor
from evodevo.storage import Store
from evodevo.testing.misbehaviour import WAYS, judged, search, way_of


def main() -> None:
    """Run the cases, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=30.0, help="end after so many minutes, whatever was done")
    options = parser.parse_args()
    if not is_forkable():
        sys.exit("this process has threads: nothing would be isolated.")
    adopt_orphans()  # what a search leaves behind would become a child of this process
    rng, began = random.Random(options.seed), time.monotonic()
    met: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    broken = number = 0
    for number in range(1, options.cases + 1):
        ways, seed = rng.sample(sorted(WAYS), 5), rng.randrange(2**31)
        with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder)) as store:
            result = search(store, ways, seed)
            wrong = judged(
                result, search(Store.memory(), ways, seed, plain=True, executor=SerialExecutor()), ways, seed
            )
            wrong += [f"{problem.subject}: {problem.message}" for problem in store.check(deep=True).problems]
        wrong += [f"process {pid} stayed" for pid in children(os.getpid())]
        for member in result.members:
            way = way_of(member.genome, ways, seed)
            if way is not None:
                met[way] += 1
                kept[way] += member.outcomes[0].reason == WAYS[way][1]
        broken += len(wrong)
        for words in wrong:
            print(f"BROKEN: case {number}, ways {ways}, seed {seed}: {words}", flush=True)
        if time.monotonic() - began > 60 * options.minutes:
            print(f"ended after {number} cases: {options.minutes:g} minutes are over")
            break
    print(f"{'way':26}{'reason':12}{'met':>6}{'as promised':>13}")
    for way, (_, reason) in WAYS.items():
        print(f"{way:26}{reason or 'succeeds':12}{met[way]:6}{kept[way]:13}")
    print(
        f"seed {options.seed}, {number} searches, {sum(met.values())} misbehaviours, {broken} promises broken, "
        f"{time.monotonic() - began:.0f} s"
    )
    sys.exit(broken > 0)


if __name__ == "__main__":
    main()
