"""The pointer task: an H-Model of two hidden layers against a transformer with as many parameters.

Run: python benchmarks/h_model_pointer.py [--json PATH] [--steps 1400 --batch 64 --seeds 3 --nodes 6 --hops 4]

H = 2, T = 4, width 64, one input block, against three transformer blocks, at equal steps, each with the best of three
learning rates, chosen on the mean over seeds. Beside it the same transformer at equal CPU time and at equal FLOPs: it
gets as many steps as fit into the H-Model's time, or into its block evaluations (1 + H T against 3). Controls: constant
connections (0.5), and learned ones that do not look at the input. About 2.5 CPU hours at the defaults.
"""

from __future__ import annotations

from statistics import mean

from evodevo.networks.spec import NetworkSpec
from evodevo.tasks.reasoning.pointer import PointerSettings, PointerTask
from h_model_training import Run, build, fit, h_model, transformer
from measuring import Report, arguments

RATES = (1e-3, 2e-3, 4e-3)
HIDDEN, ITERATIONS, BLOCKS = 2, 4, 3
POINTS = 5.0


def best_of(spec: NetworkSpec, task: PointerTask, steps: int, seeds: int, batch: int) -> tuple[float, list[Run]]:
    """The learning rate with the best mean accuracy on validation samples, and its runs."""
    found = {
        rate: [fit(build(spec, task, seed), task, steps, rate, seed, batch) for seed in range(seeds)] for rate in RATES
    }
    rate = max(found, key=lambda one: mean(run.validation for run in found[one]))
    return rate, found[rate]


def main() -> None:
    """Train all, and report."""
    options = arguments(__doc__, steps=1400, batch=64, seeds=3, nodes=6, hops=4)
    task = PointerTask(PointerSettings(nodes=options.nodes, hops_max=options.hops))
    report = Report(
        "Pointer task: H-Model against a transformer of equal size",
        settings={"task": f"{options.nodes} nodes, 1 to {options.hops} hops", "baselines": task.baselines("test")},
    )
    found: dict[str, list[Run]] = {}

    def compare(name: str, spec: NetworkSpec, steps: int) -> None:
        rate, runs = best_of(spec, task, steps, options.seeds, options.batch)
        found[name] = runs
        count = sum(parameter.numel() for parameter in build(spec, task, 0).parameters())
        report.rows.append(
            {
                "who": name,
                "parameters": f"{count:,}",
                "steps": steps,
                "rate": rate,
                "accuracy by seed": " ".join(f"{run.accuracy:.3f}" for run in runs),
                "CPU s": f"{mean(run.seconds for run in runs):.0f}",
            }
        )
        print(f"  {report.rows[-1]}", flush=True)

    ours = "H-Model"
    compare(ours, h_model(HIDDEN, ITERATIONS), options.steps)
    compare("transformer, equal steps", transformer(BLOCKS), options.steps)
    slower = mean(run.seconds for run in found[ours]) / mean(run.seconds for run in found["transformer, equal steps"])
    compare("transformer, equal time", transformer(BLOCKS), round(options.steps * slower))
    flops = (1 + HIDDEN * ITERATIONS) / BLOCKS
    compare("transformer, equal FLOPs", transformer(BLOCKS), round(options.steps * flops))
    compare("constant connections", h_model(HIDDEN, ITERATIONS, head="constant"), options.steps)
    compare("blind connections", h_model(HIDDEN, ITERATIONS, head="independent"), options.steps)

    for name in ("transformer, equal steps", "transformer, equal time", "transformer, equal FLOPs"):
        gaps = [100 * (a.accuracy - b.accuracy) for a, b in zip(found[ours], found[name], strict=True)]
        report.settings[f"points ahead of the {name}, by seed"] = " ".join(f"{gap:.1f}" for gap in gaps)
        if name.endswith("steps"):
            report.at_least("points ahead of the transformer at equal steps, in the worst seed", min(gaps), POINTS)
    report.finish(options.json)


if __name__ == "__main__":
    main()
