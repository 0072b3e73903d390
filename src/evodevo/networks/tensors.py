"""A network as a function of tensors, in the form that graphs and other programs take: no names, no masks left out.

Legend: B samples, T tokens.
"""

from __future__ import annotations

from torch import Tensor, nn

from evodevo.networks.base import Network
from evodevo.tasks.inputs import InputSpec


class TensorNetwork(nn.Module):
    """Tensors in the order of the inputs, each text followed by its mask where it has one -> a tuple of logits.

    Args:
        network: Module to wrap; it is put into evaluation mode, without gradients.
    """

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network.eval().requires_grad_(False)
        self.names = [name for spec in network.input_specs for name in self._names(spec)]

    def masked(self, spec: InputSpec) -> bool:
        """Whether it reads a mask of this input."""
        return spec.modality == "tokens" and reads_masks(self.network)

    def longest(self, spec: InputSpec) -> int:
        """Largest number of tokens of this input; 0 = none."""
        return self.network.longest_text(spec)

    def _names(self, spec: InputSpec) -> list[str]:
        return [spec.name, f"{spec.name}/mask"] if self.masked(spec) else [spec.name]

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """See the class."""
        answers = self.network(dict(zip(self.names, tensors, strict=True)))
        return tuple(answers[spec.name] for spec in self.network.output_specs)


def reads_masks(network: Network) -> bool:
    """Whether texts go with masks. What a text predicts is blind to what follows; a class is not."""
    return all(spec.kind != "tokens" for spec in network.output_specs)
