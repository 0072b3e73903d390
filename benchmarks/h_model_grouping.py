"""Layers of equal shape in one batched call against a loop over them, and whether the choice between both is right.

Run: python benchmarks/h_model_grouping.py [--json PATH] [--width 64 --iterations 4 --rounds 15]

The routing machine alone (hidden layers, routers, aggregation), H transformer layers, T iterations, H = 8 and 16,
(B, S) = (1, 8), (2, 8), (16, 12), (16, 64), forward without gradients and forward with backward, with one thread in
CPU time and with two in wall-clock time. ``auto`` is the rule by shape, ``probe`` the one that tries both.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import torch

from evodevo.h_model.core import HCore
from evodevo.h_model.runners.choice import RunnerName, build_runner
from evodevo.h_model.spec import HModelStructure
from evodevo.operators.layers.transformer import TransformerLayer
from measuring import Report, arguments, ratio, take_turns

SHAPES = ((1, 8), (2, 8), (16, 12), (16, 64))
RUNNERS: tuple[RunnerName, ...] = ("loop", "grouped", "auto", "probe")
SMALL = 2
WORTH = 1.5
TOLERANCE = 5.0


def candidate(core: HCore, name: RunnerName, values: torch.Tensor, *, learning: bool) -> Callable[[], None]:
    """One pass through the core with this runner."""
    runner = build_runner(name)

    def run() -> None:
        core.runner = runner
        core.train(learning)
        with torch.set_grad_enabled(learning):
            answer = core.answer(core.run(values))
            if learning:
                answer.square().mean().backward()
                core.zero_grad(set_to_none=True)

    return run


def main() -> None:
    """Measure and report."""
    options = arguments(__doc__, width=64, iterations=4, rounds=15)
    shape = f"d={options.width} T={options.iterations}, float32"
    report = Report("Grouped layers against a loop", settings={"shape": shape})
    least, worst = float("inf"), {"auto": 0.0, "probe": 0.0}
    for threads in (1, 2):
        torch.set_num_threads(threads)
        clock = time.process_time if threads == 1 else time.perf_counter
        for count in (8, 16):
            core = HCore(
                HModelStructure(
                    stream="paper",
                    width=options.width,
                    hidden=(TransformerLayer(),) * count,
                    iterations=options.iterations,
                ),
                1,
                1,
            )
            for batch, length in SHAPES:
                values = torch.randn(batch, 1, length, options.width)
                for learning in (False, True):
                    runs = {name: candidate(core, name, values, learning=learning) for name in RUNNERS}
                    seconds = take_turns(dict(runs), options.rounds, clock=clock)
                    gain = ratio(seconds["loop"], seconds["grouped"])
                    lost = {name: _lost(seconds, name) for name in worst}
                    if batch <= SMALL:
                        least = min(least, gain.median)
                    worst = {name: max(worst[name], lost[name]) for name in worst}
                    report.rows.append(
                        {
                            "threads": threads,
                            "H": count,
                            "B, S": f"{batch}, {length}",
                            "what": "training" if learning else "forward",
                            "loop ms": f"{1e3 * median(seconds['loop']):.2f}",
                            "grouped ms": f"{1e3 * median(seconds['grouped']):.2f}",
                            "loop / grouped": gain.show(),
                            "auto loses %": f"{lost['auto']:.1f}",
                            "probe loses %": f"{lost['probe']:.1f}",
                        }
                    )
    report.at_least("grouped: times as fast as the loop at B <= 2, in every cell", least, WORTH)
    report.at_most("the rule: % slower than the better of both, in the worst cell", worst["auto"], TOLERANCE)
    report.at_most("the probe: % slower than the better of both, in the worst cell", worst["probe"], TOLERANCE)
    report.finish(options.json)


def _lost(seconds: dict[str, list[float]], name: str) -> float:
    """How much slower a choice is than the better one of loop and groups, in percent of its time.

    Medians of ratios within rounds, as noise between rounds is larger than what is looked for.
    """
    against = [ratio(seconds[name], seconds[other]).median for other in ("loop", "grouped")]
    return max(0.0, 100 * (max(against) - 1))


if __name__ == "__main__":
    main()
