"""What a candidate of a search costs beside its products: the short convolution's call, and the validation's batch.

Run: python benchmarks/candidate.py [--json PATH]

The convolution of a recurrent LIV (4 taps) with plain ``torch.autograd.Function`` against the same function with a rule
for transforms, whose arguments torch binds to a signature at every call; outputs and gradients are equal bit for bit.
Validation of one candidate of ``backbone.demo`` at the training's batch of 4 against 32.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from evodevo.backbone.network import BackboneNetwork
from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.operators import taps
from evodevo.operators.spec import Dimensions
from evodevo.tasks.text.language import LanguageSettings, LanguageTask
from evodevo.training import held_out
from evodevo.training.precision import decide
from measuring import Report, Spread, arguments, ratio, take_turns

GENOMES = ("transformer++", "striped-mamba")


def convolution(kind: type[torch.autograd.Function], x: Tensor, weights: Tensor) -> Callable[[], None]:
    """One forward and backward pass."""

    def step() -> None:
        y: Tensor = kind.apply(x, weights)
        y.backward(torch.ones_like(y))

    return step


def calls(report: Report, rounds: int) -> None:
    """The two functions side by side, at the sizes of the demo and of a larger model."""
    for batch, length, channels in ((4, 128, 64), (4, 128, 192), (8, 256, 512)):
        x = torch.randn(batch, length, channels, requires_grad=True)
        weights = torch.randn(4, channels, requires_grad=True)
        kinds = {"plain": taps._ShiftAndAdd, "with a rule": taps._TransformableShiftAndAdd}
        seen = []
        for kind in kinds.values():
            y: Tensor = kind.apply(x, weights)
            seen.append((y.detach(), *torch.autograd.grad(y.square().sum(), (x, weights))))
        assert all(torch.equal(a, b) for a, b in zip(*seen, strict=True))
        seconds = take_turns({name: convolution(kind, x, weights) for name, kind in kinds.items()}, rounds)
        found = ratio(seconds["with a rule"], seconds["plain"])
        report.rows.append(
            {
                "what": f"convolution, B {batch}, T {length}, C {channels}",
                "plain or 32, ms": Spread.of(seconds["plain"]).show(1e3),
                "rule or 4, ms": Spread.of(seconds["with a rule"]).show(1e3),
                "ratio": found.show(),
            }
        )
        if channels == 64:
            report.at_least("convolution of the demo, rule / plain", found.median, 1.0)


def validation(report: Report, rounds: int) -> None:
    """A candidate's validation at both batches; equal within the tolerance of sums in another order."""
    task = LanguageTask.open(LanguageSettings(context_length=128, split="auto"))
    space = BackboneSpace(BackboneSettings(depth=8, dimensions=Dimensions(width=64)))
    places = task.spread("validation", 65_536)
    for name in GENOMES:
        structure = BackboneNetwork.of(space, space.named(name), tied=False)
        model = structure.build(task.inputs, task.outputs)

        def measured(size: int, model: torch.nn.Module = model) -> held_out.HeldOut:
            batches = (task.fetch("validation", places[start : start + size]) for start in range(0, len(places), size))
            tokens = len(places) * task.context_length
            return held_out.evaluate(model, batches, tokens=tokens, precision=decide("cpu"))

        small, large = measured(4).loss, measured(32).loss
        assert small is not None
        assert large is not None
        assert abs(small - large) < 1e-5, (small, large)
        seconds = take_turns({"4": lambda f=measured: f(4), "32": lambda f=measured: f(32)}, rounds)
        found = ratio(seconds["4"], seconds["32"])
        report.rows.append(
            {
                "what": f"validation of {name}, {len(places):,} windows",
                "plain or 32, ms": Spread.of(seconds["32"]).show(1e3),
                "rule or 4, ms": Spread.of(seconds["4"]).show(1e3),
                "ratio": found.show(),
            }
        )
        report.at_least(f"validation of {name}, batch 4 / batch 32", found.median, 1.0)


def main() -> None:
    given = arguments(str(__doc__), rounds=100)
    report = Report("a candidate beside its products", settings={"rounds": f"{given.rounds} and 3"})
    calls(report, given.rounds)
    validation(report, 3)
    report.finish(given.json)


if __name__ == "__main__":
    main()
