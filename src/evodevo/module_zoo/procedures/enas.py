"""The procedure ``enas``: all sub-pools of a zoo share their weights, and a policy learns which to draw.

Pham et al. 2018: a step on the shared weights of a sub-pool that the policy draws, with training samples; then a step
of the policy, by the reward of another draw on samples of the architecture split. In the end some are drawn and judged
with the shared weights, and the best one is trained anew.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from evodevo.experiments.trained import Trained
from evodevo.experiments.trainer import Trainer
from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.procedures.search_settings import EnasOptions
from evodevo.module_zoo.procedures.searching import PoolSearch
from evodevo.module_zoo.procedures.sub_pools import SubPoolPolicy
from evodevo.randomness import generator
from evodevo.settings import validate

STATE = "enas"


def train_enas(bench: Trainer, options: Mapping[str, Any]) -> Trained:
    """Search with the given share of the budget; train the best of the drawn sub-pools with the rest.

    Facts, under ``search``: ``tried``, sub-pools that were judged in the end; ``drawn``, rewards that were seen;
    ``probabilities`` of the policy; ``values`` of the finalists; ``chosen``; ``steps`` of the search.

    Raises:
        UsageError: wrong options, no zoo, or too small a budget.
    """
    settings = validate(EnasOptions, dict(options), what="options of enas")
    search = PoolSearch(bench, settings.share, settings.samples, trainings=1)
    network = search.build(search.structure)
    policy = SubPoolPolicy(network.live, settings.size, settings.rate, settings.memory, bench.state.get(STATE))

    def loss(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
        assert isinstance(model, ModuleZoo), "built above"
        number = policy.decisions
        drawn = policy.draw(generator(bench.seed, number, "policy"))
        policy.learn(drawn, _reward(search, model, policy.names(drawn), number))
        bench.state[STATE] = policy.to_json()
        model.active = frozenset(policy.names(policy.draw(generator(bench.seed, number, "shared weights"))))
        return model.loss(batch)

    result = bench.train(network, training=search.settings(), task=search.task, loss_function=loss, watched=False)
    if result.state != "finished":
        return search.answer(network, result, {"tried": 0})
    values = bench.once("finalists", lambda: _finalists(search, network, policy, settings.finalists))
    facts = bench.once("policy", lambda: {"drawn": policy.decisions, "probabilities": policy.probabilities()})
    best = max(values, key=lambda row: -math.inf if row["value"] is None else row["value"])["modules"]
    return search.finish(search.only(*best), {"tried": len(values), "values": values, **facts})


@torch.no_grad()
def _reward(search: PoolSearch, network: ModuleZoo, ids: tuple[str, ...], number: int) -> float:
    """Geometric mean of the probability of what is right, on a batch of the architecture split: in [0, 1]."""
    bench = search.bench
    batch = bench.precision.place(search.task.batch("architecture", bench.seed, number, bench.training.batch_size))
    assert isinstance(batch, dict), "the batch is a mapping"
    network.active = frozenset(ids)
    network.eval()
    with bench.precision.autocast():
        loss = network.answers_loss(network(batch), batch)
    network.train()
    return float(torch.exp(-loss))


def _finalists(search: PoolSearch, network: ModuleZoo, policy: SubPoolPolicy, count: int) -> list[dict[str, Any]]:
    """Different sub-pools of the policy, judged with the shared weights."""
    values: dict[tuple[str, ...], float | None] = {}
    for number in range(count):
        ids = policy.names(policy.draw(generator(search.bench.seed, number, "finalist")))
        if ids not in values:
            network.active = frozenset(ids)
            values[ids] = search.judge(f"judged: {', '.join(ids)}", network)
    network.active = None
    return [{"modules": list(ids), "value": value} for ids, value in values.items()]
