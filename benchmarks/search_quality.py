"""How well the search finds what is known to be there, through the public ``Study`` with a store in memory.

ZDT1 to ZDT3 with a real-vector space (SBX 15, polynomial mutation 20; Deb et al. 2002, Zitzler et al. 2000), population
100; and all cells of NAS-Bench-201 in a table, at the budget of STAR (population 16, 288 evaluations), against random
search with equally many evaluations. The gates are numbers that other engines reach on the same problems.

    python benchmarks/search_quality.py --table nas_bench_201_12epoch/table.npz --json quality.json
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from scipy.stats import mannwhitneyu

from evodevo.search import dominance
from evodevo.search.space import Space
from evodevo.search.study import Study, StudySettings
from evodevo.storage import Store
from evodevo.testing.real_vector import ZDT_REFERENCE, RealVectorSpace, zdt1, zdt2, zdt3
from evodevo.testing.tabular import CellSpace, CellTable
from measuring import Report

TABLE = Path(__file__).parents[2] / "shared" / "data" / "nas_bench_201_12epoch" / "table.npz"
Function = Callable[[Any], tuple[float, float]]

# Name, function, what pymoo 0.6.2 reaches after 20,000 evaluations, the least that we must reach.
ZDT: tuple[tuple[str, Function, float, float], ...] = (
    ("ZDT1", zdt1, 0.8679, 0.866),
    ("ZDT2", zdt2, 0.5342, 0.532),
    ("ZDT3", zdt3, 1.3259, 1.324),
)
# Evaluations, the least share of the true hypervolume; 288 is the budget of STAR.
CELLS: tuple[tuple[int, float], ...] = ((160, 0.972), (288, 0.984), (496, 0.990), (992, 0.995))


Points = list[tuple[float, float]]


class Clock:
    """CPU time per evaluation, over everything that was searched."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.evaluations = 0

    def search(self, space: Space[Any], function: Function, **settings: Any) -> tuple[Points, Points]:
        """The scores of all individuals of a search in order of birth, and those of its last population."""
        begin = time.process_time()
        chosen = StudySettings(baselines=False, **settings)
        with Store.memory() as store:
            result = Study(space, function, goals=("first", "second"), settings=chosen, store=store).run()
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


def cells(report: Report, clock: Clock, seeds: int, table: CellTable) -> None:
    """NAS-Bench-201, generational and steady, against random search; one run serves all budgets."""
    generations = CELLS[-1][0] // 16
    shares: dict[str, list[list[float]]] = {}
    for name, settings in (
        ("nsga2", {"mode": "generational"}),
        ("nsga2, steady", {"mode": "steady"}),
        ("random", {"algorithm": "random"}),
    ):
        runs = [
            clock.search(CellSpace(), table.objectives, population=16, generations=generations, seed=seed, **settings)[
                0
            ]
            for seed in range(seeds)
        ]
        shares[name] = [
            [dominance.hypervolume(points[:count], table.reference) / table.optimum for points in runs]
            for count, _ in CELLS
        ]
    for place, (count, gate) in enumerate(CELLS):
        ours, theirs = shares["nsga2"][place], shares["random"][place]
        chance = float(mannwhitneyu(ours, theirs, alternative="greater").pvalue)
        for name, rows in shares.items():
            note = f"better than random: p = {chance:.1e}" if name == "nsga2" else ""
            report.rows.append(_row(f"NB201 {name}", count, rows[place], note))
        report.at_least(f"NB201, {count} evaluations, mean share of {seeds} seeds", statistics.fmean(ours), gate)
        if count == 288:
            report.at_most("NB201, 288 evaluations, p against random search", chance, 1e-3)


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
    parser.add_argument("--seeds", type=int, default=3, help="of ZDT")
    parser.add_argument("--cell-seeds", type=int, default=30, help="of NAS-Bench-201")
    parser.add_argument("--evaluations", type=int, default=20_000, help="of ZDT; the gates hold for 20,000")
    options = parser.parse_args(sys.argv[1:])
    torch.set_num_threads(1)
    report, clock = Report("search quality"), Clock()
    zdt(report, clock, options.seeds, options.evaluations)
    if options.table.is_file():
        cells(report, clock, options.cell_seeds, CellTable(options.table))
    else:
        print(f"NAS-Bench-201 is left out: there is no {options.table}")
    each = 1000 * clock.seconds / clock.evaluations
    report.settings = {"CPU time": f"{each:.2f} ms per evaluation, over {clock.evaluations:,}"}
    report.finish(options.json)


if __name__ == "__main__":
    main()
