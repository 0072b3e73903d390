"""What a CUDA device gives: training steps, each LIV class, memory of the paper's batch, small candidates side by side.

    python benchmarks/gpu.py [--json PATH] [--only step classes memory packing] [--device cuda]

step     tokens per second of transformer++ and striped-mamba against transformers' Llama of equal shape (sdpa, fused
         AdamW, bfloat16), each also under torch.compile
classes  forward and backward of one LIV of each class: share of the device's bfloat16 products that is used (model FLOP
         utilisation), and the time with evodevo's own forms over that with the kernels of installed packages
memory   peak of one step of the paper's batch in parts, recomputed, against the bytes that are counted without a device
packing  candidates of ``backbone.small`` one after the other, in one process, and side by side on one device

With ``--device cpu`` and small sizes all of it runs on a CPU, to see that it works: what it prints there tells nothing.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from evodevo.backbone.cost import backbone_cost
from evodevo.backbone.network import BackboneNetwork
from evodevo.backbone.protocol.devices import profile_of
from evodevo.backbone.protocol.roofline import calibrate, count_step
from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.errors import UsageError
from evodevo.execution.base import Job
from evodevo.execution.jobs import run_jobs
from evodevo.operators.kernels.choice import SWITCH
from evodevo.operators.spec import Dimensions
from evodevo.randomness import generator
from evodevo.runs.drive import create_executor
from evodevo.runs.resolve import resolve
from evodevo.runs.slices import slice_of
from evodevo.tasks.text.language import windows_of
from evodevo.testing.networks import small_backbone, text_batch
from evodevo.training import optimizers
from evodevo.training.settings import Budget, OptimizerSettings, TrainingSettings
from measuring import Report, Spread, ratio, take_turns
from training_step import count, llama

PARTS = ("step", "classes", "memory", "packing")


class Device:
    """A device with its clock, and its products per second."""

    def __init__(self, name: str, profile: str | None) -> None:
        self.device = torch.device(name)
        self.profile = calibrate(self.device, torch.bfloat16) if profile is None else profile_of(profile)

    def clock(self) -> float:
        """Seconds, after all that was begun has ended."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def half(self) -> Any:
        """Products in bfloat16."""
        return torch.autocast(self.device.type, dtype=torch.bfloat16)


def step(model: nn.Module, windows: Tensor, device: Device) -> Callable[[], None]:
    """One training step: forward, backward, AdamW."""
    model = model.to(device.device).train()
    optimizer = optimizers.build(model, OptimizerSettings())

    def run() -> None:
        with device.half():
            if hasattr(model, "config"):
                logits = model(input_ids=windows[:, :-1]).logits
                loss = nn.functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
            else:
                loss = model.loss(text_batch(windows))  # type: ignore[operator]
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return run


def steps(report: Report, options: argparse.Namespace, device: Device) -> None:
    """The rows of ``step``."""
    space = space_of(options, options.depth)
    windows = torch.randint(0, options.vocabulary, (options.batch, options.length + 1), device=device.device)

    def ours(name: str, backend: str) -> nn.Module:
        network = small_backbone(space, space.named(name, options.depth), options.vocabulary, 0, tied=True)
        network.compiled = backend  # type: ignore[assignment]
        return network

    theirs = llama(options.width, options.depth, options.vocabulary, options.length)
    compiled = llama(options.width, options.depth, options.vocabulary, options.length)
    compiled.forward = torch.compile(compiled.forward)  # type: ignore[method-assign]
    models: dict[str, nn.Module] = {}
    for name in ("transformer++", "striped-mamba")[: 2 if options.depth >= 8 else 1]:  # stripes need 8 LIVs
        models |= {name: ours(name, "off"), f"{name}, compiled": ours(name, "inductor")}
    models |= {"transformers Llama": theirs, "transformers Llama, compiled": compiled}
    if options.no_compile:
        models = {name: model for name, model in models.items() if "compiled" not in name}
    runs = {name: step(model, windows, device) for name, model in models.items()}
    first = {name: first_call(name, run, device) for name, run in runs.items()}
    seconds = take_turns(runs, options.rounds, clock=device.clock)
    best = min(("transformers Llama", "transformers Llama, compiled"), key=lambda name: middle(seconds.get(name)))
    for name, values in seconds.items():
        remark = f"{ratio(seconds[best], values).show()} of the best Llama's speed; first call {first[name]:.1f} s"
        report.rows.append(row("step", name, values, options.batch * options.length, remark, count(models[name])))
    own = min(("transformer++", "transformer++, compiled"), key=lambda name: middle(seconds.get(name)))
    report.at_least("transformer++: speed over the best Llama's", ratio(seconds[best], seconds[own]).median, 0.9)
    plans = space.plan(space.named("transformer++", options.depth))
    flops = flops_of(plans, options, vocabulary=options.vocabulary)
    used = flops / middle(seconds[own]) / device.profile.half
    report.at_least("transformer++: share of the device's bfloat16 products", used, 0.4)


def first_call(name: str, run: Callable[[], None], device: Device) -> float:
    """Seconds of the first call, in which kernels are compiled, tuned and compared; printed as soon as it ends."""
    began = device.clock()
    run()
    seconds = device.clock() - began
    print(f"{name}: first call {seconds:.1f} s", flush=True)
    return seconds


def row(part: str, what: str, values: list[float], tokens: int, remark: str, parameters: int = 0) -> dict[str, Any]:
    """A row of the table, printed as soon as it is there; values are seconds, none where only the remark counts."""
    spread = Spread.of(values) if values else None
    milliseconds = spread.show(1e3, 4) if spread else ""
    print(f"{part}: {what}: {f'{milliseconds} ms, ' if spread else ''}{remark}", flush=True)
    return {
        "part": part,
        "what": what,
        "parameters": f"{parameters:,}" if parameters else "",
        "ms (quartiles)": milliseconds,
        "tokens/s": f"{tokens / spread.median:,.0f}" if spread else "",
        "": remark,
    }


def middle(values: list[float] | None) -> float:
    """The median; infinite of nothing."""
    return Spread.of(values).median if values else float("inf")


def space_of(options: argparse.Namespace, depth: int) -> BackboneSpace:
    """Backbones of this depth and of the benchmark's width."""
    return BackboneSpace(BackboneSettings(depth=depth, dimensions=Dimensions(width=options.width)))


def flops_of(plans: Any, options: argparse.Namespace, *, vocabulary: int = 0) -> int:
    """FLOPs of forward and backward of a batch; of attention's scores the visible half."""
    sizes = {"length": options.length, "batch": options.batch, "vocabulary": vocabulary}
    return backbone_cost(plans, Dimensions(width=options.width), mode="train", **sizes).flops


def classes(report: Report, options: argparse.Namespace, device: Device) -> None:
    """The rows of ``classes``."""
    space = space_of(options, 1)
    tokens = torch.randint(0, 256, (options.batch, options.length), device=device.device)
    for liv in space.classes:
        genome = ((liv, 1, 1, 1, 1),)
        network = small_backbone(space, genome, 256, 0).to(device.device).train()

        def run(network: Any = network) -> None:
            with device.half():
                total = network.hidden(tokens).float().sum()
            total.backward()
            network.zero_grad(set_to_none=True)

        def own(run: Callable[[], None] = run) -> None:
            os.environ[SWITCH] = "off"
            run()
            del os.environ[SWITCH]

        first = first_call(space.classes[liv].name, run, device)
        seconds = take_turns({"kernels": run, "own": own}, options.rounds, clock=device.clock)
        used = flops_of(space.plan(genome), options) / middle(seconds["kernels"]) / device.profile.half
        gain = ratio(seconds["own"], seconds["kernels"]).show()
        remark = f"{used:.3f} of the products; own forms / kernels {gain}; first call {first:.1f} s"
        tokens_of_step = options.batch * options.length
        report.rows.append(row("classes", space.classes[liv].name, seconds["kernels"], tokens_of_step, remark))


def memory(report: Report, options: argparse.Namespace, device: Device) -> None:
    """The rows of ``memory``: one part of the paper's batch."""
    space = space_of(options, options.depth)
    training = TrainingSettings(budget=Budget(tokens=options.length), precision="bfloat16")
    for recompute in (False, True):
        network = BackboneNetwork.of(space, space.named("transformer++", options.depth), tied=True)
        inputs, outputs = windows_of(options.vocabulary, options.length)
        sizes = {"samples": options.batch, "length": options.length, "recompute": recompute}
        counted = count_step(network, inputs, outputs, training, **sizes)
        found = 0
        if device.device.type == "cuda":
            model = small_backbone(space, space.named("transformer++", options.depth), options.vocabulary, 0, tied=True)
            model.checkpointing = recompute
            windows = torch.randint(0, options.vocabulary, (options.batch, options.length + 1), device=device.device)
            run = step(model, windows, device)
            run()
            torch.cuda.reset_peak_memory_stats(device.device)
            run()
            found = torch.cuda.max_memory_allocated(device.device)
            report.at_least("memory: measured over counted", found / counted.memory, 0.85)
            report.at_most("memory: measured over counted", found / counted.memory, 1.15)
        what = f"transformer++, {'activations recomputed' if recompute else 'all activations kept'}"
        remark = f"{counted.memory / 1e9:.2f} GB counted, {found / 1e9:.2f} GB measured"
        report.rows.append(row("memory", what, [], 0, remark, counted.parameters))


def packing(report: Report, options: argparse.Namespace) -> None:
    """The rows of ``packing``: wall-clock time of the same candidates, by the executor's settings."""
    ways: dict[str, dict[str, Any]] = {
        "one after the other, a process each": {"workers": 1},
        "one after the other, one process": {"workers": 1, "options": {"evaluations": options.candidates}},
        "packed": {"workers": options.workers, "options": {"evaluations": options.candidates, "packing": True}},
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(options.rounds):
        for name, changes in ways.items():
            execution = {"devices": ["auto"], **changes}
            overrides = {"execution": execution, "evaluation": {"training": {"budget": {"tokens": options.tokens}}}}
            settings = resolve("backbone.small", driver="evolve", overrides=overrides)
            kind = slice_of("backbone.small", type(settings).model_fields)
            problem, space = kind.problem(settings), kind.space(settings)
            genomes = [space.sample(generator(0, "packing", number)) for number in range(options.candidates + 1)]
            jobs = [
                Job(str(number), problem.entry, problem.payload(genome, 1), None, None)
                for number, genome in enumerate(genomes)
            ]
            with create_executor(settings.execution, kind.preload) as executor:
                run_jobs(executor, jobs[:1])  # workers have started, and data are prepared
                began = time.perf_counter()
                results = run_jobs(executor, jobs[1:])
                seconds[name].append(time.perf_counter() - began)
            failed = [result.detail for result in results.values() if result.state == "failed"]
            if failed:
                raise UsageError(f"{len(failed)} candidates failed, the first: {failed[0]}")
    for name, values in seconds.items():
        remark = f"{ratio(seconds['one after the other, a process each'], values).show()} times as fast as the first"
        report.rows.append(row("packing", name, values, options.candidates * options.tokens, remark))


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, default=None, help="write everything measured to this file")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1, ...; cpu to see that the script works")
    parser.add_argument("--profile", default=None, help="published peaks, such as h100; measured where left out")
    sizes = {"width": 768, "depth": 24, "length": 4096, "batch": 4, "vocabulary": 32_768, "rounds": 5}
    for name, default in {**sizes, "workers": 16, "tokens": 200_000, "candidates": 32}.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=f"default {default}")
    parser.add_argument("--no-compile", action="store_true", help="leave out the rows under torch.compile")
    options = parser.parse_args()
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        parser.exit(2, "this machine has no CUDA device; --device cpu shows that the script works.\n")
    if options.rounds < 2:
        parser.error("--rounds is at least 2: quartiles are printed.")
    device = Device(options.device, options.profile)
    where = torch.cuda.get_device_name(device.device) if device.device.type == "cuda" else "CPU"
    shape = f"B={options.batch} L={options.length} D={options.width} LIVs={options.depth} V={options.vocabulary}"
    peak = f"{device.profile.half / 1e12:.3g} TFLOP/s"
    report = Report(
        "A CUDA device",
        settings={"device": where, "shape": f"{shape}, bfloat16", "products": peak},
        clock="wall-clock time",
    )
    if "step" in options.only:
        steps(report, options, device)
    if "classes" in options.only:
        classes(report, options, device)
    if "memory" in options.only:
        memory(report, options, device)
    if "packing" in options.only:
        packing(report, options)
    report.finish(options.json)


if __name__ == "__main__":
    main()
