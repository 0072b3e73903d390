"""The gated delta rule in chunks, against the same rule in transformers.

Run: python benchmarks/gated_delta.py [--json PATH]

Forward and backward, one thread, float32. The peer is the PyTorch form that transformers' Qwen3-Next runs without its
CUDA packages, in chunks of 64 tokens.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers.models.qwen3_next.modeling_qwen3_next import torch_chunk_gated_delta_rule

from evodevo.operators.delta import delta_scan
from measuring import Report, Spread, arguments, ratio, take_turns

HEAD = 64
OURS = "evodevo, chunk 32"


def main() -> None:
    """Measure and report."""
    options = arguments(__doc__, batch=1, length=1024, width=768, rounds=7)
    shape = (options.batch, options.length, options.width // HEAD, HEAD)
    value, query = torch.randn(2, *shape).unbind(0)
    key = F.normalize(torch.randn(shape), dim=-1)
    log_decay, strength = -0.2 * torch.rand(shape[:3]), torch.rand(shape[:3])
    leaves = [x.contiguous().requires_grad_() for x in (query, key, value, log_decay, strength)]
    scale = HEAD**-0.5
    forms: dict[str, Callable[..., Tensor]] = {
        OURS: lambda q, k, v, g, b: delta_scan(v, k, q * scale, g, b, chunk=32)[0],
        "evodevo, chunk 64": lambda q, k, v, g, b: delta_scan(v, k, q * scale, g, b, chunk=64)[0],
        "transformers, chunk 64": lambda *x: torch_chunk_gated_delta_rule(*x, chunk_size=64)[0],
    }
    wanted = forms[OURS](*leaves)
    for form in forms.values():
        torch.testing.assert_close(form(*leaves), wanted, rtol=1e-3, atol=1e-3)
    gradient = torch.randn_like(wanted)

    def training(form: Callable[..., Tensor]) -> Callable[[], object]:
        return lambda: torch.autograd.grad(form(*leaves), leaves, gradient)

    seconds = take_turns({name: training(form) for name, form in forms.items()}, options.rounds)
    report = Report(
        "Gated delta rule, forward and backward",
        settings={"shape": f"B={options.batch} L={options.length} D={options.width}, float32"},
    )
    for name, values in seconds.items():
        times = ratio(values, seconds[OURS])
        report.rows.append({"who": name, "ms (quartiles)": Spread.of(values).show(1e3), "time / ours": times.show()})
    report.at_least(
        "times as fast as transformers' chunks", ratio(seconds["transformers, chunk 64"], seconds[OURS]).median, 1
    )
    report.finish(options.json)


if __name__ == "__main__":
    main()
