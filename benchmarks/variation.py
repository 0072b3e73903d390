"""What mutation does to backbones: integers (``paper``) against connections and whole LIVs (``plan``).

Without any training: (1) the share of mutations that change the resolved network, for designed founders and for random
genomes; (2) the same for changes of one integer, by its place; (3) searches whose scores are random numbers, so that
nothing is selected: the share of children in which LIVs share features, and weights; (4) searches for backbones with
much attention and little cache, which only shared features reach, against random search at equal evaluations.

    python benchmarks/variation.py --json variation.json
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Literal

import numpy as np
import torch

from evodevo.backbone.genome import BackboneGenome, connections
from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.execution.serial import SerialExecutor
from evodevo.operators.spec import Dimensions
from evodevo.randomness import generator
from evodevo.search import dominance
from evodevo.search.settings import StudySettings
from evodevo.search.study import Study
from evodevo.storage import Store
from measuring import Report

Operators = Literal["paper", "plan"]
OPERATORS: tuple[Operators, ...] = ("paper", "plan")
WANTED = 0.95
FOUNDERS = ("designed", "random")
PARTS = ("mutations", "sharing", "attention")


def space_of(operators: Operators, depth: int, **options: Any) -> BackboneSpace:
    """The space of the recipes at a depth."""
    return BackboneSpace(BackboneSettings(depth=depth, operators=operators, dimensions=Dimensions(width=64), **options))


def founders(space: BackboneSpace, kind: str, count: int) -> list[BackboneGenome]:
    """Designed hybrids, or random genomes."""
    rng = generator(0, kind)
    drawn = [space.initial(rng) if kind == "designed" else space.sample(rng) for _ in range(count)]
    return [genome for genome in drawn if genome is not None]


def mutations(report: Report, count: int) -> None:
    """The share of mutations that change the network, and their CPU time."""
    options: dict[str, dict[str, Any]] = {"": {}, ", residuals": {"residuals": True}}
    for depth in (8, 12, 24):
        for more, changes in options.items():
            for kind in FOUNDERS:
                row = {"share of": "mutations that change the network", "in": f"{kind}, {depth} LIVs{more}"}
                for operators in OPERATORS:
                    space, rng = space_of(operators, depth, **changes), generator(1, kind)
                    genomes = founders(space, kind, count)
                    begin = time.process_time()
                    mutants = [space.mutation(genome, rng) for genome in genomes]
                    each = 1000 * (time.process_time() - begin) / len(genomes)
                    pairs = zip(genomes, mutants, strict=True)
                    changed = fmean(space.canonical(genome) != space.canonical(mutant) for genome, (mutant, _) in pairs)
                    row[operators] = f"{changed:.3f} ({each:.2f} ms"
                    if operators == "plan":
                        row[operators] += f", {fmean(facts['draws'] > 1 for _, facts in mutants):.3f} redrawn"
                        report.at_least(f"{row['in']}: mutations that change the network", changed, WANTED)
                    row[operators] += ")"
                report.rows.append(row)


def single_integers(report: Report, count: int) -> None:
    """The share of changes of one integer that change the network, by the place of the integer."""
    space = space_of("paper", 8)
    for kind in FOUNDERS:
        for place in range(space.genes):
            rng = generator(2, kind, place)
            pairs = [(genome, one_integer(space, genome, place, rng)) for genome in founders(space, kind, count)]
            changed = fmean(space.canonical(a) != space.canonical(b) for a, b in pairs if b is not None)
            name = f"changes of integer {place + 1} that change the network"
            report.rows.append({"share of": name, "in": f"{kind}, 8 LIVs", "paper": f"{changed:.3f}", "plan": ""})


def one_integer(
    space: BackboneSpace, genome: BackboneGenome, place: int, rng: np.random.Generator
) -> BackboneGenome | None:
    """One integer at this place becomes another valid value; None where no LIV has another. As ``paper`` does it."""
    rows = [list(segment) for segment in genome]
    counts = Counter(row[0] for row in rows)
    for at in rng.permutation(len(rows)).tolist():
        allowed = list(space.classes) if place == 0 else space._allowed(rows[at], place, counts, len(rows))
        others = [value for value in allowed if value != rows[at][place]]
        if others:
            rows[at][place] = int(rng.choice(others))
            return space.repair(tuple(tuple(row) for row in rows), rng)
    return None


def random_selection(report: Report, seeds: int, population: int, generations: int) -> None:
    """Searches whose scores are random numbers: the share of children that share."""
    rows: dict[str, dict[str, str]] = {}
    for operators in OPERATORS:
        shares: dict[str, list[float]] = {}
        for seed in range(seeds):
            children = bred(space_of(operators, 8), seed, population, generations)
            for name, kind, first in (
                ("children with shared features", "feature", 1),
                ("children with shared weights", "featurizer", 1),
                ("children of the last generation with shared features", "feature", generations - 1),
            ):
                found = [kind in kinds for generation, kinds in children if generation >= first]
                shares.setdefault(name, []).append(fmean(found))
        for name, values in shares.items():
            rows.setdefault(name, {})[operators] = interval(values)
    where = f"search of {population} x {generations}, {seeds} seeds"
    report.rows += [{"share of": name, "in": where, **values} for name, values in rows.items()]


def bred(space: BackboneSpace, seed: int, population: int, generations: int) -> list[tuple[int, set[str]]]:
    """(generation, kinds of connections) of each child of a search in which nothing is selected."""

    def scores(genome: BackboneGenome) -> tuple[float, float]:
        first, second = generator(seed, space.hash(genome)).random(2).tolist()
        return first, second

    settings = StudySettings(population=population, generations=generations, seed=seed, baselines=False)
    with Store.memory() as store:
        members = (
            Study(space, scores, goals=("first", "second"), settings=settings, store=store, executor=SerialExecutor())
            .run()
            .members
        )
    children = [one for one in members if "crossover" in one.operation or "mutation" in one.operation]
    return [(one.generation, {kind for kind, *_ in connections(space.plan(one.genome))}) for one in children]


def attention_and_cache(report: Report, seeds: int, population: int, generations: int) -> None:
    """Hypervolume of (cache as a share of eight SA-1, LIVs that are no attention as a share of all), from (1, 1)."""
    full = space_of("paper", 8).cost(((1, 1, 1, 1, 1),) * 8, length=1024).cache_bytes
    row = {"share of": "hypervolume: attention LIVs against cache"}
    row["in"] = f"search of {population} x {generations}, {seeds} seeds"
    for name in (*OPERATORS, "random"):
        space = space_of("plan" if name == "plan" else "paper", 8)

        def scores(genome: BackboneGenome, space: BackboneSpace = space) -> tuple[float, float]:
            plans = space.plan(genome)
            mixers = sum(plan.spec.family == "attention" for plan in plans)
            return space.cost(genome, length=1024).cache_bytes / full, 1 - mixers / len(plans)

        volumes = []
        for seed in range(seeds):
            settings = StudySettings(
                algorithm="random" if name == "random" else "nsga2",
                population=population,
                generations=generations,
                seed=seed,
                baselines=False,
            )
            with Store.memory() as store:
                members = (
                    Study(
                        space,
                        scores,
                        goals=("cache", "rest"),
                        settings=settings,
                        store=store,
                        executor=SerialExecutor(),
                    )
                    .run()
                    .members
                )
            points = [(one.outcomes[0].scores["cache"], one.outcomes[0].scores["rest"]) for one in members]
            volumes.append(dominance.hypervolume(points, (1.0, 1.0)))
        row[name] = interval(volumes)
    report.rows.append(row)


def interval(values: Sequence[float]) -> str:
    """Mean with its 95 % interval over seeds (normal)."""
    return f"{fmean(values):.3f} ± {1.96 * stdev(values) / len(values) ** 0.5:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, default=None, help="write everything measured to this file")
    parser.add_argument("--genomes", type=int, default=500, help="founders of each kind")
    parser.add_argument("--seeds", type=int, default=20, help="searches of 8 x 4; half as many of 16 x 18")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what to measure; all if left out")
    options = parser.parse_args(sys.argv[1:])
    torch.set_num_threads(1)
    report = Report("variation of backbones")
    half = max(options.seeds // 2, 2)
    if "mutations" in options.parts:
        mutations(report, options.genomes)
        single_integers(report, options.genomes)
    if "sharing" in options.parts:
        random_selection(report, options.seeds, 8, 4)
        random_selection(report, half, 16, 18)
    if "attention" in options.parts:
        attention_and_cache(report, options.seeds, 8, 4)
        attention_and_cache(report, half, 16, 18)
    for row in report.rows:
        row.setdefault("random", "")
    report.finish(options.json)


if __name__ == "__main__":
    main()
