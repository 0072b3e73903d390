"""Whether recall tells architectures apart as their mathematics says: attention, recurrences, convolutions, no mixing.

Run: python benchmarks/recall.py [--json PATH] [--steps 600 --seeds 1] [--arm 3]

Backbones of four LIVs of width 32 are trained on MQAR with a gap of blanks that short convolutions cannot bridge: four
GConv-1 of three taps see eight tokens back. Attention on convolved queries, keys and values, which has each token's
neighbour at hand, must find what it is asked for (0.95); plain attention needs two layers for it. Without mixing of
tokens, or where the pairs are out of reach, no network can beat a guess among all values: the interval of its accuracy
must reach down to it. Recurrences lie in between, the better the larger their state: Rec-2 keeps 2 numbers per channel,
Rec-1 16, the Mamba of the baselines 32. ``--arm`` trains one of them alone, counted from 1; then only its own claim is
checked.
"""

from __future__ import annotations

import time
from collections import Counter

import numpy as np

from evodevo.backbone.network import BackboneNetwork
from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.experiments.measure import measure, places
from evodevo.networks.build import build_network
from evodevo.operators.classes import liv_classes
from evodevo.operators.spec import Dimensions
from evodevo.randomness import integer_seed
from evodevo.tasks.questions.accuracy import wilson_interval
from evodevo.tasks.recall.mqar import MQARSettings, MQARTask
from evodevo.training.loop import train
from evodevo.training.precision import decide
from evodevo.training.settings import Budget, OptimizerSettings, TrainingSettings
from measuring import Report, arguments

ARMS = {
    "attention": ("SA-1", "GMemless", "SA-1", "GMemless"),
    "attention, convolved": ("SA-2", "GMemless", "SA-2", "GMemless"),
    "recurrence, N = 32": ("Mamba", "GMemless", "Mamba", "GMemless"),
    "recurrence, N = 16": ("Rec-1", "GMemless", "Rec-1", "GMemless"),
    "recurrence, N = 2": ("Rec-2", "GMemless", "Rec-2", "GMemless"),
    "short convolutions": ("GConv-1", "GConv-1", "GConv-1", "GConv-1"),
    "no mixing": ("GMemless", "GMemless", "GMemless", "GMemless"),
}
WITHOUT_REACH = ("short convolutions", "no mixing")
SOLVED = 0.95
BATCH, RATE = 32, 1e-2


def accuracy(task: MQARTask, classes: tuple[str, ...], steps: int, width: int, seed: int) -> tuple[float, int]:
    """Share of right answers on validation sequences after a training, and their number."""
    numbers = {row.name: number for number, row in liv_classes().items()}
    seen: Counter[str] = Counter()
    segments = []
    for name in classes:
        seen[name] += 1
        segments.append(f"{numbers[name]}.{seen[name]}.1.{seen[name]}.1")
    sizes = Dimensions(width=width, head_size=width // 4)
    space = BackboneSpace(BackboneSettings(depth=len(classes), dimensions=sizes, classes=tuple(sorted(set(classes)))))
    genome = space.parse(" ".join(segments))
    network = build_network(BackboneNetwork.of(space, genome), task.inputs, task.outputs, seed=seed)
    settings = TrainingSettings(
        budget=Budget(steps=steps),
        batch_size=BATCH,
        optimizer=OptimizerSettings(learning_rate=RATE),
        device="cpu",
    )
    data = integer_seed(seed, "recall")
    train(
        network,
        settings,
        batch_at=lambda step: task.batch("train", data, step, BATCH),
        tokens_per_step=BATCH * task.settings.length,
        seed=seed,
    )
    chosen = places(task, "validation", None)
    found = measure(network, task, "validation", chosen, batch_size=128, precision=decide("cpu"))
    return found.accuracy, len(chosen) * task.settings.pairs


def main() -> None:
    """Measure and report."""
    options = arguments(
        __doc__,
        steps=600,
        seeds=1,
        width=32,
        pairs=4,
        gap=8,
        length=24,
        vocabulary=32,
        arm=0,
    )
    settings = MQARSettings(
        length=options.length,
        vocabulary=options.vocabulary,
        pairs=options.pairs,
        gap=options.gap,
    )
    task = MQARTask.open(settings)
    guess = task.guesses()["any value"]
    shape = f"{settings.pairs} pairs, gap {settings.gap}, length {settings.length}, {settings.vocabulary} ids"
    report = Report(
        "Recall",
        settings={
            "task": f"MQAR: {shape}; a guess {guess:.4f}",
            "steps": options.steps,
        },
    )
    means: dict[str, float] = {}
    chosen = [name for number, name in enumerate(ARMS, start=1) if options.arm in (0, number)]
    for name in chosen:
        classes = ARMS[name]
        begin = time.process_time()
        found = [accuracy(task, classes, options.steps, options.width, seed) for seed in range(options.seeds)]
        shares = [share for share, _ in found]
        means[name] = float(np.mean(shares))
        low, high = wilson_interval(means[name], found[0][1])
        report.rows.append(
            {
                "LIVs": " ".join(classes),
                "accuracy": f"{means[name]:.3f} ({min(shares):.3f} to {max(shares):.3f})",
                "95 % interval over questions": f"{low:.3f} to {high:.3f}",
                "CPU s a training": f"{(time.process_time() - begin) / options.seeds:.0f}",
            }
        )
        if name in WITHOUT_REACH:
            report.at_most(f"{name}: lower end of the interval / share of a guess", low / guess, 1)
    solver, recurrences = (
        "attention, convolved",
        [f"recurrence, N = {size}" for size in (2, 16, 32)],
    )
    if solver in means:
        report.at_least(f"{solver}: accuracy", means[solver], SOLVED)
    if len(means) == len(ARMS):
        states = [means[name] for name in recurrences]
        report.at_least(
            "recurrence: accuracy with N = 16, less that with N = 2",
            states[1] - states[0],
            0,
        )
        report.at_least(
            "recurrence: accuracy with N = 32, less that with N = 16",
            states[2] - states[1],
            0,
        )
        report.at_least("recurrence with N = 2: accuracy / share of a guess", states[0] / guess, 1)
        report.at_least(f"{solver} less the largest recurrence", means[solver] - states[2], 0)
    report.finish(options.json)


if __name__ == "__main__":
    main()
