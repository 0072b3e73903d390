"""What the H-Model's benchmarks share: networks over the pointer task, trained and tested in one thread."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch

from evodevo.h_model.model import HModel
from evodevo.h_model.network import HModelNetwork
from evodevo.h_model.spec import HModelStructure, RouterStructure
from evodevo.networks.base import Network
from evodevo.networks.build import build_network
from evodevo.networks.spec import NetworkSpec
from evodevo.networks.stacks.spec import StackStructure
from evodevo.networks.stacks.stack import StackNetwork
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.tasks.base import Split
from evodevo.tasks.reasoning.pointer import PointerTask
from evodevo.training.loop import TrainingResult, train
from evodevo.training.settings import Budget, OptimizerSettings, TrainingSettings

WIDTH = 64
BLOCK = TransformerLayer(feedforward=2 * WIDTH)
ROUTER_UNITS = 16
TESTED = 2000


@dataclass(frozen=True)
class Run:
    """One training: where it ended, and what it took. ``validation`` chooses, ``accuracy`` is of the test split."""

    accuracy: float
    validation: float
    steps: int
    seconds: float
    state: str


def h_model(layers: int, iterations: int, **router: object) -> NetworkSpec:
    """An H-Model of small transformer blocks, one input block, no output block; routers read the last token."""
    structure = HModelStructure(
        stream="paper",
        width=WIDTH,
        hidden=(BLOCK,) * layers,
        iterations=iterations,
        output_blocks=0,
        router=RouterStructure.model_validate({"hidden": ROUTER_UNITS, "pool": "last", **router}),
    )
    return HModelNetwork(structure=structure)


def transformer(layers: int) -> NetworkSpec:
    """The same blocks one after the other; the first one is the input block."""
    return StackNetwork(structure=StackStructure(width=WIDTH, layers=(BLOCK,) * (layers - 1), output_blocks=0))


def build(spec: NetworkSpec, task: PointerTask, seed: int) -> Network:
    """The network of a description over the task."""
    return build_network(spec, task.inputs, task.outputs, seed)


def training_settings(steps: int, rate: float, batch: int) -> TrainingSettings:
    """AdamW, constant but for a warm-up of a tenth and a cosine."""
    optimizer = OptimizerSettings(learning_rate=rate, weight_decay=0.01)
    return TrainingSettings(budget=Budget(steps=steps), optimizer=optimizer, batch_size=batch, device="cpu")


def fit(network: Network, task: PointerTask, steps: int, rate: float, seed: int, batch: int = 64) -> Run:
    """Train in place and test on held-out maps."""
    start = time.process_time()
    result: TrainingResult = train(
        network,
        training_settings(steps, rate, batch),
        batch_at=lambda step: task.batch("train", seed, step, batch),
        tokens_per_step=batch,
        seed=seed,
    )
    seconds = time.process_time() - start
    return Run(accuracy(network, task), accuracy(network, task, "validation"), result.steps, seconds, result.state)


def samples(task: PointerTask, count: int, split: Split = "test") -> dict[str, torch.Tensor]:
    """The first samples of a split."""
    batch = task.fetch(split, np.arange(min(count, task.count(split))))
    return {name: torch.from_numpy(array) for name, array in batch.items()}


@torch.no_grad()
def accuracy(network: Network, task: PointerTask, split: Split = "test") -> float:
    """Share of right answers on a split, in the mode in which the network runs."""
    batch = samples(task, TESTED, split)
    was_training = network.training
    answers = network.eval()(batch)["answer"].argmax(-1)
    network.train(was_training)
    return float((answers == batch["answer/target"]).double().mean())


@torch.no_grad()
def accuracy_of_random_layers(model: HModel, task: PointerTask, m: int) -> float:
    """The same when at each iteration m random hidden layers are all that hidden layers can speak to."""
    core, original = model.core, model.core._harden
    generator = torch.Generator().manual_seed(0)

    def random_layers(weights: torch.Tensor, *_: object) -> torch.Tensor:
        hidden = weights.shape[-1] - core.output_count
        if hidden == 0:
            return weights
        order = torch.rand(weights.shape[0], 1, 1, hidden, generator=generator).argsort(-1)
        kept = weights[..., :hidden] * (order < m)
        return torch.cat([kept, weights[..., hidden:]], -1)

    core._harden = random_layers  # type: ignore[method-assign]
    try:
        return accuracy(model, task)
    finally:
        core._harden = original  # type: ignore[method-assign]
