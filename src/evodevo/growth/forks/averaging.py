"""Mean of a network's weights over the last steps of a short training, by which it is judged.

At a learning rate that is still high the loss of a network jumps from step to step by more than most edits are worth.
The mean of the weights lies in the middle of these jumps (Izmailov et al. 2018, Averaging Weights Leads to Wider Optima
and Better Generalization): two trainings in orders of their own differ by less.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch

from evodevo.networks.base import Network
from evodevo.tasks.inputs import Batch


class RunningMean:
    """Mean over steps of the parameters of a network.

    Args:
        network: Network that is trained in place; neither it nor its training is changed.
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        self._count = 0
        self._means: list[torch.Tensor] = []

    @torch.no_grad()
    def add(self) -> None:
        """Take the weights as they are now into the mean."""
        values = [parameter.detach().double() for parameter in self._network.parameters()]
        self._count += 1
        if self._count == 1:
            self._means = [value.clone() for value in values]
        for mean, value in zip(self._means, values, strict=True):
            mean.lerp_(value, 1 / self._count)

    def along(self, batches: Callable[[int], Batch], first: int) -> Callable[[int], Batch]:
        """The batches, as given; before each step after the one numbered ``first`` the weights are added."""

        def batch_at(step: int) -> Batch:
            if step > first:
                self.add()
            return batches(step)

        return batch_at

    @torch.no_grad()
    def network(self) -> Network:
        """A copy of the network with the mean weights."""
        averaged = copy.deepcopy(self._network)
        for parameter, mean in zip(averaged.parameters(), self._means, strict=True):
            parameter.copy_(mean)
        return averaged
