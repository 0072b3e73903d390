"""From the description of a network to the network, with seeds that depend on nothing else."""

from __future__ import annotations

from typing import Protocol, TypeVar

import torch

from evodevo.networks.base import Network
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec

N = TypeVar("N", bound=Network, covariant=True)


class Buildable(Protocol[N]):
    """A row of the table of networks, by the class of its model."""

    def build(self, inputs: tuple[InputSpec, ...], outputs: tuple[OutputSpec, ...]) -> N:
        """See ``NetworkSpec``."""
        ...


def build_network(spec: Buildable[N], inputs: tuple[InputSpec, ...], outputs: tuple[OutputSpec, ...], seed: int) -> N:
    """The network of a description over the inputs and outputs of a task; equal seeds give equal parameters.

    Parameters are float32, whatever torch's default is. The global random stream is left as it was.
    """
    default = torch.get_default_dtype()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        torch.set_default_dtype(torch.float32)
        try:
            return spec.build(inputs, outputs)
        finally:
            torch.set_default_dtype(default)
