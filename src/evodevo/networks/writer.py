"""Networks of hidden layers between input and output layers, and how a causal one continues a text.

Where every layer streams and connections of a position depend on that position alone, each new token costs one step,
and the answer is that of the whole text at once. Otherwise, and beyond the positions that the network has, the text so
far is read again: its last tokens, as many as there are positions.

Legend: B samples, L tokens of this call, d width, V vocabulary.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, cast

import torch
from torch import Tensor

from evodevo.errors import UsageError
from evodevo.networks.base import Batch, Network
from evodevo.networks.inputs import InputLayer, Inputs
from evodevo.networks.outputs import OutputLayer, Outputs
from evodevo.operators.base import Operator

States = list[dict[str, Any]]


class LayeredNetwork(Network):
    """A network of hidden layers, run one or more times over, between ``inputs`` and ``outputs``.

    Attributes:
        inputs: Input layers.
        outputs: Output layers.
    """

    inputs: Inputs
    outputs: Outputs

    @abstractmethod
    def hidden_layers(self) -> list[Operator]:
        """The hidden layers, in order."""

    @abstractmethod
    def rounds(self) -> int:
        """How many times the hidden layers are run over."""

    def decides_by_position(self) -> bool:
        """Whether what the network decides at a position depends on that position alone."""
        return True

    @abstractmethod
    def before_output(self, batch: Batch, number: int) -> tuple[Tensor, Tensor | None]:
        """(B, S, d) and its mask, which the output layer of that number reads."""

    def begin_stream(self, layers: list[States]) -> Any:
        """What a text keeps of the hidden layers; ``layers`` are fresh states by round and layer."""
        return layers

    @abstractmethod
    def stream(self, x: Tensor, stream: Any, number: int) -> Tensor:
        """(B, L, d) behind the input layer -> (B, L, d) before an output layer; brings ``stream`` up to date."""

    def writer(self, output: str | None = None) -> Writer:
        """See ``Network``."""
        return Writer(self, output)


@dataclass
class WriterState:
    """What is kept of a text.

    Attributes:
        tokens: (B, L) so far.
        ends: States of the blocks of the input layer and of the output layer.
        hidden: Of the hidden layers, while the network streams.
    """

    tokens: Tensor
    ends: tuple[States, States] = field(default=([], []), repr=False)
    hidden: Any = field(default=None, repr=False)

    @property
    def length(self) -> int:
        """Tokens so far."""
        return self.tokens.shape[1]


class Writer:
    """A causal network as a language model for ``continuation.generate``.

    Args:
        network: Put into evaluation mode.
        output: Which answer is written; None = the only one that predicts tokens.

    Attributes:
        streams: Whether a token costs one step.

    Raises:
        UsageError: the network reads more than one text, or predicts no tokens.
    """

    def __init__(self, network: LayeredNetwork, output: str | None = None) -> None:
        names = [spec.name for spec in network.output_specs if spec.kind == "tokens"]
        if not names or not network.structure.causal:
            raise UsageError("this network predicts no tokens; train a causal one on a task of next tokens.")
        if output is None and len(names) > 1:
            raise UsageError(f"the network predicts tokens of {', '.join(names)}; say which one is written.")
        name = names[0] if output is None else output
        if name not in names:
            raise UsageError(f"the network does not predict tokens of {name!r}; it does of {', '.join(names)}.")
        if len(network.input_specs) > 1:
            inputs = ", ".join(spec.name for spec in network.input_specs)
            raise UsageError(f"a network with several inputs ({inputs}) does not write from a prompt alone.")
        self.network = network.eval()
        self.number = [spec.name for spec in network.output_specs].index(name)
        self.input = cast(InputLayer, network.inputs.layers[network.input_specs[0].name])
        self.output = cast(OutputLayer, network.outputs.layers[name])
        layers: Iterable[Any] = chain(network.hidden_layers(), self.input.blocks, self.output.blocks)
        self.streams = all(layer.streamable for layer in layers) and network.decides_by_position()

    def initial_state(self, batch: int, max_length: int = 0) -> WriterState:
        """The state before the first token; room for ``max_length`` tokens is set aside.

        Raises:
            UsageError: batch below 1.
        """
        if batch < 1:
            raise UsageError(f"batch is {batch}; it must be at least 1.")
        weight = next(self.input.parameters())
        state = WriterState(torch.zeros(batch, 0, dtype=torch.long, device=weight.device))
        if self.streams:
            room = min(max_length, self.input.length)

            def fresh(layers: Iterable[Any]) -> States:
                return [layer.initial_state(batch, room, weight.dtype, weight.device) for layer in layers]

            state.ends = fresh(self.input.blocks), fresh(self.output.blocks)
            layers = self.network.hidden_layers()
            state.hidden = self.network.begin_stream([fresh(layers) for _ in range(self.network.rounds())])
        return state

    def hidden(self, tokens: Tensor, *, mask: Tensor | None = None, state: WriterState | None = None) -> Tensor:
        """Input of the head: (B, L, d); of a text longer than the network's positions, the last ones.

        Args:
            tokens: (B, L); with a state they continue its text.
            mask: Must be true everywhere: positions of these networks count from the first token.
            state: From ``initial_state``; brought up to date.

        Raises:
            UsageError: padding.
        """
        if mask is not None and not bool(mask.all()):
            raise UsageError("prompts of different lengths cannot be continued together here; give them one by one.")
        if state is None:
            return self._whole(tokens)
        begin = state.length
        state.tokens = torch.cat([state.tokens, tokens], 1)
        if state.hidden is not None and state.length <= self.input.length:
            x = self.input.run_blocks(self.input.embed_tokens(tokens, begin), None, state.ends[0])
            return self.output.run_blocks(self.network.stream(x, state.hidden, self.number), None, state.ends[1])
        state.hidden = None
        return self._whole(state.tokens)[:, -tokens.shape[1] :]

    def logits(self, hidden: Tensor) -> Tensor:
        """(..., d) -> (..., V)."""
        return self.output.score(hidden)

    def _whole(self, tokens: Tensor) -> Tensor:
        batch = {self.input.spec.name: tokens[:, -self.input.length :]}
        return self.output.run_blocks(*self.network.before_output(batch, self.number))
