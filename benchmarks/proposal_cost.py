"""What a search costs beside its evaluations: CPU time per proposal, of tables of networks and of backbones.

Run: python benchmarks/proposal_cost.py [--json PATH] [--rounds 3] [--evaluations 288]

Searches through ``Study`` with a store in memory and population 16, where an evaluation takes microseconds: the answers
of NAS-Bench-201 and NAS-Bench-Macro are looked up, backbones get a quality that is a sum over their LIVs and pairs of
neighbours. Cost is known before an evaluation, as in real searches (parameters or FLOPs of tables, cache of backbones).
All rows of a seed run one after the other, so that they meet about the same load of the machine. "In all" is
everything: drawing, hashing, model, record; "ask" is the algorithm alone, without the initial population.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from zlib import crc32

from evodevo.backbone.genome import BackboneGenome
from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.execution.serial import SerialExecutor
from evodevo.operators.spec import Dimensions
from evodevo.search.base import Algorithm, Draw, Foresee, Known, Proposal, Scored, SearchState
from evodevo.search.problem import Goal
from evodevo.search.space import Space
from evodevo.search.study import Study, StudySettings
from evodevo.storage import Store
from evodevo.testing.macro_table import MacroSpace, MacroTable
from evodevo.testing.tabular import CellSpace, CellTable
from measuring import Report, Spread, arguments

DATA = Path(__file__).parents[2] / "shared" / "data"
TABLE = DATA / "nas_bench_201_12epoch" / "table.npz"
MACRO = DATA / "nas_bench_macro" / "table.csv.gz"
POPULATION = 16
# Row -> algorithm and its settings.
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "nsga2": ("nsga2", {}),
    "surrogate": ("surrogate", {}),
    "surrogate, 16 candidates": ("surrogate", {"candidates": 16}),
    "surrogate, 8 candidates": ("surrogate", {"candidates": 8}),
}
MOST_MILLISECONDS = 10.0

Values = tuple[Callable[[Any], float], Callable[[Any], float]]
"""Quality, which only an evaluation tells, and cost, which is known before; both to minimise."""


class Timed(Algorithm):
    """An algorithm whose ``ask`` is timed after the initial population."""

    def __init__(self, inner: Algorithm) -> None:
        super().__init__(inner.settings)
        self.inner, self.name = inner, inner.name
        self.seconds, self.proposals = 0.0, 0

    @property
    def offspring(self) -> int:
        return self.inner.offspring

    def informed(self, foresee: Foresee) -> Timed:
        self.inner = self.inner.informed(foresee)
        return self

    def start(self) -> SearchState:
        return self.inner.start()

    def ask(self, state: SearchState, space: Space[Any], draw: Draw, count: int, known: Known) -> list[Proposal]:
        start = time.process_time()
        found = self.inner.ask(state, space, draw, count, known)
        if state.population:
            self.seconds += time.process_time() - start
            self.proposals += len(found)
        return found

    def tell(self, state: SearchState, scored: Any) -> SearchState:
        return self.inner.tell(state, scored)

    def _breeder(self, state: SearchState, space: Space[Any], count: int) -> Any:
        return self.inner._breeder(state, space, count)

    def _survive(self, parents: tuple[Scored, ...], children: tuple[Scored, ...]) -> Any:
        return self.inner._survive(parents, children)


def backbones(depth: int, operators: str) -> tuple[Space[Any], Values]:
    """Backbones of width 64 with a quality in [0, 1) per LIV and pair of neighbours, and their cache in bytes."""
    settings = BackboneSettings(depth=depth, operators=operators, dimensions=Dimensions(width=64))  # type: ignore[arg-type]
    space = BackboneSpace(settings)

    def quality(genome: BackboneGenome) -> float:
        livs = [crc32(bytes(segment)) / 2**32 for segment in space.canonical(genome)]
        pairs = [crc32(bytes((a[0], b[0]))) / 2**32 for a, b in pairwise(genome)]
        return sum(livs) / depth + sum(pairs) / depth

    return space, (quality, lambda genome: float(space.cost(genome, length=256).cache_bytes))


def looked_up(space: Space[Any], objectives: Callable[[Any], tuple[float, float]]) -> tuple[Space[Any], Values]:
    """A table of networks."""
    return space, (lambda genome: objectives(genome)[0], lambda genome: objectives(genome)[1])


def search(space: Space[Any], values: Values, row: str, seed: int, evaluations: int) -> tuple[float, float]:
    """Milliseconds of CPU time per proposal, in all and of ``ask``."""
    algorithm, own = ROWS[row]
    settings = StudySettings(
        algorithm=algorithm,
        algorithm_settings=own,
        population=POPULATION,
        generations=evaluations // POPULATION,
        seed=seed,
        baselines=False,
    )
    timed = Timed(settings.create())
    quality, cost = values
    goals = (Goal("quality"), Goal("cost", exact=cost))
    begin = time.process_time()
    with Store.memory() as store:
        study = Study(
            space,
            lambda genome: (quality(genome), cost(genome)),
            goals=goals,
            executor=SerialExecutor(),
            settings=settings,
            store=store,
            algorithm=timed,
        )
        result = study.run()
    whole = time.process_time() - begin
    return 1e3 * whole / len(result.members), 1e3 * timed.seconds / timed.proposals


def problems() -> dict[str, Callable[[], tuple[Space[Any], Values]]]:
    """Name -> space and values; tables only where their data lies."""
    found: dict[str, Callable[[], tuple[Space[Any], Values]]] = {}
    if TABLE.is_file():
        found["NAS-Bench-201"] = lambda: looked_up(CellSpace(), CellTable(TABLE).objectives)
    if MACRO.is_file():
        found["NAS-Bench-Macro"] = lambda: looked_up(MacroSpace(), MacroTable(MACRO).objectives)
    for operators in ("paper", "plan"):
        for depth in (8, 12):
            found[f"backbones, {depth} LIVs, {operators}"] = lambda depth=depth, operators=operators: backbones(
                depth, operators
            )
    return found


def main() -> None:
    """Measure and report."""
    given = arguments(str(__doc__), rounds=3, evaluations=288)
    seeds = f"0 to {given.rounds - 1}"
    report = Report("a search beside its evaluations", settings={"evaluations": given.evaluations, "seeds": seeds})
    opened = {name: build() for name, build in problems().items()}
    rows = [(name, row) for name in opened for row in ROWS]
    seen: dict[tuple[str, str], list[tuple[float, float]]] = {row: [] for row in rows}
    for seed in range(given.rounds):
        for name, row in rows:
            seen[name, row].append(search(*opened[name], row, seed, given.evaluations))
    for name, row in rows:
        whole, asked = ([one[part] for one in seen[name, row]] for part in (0, 1))
        report.rows.append(
            {
                "space": name,
                "algorithm": row,
                "ms per proposal in all": Spread.of(whole).show(),
                "ask, ms": Spread.of(asked).show(),
            }
        )
        if row != "nsga2":
            statement = f"{name}, {row}: ms CPU per proposal in all"
            report.at_most(statement, Spread.of(whole).median, MOST_MILLISECONDS)
    report.finish(given.json)


if __name__ == "__main__":
    main()
