"""A path as one module from samples as the task hands them out to logits: what a reader does outside is done inside.

Legend: B samples, C classes.
"""

from __future__ import annotations

import copy
from typing import Any

from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.multitask.paths.dense import DenseInput


class DensePath(nn.Module):
    """Samples (B, …) -> logits (B, C); every sample passes every path. Images are bytes (B, height, width, 1 or 3),
    texts are ids of tokens (B, L), -1 behind the end of a text.

    Channels, resizing, scaling and the length that is read belong to it, for each path inside at its own size; the
    tokenizer of a text does not. Parameters need no gradients.

    Args:
        network: a path that reads an image, a text or a row of numbers, with its head, or a multipath model of such; it
            is copied.

    Raises:
        UsageError: any other network, one without a head, or paths with different tokenizers.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        inputs = getattr(network, "dense_inputs", None)
        if inputs is None:
            raise UsageError(
                f"a {type(network).__name__} is not exported; exported are paths that read an image, a text or a row"
                " of numbers, and multipaths."
            )
        self.reads: dict[str, DenseInput] = inputs()
        whole = self.reads.get("")
        alone = None if whole is None else whole.structure
        if alone is not None and not alone.classes:
            raise UsageError("a path without a head answers no task; export one that does.")
        if len({entry.tokenizer for entry in self.reads.values()}) > 1:
            raise UsageError(
                "the paths of this multipath model read a text by different tokenizers; exported are models all of"
                " whose paths read the same tokens."
            )
        self.alone = alone
        model: Any = copy.deepcopy(network).requires_grad_(False).eval()
        for part in model.modules():
            part._buffers.pop("tokenizer", None)  # no tensor is computed of it
        if alone is None:
            # Which samples a support is run for depends on the router's weights for each: no fixed graph holds that.
            model.skip_below(0.0)
        self.network = model

    def forward(self, samples: Tensor) -> Tensor:
        """See the class."""
        if self.alone is not None:
            read: Any = self.reads[""].read(samples)
        else:
            read = {name: entry.read(samples) for name, entry in self.reads.items()}
        logits: Tensor = self.network(read)
        return logits
