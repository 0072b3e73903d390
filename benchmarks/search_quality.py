"""How well the search finds what is known to be there, through the public ``Study`` with a store in memory.

ZDT1 to ZDT3 with a real-vector space (SBX 15, polynomial mutation 20; Deb et al. 2002, Zitzler et al. 2000), population
100; and two tables in which every network was trained, NAS-Bench-201 and NAS-Bench-Macro, population 16 (288
evaluations are the budget of STAR): all algorithms of ours, pymoo's NSGA-II, Optuna's NSGA-II and TPE where Optuna is
installed, and random search, with equally many evaluations. What a network costs (parameters, FLOPs) is known before
it is trained; only ``surrogate`` makes use of that, and a row of its own says what it finds without. The gates are
numbers that other engines reach on the same problems, and the aims of the surrogate.

    python benchmarks/search_quality.py --only NB201 --only Macro --json quality.json
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from scipy.stats import mannwhitneyu

from evodevo.search import dominance
from evodevo.search.problem import Goal
from evodevo.search.space import Space
from evodevo.search.study import Study, StudySettings
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
# Row, evaluations, whether the cost of a network is known beforehand, settings of the study.
OURS: tuple[tuple[str, int, bool, dict[str, Any]], ...] = (
    ("random", LONG, True, {"algorithm": "random"}),
    ("nsga2", LONG, True, {}),
    ("nsga2, steady", LONG, True, {"mode": "steady"}),
    ("genetic", SHORT, True, {"algorithm": "genetic"}),
    ("regularized", SHORT, True, {"algorithm": "regularized"}),
    ("firefly", SHORT, True, {"algorithm": "firefly"}),
    ("surrogate", SHORT, True, {"algorithm": "surrogate"}),
    ("surrogate, steady", SHORT, True, {"algorithm": "surrogate", "mode": "steady"}),
    ("surrogate, cost learnt", SHORT, False, {"algorithm": "surrogate"}),
)
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
            result = Study(space, function, goals=goals, settings=chosen, store=store).run()
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


def networks(report: Report, name: str, space: CellSpace, table: CellTable | MacroTable, seeds: int) -> None:
    """A table of trained networks; one search serves all budgets."""
    shares: dict[str, list[list[float]]] = {}
    milliseconds: dict[str, float] = {}

    def add(row: str, search: Callable[[int], Points]) -> None:
        begin = time.process_time()
        runs = [search(seed) for seed in range(seeds)]
        milliseconds[row] = 1000 * (time.process_time() - begin) / sum(map(len, runs))
        shares[row] = [
            [dominance.hypervolume(points[:budget], table.reference) / table.optimum for points in runs]
            for budget in BUDGETS
            if budget <= min(map(len, runs))
        ]
        means = ", ".join(f"{statistics.fmean(values):.4f}" for values in shares[row])
        print(f"  {name} {row}: {means} ({milliseconds[row]:.1f} ms)", file=sys.stderr, flush=True)

    clock = Clock()
    for row, evaluations, known, settings in OURS:
        # Algorithms with elites have fewer children in a generation; what is beyond a budget is cut off.
        children = StudySettings(population=POPULATION, **settings).create().offspring
        generations = 1 + -(-(evaluations - POPULATION) // children)
        chosen = {"population": POPULATION, "generations": generations, **settings}

        def ours(
            seed: int, known: bool = known, chosen: dict[str, Any] = chosen, evaluations: int = evaluations
        ) -> Points:
            return clock.search(space, table.objectives, known, seed=seed, **chosen)[0][:evaluations]

        add(row, ours)
    add("pymoo NSGA-II", lambda seed: pymoo_search(space, table.objectives, seed))
    if importlib.util.find_spec("optuna") is None:
        print("  Optuna is left out: it is not installed (pip install optuna)", file=sys.stderr)
    else:
        add("Optuna NSGA-II", lambda seed: optuna_search(space, table.objectives, seed, "nsga2"))
        add("Optuna TPE", lambda seed: optuna_search(space, table.objectives, seed, "tpe"))

    for row, columns in shares.items():
        for budget, values in zip(BUDGETS, columns, strict=False):
            chance = _chance(values, shares["random"][BUDGETS.index(budget)]) if row != "random" else 1.0
            note = f"{milliseconds[row]:.2f} ms CPU per evaluation" if budget == BUDGETS[0] else ""
            note += f"{'; ' if note else ''}better than random: p = {chance:.1e}" if row != "random" else ""
            report.rows.append(_row(f"{name} {row}", budget, values, note))
    for which, row, budget, aim in AIMS:
        if which == name:
            mean = statistics.fmean(shares[row][BUDGETS.index(budget)])
            report.at_least(f"{name}, {row}, {budget} evaluations, mean share of {seeds} seeds", mean, aim)
    place = BUDGETS.index(SHORT)
    for row in ("nsga2", "surrogate"):
        chance = _chance(shares[row][place], shares["random"][place])
        report.at_most(f"{name}, {row}, {SHORT} evaluations, p against random search", chance, 1e-3)
    for row in ("surrogate", "surrogate, steady"):
        statement = f"{name}, {row}: ms CPU per evaluation, drawing, model, store and all"
        report.at_most(statement, milliseconds[row], MOST_MILLISECONDS)


def _chance(ours: Sequence[float], theirs: Sequence[float]) -> float:
    return float(mannwhitneyu(ours, theirs, alternative="greater").pvalue)


def pymoo_search(space: CellSpace, function: Function, seed: int) -> Points:
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
    minimize(Lookup(), algorithm, ("n_eval", SHORT), seed=seed, verbose=False)
    return points[:SHORT]


def optuna_search(space: CellSpace, function: Function, seed: int, sampler: str) -> Points:
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

    study.optimize(objective, n_trials=SHORT)
    return points


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
    parser.add_argument("--seeds", type=int, default=3, help="of ZDT")
    parser.add_argument("--cell-seeds", type=int, default=30, help="of the tables of networks")
    parser.add_argument("--evaluations", type=int, default=20_000, help="of ZDT; the gates hold for 20,000")
    options = parser.parse_args(sys.argv[1:])
    torch.set_num_threads(1)
    wanted = options.only or ["ZDT", "NB201", "Macro"]
    report, clock = Report("search quality"), Clock()
    if "ZDT" in wanted:
        zdt(report, clock, options.seeds, options.evaluations)
        each = 1000 * clock.seconds / clock.evaluations
        report.settings["ZDT, CPU time"] = f"{each:.2f} ms per evaluation, over {clock.evaluations:,}"
    for name, path, space, table in (
        ("NB201", options.table, CellSpace(), CellTable),
        ("Macro", options.macro, MacroSpace(), MacroTable),
    ):
        if name in wanted and path.is_file():
            networks(report, name, space, table(path), options.cell_seeds)
        elif name in wanted:
            print(f"{name} is left out: there is no {path}")
    report.finish(options.json)


if __name__ == "__main__":
    main()
