"""NSGA-II's own time: one ask and tell for many individuals, ours against pymoo's.

Both start from the same scored individuals and drive the same Python genomes, the same operators and the same check
for duplicates (the hash of a genome against all that the run has seen), in turns within one process. Evaluation and
storage are left out; what hashing and storing cost is printed beside it. Operators and hashing take the same time on
both sides, so the ratio without them (engine only) is given too. Time is this process' CPU time, so that other work
on the machine does not count, and garbage is collected between the turns; ratios are medians over the rounds with
their quartiles.

    python benchmarks/nsga2_engine.py --population 1000 --rounds 15 --json engine.json
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pymoo
from pymoo.algorithms.moo.nsga2 import NSGA2 as PymooNSGA2
from pymoo.core.crossover import Crossover
from pymoo.core.duplicate import DuplicateElimination
from pymoo.core.mutation import Mutation
from pymoo.core.problem import Problem
from pymoo.core.sampling import Sampling
from pymoo.core.termination import NoTermination

from evodevo.backbone.space import BackboneSpace
from evodevo.randomness import generator
from evodevo.search.base import Scored, create
from evodevo.search.space import Space
from evodevo.testing.real_vector import RealVectorSpace, zdt1
from evodevo.testing.tabular import CellSpace
from measuring import Report, Spread, arguments, ratio

Values = tuple[float, ...]


class Stopwatch:
    """A space whose operators and hash are timed, so that their share can be told from the engine's."""

    def __init__(self, space: Space[Any]) -> None:
        self.space = space
        self.operators = 0.0
        self.hashing = 0.0
        self.repair, self.distance, self.segments, self.join = (
            space.repair,
            space.distance,
            space.segments,
            space.join,
        )

    def initial(self, rng: np.random.Generator) -> None:
        """No designs: both sides begin with samples."""

    def sample(self, rng: np.random.Generator) -> Any:
        return self._timed("operators", self.space.sample, rng)

    def mutate(self, genome: Any, rng: np.random.Generator) -> Any:
        return self._timed("operators", self.space.mutate, genome, rng)

    def crossover(self, a: Any, b: Any, rng: np.random.Generator) -> Any:
        return self._timed("operators", self.space.crossover, a, b, rng)

    def hash(self, genome: Any) -> Any:
        return self._timed("hashing", self.space.hash, genome)

    def reset(self) -> None:
        self.operators = self.hashing = 0.0

    def _timed(self, what: str, call: Callable[..., Any], *arguments: Any) -> Any:
        start = time.process_time()
        result = call(*arguments)
        setattr(self, what, getattr(self, what) + time.process_time() - start)
        return result


# pymoo's side: genomes travel as objects in a column of one variable.


def column(genomes: list[Any]) -> Any:
    table = np.empty((len(genomes), 1), dtype=object)
    for row, genome in enumerate(genomes):
        table[row, 0] = genome
    return table


class GenomeSampling(Sampling):
    def __init__(self, space: Any) -> None:
        super().__init__()
        self.space = space

    def _do(self, problem: Any, n_samples: int, *_: Any, random_state: Any = None, **__: Any) -> Any:
        return column([self.space.sample(random_state) for _ in range(n_samples)])


class GenomeCrossover(Crossover):
    def __init__(self, space: Any) -> None:
        super().__init__(2, 2, prob=1.0)
        self.space = space

    def do(self, problem: Any, pop: Any, parents: Any = None, *_: Any, random_state: Any = None, **__: Any) -> Any:
        # The base class stacks genomes into an array, which takes tuples apart; this is its work without that.
        from pymoo.core.population import Population

        pairs = [pop[mating] for mating in parents] if parents is not None else pop
        children = [self.space.crossover(a.X[0], b.X[0], random_state) for a, b in pairs]
        firsts, seconds = zip(*children, strict=True)
        return Population.new("X", column([*firsts, *seconds]))


class GenomeMutation(Mutation):
    def __init__(self, space: Any) -> None:
        super().__init__(prob=1.0)
        self.space = space

    def _do(self, problem: Any, X: Any, *_: Any, random_state: Any = None, **__: Any) -> Any:
        return column([self.space.mutate(row[0], random_state) for row in X])


class SeenBefore(DuplicateElimination):
    """The hash of each new genome against all that the run has seen; each genome is hashed once."""

    def __init__(self, space: Any) -> None:
        super().__init__()
        self.space = space
        self.seen: set[str] = set()

    def do(self, pop: Any, *others: Any, return_indices: bool = False, to_itself: bool = True) -> Any:
        fresh = []
        for position, individual in enumerate(pop):
            digest = self.space.hash(individual.X[0])
            if digest not in self.seen:
                self.seen.add(digest)
                fresh.append(position)
        return pop[fresh]


class PymooSide:
    """pymoo's NSGA-II in the state that follows from these founders."""

    def __init__(self, space: Stopwatch, founders: list[Any], values: list[Values], seed: int) -> None:
        self.algorithm = PymooNSGA2(
            pop_size=len(founders),
            sampling=column(founders),
            crossover=GenomeCrossover(space),
            mutation=GenomeMutation(space),
            eliminate_duplicates=SeenBefore(space),
        )
        self.algorithm.setup(Problem(n_var=1, n_obj=2), termination=NoTermination(), seed=seed, verbose=False)
        self.ask()
        self.tell(values)

    def ask(self) -> list[Any]:
        self.asked = self.algorithm.ask()
        return [one.X[0] for one in self.asked]

    def tell(self, values: list[Values]) -> None:
        self.asked.set("F", np.array(values))
        for one in self.asked:
            one.evaluated.update(("F", "G", "H"))
        self.algorithm.tell(infills=self.asked)


class OurSide:
    """Our NSGA-II in the state that follows from these founders."""

    def __init__(self, space: Stopwatch, founders: list[Any], values: list[Values], seed: int) -> None:
        self.space, self.seed = space, seed
        self.algorithm = create("nsga2", {"population": len(founders)})
        self.known = {space.hash(genome) for genome in founders}
        self.genomes = founders
        self.state = self.algorithm.start()
        self.tell(values)

    def ask(self) -> list[Any]:
        draw = partial(generator, self.seed, 1)
        asked = self.algorithm.ask(self.state, self.space, draw, len(self.genomes), self.known.__contains__)  # type: ignore[arg-type]
        self.genomes = [one.genome for one in asked]
        return self.genomes

    def tell(self, values: list[Values]) -> None:
        told = self.state.told
        rows = zip(self.genomes, values, strict=True)
        scored = [Scored(f"{told}.{slot}", genome, value) for slot, (genome, value) in enumerate(rows)]
        self.state = self.algorithm.tell(self.state, scored)


def compare(
    space: Space[Any], evaluate: Callable[[Any], Values], population: int, rounds: int
) -> tuple[dict[str, Any], Spread]:
    """Both sides in turns, each round from new founders; milliseconds for one ask and tell of a whole generation."""
    watch = Stopwatch(space)
    taken: dict[str, list[dict[str, float]]] = {"evodevo": [], "pymoo": []}
    for seed in range(rounds):
        founders = list({space.hash(one): one for one in _samples(space, population, seed)}.values())[:population]
        values = [evaluate(one) for one in founders]
        sides = {"evodevo": OurSide(watch, founders, values, seed), "pymoo": PymooSide(watch, founders, values, seed)}
        for name in sorted(sides, reverse=bool(seed % 2)):
            taken[name].append(_timed_step(sides[name], watch, evaluate))
    total, engine = (
        ratio([row[part] for row in taken["pymoo"]], [row[part] for row in taken["evodevo"]])
        for part in ("total", "engine")
    )
    row = {"space": space.name, "pymoo/evodevo": total.show(), "engine only": engine.show()}
    for name, parts in taken.items():
        row |= {f"{name} {part} ms": round(statistics.median(one[part] for one in parts), 1) for part in parts[0]}
    return row | {"storing ms": round(storing(space, founders), 1)}, total


def _samples(space: Space[Any], population: int, seed: int) -> list[Any]:
    rng = generator(seed, "founders")
    return [space.sample(rng) for _ in range(2 * population)]


def _timed_step(side: PymooSide | OurSide, watch: Stopwatch, evaluate: Callable[[Any], Values]) -> dict[str, float]:
    watch.reset()
    gc.collect()
    gc.disable()
    start = time.process_time()
    genomes = side.ask()
    asking = time.process_time() - start
    values = [evaluate(genome) for genome in genomes]
    start = time.process_time()
    side.tell(values)
    total = asking + time.process_time() - start
    gc.enable()
    return {
        "total": 1000 * total,
        "operators": 1000 * watch.operators,
        "hashing": 1000 * watch.hashing,
        "engine": 1000 * (total - watch.operators - watch.hashing),
    }


def storing(space: Space[Any], genomes: list[Any]) -> float:
    """Milliseconds to record one generation of genomes in an in-memory store, in one transaction."""
    from evodevo.storage import Store
    from evodevo.storage.base import NewIndividual, individual_id

    with Store.memory() as store:
        run = store.create_run(
            kind="evolve", recipe="benchmark", settings={}, seed=1, space=space.name, versions={"evodevo": "0"}
        )
        lease = store.acquire(run)
        rows = [
            NewIndividual(
                id=individual_id(run, f"1/{slot}"),
                birth=f"1/{slot}",
                generation=1,
                slot=slot,
                genome_envelope=space.to_json(genome),
                genome_hash=space.hash(genome),
                operation="sample",
            )
            for slot, genome in enumerate(genomes)
        ]
        start = time.process_time()
        store.add_individuals(lease, rows)
        return 1000 * (time.process_time() - start)


def cell_values(genome: tuple[int, ...]) -> Values:
    return sum(gene * place for place, gene in enumerate(genome, 1)) / 84, sum(4 - gene for gene in genome) ** 2 / 576


def backbone_values(space: BackboneSpace) -> Callable[[Any], Values]:
    """Two cheap numbers in conflict, from the hash: what is timed is the engine."""

    def values(genome: Any) -> Values:
        digest = space.hash(genome)
        first = int(digest[:8], 16) / 2**32
        return first, 1 - first + int(digest[8:16], 16) / 2**32

    return values


def main() -> None:
    options = arguments(__doc__ or "", population=1000, rounds=15)
    backbone = BackboneSpace()
    problems: list[tuple[Space[Any], Callable[[Any], Values]]] = [
        (RealVectorSpace(30), zdt1),
        (CellSpace(), cell_values),
        (backbone, backbone_values(backbone)),
    ]
    report = Report("NSGA-II, one ask and tell of a scored population: ours against pymoo's")
    report.settings = {"population": options.population, "rounds": options.rounds, "pymoo": pymoo.__version__}
    for space, evaluate in problems:
        row, total = compare(space, evaluate, options.population, options.rounds)
        report.rows.append(row)
        report.at_least(f"pymoo's time over ours, {space.name} genomes", total.median, 1.0)
    report.finish(options.json)


if __name__ == "__main__":
    main()
