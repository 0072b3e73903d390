"""Writing text with a causal network of samples: an H-Model, or a stack of layers.

Where every layer streams and every connection is dense, each new token costs one step, and the answer is that of the
whole text at once. Otherwise, and beyond the positions of the network, the text so far is read again: its last
tokens, as many as there are positions.

Legend: B samples, L tokens of this call, d width, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import Any, cast

import torch
from torch import Tensor

from evodevo.errors import UsageError
from evodevo.h_model.core import Streams
from evodevo.h_model.model import HModel
from evodevo.networks.base import Network
from evodevo.networks.inputs import InputLayer
from evodevo.networks.outputs import OutputLayer
from evodevo.networks.stacks.stack_model import LayerStack
from evodevo.operators.base import Operator

States = list[dict[str, Any]]


@dataclass
class _Stream:
    """States of every layer of a network that streams."""

    inputs: States
    hidden: Streams
    outputs: States


@dataclass
class WriterState:
    """The state of a text.

    Attributes:
        tokens: the text so far, (B, L).
        stream: state of the layers, while they stream.
    """

    tokens: Tensor
    stream: _Stream | None = field(default=None, repr=False)

    @property
    def length(self) -> int:
        """Tokens so far."""
        return self.tokens.shape[1]


class Writer:
    """A causal network as a language model for ``backbone.generation.generate``.

    Args:
        network: put into evaluation mode.
        output: name of the answer that is written; the only one that predicts tokens if left out.

    Attributes:
        streams: whether a token costs one step.

    Raises:
        UsageError: the network reads more than one text, or predicts no tokens.
    """

    def __init__(self, network: Network, output: str | None = None) -> None:
        if not isinstance(network, HModel | LayerStack):
            raise UsageError(f"a {type(network).__name__} does not write text; H-Models and stacks of layers do.")
        names = [spec.name for spec in network.output_specs if spec.kind == "tokens"]
        if not names or not network.structure.causal:
            raise UsageError("this network predicts no tokens; train a causal one on a task of next tokens.")
        if output is None and len(names) > 1:
            raise UsageError(f"the network predicts tokens of {', '.join(names)}; name the one that is written.")
        self.name = names[0] if output is None else output
        if self.name not in names:
            raise UsageError(f"the network does not predict tokens of {self.name!r}; it does of {', '.join(names)}.")
        if len(network.input_specs) > 1:
            inputs = ", ".join(spec.name for spec in network.input_specs)
            raise UsageError(f"a network with several inputs ({inputs}) does not write from a prompt alone.")
        self.network = network.eval()
        self.number = [spec.name for spec in network.output_specs].index(self.name)
        self.input = cast(InputLayer, network.inputs.layers[network.input_specs[0].name])
        self.output = cast(OutputLayer, network.outputs.layers[self.name])
        self.streams = _streams(network, self.input, self.output)

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

            def fresh(layers: Any) -> States:
                return [layer.initial_state(batch, room, weight.dtype, weight.device) for layer in layers]

            rounds = self._rounds()
            hidden = Streams([fresh(self._layers()) for _ in range(rounds)])
            state.stream = _Stream(fresh(self.input.blocks), hidden, fresh(self.output.blocks))
        return state

    def hidden(self, tokens: Tensor, *, mask: Tensor | None = None, state: WriterState | None = None) -> Tensor:
        """Hidden states before the head: (B, L, d); for a text longer than the network's input, those of its last
        positions.

        Args:
            tokens: (B, L); with a state they continue its text.
            mask: must be true everywhere: positions of these networks count from the first token.
            state: from ``initial_state``; brought up to date.

        Raises:
            UsageError: padding.
        """
        if mask is not None and not bool(mask.all()):
            raise UsageError("prompts of different lengths cannot be continued together here; give them one by one.")
        if state is None:
            return self._whole(tokens)
        state.tokens = torch.cat([state.tokens, tokens], 1)
        if state.stream is not None and state.length <= self.input.length:
            return self._next(tokens, state.length - tokens.shape[1], state.stream)
        state.stream = None
        return self._whole(state.tokens)[:, -tokens.shape[1] :]

    def logits(self, hidden: Tensor) -> Tensor:
        """(..., d) -> (..., V)."""
        return self.output.score(hidden)

    # Reading a text as a whole

    def _whole(self, tokens: Tensor) -> Tensor:
        batch = {self.input.spec.name: tokens[:, -self.input.length :]}
        network = self.network
        if isinstance(network, HModel):
            messages = network.inputs(batch)
            final = network._final(messages.values, messages.masks, messages.places)
            mask = None if final.masks is None else final.masks[:, self.number]
            return self.output.think(final.y[:, self.number], mask)
        y, mask, _ = network._hidden(batch)
        return self.output.think(y, mask)

    # Token by token

    def _next(self, tokens: Tensor, begin: int, stream: _Stream) -> Tensor:
        network = self.network
        x = self.input.think(self.input.embed_tokens(tokens, begin), None, stream.inputs)
        if isinstance(network, HModel):
            core = network.core
            flow = core.begin(x.unsqueeze(1), None, network.iterations, streams=stream.hidden)
            for _ in range(network.iterations):
                flow = core.iterate(flow, streams=stream.hidden)
            x = core.answer(flow)[:, self.number]
        else:
            for t, states in enumerate(stream.hidden.layers):
                x = network.embedding.on_input(x, t)
                for place, layer in enumerate(network.layers):
                    output = layer(x, state=states[place])
                    x, states[place] = output.y, output.state
        return self.output.think(x, None, stream.outputs)

    def _layers(self) -> list[Operator]:
        network = self.network
        return cast("list[Operator]", list(network.core.layers if isinstance(network, HModel) else network.layers))

    def _rounds(self) -> int:
        network = self.network
        return network.iterations if isinstance(network, HModel) else network.structure.repeats


def _streams(network: HModel | LayerStack, given: InputLayer, output: OutputLayer) -> bool:
    """Whether the network can go on from states: layers that stream, and decisions that only depend on a position."""
    layers: Any = network.core.layers if isinstance(network, HModel) else network.layers
    if not all(layer.streamable for layer in chain(layers, given.blocks, output.blocks)):
        return False
    if isinstance(network, LayerStack):
        return True
    # Where layers are silent at some positions they must not remember them; halting reads a whole sample again.
    return not network.core.positions_may_differ and network.structure.halting.rule == "none"
