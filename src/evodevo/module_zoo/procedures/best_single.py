"""The procedure ``best_single``: the best module of a zoo when each is trained alone.

Source: docs/spec/architect_thyself.md#opponents.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evodevo.experiments.trained import Trained
from evodevo.experiments.trainer import Trainer
from evodevo.module_zoo.procedures.search_settings import BestSingleOptions, candidates_of, zoo_of
from evodevo.module_zoo.procedures.searching import PoolSearch
from evodevo.settings import validate


def train_best_single(bench: Trainer, options: Mapping[str, Any]) -> Trained:
    """Each module alone for a small share of the budget; the best one with the rest.

    Facts, under ``search``: ``tried``; ``values`` on the architecture split; ``best``; ``steps`` of the search.

    Raises:
        UsageError: wrong options, no zoo, or too small a budget.
    """
    settings = validate(BestSingleOptions, dict(options), what="options of best_single")
    ids = candidates_of(zoo_of(bench.arm), settings.each)
    search = PoolSearch(bench, settings.share, settings.samples, trainings=len(ids))
    return search.try_each({name: search.only(name) for name in ids}, {})
