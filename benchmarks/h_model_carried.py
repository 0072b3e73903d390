"""The carried stream against all layers at once: time of a training step, and of an answer to a single sample.

Run: python benchmarks/h_model_carried.py [--json PATH] [--width 32 --layers 8 --iterations 2 --batch 128
    --domains 96 --rounds 15]

Networks over tables of many domains (the task ``domains``), as ``evodevo train h_model.domains`` builds them: one
position, MLP layers. A training step is loss, backward pass and AdamW on ``batch`` samples; an answer is a forward pass
of one sample. Dense is the H-Model with the paper's stream, in which all layers run in every iteration: as a loop over
layers, and by the rule that groups equal ones. Beside it a mixture of experts in a loop, with a layer for each expert,
and a stack of as many layers as a sample passes. CPU time of one thread, untrained: routes are nearly uniform, so that
in a batch every layer has some samples.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from evodevo.h_model.model import HModel
from evodevo.h_model.network import HModelNetwork
from evodevo.h_model.runners.choice import RunnerName
from evodevo.h_model.spec import CarriedStructure, HModelStructure, RegularisationStructure, RouterStructure
from evodevo.networks.base import Network
from evodevo.networks.build import build_network
from evodevo.networks.mixtures.mixture import MixtureNetwork
from evodevo.networks.mixtures.spec import MixtureStructure
from evodevo.networks.spec import NetworkSpec
from evodevo.networks.stacks.spec import StackStructure
from evodevo.networks.stacks.stack import StackNetwork
from evodevo.operators.layers.mlp import MLPLayer
from evodevo.tasks.reasoning.domains import DomainsSettings, DomainsTask
from measuring import Report, arguments, ratio, take_turns

CHEAPER = 2.0
FASTER = 2.0
OURS = "carried, top-1"
RUNNERS: dict[str, RunnerName] = {"dense loop": "loop", "dense groups": "grouped", "dense, by rule": "auto"}


def networks(width: int, layers: int, iterations: int) -> dict[str, NetworkSpec]:
    """Name -> network; those of ``RUNNERS`` are one network, run in three ways."""
    ends = {"width": width, "input_blocks": 0, "output_blocks": 0}
    block = MLPLayer(hidden=width)
    dense = HModelStructure(
        stream="paper", **ends, hidden=(block,) * layers, iterations=iterations, router=RouterStructure(pool="mean")
    )
    balanced = {"stream": "carried", "regularisation": RegularisationStructure(balance=0.02)}
    carried = dense.model_copy(update=balanced)
    halves = (MLPLayer(hidden=width // 2),) * (2 * layers)
    two = carried.model_copy(update={"hidden": halves, "carried": CarriedStructure(m=2, cap=2)})
    mixture = MixtureStructure(**ends, hidden=width, experts=layers, depth=iterations, tied=True)
    stack = StackStructure(**ends, layers=(block,) * iterations)
    return {
        OURS: HModelNetwork(structure=carried),
        "carried, top-2 of half layers": HModelNetwork(structure=two),
        **{name: HModelNetwork(structure=dense) for name in RUNNERS},
        "mixture in a loop": MixtureNetwork(structure=mixture),
        "stack": StackNetwork(structure=stack),
    }


def step(network: Network, batch: dict[str, torch.Tensor]) -> Callable[[], None]:
    """One step of training."""
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4)

    def run() -> None:
        optimizer.zero_grad()
        network.loss(batch).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return run


def answer(network: Network, batch: dict[str, torch.Tensor]) -> Callable[[], None]:
    """A forward pass."""
    one = {name: tensor[:1] for name, tensor in batch.items()}

    def run() -> None:
        with torch.no_grad():
            network(one)

    return run


def many(once: Callable[[], None], times: int = 10) -> Callable[[], None]:
    """Repeated, so that the clock's resolution does not matter."""

    def run() -> None:
        for _ in range(times):
            once()

    return run


def main() -> None:
    """Measure and report."""
    options = arguments(__doc__, width=32, layers=8, iterations=2, batch=128, domains=96, rounds=15)
    sizes = {"train": options.batch, "validation": 1, "test": 1}
    task = DomainsTask.open(DomainsSettings.model_validate({"domains": options.domains, "samples": sizes}))
    batch = {name: torch.from_numpy(array) for name, array in task.batch("train", 0, 0, options.batch).items()}
    specs = networks(options.width, options.layers, options.iterations)
    built = {name: build_network(spec, task.inputs, task.outputs, seed=0) for name, spec in specs.items()}
    for name, runner in RUNNERS.items():
        model = built[name]
        assert isinstance(model, HModel)
        model.runner = runner
    report = Report(
        "The carried stream in time",
        settings={
            "model": f"H={options.layers} T={options.iterations} d={options.width}, MLP layers, one position",
            "training": f"steps of {options.batch}",
        },
    )
    for what, turn, bound in (("training step", step, CHEAPER), ("answer, B=1", answer, FASTER)):
        for network in built.values():
            network.train(turn is step)
        seconds = take_turns({name: many(turn(network, batch)) for name, network in built.items()}, options.rounds)
        for name, found in seconds.items():
            report.rows.append(
                {
                    "what": what,
                    "network": name,
                    "ms": f"{1e2 * sorted(found)[len(found) // 2]:.2f}",
                    f"times the time of: {OURS}": ratio(found, seconds[OURS]).show(),
                }
            )
        for name in ("dense loop", "dense, by rule"):
            gain = ratio(seconds[name], seconds[OURS]).median
            report.at_least(f"{what}: {OURS} is as many times as fast as the {name}", gain, bound)
    report.finish(options.json)


if __name__ == "__main__":
    main()
