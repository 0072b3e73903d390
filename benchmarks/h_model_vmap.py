"""Groups of equal layers as the H-Model stacks them, against ``torch.func.stack_module_state`` with ``vmap``.

Run: python benchmarks/h_model_vmap.py [--json PATH] [--width 64 --iterations 4 --rounds 15]

H = 8 and 16 transformer layers, T calls each, (B, S) = (1, 8), (2, 8), (16, 12), (16, 64), forward without gradients
(weights stacked once) and forward with backward (stacked anew, as a pass does); CPU time of one thread. ``vmap`` would
replace our stacking if it were bit-equal and at least ``WANTED`` times as fast in every cell.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from functools import partial
from statistics import median

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from evodevo.operators.grouped import group
from evodevo.operators.layers.transformer import TransformerLayer
from measuring import Report, arguments, ratio, take_turns

SHAPES = ((1, 8), (2, 8), (16, 12), (16, 64))
WANTED = 0.95


def candidates(
    layers: list[nn.Module], x: Tensor, iterations: int, *, learning: bool
) -> dict[str, Callable[[], Tensor]]:
    """Each way to run the layers on x, (H, B, S, d), ``iterations`` times; returns the last output."""
    frame = copy.deepcopy(layers[0]).to("meta")
    kept = group(layers, torch.stack)
    with torch.no_grad():
        parameters, buffers = stack_module_state(layers)
    state = {name: value.detach() for name, value in parameters.items()}

    def one(values: dict[str, Tensor], others: dict[str, Tensor], own: Tensor) -> Tensor:
        return functional_call(frame, (values, others), (own,), {"mask": None}).y

    mapped = vmap(one)

    def stacked() -> dict[str, Tensor]:
        each = [dict(layer.named_parameters()) for layer in layers]
        return {name: torch.stack([values[name] for values in each]) for name in each[0]}

    def run(prepare: Callable[[], Callable[[], Tensor]]) -> Tensor:
        with torch.set_grad_enabled(learning):
            step = prepare()
            for _ in range(iterations):
                output = step()
            if learning:
                output.square().mean().backward()
        return output.detach()

    return {
        "grouped": partial(run, lambda: partial(group(layers, torch.stack) if learning else kept, x, None)),
        "vmap": partial(run, lambda: partial(mapped, stacked() if learning else state, buffers, x)),
    }


def main() -> None:
    """Measure and report."""
    options = arguments(__doc__, width=64, iterations=4, rounds=15)
    report = Report(
        "Stacked layers against vmap", settings={"shape": f"d={options.width} T={options.iterations}, float32"}
    )
    torch.set_num_threads(1)
    torch.manual_seed(0)
    warnings.filterwarnings("ignore", message="There is a performance drop")  # that is what is measured
    slowest, equal = float("inf"), 1.0
    for count in (8, 16):
        layers: list[nn.Module] = [
            TransformerLayer().build(options.width, causal=False, residual=True) for _ in range(count)
        ]
        for batch, length in SHAPES:
            x = torch.randn(count, batch, length, options.width)
            for learning in (False, True):
                ways = candidates(layers, x, options.iterations, learning=learning)
                same = torch.equal(ways["grouped"](), ways["vmap"]())
                seconds = take_turns(dict(ways), options.rounds)
                speed = ratio(seconds["grouped"], seconds["vmap"])
                slowest, equal = min(slowest, speed.median), min(equal, float(same))
                report.rows.append(
                    {
                        "H": count,
                        "B, S": f"{batch}, {length}",
                        "what": "training" if learning else "forward",
                        "grouped ms": f"{1e3 * median(seconds['grouped']):.2f}",
                        "vmap ms": f"{1e3 * median(seconds['vmap']):.2f}",
                        "grouped / vmap": speed.show(),
                        "bit-equal": "yes" if same else "no",
                    }
                )
    report.at_least("vmap: bit-equal in every cell (1 = yes)", equal, 1.0)
    report.at_least("vmap: times as fast as our stacking, in the slowest cell", slowest, WANTED)
    report.finish(options.json)


if __name__ == "__main__":
    main()
