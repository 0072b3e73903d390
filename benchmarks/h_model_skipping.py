"""Top-m skipping: time that is really saved, and accuracy that it costs a model trained with all layers.

Run: python benchmarks/h_model_skipping.py [--json PATH] [--layers 8 --iterations 6 --nodes 8 --hops 6
    --steps 4000 --batch 64 --rounds 15]

An H-Model of H layers learns the pointer task, made harder by nodes and hops until two controls lose at least five
points to it: the same trained with constant connections (0.5), and its own routes replaced by m random layers. Then
top-m with m = H / 4: time at B = 512 against the faster of the dense loop and dense groups, and at B = 1 against the
dense loop, CPU time of one thread; and accuracy. If more than a point is lost, the curve over m says where it stops.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import cast

import torch

from evodevo.h_model.model import HModel
from evodevo.h_model.runners.choice import RunnerName
from evodevo.networks.routing.spec import InferenceStructure
from evodevo.tasks.reasoning.pointer import PointerSettings, PointerTask
from h_model_training import accuracy, accuracy_of_random_layers, build, fit, h_model, samples
from measuring import Report, arguments, ratio, take_turns

RATE = 2e-3
HARDER = 5.0
FASTER = 2.0
LOST = 1.0


def top(m: int) -> InferenceStructure:
    """The m targets with the most inflow."""
    return InferenceStructure(mode="target_topm", m=m)


def candidate(
    model: HModel, mode: InferenceStructure, runner: RunnerName, batch: dict[str, torch.Tensor]
) -> Callable[[], None]:
    """A forward of a copy of the model in this mode."""
    own = copy.deepcopy(model).eval()
    own.inference, own.runner = mode, runner

    def run() -> None:
        with torch.no_grad():
            own(batch)

    return run


def timing(report: Report, model: HModel, task: PointerTask, m: int, count: int, rounds: int) -> dict[str, float]:
    """Dense time over top-m time, by dense runner, at this batch size."""
    batch = samples(task, count)
    runs = {
        "dense loop": candidate(model, InferenceStructure(), "loop", batch),
        "dense groups": candidate(model, InferenceStructure(), "grouped", batch),
        "top-m loop": candidate(model, top(m), "loop", batch),
        "top-m groups": candidate(model, top(m), "grouped", batch),
    }
    seconds = take_turns(runs, rounds)
    ours = min(("top-m loop", "top-m groups"), key=lambda name: sum(seconds[name]))
    found = {}
    for name in ("dense loop", "dense groups"):
        gain = ratio(seconds[name], seconds[ours])
        found[name] = gain.median
        report.rows.append({"what": f"time, B={count}: {name} / {ours}, m={m}", "value": gain.show()})
    return found


def main() -> None:
    """Train, measure, report."""
    options = arguments(__doc__, layers=8, iterations=6, nodes=8, hops=6, steps=4000, batch=64, rounds=15)
    task = PointerTask(PointerSettings(nodes=options.nodes, hops_max=options.hops))
    m = options.layers // 4
    length = task.inputs[0].length
    report = Report(
        "Top-m skipping",
        settings={
            "model": f"H={options.layers} T={options.iterations} m={m} d=64, S={length}",
            "task": f"pointer, {options.nodes} nodes, 1 to {options.hops} hops",
            "steps": f"{options.steps} of {options.batch}",
        },
    )
    model = cast(HModel, build(h_model(options.layers, options.iterations), task, 0))
    dense = 100 * fit(model, task, options.steps, RATE, 0, options.batch).accuracy
    control = build(h_model(options.layers, options.iterations, head="constant"), task, 0)
    constant = 100 * fit(control, task, options.steps, RATE, 0, options.batch).accuracy
    random = 100 * accuracy_of_random_layers(model, task, m)

    def row(what: str, value: float) -> None:
        report.rows.append({"what": what, "value": f"{value:.1f}"})
        print(f"  {what}: {value:.1f}", flush=True)

    row("accuracy, dense", dense)
    row("accuracy, constant connections", constant)
    row(f"accuracy, m={m} random layers", random)
    report.at_least("the task needs routes: points lost by constant connections", dense - constant, HARDER)
    report.at_least("the task needs routes: points lost by random layers", dense - random, HARDER)

    model.inference = top(m)
    few = 100 * accuracy(model, task)
    row(f"accuracy, top {m}", few)
    report.at_most("points lost by top-m", dense - few, LOST)
    if dense - few > LOST:
        for more in range(m + 1, options.layers + 1):
            model.inference = top(more)
            lost = dense - 100 * accuracy(model, task)
            row(f"points lost, top {more}", lost)
            if lost <= LOST:
                break

    many = timing(report, model, task, m, 512, options.rounds)
    one = timing(report, model, task, m, 1, options.rounds)
    report.at_least("B=512: times as fast as the faster dense one", min(many.values()), FASTER)
    report.at_least("B=1: times as fast as the dense loop", one["dense loop"], FASTER)
    report.finish(options.json)


if __name__ == "__main__":
    main()
