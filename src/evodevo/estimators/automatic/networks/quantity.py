"""Networks that learn a quantity: squared error on the standardised values.

Legend: n samples, B samples of a batch.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.estimators.targets import ANSWER
from evodevo.settings import Settings


class ValueScale(Settings):
    """How values are standardised.

    Attributes:
        mean, deviation: Mean and standard deviation of the training values; 1 where all are equal.
    """

    mean: float
    deviation: float = Field(gt=0)

    @classmethod
    def of(cls, values: NDArray[Any]) -> Self:
        """The scale of training values."""
        deviation = float(np.std(values))
        return cls(mean=float(np.mean(values)), deviation=deviation if deviation > 0 else 1.0)

    def standardised(self, values: NDArray[Any]) -> NDArray[np.float32]:
        """Values (n,) as targets of a network, (n, 1)."""
        return ((values - self.mean) / self.deviation).astype(np.float32)[:, None]

    def values(self, outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Outputs of a network, (n, 1), as values, (n, 1)."""
        return outputs * self.deviation + self.mean


def squared_error(model: nn.Module, batch: Any) -> Tensor:
    """Mean squared error of the standardised values of a batch."""
    outputs: Tensor = model(batch)[ANSWER]
    return F.mse_loss(outputs.float(), batch[f"{ANSWER}/target"])
