"""From the description of a network to the network, with seeds that depend on nothing else."""

from __future__ import annotations

import torch

from evodevo.networks.base import Network
from evodevo.networks.spec import NetworkSpec
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec


def build_network(
    spec: NetworkSpec, inputs: tuple[InputSpec, ...], outputs: tuple[OutputSpec, ...], seed: int
) -> Network:
    """The network of a description over the inputs and outputs of a task; equal seeds give equal parameters.

    The global random stream is left as it was.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return spec.build(inputs, outputs)
