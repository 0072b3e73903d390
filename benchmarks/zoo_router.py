"""What routing costs beside the modules that are routed: the router's share of the zoo's forward.

Run: python benchmarks/zoo_router.py [--json PATH] [--width 64 --batch 32 --rounds 31]

The nine modules of the paper's Table 3 on sequences of L = 16 (the digit images), 49 (images of 224 x 224 in patches of
32) and 5 (a short text) positions, then the graph attention router with its default switches: logits, gate, top-K,
mixture. Forward alone in evaluation, and forward with backward while training, CPU time of one thread. The share is
router / (modules + router), round by round.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from evodevo.module_zoo.modules.cost import genotype_work
from evodevo.module_zoo.modules.pool import ModulePool
from evodevo.module_zoo.modules.zoo import table_3_zoo
from evodevo.module_zoo.router.base import ModuleRouter
from evodevo.module_zoo.router.cost import router_work
from evodevo.module_zoo.router.others import build_router
from evodevo.module_zoo.spec import Gate, ZooRouterStructure
from measuring import Report, arguments, ratio, take_turns

LENGTHS = (16, 49, 5)
GATES: tuple[Gate, ...] = ("sparsemax", "softmax", "entmax15", "entmax")
MOST = 0.15


def run_modules(pool: ModulePool, ids: tuple[str, ...], tokens: Tensor, *, learning: bool) -> Callable[[], None]:
    """All modules on all samples."""

    def run() -> None:
        with torch.set_grad_enabled(learning):
            outputs = pool(ids, tokens, None)
            if learning:
                outputs.square().mean().backward()
                pool.zero_grad(set_to_none=True)

    return run


def run_router(
    router: ModuleRouter, query: Tensor, outputs: Tensor, contribution: Tensor, *, learning: bool
) -> Callable[[], None]:
    """What the router does with module outputs."""
    outputs = outputs.clone().requires_grad_(learning)

    def run() -> None:
        with torch.set_grad_enabled(learning):
            mixed = router.mix(router.decide(query, outputs, contribution=contribution), outputs, query)
            if learning:
                mixed.square().mean().backward()
                router.zero_grad(set_to_none=True)
                outputs.grad = None

    return run


def main() -> None:
    """Measure and report."""
    options = arguments(__doc__, width=64, batch=32, rounds=31)
    zoo = table_3_zoo(options.width)
    ids = tuple(module.id for module in zoo)
    pool = ModulePool(zoo, options.width, "mean")
    report = Report(
        "The router's share of the zoo's forward",
        settings={"zoo": f"N={len(zoo)}, d={options.width}, B={options.batch}, float32"},
    )
    query, contribution = torch.randn(options.batch, options.width), torch.rand(len(zoo))
    for length in LENGTHS:
        tokens = torch.randn(options.batch, length, options.width)
        for learning in (False, True):
            pool.train(learning)
            with torch.no_grad():
                outputs = pool(ids, tokens, None)
            runs = {"modules": run_modules(pool, ids, tokens, learning=learning)}
            for gate in GATES:
                router = build_router(options.width, ZooRouterStructure(gate=gate), ids).train(learning)
                runs[gate] = run_router(router, query, outputs, contribution, learning=learning)
            seconds = take_turns(runs, options.rounds)
            for gate in GATES:
                both = [a + b for a, b in zip(seconds["modules"], seconds[gate], strict=True)]
                share = ratio(seconds[gate], both)
                what = "forward and backward" if learning else "forward"
                row = {"what": f"{what}, L={length}, {gate}", "share, %": share.show(100)}
                report.rows.append(row | {"router, ms": ratio(seconds[gate], [1e-3] * options.rounds).show()})
                if gate == "sparsemax" and not learning:
                    report.at_most(f"router's share of the forward, L={length}", share.median, MOST)
        structure = ZooRouterStructure()
        products = sum(genotype_work(module.genotype, length).total for module in zoo)
        routing = router_work(structure, options.width, len(zoo), 0).total
        report.rows.append(
            {"what": f"FLOPs, L={length}", "share, %": f"{100 * routing / (routing + products):.2g}", "router, ms": ""}
        )
    report.finish(options.json)


if __name__ == "__main__":
    main()
