"""Mean of a network's weights over the last steps of a short training, by which it is judged.

At a learning rate that is still high the loss of a network jumps from step to step by more than most edits are worth.
The mean of the weights lies in the middle of these jumps (Izmailov et al. 2018, Averaging Weights Leads to Wider Optima
and Better Generalization): two trainings in orders of their own differ by less.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch.optim.swa_utils import AveragedModel

from evodevo.networks.base import Network
from evodevo.tasks.inputs import Batch


class RunningMean:
    """Mean over steps of the parameters of a network.

    Args:
        network: Network that is trained in place; neither it nor its training is changed.
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        self._mean = AveragedModel(network)

    def along(self, batches: Callable[[int], Batch], first: int) -> Callable[[int], Batch]:
        """The batches, as given; before each step after the one numbered ``first`` the weights are added."""

        def batch_at(step: int) -> Batch:
            if step > first:
                self._mean.update_parameters(self._network)
            return batches(step)

        return batch_at

    @torch.no_grad()
    def network(self) -> Network:
        """A copy of the network with the mean weights, those of now included."""
        self._mean.update_parameters(self._network)
        averaged = copy.deepcopy(self._network)
        for parameter, mean in zip(averaged.parameters(), self._mean.module.parameters(), strict=True):
            parameter.copy_(mean)
        return averaged
