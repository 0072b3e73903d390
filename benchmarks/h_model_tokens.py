"""A route for each token: time of a training step on texts, and of tokens that are written one by one.

Run: python benchmarks/h_model_tokens.py [--json PATH] [--width 64 --layers 8 --iterations 4 --batch 32 --length 64
    --rounds 15]

Causal networks of transformer layers over random bytes. The H-Model with a carried stream runs at each position the one
layer that it addresses; beside it the same model whose layers run on whole texts as soon as one position addresses
them, the paper's stream, in which all layers run everywhere, a mixture of experts in a loop, and a stack of as many
blocks as a token passes. A training step is loss, backward pass and AdamW; what is written is the second half of one
text, greedily. CPU time of one thread, untrained: routes are nearly uniform.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from evodevo.h_model.model import HModel
from evodevo.h_model.network import HModelNetwork
from evodevo.h_model.runners.loop import LoopRunner
from evodevo.h_model.spec import CarriedStructure, HModelStructure, RegularisationStructure
from evodevo.networks.base import Network
from evodevo.networks.build import build_network
from evodevo.networks.mixtures.mixture import MixtureNetwork
from evodevo.networks.mixtures.spec import MixtureStructure
from evodevo.networks.sampling import SamplingSettings
from evodevo.networks.spec import NetworkSpec
from evodevo.networks.stacks.spec import StackStructure
from evodevo.networks.stacks.stack import StackNetwork
from evodevo.networks.writer import LayeredNetwork
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec
from measuring import Report, arguments, ratio, take_turns

OURS = "carried, top-1"
WHOLE = "carried, layers on whole texts"
DENSE = "paper's stream"
GREEDY = SamplingSettings(temperature=0.0)


class WholeTexts(LoopRunner):
    """Layers run on whole texts as soon as one position addresses them."""

    def run_positions(self, layers: nn.ModuleList, x: Tensor, known: Tensor, chosen: Tensor, active: Tensor) -> Tensor:
        """See ``LayerRunner``."""
        wanted = torch.zeros(*chosen.shape[:2], len(layers), device=x.device)
        wanted = wanted.scatter_add(-1, chosen, active.to(wanted.dtype)) > 0
        made = self.run(layers, x, known, wanted.any(1), None)
        index = chosen.transpose(1, 2).unsqueeze(-1).expand(-1, -1, -1, x.shape[-1])
        return made.gather(1, index) * active.transpose(1, 2).unsqueeze(-1)


def networks(width: int, layers: int, iterations: int) -> dict[str, NetworkSpec]:
    """Name -> network."""
    ends = {"width": width, "input_blocks": 1, "output_blocks": 0, "causal": True}
    block = TransformerLayer()
    dense = HModelStructure(stream="paper", **ends, hidden=(block,) * layers, iterations=iterations)
    carried = dense.model_copy(
        update={
            "stream": "carried",
            "carried": CarriedStructure(iteration_router=True),
            "regularisation": RegularisationStructure(balance=0.02),
        }
    )
    mixture = MixtureStructure(**ends, hidden=2 * width, experts=layers, depth=iterations, tied=True, heads=4)
    return {
        OURS: HModelNetwork(structure=carried),
        WHOLE: HModelNetwork(structure=carried),
        DENSE: HModelNetwork(structure=dense),
        "mixture in a loop": MixtureNetwork(structure=mixture),
        "stack": StackNetwork(structure=StackStructure(**ends, layers=(block,) * iterations)),
    }


def step(network: Network, batch: dict[str, Tensor]) -> Callable[[], None]:
    """One step of training."""
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4)
    network.train()

    def run() -> None:
        optimizer.zero_grad()
        network.loss(batch).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return run


def write(network: Network, batch: dict[str, Tensor]) -> Callable[[], None]:
    """The second half of one text, token by token."""
    assert isinstance(network, LayeredNetwork)
    text = batch["text"][:1]
    half = text.shape[1] // 2
    network.eval()

    def run() -> None:
        network.continue_text(text[:, :half], text.shape[1] - half, sampling=GREEDY)

    return run


def main() -> None:
    """Measure and report."""
    options = arguments(__doc__, width=64, layers=8, iterations=4, batch=32, length=64, rounds=15)
    inputs = (InputSpec("text", "tokens", length=options.length, vocabulary=256),)
    outputs = (OutputSpec("next", "tokens", 256, of="text"),)
    drawn = torch.randint(256, (options.batch, options.length + 1), generator=torch.Generator().manual_seed(0))
    batch = {"text": drawn[:, :-1], "next/target": drawn[:, 1:]}
    specs = networks(options.width, options.layers, options.iterations)
    built = {name: build_network(spec, inputs, outputs, seed=0) for name, spec in specs.items()}
    whole = built[WHOLE]
    assert isinstance(whole, HModel)
    whole.core.runner = WholeTexts()
    report = Report(
        "A route for each token, in time",
        settings={
            "model": f"H={options.layers} T={options.iterations} d={options.width}, transformer layers",
            "texts": f"{options.batch} of {options.length} bytes",
        },
    )
    for what, turn in (("training step", step), ("a token written", write)):
        times = options.length - options.length // 2 if turn is write else 1
        seconds = take_turns({name: turn(network, batch) for name, network in built.items()}, options.rounds)
        for name, found in seconds.items():
            report.rows.append(
                {
                    "what": what,
                    "network": name,
                    "ms": f"{1e3 * sorted(found)[len(found) // 2] / times:.2f}",
                    f"times the time of: {OURS}": ratio(found, seconds[OURS]).show(),
                }
            )
        report.at_least(
            f"{what}: {OURS} is as many times as fast as the {DENSE}", ratio(seconds[DENSE], seconds[OURS]).median, 2.0
        )
    report.finish(options.json)


if __name__ == "__main__":
    main()
