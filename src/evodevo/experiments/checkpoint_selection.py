"""The best weights of a training, by a metric on validation samples, and when to stop looking for better ones."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from evodevo.errors import UnsafeFileError
from evodevo.experiments.measure import NetworkMeasurement
from evodevo.experiments.settings import WeightSelection
from evodevo.experiments.trainer_state import SelectionState
from evodevo.training.parts import BlobStore, load_part, save_part

LOWER_IS_BETTER = frozenset({"loss"})


def value_of(measured: NetworkMeasurement, metric: str) -> float:
    """The number that is compared; NaN where it is not defined."""
    if metric in ("accuracy", "loss"):
        return float(getattr(measured, metric))
    return measured.metric(metric)


def settle(measured: NetworkMeasurement, wanted: str) -> tuple[str, str]:
    """The metric that can be compared on these samples, and why it is not the one that is wanted."""
    for metric in dict.fromkeys((wanted, "accuracy", "loss")):
        if math.isfinite(value_of(measured, metric)):
            why = measured.why(wanted) if wanted not in ("accuracy", "loss") else "it is not finite"
            return metric, "" if metric == wanted else f"{wanted} is not defined ({why})"
    return wanted, ""


class BestWeights:
    """The best state so far, with its weights.

    Args:
        selection: settings of the selection.
        state: state of this stage before an interruption.
        pool: pool of its weights; None has none.

    Raises:
        NotFoundError, StoreDamagedError, UnsafeFileError: the weights differ from those that were kept.
    """

    def __init__(
        self, selection: WeightSelection, state: SelectionState | None = None, pool: BlobStore | None = None
    ) -> None:
        self.selection = selection
        self.state = state
        self._weights: dict[str, Tensor] | None = None
        self._kept_as = None if state is None else state.weights
        if self._kept_as is not None and pool is not None:
            self._weights = load_part(pool, self._kept_as, "what was kept as the best weights")

    def look(self, measured: NetworkMeasurement, network: nn.Module, step: int, share: float) -> float:
        """Compare a measurement after so many steps of the stage; returns the compared value.

        A network with a newborn that still warms up is never the best one, nor is patience lost with it: grown up,
        it would not answer as it was measured.
        """
        if self.state is None:
            metric, instead = settle(measured, self.selection.metric)
            self.state = SelectionState(metric=metric, instead=instead)
        state = self.state
        value = value_of(measured, state.metric)
        if any(factor < 1 for factor in getattr(network, "births", {}).values()):
            return value
        loss = measured.loss if math.isfinite(measured.loss) else math.inf
        if self._is_better(value, loss):
            changes = {
                "best": value,
                "loss": None if math.isinf(loss) else loss,
                "step": step,
                "since": 0,
                "weights": None,
            }
            tensors = network.state_dict()
            # Only what training may change: what is frozen stays what it is.
            self._weights = {
                name: tensors[name].detach().to("cpu", copy=True).contiguous() for name in _shapes(network)
            }
            self._kept_as = None
        else:
            changes = {"since": state.since + 1}
        self.state = state = state.model_copy(update=changes)
        patience = self.selection.patience
        # With a share of 1 the budget is used up, and nothing is left to stop.
        if patience is not None and state.since >= patience and self.selection.min_share <= share < 1:
            self.state = state.model_copy(update={"stopped": step})
        return value

    @property
    def enough(self) -> bool:
        """Whether the stage should stop."""
        return self.state is not None and self.state.stopped is not None

    def fits(self, network: nn.Module) -> bool:
        """Whether the best weights, where there are any, could be given to this network."""
        if self._weights is None:
            return True
        return {name: tensor.shape for name, tensor in self._weights.items()} == _shapes(network)

    def keep(self, pool: BlobStore) -> str | None:
        """Put the weights into a pool, where that has not been done; returns their digest."""
        if self.state is None or self._weights is None:
            return None
        if self._kept_as is None:
            self._kept_as = save_part(pool, self._weights)
            self.state = self.state.model_copy(update={"weights": self._kept_as})
        return self._kept_as

    @torch.no_grad()
    def restore(self, network: nn.Module) -> None:
        """Give the network its best weights; where nothing was measured, it stays.

        Raises:
            UnsafeFileError: they belong to another network.
        """
        if self._weights is None:
            return
        state = network.state_dict()
        for name, tensor in self._weights.items():
            if name not in state or state[name].shape != tensor.shape or state[name].dtype != tensor.dtype:
                raise UnsafeFileError(f"the best weights have {name!r}, which does not fit the network.")
        for name, tensor in self._weights.items():
            state[name].copy_(tensor)

    def _is_better(self, value: float, loss: float) -> bool:
        """Few samples, or easy ones, often have equal values; then the loss decides."""
        assert self.state is not None, "looked at"
        if not math.isfinite(value):
            return False
        best = self.state.best
        if best is None:
            return True
        if value == best:
            return loss < (math.inf if self.state.loss is None else self.state.loss)
        return value < best if self.state.metric in LOWER_IS_BETTER else value > best


def _shapes(network: nn.Module) -> dict[str, torch.Size]:
    frozen = {name for name, parameter in network.named_parameters() if not parameter.requires_grad}
    return {name: tensor.shape for name, tensor in network.state_dict().items() if name not in frozen}
