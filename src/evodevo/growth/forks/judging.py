"""Judging the sides of a fork: the loss of each sample, and which samples choose and which do not.

Legend: S samples.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evodevo.experiments.measure import places
from evodevo.growth.forks.plan import ForkSamples
from evodevo.networks.base import Network
from evodevo.networks.outputs import answer_losses, has_target
from evodevo.randomness import generator
from evodevo.tasks.base import SampleTask, Split
from evodevo.training.precision import Precision

SPLIT: Split = "architecture"
"""The split that serves all decisions of a growth; ``validation`` chooses weights and takes no part."""


def parts_of_split(task: SampleTask, samples: ForkSamples) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Indices of the samples that choose, (S,), and of those of the published gain; no sample is in both.

    Probes look at the first samples of one order (``measure.places``), and so do those that choose; the published gain
    is taken from its end, which the strategist sees last.
    """
    choosing = places(task, SPLIT, samples.choosing)
    rest = np.setdiff1d(np.arange(task.count(SPLIT)), choosing)
    seen = places(task, SPLIT, max(0, task.count(SPLIT) - samples.published))
    unseen = np.setdiff1d(rest, seen)
    order = generator(0, SPLIT, "published samples").permutation(rest[~np.isin(rest, unseen)])
    return choosing, np.sort(np.concatenate([unseen, order])[: samples.published])


@torch.no_grad()
def sample_losses(
    network: Network, task: SampleTask, chosen: NDArray[np.int64], *, batch_size: int, precision: Precision
) -> NDArray[np.float64]:
    """Loss of each sample in nats, (S,): mean over outputs of the mean over their entries; NaN without a target.

    Args:
        network: Network, which comes back in the mode in which it was; no random number is drawn.
        task: Task with the split.
        chosen: (S,) indices of samples.
        batch_size: Number of samples at a time.
        precision: Device and number format.
    """
    was_training = network.training
    network.eval()
    losses: list[NDArray[np.float64]] = []
    for start in range(0, len(chosen), batch_size):
        placed = precision.place(dict(task.fetch(SPLIT, chosen[start : start + batch_size])))
        assert isinstance(placed, dict), "the batch is a mapping"
        with precision.autocast():
            answers = network(placed)
        each = []
        for spec in network.output_specs:
            target = placed[f"{spec.name}/target"]
            known = has_target(spec, target)
            each.append(_means(answer_losses(spec, answers[spec.name], target), known))
        losses.append(torch.stack(each).nanmean(0).double().cpu().numpy())
    network.train(was_training)
    return np.concatenate(losses)


def _means(losses: Tensor, known: Tensor) -> Tensor:
    """(B,) mean over the known entries of each sample; NaN where there is none."""
    if losses.ndim > 1:
        losses, known = losses.flatten(1).sum(1), known.flatten(1).sum(1)
    return losses.double() / known.double()  # 0 / 0 is NaN
