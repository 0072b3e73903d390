"""What kept representations save while a multipath model is trained: the same steps with and without them.

Run: python benchmarks/multipath_cache.py [--json PATH] [--samples 2000 --children 16 --steps 128 --rounds 15]

A main path and two supports, ViT-Ti/16 of 3 layers at 32 x 32 pixels, 10 classes, bytes as a task hands them out. One
step: prepare the batch (or look its rows up), answer, loss, gradients, SGD with Nesterov momentum. Steps are taken in
turns, CPU time of one thread. Then a cycle: so many children from the same start, each with its own order of samples,
trained for so many steps (an agent gives each four passes) and validated four times; with the cache, filling it is part
of the time. Both ways must lead to the same weights, within 1e-4 in float32 and 1e-6 in float64.

This is the cycle of the model and its data alone; the cycle of a whole agent is measured in ``multipath_cycle.py``.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from evodevo.multitask.paths.blocks_spec import HEAD
from evodevo.multitask.paths.frozen import FrozenPath
from evodevo.multitask.paths.images import read_images
from evodevo.multitask.paths.multipath.cache import PathCache, rows_key
from evodevo.multitask.paths.multipath.evaluate import MultipathReader, open_reader
from evodevo.multitask.paths.multipath.model import Multipath
from evodevo.multitask.paths.multipath.rows import CacheSettings, Places
from evodevo.multitask.paths.vision.model import VisionPath
from evodevo.multitask.paths.vision.spec import PRESETS, VisionStructure
from measuring import Report, Spread, arguments, ratio, take_turns

CLASSES, SUPPORTS, VALIDATIONS, SIDE = 10, 2, 4, 28
FASTER = 10.0


class Samples:
    """Grey images as bytes, prepared for one size."""

    def __init__(self, count: int, structure: VisionStructure, dtype: torch.dtype, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.raw = torch.randint(0, 256, (count, SIDE, SIDE, 1), generator=generator, dtype=torch.uint8)
        self.labels = torch.randint(CLASSES, (count,), generator=generator)
        self.structure = structure
        self.dtype = dtype

    def __len__(self) -> int:
        return len(self.labels)

    def __call__(self, places: Places) -> Tensor:
        return read_images(self.structure, self.raw[torch.from_numpy(places)]).to(self.dtype)


def build_paths(structure: VisionStructure, dtype: torch.dtype) -> list[FrozenPath]:
    """The main path, whose head says something, and the supports."""
    main = VisionPath.fresh(structure.changed(classes=CLASSES), 0)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in main.components()[HEAD].parameters():
            parameter.normal_(std=0.1, generator=generator)
    supports = [VisionPath.fresh(structure, seed) for seed in range(1, SUPPORTS + 1)]
    return [FrozenPath(path.to(dtype)) for path in (main, *supports)]


def child(paths: list[FrozenPath], structure: VisionStructure, dtype: torch.dtype) -> Multipath:
    """A new model over the same paths, which it does not copy."""
    return Multipath(paths[0], paths[1:], CLASSES, [structure.width] * SUPPORTS).to(dtype)


def opened(model: Multipath, samples: Samples, cache: PathCache | None, part: str) -> MultipathReader:
    """A reader of one split."""
    keys = {name: rows_key(name, {}, {}, "logits", part, {}) for name in model.names}
    return open_reader(model, samples, cache, keys, len(samples), augmented=False)


def stepper(model: Multipath, samples: Samples, reader: MultipathReader) -> Callable[[Places], None]:
    """One step of training on these samples."""
    optimizer = torch.optim.SGD(model.learn(model.components()), lr=0.02, momentum=0.8, nesterov=True)
    model.train()

    def step(places: Places) -> None:
        optimizer.zero_grad(set_to_none=True)
        logits = model(reader(places))
        nn.functional.cross_entropy(logits, samples.labels[torch.from_numpy(places)]).backward()
        optimizer.step()

    return step


def cycle(
    paths: list[FrozenPath],
    splits: tuple[Samples, Samples],
    cache: PathCache | None,
    children: int,
    steps: int,
    batch: int,
) -> list[Tensor]:
    """Train so many children one after the other; what each of them has learned, in one row."""
    training, validation = splits
    learned = []
    for number in range(children):
        model = child(paths, training.structure, training.dtype)
        step = stepper(model, training, opened(model, training, cache, "train"))
        judge = opened(model, validation, cache, "validation")
        order = np.random.default_rng(number)
        for at in range(1, steps + 1):
            step(order.integers(0, len(training), batch))
            if at * VALIDATIONS % steps < VALIDATIONS:
                model.eval()
                with torch.no_grad():
                    for begin in range(0, len(validation), batch):
                        model(judge(np.arange(begin, min(begin + batch, len(validation)))))
                model.train()
        learned.append(
            torch.cat([p.detach().flatten() for part in model.components().values() for p in part.parameters()])
        )
    return learned


def difference(structure: VisionStructure, dtype: torch.dtype, count: int, batch: int) -> float:
    """The largest one between weights that were learned both ways, in 20 steps."""
    paths = build_paths(structure, dtype)
    splits = (Samples(count, structure, dtype, 1), Samples(batch, structure, dtype, 2))
    live = cycle(paths, splits, None, 1, 20, batch)
    with tempfile.TemporaryDirectory() as folder:
        kept = CacheSettings(kept="float64" if dtype == torch.float64 else "float32")
        return float((live[0] - cycle(paths, splits, PathCache(Path(folder), kept), 1, 20, batch)[0]).abs().max())


def main() -> None:
    """Measure and report."""
    options = arguments(__doc__, batch=64, samples=2000, children=16, steps=128, rounds=15)
    structure, dtype = PRESETS["Ti3"], torch.float32
    paths = build_paths(structure, dtype)
    splits = (Samples(options.samples, structure, dtype, 1), Samples(options.samples // 10, structure, dtype, 2))
    shape = f"P={1 + SUPPORTS}, ViT-Ti/16 of {structure.layers} layers, 32 x 32, C={CLASSES}"
    sizes = f"B={options.batch}, N={options.samples}, {options.children} children of {options.steps} steps"
    report = Report("Training a multipath model from kept representations", settings={"model": shape, "run": sizes})
    with tempfile.TemporaryDirectory() as folder:
        cache = PathCache(Path(folder))
        order = np.random.default_rng(0)
        runs = {}
        for name, given in (("live", None), ("kept", cache)):
            model = child(paths, structure, dtype)
            step = stepper(model, splits[0], opened(model, splits[0], given, "train"))
            runs[name] = lambda step=step: step(order.integers(0, options.samples, options.batch))
        seconds = take_turns(runs, options.rounds)
        faster = ratio(seconds["live"], seconds["kept"])
        for name, values in seconds.items():
            report.rows.append({"what": f"step, {name}", "ms": Spread.of(values).show(1e3), "times as fast": ""})
        report.rows[-1]["times as fast"] = faster.show()
        report.at_least("a step from kept rows, times as fast", faster.median, FASTER)
    with tempfile.TemporaryDirectory() as folder:
        taken = {}
        for name, given in (("live", None), ("kept, with its fill", PathCache(Path(folder)))):
            begin = time.process_time()
            cycle(paths, splits, given, options.children, options.steps, options.batch)
            taken[name] = time.process_time() - begin
            report.rows.append({"what": f"cycle, {name}", "ms": f"{1e3 * taken[name]:.0f}", "times as fast": ""})
        once = taken["live"] / taken["kept, with its fill"]
        report.rows[-1]["times as fast"] = f"{once:.3g}"
        report.at_least("a cycle from kept rows, times as fast", once, FASTER)
    count = min(options.samples, 300)
    for kind, bound in ((torch.float32, 1e-4), (torch.float64, 1e-6)):
        report.at_most(f"difference of weights, {kind}", difference(structure, kind, count, options.batch), bound)
    report.finish(options.json)


if __name__ == "__main__":
    main()
