"""Routing by a predictor: time that is really saved when only K + 1 of nine modules run.

Run: python benchmarks/zoo_predictor.py [--json PATH] [--width 64 --k 3 --steps 600 --batch 64 --rounds 21]

A zoo of the nine modules of the paper's Table 3 is trained on questions about digits with keys from outputs, the
sparsemax gate and a predictor of its own routes beside it. Then the same weights answer twice: every module run (dense)
and the predictor's K + 1. Measured at fixed shapes and batches of 64 and 256, CPU time of one thread: the zoo (modules,
router, predictor) and the whole network, executed FLOPs, and accuracy both ways.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import cast

import numpy as np
import torch
from torch import Tensor

from evodevo.experiments.flop_counter import counting
from evodevo.experiments.measure import measure
from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.modules.zoo import table_3_zoo
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.spec import ZooLosses, ZooRouterStructure, ZooStructure
from evodevo.networks.build import build_network
from evodevo.tasks.base import TASKS, SampleTask
from evodevo.training.loop import train
from evodevo.training.precision import decide
from evodevo.training.settings import Budget, OptimizerSettings, TrainingSettings
from measuring import Report, arguments, ratio, take_turns

FASTER = 1.8
BATCHES = (64, 256)


def network(width: int, k: int) -> ModuleZooNetwork:
    """Nine modules; image and text are not matched pairs, so nothing aligns them."""
    return ModuleZooNetwork(
        structure=ZooStructure(
            width=width,
            modules=table_3_zoo(width),
            router=ZooRouterStructure(keys="predictor", top_k=k),
            losses=ZooLosses(align=0.0),
        )
    )


def dense(model: ModuleZoo) -> ModuleZoo:
    """The same weights, where every module runs: the predictor is not asked."""
    other = copy.deepcopy(model)
    other.predictor = None
    return other


def batch_of(task: SampleTask, count: int) -> dict[str, Tensor]:
    """Validation samples, one after the other."""
    places = np.arange(count) % task.count("validation")
    return {name: torch.from_numpy(np.asarray(one)) for name, one in task.fetch("validation", places).items()}


def zoo_alone(model: ModuleZoo, batch: dict[str, Tensor]) -> Callable[[], None]:
    """What modules, router and predictor do with a batch that has been fused."""
    model = model.eval()
    with torch.no_grad():
        fused = model.fuse(batch)

    def run() -> None:
        with torch.no_grad():
            model.consult(fused)

    return run


def whole(model: ModuleZoo, batch: dict[str, Tensor]) -> Callable[[], None]:
    """A forward."""
    model = model.eval()

    def run() -> None:
        with torch.no_grad():
            model(batch)

    return run


def main() -> None:
    """Train, measure, report."""
    options = arguments(__doc__, width=64, k=3, steps=600, batch=64, rounds=21)
    kind = TASKS.get("digits_questions")
    task = kind.open(kind.settings_class())
    planned = network(options.width, options.k)
    model = cast(ModuleZoo, build_network(planned, task.inputs, task.outputs, seed=0))
    report = Report(
        "Predictor routing",
        settings={
            "zoo": f"nine modules of Table 3, d={options.width}, K={options.k}, {options.k + 1} run",
            "task": "digits_questions",
            "steps": f"{options.steps} of {options.batch}",
        },
    )
    train(
        model,
        TrainingSettings(
            budget=Budget(steps=options.steps),
            optimizer=OptimizerSettings(learning_rate=2e-3, weight_decay=0.01),
            batch_size=options.batch,
        ),
        batch_at=lambda step: task.batch("train", 0, step, options.batch),
        tokens_per_step=options.batch,
        seed=0,
    )
    everybody = dense(model)
    places = np.arange(min(task.count("test"), 2000))
    for name, one in (("dense", everybody), ("predictor", model)):
        found = measure(one, task, "test", places, batch_size=256, precision=decide("cpu", "float32"))
        report.rows.append({"what": f"test accuracy, {name}", "value": f"{100 * found.accuracy:.1f}"})
    for count in BATCHES:
        batch = batch_of(task, count)
        flops = {}
        for name, one in (("dense", everybody), ("predictor", model)):
            with counting(one) as counter:
                whole(one, batch)()
            flops[name] = counter.flops / count
        saved = f"{flops['dense'] / 1e6:.2f} -> {flops['predictor'] / 1e6:.2f}"
        report.rows.append({"what": f"B={count}: executed MFLOP per sample", "value": saved})
        for what, candidate in (("zoo", zoo_alone), ("whole network", whole)):
            runs = {"dense": candidate(everybody, batch), "predictor": candidate(model, batch)}
            seconds = take_turns(runs, options.rounds)
            gain = ratio(seconds["dense"], seconds["predictor"])
            report.rows.append({"what": f"B={count}: {what}, dense / predictor", "value": gain.show()})
            if what == "zoo":
                report.at_least(f"B={count}: times as fast as dense, zoo", gain.median, FASTER)
    report.finish(options.json)


if __name__ == "__main__":
    main()
