"""A study of one's own function that crashes, hangs, kills and lies: is each a row with its reason, and nothing else?

Each case is a search of 32 evaluations in a store of its own, whose function misbehaves at a third of its points in
ways of ``evodevo.testing.misbehaviour``. Promises: each failure is recorded with the expected reason; genomes, parents,
scores and hypervolumes are those of the search in which the same points fail plainly; the store has no damage; no
process stays.

    python benchmarks/faults/misbehaviour.py --cases 100 --seed 0
"""

from __future__ import annotations

from campaign import Campaign, Case

from evodevo.execution.forked import is_forkable
from evodevo.execution.serial import SerialExecutor
from evodevo.storage import Store
from evodevo.testing.misbehaviour import WAYS, judged, search, way_of


def misbehave(case: Case) -> None:
    """One search, and the search whose function only raises exceptions."""
    assert is_forkable(), "this process has threads: nothing would be isolated"
    ways, seed = case.rng.sample(sorted(WAYS), 5), case.rng.randrange(2**31)
    case.note(ways=ways, seed=seed)
    with Store.open(case.folder / "runs") as store:
        result = search(store, ways, seed)
        plain = search(Store.memory(), ways, seed, plain=True, executor=SerialExecutor())
        case.promise(
            "each failure has its reason, all else is as if it raised", "; ".join(judged(result, plain, ways, seed))
        )
        problems = [f"{problem.subject}: {problem.message}" for problem in store.check(deep=True).problems]
        case.promise("the store has no damage", "; ".join(problems))
    for member in result.members:
        way = way_of(member.genome, ways, seed)
        if way is not None:
            expected = WAYS[way][1]
            case.count(
                f"{way} ({expected or 'succeeds'})", "kept" if member.outcomes[0].reason == expected else "broken"
            )


if __name__ == "__main__":
    Campaign("misbehaviour", misbehave).main(__doc__, cases=100)
