"""A made-up but realistic run for the drawings and the report: 24 LIVs, 6 generations of 10, failures, baselines."""

from __future__ import annotations

import math
import random

from evodevo.backbone.diagrams.genome import Arc, LivMark
from evodevo.report.charts.lineage import LineageNode

CLASSES = {
    "SA-1": "attention",
    "SA-3": "attention",
    "Rec-1": "recurrence",
    "Rec-2-Diff": "recurrence",
    "GConv-1": "convolution",
    "GConv-2-Diff": "convolution",
    "GMemless": "memoryless",
}
GROUPS = {"attention": "KV", "recurrence": "VAB", "convolution": "C", "memoryless": ""}


def genome(seed: int, depth: int = 24) -> tuple[list[LivMark], list[Arc], list[Arc]]:
    """LIVs, feature-group arcs and featurizer arcs of one made-up backbone."""
    rng = random.Random(seed)
    names = rng.choices(list(CLASSES), weights=[2, 2, 2, 1, 3, 1, 6], k=depth)
    livs = [
        LivMark(
            name,
            CLASSES[name],
            name.endswith("Diff"),
            f"{list(CLASSES).index(name) + 1}.{rng.randint(1, 9)}.{rng.randint(1, 2)}.{rng.randint(1, 12)}.1",
            f"{rng.randint(100, 900)} thousand parameters",
        )
        for name in names
    ]
    feature, featurizer = [], []
    for name in CLASSES:
        members = [index for index, given in enumerate(names) if given == name]
        rng.shuffle(members)
        half = len(members) // 2
        for kind, part in ((feature, members[:half]), (featurizer, members[half:])):
            part = sorted(part)[:4]
            groups = GROUPS[CLASSES[name]]
            for borrower in part[1:]:
                if kind is featurizer:
                    kind.append(Arc(part[0], borrower))
                elif groups:
                    shared = rng.sample(groups, rng.randint(1, len(groups)))
                    kind.append(Arc(part[0], borrower, ", ".join(sorted(shared))))
    return livs, feature, featurizer


def nodes(generations: int = 6, size: int = 10, seed: int = 5) -> list[LineageNode]:
    """A lineage in which parents survive for some generations."""
    rng = random.Random(seed)
    made: list[LineageNode] = []
    for generation in range(generations):
        older = [node.id for node in made if node.state != "failed"][-2 * size :]
        for _ in range(size):
            operation = rng.choice(["crossover", "mutation", "crossover+mutation"]) if generation else "initial"
            parents = rng.sample(older, 1 if operation == "mutation" else 2) if generation else []
            state = (
                "failed" if rng.random() < 0.08 else "front" if generation > 2 and rng.random() < 0.2 else "dominated"
            )
            name = f"{rng.getrandbits(48):012x}"
            made.append(LineageNode(name, generation, parents, operation, state, name[:4]))
    return made


def scores(index: int, generation: int, seed: int = 3) -> tuple[float, float, float]:
    """Quality in bits per byte, cache in bytes, parameters; better in later generations."""
    rng = random.Random(seed * 1000 + index)
    size = rng.uniform(0.15, 1.0) * (1 - 0.06 * generation)
    quality = 1.72 + 0.25 * (1 - size) ** 2 + abs(rng.gauss(0, 0.08)) - 0.025 * generation
    return quality, round(size * 150e6), round(60e6 + 30e6 * size)


def curve(index: int, steps: int = 300, diverges: bool = False) -> list[tuple[float, float | None]]:
    """One training curve; a diverging one ends in nan."""
    rng = random.Random(index)
    final, points = rng.uniform(1.7, 2.3), []
    for step in range(steps):
        value = final + (8 - final) * math.exp(-step / rng.uniform(24, 26)) + rng.gauss(0, 0.03)
        if diverges and step > steps // 3:
            value *= 1.05 ** (step - steps // 3)
        points.append((step * 4096.0, value))
        if diverges and value > 60:
            points.append((step * 4096.0 + 1, math.nan))
            break
    return points
