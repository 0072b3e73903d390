"""How long the static cost of a genome takes.

Run: python benchmarks/static_cost.py [--json PATH]

``plan`` (who owns which group) and ``cost`` together, as a search calls them, for the named baselines and for random
genomes of 24 LIVs at width 768.
"""

from __future__ import annotations

import time

from evodevo import randomness
from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from measuring import Report, Spread, arguments


def main() -> None:
    """Measure and report."""
    options = arguments(__doc__, depth=24, genomes=200, rounds=20)
    space = BackboneSpace(BackboneSettings(depth=options.depth))
    rng = randomness.generator(0, "static cost")
    families = {
        "transformer++": [space.named("transformer++", options.depth)],
        "striped-mamba": [space.named("striped-mamba", options.depth)],
        f"{options.genomes} random genomes": [space.sample(rng) for _ in range(options.genomes)],
    }
    report = Report("Static cost of a genome", settings={"shape": f"LIVs={options.depth} D=768 length=4096"})
    for name, genomes in families.items():
        for convention in ("star", "actual"):
            space.cost(genomes[0], length=4096, convention=convention)
            seconds = []
            for _ in range(max(1, options.rounds * 10 // len(genomes))):
                for genome in genomes:
                    start = time.process_time()
                    space.cost(genome, length=4096, convention=convention)
                    seconds.append(time.process_time() - start)
            spread = Spread.of(seconds)
            report.rows.append(
                {
                    "genome": name,
                    "convention": convention,
                    "ms (quartiles)": spread.show(1e3),
                    "slowest, ms": f"{max(seconds) * 1e3:.3g}",
                }
            )
            report.at_most(f"{name}, {convention}: median ms", spread.median * 1e3, 2)
    report.finish(options.json)


if __name__ == "__main__":
    main()
