"""The procedure ``routes``: a table of routes is found or given, and the router of an ordinary H-Model learns it.

Source: docs/spec/h_model.md#evolution-of-routes.

While the network is *guided*, a table decides which layer runs and the router learns to name that layer, by
cross-entropy. Afterwards the router decides, and table and input format are no longer needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from evodevo.experiments.measure import places
from evodevo.experiments.trained import Trained
from evodevo.experiments.trainer import Trainer
from evodevo.h_model.model import HModel, as_h_model
from evodevo.h_model.procedures.routes_settings import options_of, rest_of, routed_structure
from evodevo.h_model.routes.reader import RouteReader
from evodevo.h_model.routes.search import RouteSearch, Tried
from evodevo.h_model.routes.spec import RoutesStructure

SAMPLES = 512
"""Validation samples on which router and table are compared."""


def train_routes(bench: Trainer, options: Mapping[str, Any]) -> Trained:
    """See the module.

    Facts: ``routes``: the table; ``named``: share of the decisions on validation samples in which the router chose the
    layer of the table, in a pass that it decided itself. With a search, under ``search``: ``tried``, the number of
    tables; ``tables``, each with its parent and the loss by which it was judged; ``best``, the number of the best one
    among them; ``steps`` and ``flops`` of the search.

    Where every training of the search failed, the answer is the failure of the last one.

    Raises:
        UsageError: wrong options.
    """
    settings = options_of(options)
    structure = routed_structure(bench.arm.network)
    rest = rest_of(bench.training, settings.search)
    facts: dict[str, Any] = {}
    routes, found, search = settings.routes, None, None
    if settings.search is not None:
        search = RouteSearch(bench, settings.search, structure)
        found = search.run()
        if found is None:
            assert search.result is not None, "some table was tried"
            return Trained(bench.build(), search.result, extra={"search": _tried(search)})
        routes = found.genome.structure(settings.search.input)
        facts["search"] = {
            **_tried(search),
            "best": search.tried.index(found),
            "steps": bench.steps,
            "flops": bench.once("FLOPs of the search", lambda: bench.flops),
        }
    assert routes is not None, "given or found"
    facts["routes"] = routes.model_dump(mode="json")
    network = _begun(bench, search, found)
    network.follow(routes, imitation=settings.imitation)
    if settings.guided < 1:
        result = bench.train(network, training=rest, until_share=settings.guided)
        network.follow(None)
    if settings.guided == 1 or result.state == "paused":
        result = bench.train(network, training=rest)
    network.follow(None)
    if result.state == "finished":
        facts["named"] = bench.once("named", lambda: named(bench, network, routes))
    return Trained(network, result, extra=facts)


def _tried(search: RouteSearch) -> dict[str, Any]:
    return {"tried": len(search.tried), "tables": search.to_json()}


def _begun(bench: Trainer, search: RouteSearch | None, found: Tried | None) -> HModel:
    """The arm's network, with the weights of what was found."""
    network = as_h_model(bench.build())
    assert network is not None, "checked"
    if search is not None and found is not None:
        search.begin(network, found)
    return network


@torch.no_grad()
def named(bench: Trainer, network: HModel, routes: RoutesStructure) -> float:
    """Share of samples and iterations in which the layer that ran is the one of the table."""
    chosen = places(bench.task, "validation", SAMPLES)
    batch = bench.precision.place(bench.task.fetch("validation", chosen))
    assert isinstance(batch, dict), "the batch is a mapping"
    ran = torch.from_numpy(network.trace(batch).called).float()  # (B, T, H)
    wanted = RouteReader(routes).to(bench.precision.device)(batch).cpu()
    return float(ran.gather(-1, wanted.unsqueeze(-1)).mean())
