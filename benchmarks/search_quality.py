"""How well the search finds what is known to be there, through the public ``Study`` with a store in memory.

ZDT1 to ZDT3 with a real-vector space (SBX 15, polynomial mutation 20; Deb et al. 2002, Zitzler et al. 2000), population
100; and two tables in which every network was trained, NAS-Bench-201 and NAS-Bench-Macro, population 16 (288
evaluations are the budget of STAR): all algorithms of ours, pymoo's NSGA-II, Optuna's NSGA-II (population 16) and its
TPE as they come, and random search, with equally many evaluations. What a network costs (parameters, FLOPs) is known
before it is trained; only ``surrogate`` makes use of that, and a row of its own says what it finds without. The gates
are numbers that other engines reach on the same problems, and the aims of the surrogate.

    python benchmarks/search_quality.py --only NB201 --only Macro --json quality.json
"""

from __future__ import annotations

import argparse
import importlib.metadata
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from scipy.stats import mannwhitneyu

from evodevo.execution.serial import SerialExecutor
from evodevo.search import dominance
from evodevo.search.problem import Goal
from evodevo.search.settings import StudySettings
from evodevo.search.space import Space
from evodevo.search.study import Study
from evodevo.storage import Store
from evodevo.testing.macro_table import MacroSpace, MacroTable
from evodevo.testing.real_vector import ZDT_REFERENCE, RealVectorSpace, zdt1, zdt2, zdt3
from evodevo.testing.tabular import CellSpace, CellTable
from measuring import Report

DATA = Path(__file__).parents[2] / "shared" / "data"
TABLE = DATA / "nas_bench_201_12epoch" / "table.npz"
MACRO = DATA / "nas_bench_macro" / "table.csv.gz"
Function = Callable[[Any], tuple[float, float]]

# Name, function, what pymoo 0.6.2 reaches after 20,000 evaluations, the least that we must reach.
ZDT: tuple[tuple[str, Function, float, float], ...] = (
    ("ZDT1", zdt1, 0.8679, 0.866),
    ("ZDT2", zdt2, 0.5342, 0.532),
    ("ZDT3", zdt3, 1.3259, 1.324),
)
POPULATION = 16
BUDGETS = (96, 160, 288, 496, 992)
SHORT, LONG = 288, 992
# Table, algorithm, evaluations, the least mean share of the true hypervolume.
AIMS: tuple[tuple[str, str, int, float], ...] = (
    ("NB201", "nsga2", 160, 0.972),
    ("NB201", "nsga2", 288, 0.984),
    ("NB201", "nsga2", 496, 0.990),
    ("NB201", "nsga2", 992, 0.995),
    ("NB201", "surrogate", 160, 0.992),
    ("NB201", "surrogate", 288, 0.996),
    ("Macro", "surrogate", 160, 0.999),
)
# Row -> evaluations, whether the cost of a network is known beforehand, settings of the study.
OURS: dict[str, tuple[int, bool, dict[str, Any]]] = {
    "random": (LONG, True, {"algorithm": "random"}),
    "nsga2": (LONG, True, {}),
    "nsga2, steady": (LONG, True, {"mode": "steady"}),
    "genetic": (SHORT, True, {"algorithm": "genetic"}),
    "regularized": (SHORT, True, {"algorithm": "regularized"}),
    "firefly": (SHORT, True, {"algorithm": "firefly"}),
    "surrogate": (SHORT, True, {"algorithm": "surrogate"}),
    "surrogate, cost learnt": (SHORT, False, {"algorithm": "surrogate"}),
}
LAST = 96
MOST_MILLISECONDS = 10.0


Points = list[tuple[float, float]]


class Clock:
    """CPU time per evaluation, over everything that was searched."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.evaluations = 0

    def search(
        self, space: Space[Any], function: Function, known: bool = False, **settings: Any
    ) -> tuple[Points, Points]:
        """The scores of all individuals of a search in order of birth, and those of its last population.

        With ``known``, the second objective is known before an evaluation.
        """
        begin = time.process_time()
        chosen = StudySettings(baselines=False, **settings)
        goals = (Goal("first"), Goal("second", exact=(lambda genome: function(genome)[1]) if known else None))
        with Store.memory() as store:
            result = Study(space, function, goals=goals, settings=chosen, store=store, executor=SerialExecutor()).run()
            self.seconds += time.process_time() - begin
            last = [event for event in store.events(result.run) if event.type == "generation"][-1]
        self.evaluations += len(result.members)
        scores = {one.id: one.outcomes[0].scores for one in result.members}
        points = {name: (one["first"], one["second"]) for name, one in scores.items()}
        return list(points.values()), [points[name] for name in last.payload["population"]]


def zdt(report: Report, clock: Clock, seeds: int, evaluations: int) -> None:
    """The three problems, with 30 variables."""
    for name, function, reference, gate in ZDT:
        volumes, archives = [], []
        for seed in range(seeds):
            points, population = clock.search(
                RealVectorSpace(30), function, population=100, generations=evaluations // 100, seed=seed
            )
            # As pymoo's number: what the last population holds, not all that was ever seen.
            volumes.append(dominance.hypervolume(population, ZDT_REFERENCE))
            archives.append(dominance.hypervolume(points, ZDT_REFERENCE))
        note = f"pymoo 0.6.2: {reference}; all that was seen: {statistics.fmean(archives):.4f}"
        report.rows.append(_row(name, evaluations, volumes, note))
        report.at_least(f"{name}, mean hypervolume of {seeds} seeds", statistics.fmean(volumes), gate)


@dataclass(frozen=True)
class Searched:
    """One search: its row, the scores in order of birth, and its CPU time in seconds."""

    row: str
    points: Points
    seconds: float


@dataclass(frozen=True)
class Table:
    """A table of trained networks: its file, and which it is."""

    name: str
    path: Path

    def open(self) -> tuple[CellSpace, CellTable | MacroTable]:
        """Its space and its answers."""
        return _opened(self)


@cache
def _opened(table: Table) -> tuple[CellSpace, CellTable | MacroTable]:
    return (CellSpace(), CellTable(table.path)) if table.name == "NB201" else (MacroSpace(), MacroTable(table.path))


def search(table: Table, row: str, seed: int, most: int) -> Searched:
    """One search over a table, of at most so many evaluations."""
    torch.set_num_threads(1)
    space, answers = table.open()
    begin = time.process_time()
    if row in PEERS:
        points = PEERS[row](space, answers.objectives, seed, min(SHORT, most))
    else:
        evaluations, known, settings = OURS[row]
        evaluations = min(evaluations, most)
        # Algorithms with elites have fewer children in a generation; what is beyond a budget is cut off.
        children = StudySettings(population=POPULATION, **settings).create().offspring
        generations = 1 + -(-(evaluations - POPULATION) // children)
        chosen = {"population": POPULATION, "generations": generations, **settings}
        points = Clock().search(space, answers.objectives, known, seed=seed, **chosen)[0][:evaluations]
    return Searched(row, points, time.process_time() - begin)


def networks(report: Report, table: Table, chosen: Sequence[str], seeds: int, most: int, workers: int) -> None:
    """A table of trained networks; one search serves all budgets. Random search is always among the rows."""
    name, rows = table.name, [row for row in (*OURS, *PEERS) if row == "random" or row in chosen]
    found: dict[str, list[Searched]] = {row: [] for row in rows}
    # Row after row, so that the rows of a seed meet about the same load of the machine.
    asked = [(row, seed) for seed in range(seeds) for row in rows]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        running = [pool.submit(search, table, row, seed, most) for row, seed in asked]
        for done, one in enumerate(map(Future.result, running), 1):
            found[one.row].append(one)
            if done % len(rows) == 0:
                print(f"  {name}: {done // len(rows)} of {seeds} seeds", file=sys.stderr, flush=True)

    _, answers = table.open()
    shares = {
        row: {
            budget: [
                dominance.hypervolume(one.points[:budget], answers.reference) / answers.optimum for one in searches
            ]
            for budget in BUDGETS
            if budget <= min(len(one.points) for one in searches)
        }
        for row, searches in found.items()
    }
    milliseconds = {
        row: 1000 * sum(o.seconds for o in all_) / sum(len(o.points) for o in all_) for row, all_ in found.items()
    }
    for row, columns in shares.items():
        for budget, values in columns.items():
            notes = []
            if row != "random":
                notes.append(f"better than random: p = {_chance(values, shares['random'][budget]):.1e}")
            if budget == SHORT:
                notes.append(f"{milliseconds[row]:.2f} ms CPU per evaluation")
                notes.append(_spread_of([one.points[:budget] for one in found[row]]))
            report.rows.append(_row(f"{name} {row}", budget, values, "; ".join(notes)))
    for which, row, budget, aim in AIMS:
        if which == name and row in shares and budget <= most:
            mean = statistics.fmean(shares[row][budget])
            report.at_least(f"{name}, {row}, {budget} evaluations, mean share of {seeds} seeds", mean, aim)
    for row in (row for row in ("nsga2", "surrogate") if row in shares):
        chance = _chance(shares[row][SHORT], shares["random"][SHORT])
        report.at_most(f"{name}, {row}, {SHORT} evaluations, p against random search", chance, 1e-3)
    if "surrogate" in milliseconds:
        statement = f"{name}, surrogate: ms CPU per evaluation, drawing, model, store and all"
        report.at_most(statement, milliseconds["surrogate"], MOST_MILLISECONDS)


def _spread_of(runs: list[Points]) -> str:
    """What algorithms that minimise a sum are after, and how much of the cost axis they see at last."""
    sums = statistics.fmean(min(error + cost for error, cost in points) for points in runs)
    costs = [sorted(cost for _, cost in points[-LAST:]) for points in runs]
    middle = statistics.fmean(ordered[LAST * 9 // 10] - ordered[LAST // 10] for ordered in costs)
    return f"least sum of both {sums:.4f}; middle 80 % of the costs of the last {LAST}: {middle:.2f} wide"


def _chance(ours: Sequence[float], theirs: Sequence[float]) -> float:
    return float(mannwhitneyu(ours, theirs, alternative="greater").pvalue)


def pymoo_search(space: CellSpace, function: Function, seed: int, evaluations: int) -> Points:
    """NSGA-II of pymoo, population 16, with the operators of the space: two-point crossover, 0.1 per gene."""
    from pymoo.algorithms.moo.nsga2 import NSGA2
    from pymoo.core.mutation import Mutation
    from pymoo.core.problem import ElementwiseProblem
    from pymoo.operators.crossover.pntx import TwoPointCrossover
    from pymoo.operators.sampling.rnd import IntegerRandomSampling
    from pymoo.optimize import minimize

    points: Points = []

    class Lookup(ElementwiseProblem):
        def __init__(self) -> None:
            super().__init__(n_var=space.genes, n_obj=2, xl=0, xu=space.values - 1, vtype=int)

        def _evaluate(self, x: Any, out: Any, *_: Any, **__: Any) -> None:
            points.append(function(tuple(int(gene) for gene in x)))
            out["F"] = points[-1]

    class Another(Mutation):
        def _do(self, problem: Any, genes: Any, *_: Any, random_state: Any = None, **__: Any) -> Any:
            changed = random_state.random(genes.shape) < space.mutation_probability
            return (genes + changed * random_state.integers(1, space.values, size=genes.shape)) % space.values

    algorithm = NSGA2(
        pop_size=POPULATION,
        sampling=IntegerRandomSampling(),
        crossover=TwoPointCrossover(prob=1.0),
        mutation=Another(prob=1.0),
        eliminate_duplicates=True,
    )
    minimize(Lookup(), algorithm, ("n_eval", evaluations), seed=seed, verbose=False)
    return points[:evaluations]


def optuna_search(space: CellSpace, function: Function, seed: int, evaluations: int, *, sampler: str) -> Points:
    """NSGA-II or TPE of Optuna over one categorical parameter per gene."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    samplers = optuna.samplers
    if sampler == "nsga2":
        chosen: Any = samplers.NSGAIISampler(population_size=POPULATION, seed=seed)
    else:
        chosen = samplers.TPESampler(seed=seed)
    study = optuna.create_study(directions=["minimize", "minimize"], sampler=chosen)
    points: Points = []

    def objective(trial: Any) -> tuple[float, float]:
        values = list(range(space.values))
        points.append(function(tuple(trial.suggest_categorical(f"gene{n}", values) for n in range(space.genes))))
        return points[-1]

    study.optimize(objective, n_trials=evaluations)
    return points


PEERS: dict[str, Callable[[CellSpace, Function, int, int], Points]] = {
    "pymoo NSGA-II": pymoo_search,
    "Optuna NSGA-II": partial(optuna_search, sampler="nsga2"),
    "Optuna TPE": partial(optuna_search, sampler="tpe"),
}


def _row(name: str, evaluations: int, values: Sequence[float], note: str) -> dict[str, Any]:
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return {
        "problem": name,
        "evaluations": evaluations,
        "mean": f"{statistics.fmean(values):.4f}",
        "deviation": f"{spread:.4f}",
        "least": f"{min(values):.4f}",
        "note": note,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, default=None, help="write everything measured to this file")
    parser.add_argument("--table", type=Path, default=TABLE, help="table.npz of NAS-Bench-201")
    parser.add_argument("--macro", type=Path, default=MACRO, help="table.csv.gz of NAS-Bench-Macro")
    parser.add_argument("--only", choices=("ZDT", "NB201", "Macro"), action="append", help="repeatable; default: all")
    parser.add_argument("--row", choices=(*OURS, *PEERS), action="append", help="repeatable; default: all rows")
    parser.add_argument("--seeds", type=int, default=3, help="of ZDT")
    parser.add_argument("--cell-seeds", type=int, default=30, help="of the tables of networks")
    parser.add_argument("--evaluations", type=int, default=20_000, help="of ZDT; the gates hold for 20,000")
    parser.add_argument("--most", type=int, default=LONG, help="evaluations of a search over a table of networks")
    parser.add_argument("--workers", type=int, default=1, help="processes that search the tables of networks")
    options = parser.parse_args(sys.argv[1:])
    if options.most < SHORT:
        parser.error(f"--most {options.most}: at least {SHORT} is wanted")
    torch.set_num_threads(1)
    wanted = options.only or ["ZDT", "NB201", "Macro"]
    report, clock = Report("search quality"), Clock()
    versions = (f"{name} {importlib.metadata.version(name)}" for name in ("pymoo", "optuna"))
    report.settings["peers"] = ", ".join(versions)
    if "ZDT" in wanted:
        zdt(report, clock, options.seeds, options.evaluations)
        each = 1000 * clock.seconds / clock.evaluations
        report.settings["ZDT, CPU time"] = f"{each:.2f} ms per evaluation, over {clock.evaluations:,}"
    for name, path in (("NB201", options.table), ("Macro", options.macro)):
        if name in wanted and path.is_file():
            networks(
                report,
                Table(name, path),
                options.row or (*OURS, *PEERS),
                options.cell_seeds,
                options.most,
                options.workers,
            )
        elif name in wanted:
            print(f"{name} is left out: there is no {path}")
    report.finish(options.json)


if __name__ == "__main__":
    main()
