"""Choice between loop and groups: by a rule of thumb, or by timing both (docs/spec/h_model.md#grouped-execution).

Both compute the same, but not to the last bit. The rule is a function of shapes alone, so that the same run gives the
same bits everywhere; it was fitted to benchmarks/h_model_grouping.py. A probe follows the machine instead, and two
machines, or one on two days, may then differ in rounding: use it where only speed counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from evodevo.errors import unknown_name
from evodevo.h_model.runners.grouped import GroupedRunner, GroupingRule
from evodevo.h_model.runners.loop import LayerRunner, LoopRunner, PassCache

RunnerName = Literal["auto", "probe", "loop", "grouped"]

MOST_NUMBERS = 16_384
"""Largest B S d for which groups are faster on a CPU; above, the products of each layer are large enough."""
PROBE_TURNS = 5
MARGIN = 0.97
"""Groups must take less than this share of the loop's time: noise alone must not select them."""
EXACT_ROWS = 8

Key = tuple[object, ...]
_PROBED: dict[Key, bool] = {}
"""Results of the probes in this process; stored nowhere."""


def build_runner(name: RunnerName) -> LayerRunner:
    """Build a runner by name.

    Args:
        name: ``auto`` chooses by the shape, the same way everywhere; ``probe`` times both, once per shape, mode and
            number of threads in each process, and takes the faster one; ``loop``; ``grouped``.

    Raises:
        UsageError: Another name.
    """
    if name == "loop":
        return LoopRunner()
    if name not in _CHOICES:
        raise unknown_name("runner", name, ["loop", *_CHOICES])
    return GroupedRunner(_CHOICES[name])


def always(runner: GroupedRunner, layers: nn.ModuleList, x: Tensor) -> bool:
    """Groups wherever there are equal layers; see ``GroupingRule``."""
    return True


def by_shape(runner: GroupedRunner, layers: nn.ModuleList, x: Tensor) -> bool:
    """The rule of thumb; x is (B, H, S, d). On other devices the overhead of calls dominates up to larger sizes."""
    numbers = x.shape[0] * x.shape[2] * x.shape[3]
    return x.device.type != "cpu" or numbers <= MOST_NUMBERS


def by_probe(runner: GroupedRunner, layers: nn.ModuleList, x: Tensor) -> bool:
    """Time both on random numbers, forward or forward and backward, depending on the grad mode."""
    learning = torch.is_grad_enabled()
    # Batches of similar size share a result; small ones, where the choice matters most, do not.
    rows = x.shape[0] if x.shape[0] <= EXACT_ROWS else 1 << (x.shape[0] - 1).bit_length()
    key = (runner.kinds, rows, *x.shape[1:], x.dtype, x.device, learning, torch.get_num_threads())
    choice = _PROBED.get(key)
    if choice is None:
        choice = _PROBED[key] = _probe(runner, layers, x, learning)
    return choice


def _probe(runner: GroupedRunner, layers: nn.ModuleList, x: Tensor, learning: bool) -> bool:
    sample = torch.zeros_like(x).normal_(generator=torch.Generator(x.device).manual_seed(0))
    sample.requires_grad_(learning)
    candidates: list[tuple[LayerRunner, Callable[[], PassCache | None]]] = [
        (LoopRunner(), lambda: None),
        (GroupedRunner(always), lambda: runner.team(layers)),
    ]
    seconds: list[list[float]] = [[], []]
    devices = [x.device] if x.device.type == "cuda" else []
    with torch.random.fork_rng(devices):  # dropout draws
        for turn in range(PROBE_TURNS + 1):
            for number, (candidate, cache) in enumerate(candidates):
                _wait(x)
                start = time.perf_counter()
                output = candidate.run(layers, sample, None, None, None, cache())
                if learning:
                    weights = [parameter for parameter in layers.parameters() if parameter.requires_grad]
                    torch.autograd.grad(output.sum(), [sample, *weights], allow_unused=True)
                _wait(x)
                if turn:  # the first one warms up
                    seconds[number].append(time.perf_counter() - start)
    # The minimum of each: other load on the machine only ever adds time.
    return min(seconds[1]) < MARGIN * min(seconds[0])


def _wait(x: Tensor) -> None:
    if x.device.type == "cuda":
        torch.cuda.synchronize(x.device)


_CHOICES: dict[str, GroupingRule] = {"auto": by_shape, "probe": by_probe, "grouped": always}
