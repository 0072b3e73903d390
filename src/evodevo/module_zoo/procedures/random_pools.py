"""The procedure ``random_pools``: random search over pools of modules (docs/spec/architect_thyself.md#opponents).

What every cleverer search has to beat (Li & Talwalkar 2019).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evodevo.experiments.trained import Trained
from evodevo.experiments.trainer import Trainer
from evodevo.module_zoo.modules.zoo import random_zoo
from evodevo.module_zoo.procedures.search_settings import RandomPoolsOptions
from evodevo.module_zoo.procedures.searching import PoolSearch
from evodevo.randomness import generator
from evodevo.settings import validate


def train_random_pools(bench: Trainer, options: Mapping[str, Any]) -> Trained:
    """Pools of random families with random attributes, each for an equal part of the search; the best with the rest.

    Facts, under ``search``: ``tried``; ``values`` on the architecture split; ``best``; ``chosen``, the module ids of
    the pool; ``steps`` of the search.

    Raises:
        UsageError: wrong options, no zoo, or too small a budget.
    """
    settings = validate(RandomPoolsOptions, dict(options), what="options of random_pools")
    search = PoolSearch(bench, settings.share, settings.samples, trainings=settings.candidates)
    count = settings.modules or len(search.structure.live)
    pools = {}
    for number in range(settings.candidates):
        modules = random_zoo(search.structure.width, count, generator(bench.seed, number, "random pool"))
        pools[f"pool {number}"] = search.structure.model_copy(update={"modules": modules, "disabled": ()})
    return search.try_each(pools, {})
