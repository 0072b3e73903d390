"""Rec-1 against plain loops over time and over chunks, and against the Mamba mixers of transformers. Forward and
backward.

Run: python benchmarks/recurrence.py [--json PATH] [--whole 0]

First the scan at 128, 1,024 and 4,096 tokens against the form that it replaced, which passes states from chunk to chunk
in a loop and computes in float32 whatever autocast says. ``--whole 0`` ends there: the rest takes ten minutes.

The core is the scan alone: values, writes, reads and decays in, outputs out. The whole LIV has projections,
convolutions, norm and gate. The peers have the same width, state (width x N numbers) and convolution; with
``expand=2``, their default, they would have twice the state. Without their CUDA packages they run the PyTorch code
that transformers ships; Mamba2Mixer also at the chunk size that suits it best here, not only at its default.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from evodevo.operators.build import build_operator
from evodevo.operators.classes import OPERATORS
from evodevo.operators.recurrence import scan
from evodevo.operators.spec import Dimensions
from measuring import Report, Spread, arguments, ratio, take_turns

HEAD = 64
STATE = 16
OURS = "evodevo Rec-1"
SLOW = "MambaMixer"  # its loop over tokens indexes tensors, so that its backward pass is quadratic in the length


def time_loop(value: Tensor, write: Tensor, read: Tensor, log_decay: Tensor) -> Tensor:
    """The recurrence as it is written, one token after another; ``unbind`` keeps its backward pass linear."""
    decay = log_decay.exp()[..., None, None].unbind(1)
    values, writes = value.unsqueeze(-2).unbind(1), write.unsqueeze(-1).unbind(1)
    reads = read.unsqueeze(-2).unbind(1)
    state = value.new_zeros(value.shape[0], value.shape[2], write.shape[-1], value.shape[3])
    outputs = []
    for v, b, c, a in zip(values, writes, reads, decay, strict=True):
        state = torch.addcmul(b * v, state, a)
        outputs.append(c @ state)
    return torch.cat(outputs, 2).transpose(1, 2)


def chunk_loop(value: Tensor, write: Tensor, read: Tensor, log_decay: Tensor) -> Tensor:
    """Chunks of 32 tokens with a loop over their states: the form of this library until November 2026."""
    (batch, tokens, heads, size), chunk = value.shape, 32
    kind = value.dtype

    def split(x: Tensor) -> Tensor:  # (B, T, …, ) -> (B, K, …, c, ·)
        return x.to(torch.promote_types(kind, torch.float32)).unflatten(1, (tokens // chunk, chunk)).transpose(2, 3)

    with torch.autocast("cpu", enabled=False):
        v, b, c = split(value).contiguous(), split(write), split(read)
        total = split(log_decay).cumsum(-1)
        never = torch.full((chunk, chunk), float("-inf"), dtype=total.dtype).triu(1)
        scores = (c @ b.mT) * (total.unsqueeze(-1) + (never - total.unsqueeze(-2))).exp()
        made = (b * (total[..., -1:] - total).exp().unsqueeze(-1)).mT @ v
        state, before = torch.zeros_like(made[:, 0]), []
        for new, factor in zip(made.unbind(1), total[..., -1, None, None].exp().unbind(1), strict=True):
            before.append(state)
            state = new + state * factor
        earlier = (c * total.exp().unsqueeze(-1)) @ torch.stack(before, 1)
        y = torch.baddbmm(earlier.flatten(0, 2), scores.flatten(0, 2), v.flatten(0, 2))
    return y.view(batch, -1, heads, chunk, size).transpose(2, 3).flatten(1, 2).to(kind)


def in_bfloat16(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The function under autocast, with values in bfloat16 as projections under autocast give them."""

    def run(value: Tensor, *others: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return function(value.bfloat16(), *others)

    return run


def old_and_new(report: Report, width: int, rounds: int) -> None:
    """The scan against the form that it replaced, at three lengths and in both number formats."""
    for batch, length in ((8, 128), (1, 1024), (1, 4096)):
        inputs = core_inputs(batch, length, width)
        with torch.no_grad():
            exact = [tensor.double() for tensor in inputs]
            torch.testing.assert_close(scan(*exact)[0], chunk_loop(*exact), rtol=1e-10, atol=1e-10)
        forms: dict[str, Callable[..., Tensor]] = {
            "scan": lambda *x: scan(*x, final=False)[0],
            "loop over chunks": chunk_loop,
        }
        forms |= {f"{name}, autocast": in_bfloat16(form) for name, form in forms.items()}
        seconds = take_turns({name: training(form, inputs, []) for name, form in forms.items()}, rounds)
        for name, values in seconds.items():
            ours = seconds["scan, autocast" if "autocast" in name else "scan"]
            report.rows.append(row(name, f"core, {batch} x {length}", None, values, ratio(values, ours)))
        for suffix, bound in (("", 0.95), (", autocast", 1)):
            gain = ratio(seconds["loop over chunks" + suffix], seconds["scan" + suffix]).median
            report.at_least(f"{batch} x {length}{suffix}: times as fast as the loop over chunks", gain, bound)


def core_inputs(batch: int, length: int, width: int) -> tuple[Tensor, ...]:
    """Values (B, T, H, P), writes and reads (B, T, 1, N), log decays (B, T, H)."""
    heads = width // HEAD
    value = torch.randn(batch, length, heads, HEAD)
    write, read = torch.randn(2, batch, length, 1, STATE).unbind(0)
    return value, write.contiguous(), read.contiguous(), -torch.rand(batch, length, heads) * 0.2


def training(
    function: Callable[..., Tensor], inputs: tuple[Tensor, ...], parameters: list[Tensor]
) -> Callable[[], None]:
    """One forward and backward pass, gradients of inputs and parameters included."""
    leaves = [tensor.requires_grad_() for tensor in inputs]
    gradient = torch.randn_like(function(*leaves))

    def run() -> None:
        torch.autograd.grad(function(*leaves), [*leaves, *parameters], gradient, allow_unused=True)

    return run


def mixers(width: int) -> dict[str, nn.Module]:
    """Ours and theirs, of equal state."""
    from transformers import Mamba2Config, MambaConfig
    from transformers.models.mamba.modeling_mamba import MambaMixer
    from transformers.models.mamba2.modeling_mamba2 import Mamba2Mixer

    common = {"hidden_size": width, "state_size": STATE, "expand": 1, "conv_kernel": 4, "num_hidden_layers": 1}
    made: dict[str, nn.Module] = {
        OURS: build_operator(OPERATORS.get("Rec-1").spec, Dimensions(width=width, head_size=HEAD)),
        SLOW: MambaMixer(MambaConfig(**common), 0),
    }
    for chunk in (256, 64, 32, 16):
        config = Mamba2Config(**common, num_heads=width // HEAD, head_dim=HEAD, n_groups=1, chunk_size=chunk)
        made[f"Mamba2Mixer, chunk {chunk}"] = Mamba2Mixer(config, 0)
    return made


def main() -> None:
    """Measure and report."""
    options = arguments(__doc__, batch=1, length=1024, width=768, rounds=15, slow=2, whole=1)
    report = Report(
        "Rec-1, forward and backward",
        settings={"shape": f"B={options.batch} L={options.length} D={options.width} N={STATE}, float32"},
    )
    old_and_new(report, options.width, options.rounds)
    if not options.whole:
        report.finish(options.json)
        return
    inputs = core_inputs(options.batch, options.length, options.width)
    with torch.no_grad():
        torch.testing.assert_close(scan(*inputs)[0], time_loop(*inputs), rtol=1e-4, atol=1e-4)
    core = {
        "evodevo scan": training(lambda *x: scan(*x, final=False)[0], inputs, []),
        "time loop": training(time_loop, inputs, []),
    }
    seconds = take_turns(core, options.rounds)
    gain = ratio(seconds["time loop"], seconds["evodevo scan"])
    for name, values in seconds.items():
        report.rows.append(row(name, "core", None, values, ratio(values, seconds["evodevo scan"])))
    report.at_least("core of Rec-1: times as fast as the time loop", gain.median, 5)

    x = torch.randn(options.batch, options.length, options.width)
    operators = mixers(options.width)

    def run(module: nn.Module) -> Callable[[], None]:
        def forward(u: Tensor) -> Tensor:
            result = module(u)
            return result if isinstance(result, Tensor) else result.y

        return training(forward, (x.clone(),), list(module.parameters()))

    runs = {name: run(module) for name, module in operators.items()}
    for group, rounds, settle in ((runs.keys() - {SLOW}, options.rounds, True), ({OURS, SLOW}, options.slow, False)):
        chosen = {name: call for name, call in runs.items() if name in group}
        seconds = take_turns(chosen, rounds, settle=settle)
        for name, values in seconds.items():
            numbers = sum(parameter.numel() for parameter in operators[name].parameters())
            times = ratio(values, seconds[OURS])
            report.rows.append(row(name, "whole", numbers, values, times))
            if name != OURS:
                report.at_least(f"whole Rec-1: times as fast as {name}", times.median, 1)
    report.finish(options.json)


def row(name: str, part: str, parameters: int | None, seconds: list[float], times: Spread) -> dict[str, str]:
    """A line of the table."""
    return {
        "part": part,
        "who": name,
        "parameters": f"{parameters:,}" if parameters is not None else "",
        "ms (quartiles)": Spread.of(seconds).show(1e3),
        "time / ours": times.show(),
    }


if __name__ == "__main__":
    main()
