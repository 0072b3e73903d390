"""The cost of the input and output layers of a network, which H-Models and stacks have in common.

Legend: S positions of the canvas, L positions of one input, d width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evodevo.errors import UsageError
from evodevo.networks.canvas import (
    Canvas,
    InputSizes,
    OutputSizes,
    canvas_length,
    fitting_heads,
    input_length,
    patch_size,
)
from evodevo.operators.cost import Work
from evodevo.operators.layers.cost import layer_parameters, layer_state_bytes, layer_work
from evodevo.operators.layers.transformer import TransformerLayer


@dataclass(frozen=True)
class Ends:
    """Inputs and outputs of a network.

    Attributes:
        inputs, outputs: inputs and outputs of the task; both may be empty to leave them out of every number.
        width, input_blocks, output_blocks, canvas, slots, causal, missing: settings of the structure.
    """

    inputs: Sequence[InputSizes]
    outputs: Sequence[OutputSizes]
    width: int
    input_blocks: int
    output_blocks: int
    canvas: Canvas
    slots: int
    causal: bool
    missing: bool

    def length(self, given: int | None) -> int:
        """Positions S: those of the inputs, or the given ones where there are no inputs.

        Raises:
            UsageError: neither, both, or out of range.
        """
        if self.inputs and given is not None:
            raise UsageError("the inputs determine the number of positions; leave length out, or the inputs.")
        if not self.inputs and given is None:
            raise UsageError("give the inputs of the task, or the number of positions (length).")
        length = canvas_length(self.inputs, self.canvas, self.slots) if given is None else given
        if not 1 <= length <= 1 << 24:
            raise UsageError(f"length is {length}; it must be 1 to {1 << 24}.")
        return length

    # Parameters

    def embedding_parameters(self) -> int:
        """Embeddings of tokens, patches and vectors, of positions, segments and missing inputs."""
        width = self.width
        total = sum(self._embedding(spec) + input_length(spec) * width for spec in self.inputs)
        total += width * len(self.inputs) if self.missing else 0
        several = self.canvas == "segments" and len(self.inputs) > 1
        return total + (width * len(self.inputs) if several else 0)

    def input_parameters(self) -> int:
        """Blocks of the input layers, and what reads them into latent slots."""
        readers = (self.slots * self.width + 4 * self.width**2) if self.canvas == "latents" else 0
        return len(self.inputs) * (self.input_blocks * self._block_parameters() + readers)

    def output_parameters(self) -> int:
        """Blocks of the output layers, and the norm before each head."""
        return len(self.outputs) * (self.output_blocks * self._block_parameters() + self.width)

    def head_parameters(self) -> int:
        """Heads with their biases."""
        return sum((self.width + 1) * spec.size for spec in self.outputs)

    def _embedding(self, spec: InputSizes) -> int:
        if spec.modality == "tokens":
            return spec.vocabulary * self.width
        return (_numbers(spec) + 1) * self.width

    def _block_parameters(self) -> int:
        return layer_parameters(self._block(), self.width, causal=self.causal)

    def _block(self) -> TransformerLayer:
        return TransformerLayer(heads=fitting_heads(self.width))

    # Work

    def input_work(self, *, visible: bool) -> Work:
        """Work of all input layers on one sample."""
        total = Work()
        for spec in self.inputs:
            length = input_length(spec)
            if spec.modality != "tokens":
                total += Work(2 * length * _numbers(spec) * self.width)
            total += self._blocks_work(self.input_blocks, length, visible=visible)
            if self.canvas == "latents":
                total += self._reader_work(length)
        return total

    def output_work(self, length: int, *, visible: bool) -> Work:
        """Work of all output layers on one sample of ``length`` positions."""
        total = Work()
        for spec in self.outputs:
            total += self._blocks_work(self.output_blocks, length, visible=visible)
            total += Work(2 * self.width * spec.size * (length if spec.kind == "tokens" else 1))
        return total

    def state_bytes(self, length: int) -> int:
        """Bytes that the blocks of a causal network keep per sample while generating."""
        blocks = len(self.inputs) * self.input_blocks + len(self.outputs) * self.output_blocks
        return blocks * layer_state_bytes(self._block(), self.width, length)

    def _blocks_work(self, count: int, length: int, *, visible: bool) -> Work:
        return layer_work(self._block(), self.width, length, causal=self.causal, visible=visible).times(count)

    def _reader_work(self, length: int) -> Work:
        width, slots = self.width, self.slots
        projections = 4 * slots * width**2 + 4 * length * width**2
        return Work(projections + 4 * slots * length * width)


def _numbers(spec: InputSizes) -> int:
    """Numbers that one position of an image or a vector is made of."""
    return patch_size(spec) ** 2 * spec.channels if spec.modality == "image" else spec.size
