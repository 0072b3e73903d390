"""The procedure ``darts``: a zoo whose mixture is learned, then cut down to its heaviest modules and trained anew.

Liu, Simonyan and Yang 2019, first order: steps on the weights with training samples and steps on the architecture with
samples of the architecture split take turns. Here the choice is between whole modules; no input changes it. Such
searches like to end with nothing but skip connections or one kind of operation, so what it came to is reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from evodevo.experiments.measure import places
from evodevo.experiments.trained import Trained
from evodevo.experiments.trainer import Trainer
from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.procedures.search_settings import DartsOptions
from evodevo.module_zoo.procedures.searching import PoolSearch
from evodevo.module_zoo.spec import ZooStructure
from evodevo.settings import validate
from evodevo.tasks.inputs import Batch

ARCHITECTURE = "router.rows"
"""Prefix of the architecture's weights among the parameters of a zoo whose router is of that kind."""
_TURN = "search/architecture"
"""Key that marks a batch on which the architecture learns."""
SKIPPED = 0.05
"""The modules have collapsed to a skip where they move f by less than this share of its length."""
HEAVY = 0.9
"""The mixture has collapsed to one module where that has more than this weight."""


def train_darts(bench: Trainer, options: Mapping[str, Any]) -> Trained:
    """Search with the given share of the budget, keep the ``top_k`` heaviest modules, train them with the rest.

    Facts, under ``search``: ``tried`` (1 network that holds all), ``logits`` and ``weights`` of all modules in the end,
    ``chosen``, ``kinds`` that were chosen, ``moved`` (how far the modules move f, as a share of its length),
    ``collapsed``: in words, empty where it is not; ``steps`` of the search.

    Raises:
        UsageError: wrong options, no zoo, or too small a budget.
    """
    settings = validate(DartsOptions, dict(options), what="options of darts")
    search = PoolSearch(bench, settings.share, settings.samples, trainings=1)
    network = search.build(continuous(search.structure))
    weights, architecture = _parts(network)
    size = bench.training.batch_size

    def batch_at(step: int) -> Batch:
        if step % 2 == 0:
            return search.task.batch("train", bench.seed, step, size)
        batch = dict(search.task.batch("architecture", bench.seed, step, size))
        return {**batch, _TURN: np.ones(1, dtype=bool)}

    def loss(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
        turn = _TURN in batch
        # A parameter without a gradient is left alone by the optimiser, its moments and its decay included.
        for parameter in weights:
            parameter.requires_grad_(not turn)
        for parameter in architecture:
            parameter.requires_grad_(turn)
        return network.answers_loss(network(batch), batch) if turn else network.loss(batch)

    result = bench.train(
        network,
        training=search.settings(),
        task=search.task,
        batch_at=batch_at,
        loss_function=loss,
        factors={ARCHITECTURE: settings.factor},
        watched=False,
    )
    for parameter in (*weights, *architecture):
        parameter.requires_grad_(True)
    if result.state != "finished":
        return search.answer(network, result, {"tried": 1})
    facts = bench.once("architecture", lambda: _found(search, network, settings.top_k))
    return search.finish(search.only(*facts["chosen"]), {"tried": 1, **facts})


def continuous(structure: ZooStructure) -> ZooStructure:
    """The zoo in which all modules count, by softmax weights that no input changes."""
    changes = {"kind": "architecture", "gate": "softmax", "top_k": None, "train_top_k": "off", "keys": "output"}
    return structure.model_copy(update={"router": structure.router.model_copy(update=changes)})


def collapse(kinds: Mapping[str, int], weights: Mapping[str, float], moved: float) -> str:
    """In which of the known ways a search has come to nothing, in words; empty where in none."""
    reasons = []
    if moved < SKIPPED:
        reasons.append("skip: the modules hardly change what they read")
    if sum(kinds.values()) > 1 and len(kinds) == 1:
        reasons.append(f"one kind: {next(iter(kinds))}")
    heaviest = max(weights, key=lambda name: weights[name])
    if len(weights) > 1 and weights[heaviest] > HEAVY:
        reasons.append(f"one module: {heaviest}")
    return "; ".join(reasons)


def _parts(network: ModuleZoo) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Trainable parameters of the weights, and those of the architecture."""
    named = [(name, parameter) for name, parameter in network.named_parameters() if parameter.requires_grad]
    architecture = [parameter for name, parameter in named if name.startswith(ARCHITECTURE)]
    return [parameter for name, parameter in named if not name.startswith(ARCHITECTURE)], architecture


@torch.no_grad()
def _found(search: PoolSearch, network: ModuleZoo, top_k: int) -> dict[str, Any]:
    """The result of the search as facts. Of equal weights the first modules are kept."""
    bench, task = search.bench, search.task
    chosen = places(task, "architecture", bench.training.batch_size)
    batch = bench.precision.place(task.fetch("architecture", chosen))
    assert isinstance(batch, dict), "the batch is a mapping"
    network.eval()
    passage = network.passage(batch)
    f = passage.inputs.fused.vector
    residual = network.structure.router.residual
    moved = ((passage.mixed - f if residual else passage.mixed).norm(dim=-1) / f.norm(dim=-1).clamp(min=1e-6)).mean()
    logits = {name: float(value) for name, value in zip(passage.ids, passage.decision.logits[0, 0], strict=True)}
    weights = {name: float(value) for name, value in zip(passage.ids, passage.decision.weights[0], strict=True)}
    kept = sorted(logits, key=lambda name: -logits[name])[:top_k]
    kind_of = {module.id: module.genotype.archetype for module in search.structure.modules}
    kinds = dict(Counter(kind_of[name] for name in kept))
    return {
        "logits": logits,
        "weights": weights,
        "chosen": kept,
        "kinds": kinds,
        "moved": float(moved),
        "collapsed": collapse(kinds, weights, float(moved)),
    }
