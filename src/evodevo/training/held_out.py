"""Loss, perplexity and bits per byte of a language model on text that it was not trained on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from evodevo.training.loop import LossFunction, model_loss
from evodevo.training.precision import Precision, decide


@dataclass(frozen=True)
class HeldOut:
    """Measurements on held-out text; the numbers are None where the loss is not finite.

    Args:
        state: "ok" or "nan".
        loss: Mean loss over predicted tokens, in nats.
        perplexity: exp(loss), per token.
        bits_per_byte: Loss in bits per byte of text, comparable between tokenizers; None also where the number of
            bytes is unknown.
        tokens: Number of predicted tokens.
    """

    state: Literal["ok", "nan"]
    loss: float | None
    perplexity: float | None
    bits_per_byte: float | None
    tokens: int


def evaluate(
    model: nn.Module,
    windows: NDArray[Any],
    *,
    predicted_bytes: float | None = None,
    batch_size: int = 8,
    loss_function: LossFunction = model_loss,
    precision: Precision | None = None,
) -> HeldOut:
    """Measure a model; its mode (training or not) is restored afterwards.

    Args:
        model: Model on any device; it is moved to that of ``precision``.
        windows: Token ids, shape ``(windows, L + 1)``; the last L tokens of each are predicted.
        predicted_bytes: Number of bytes of text behind all predicted tokens, for bits per byte.
        batch_size: Number of windows in one forward.
        loss_function: Mean loss of a batch, in nats.
        precision: Device and number format; None = this machine's default device in float32.
    """
    precision = precision or decide()
    was_training = model.training
    model.to(precision.device).eval()
    sums = []
    with torch.no_grad():
        for start in range(0, len(windows), batch_size):
            rows = windows[start : start + batch_size]
            with precision.autocast():
                loss = loss_function(model, precision.tensor(rows))
            sums.append(loss.detach().double() * len(rows))
    model.train(was_training)
    loss_nats = float(torch.stack(sums).sum()) / len(windows) if sums else math.nan
    tokens = int(np.prod(windows[:, 1:].shape))
    # exp overflows a float beyond 709 nats; such a model is as useless as one with NaN.
    if not math.isfinite(loss_nats) or loss_nats > 700:
        return HeldOut("nan", None, None, None, tokens)
    bits = None if predicted_bytes is None else loss_nats * tokens / (math.log(2) * predicted_bytes)
    return HeldOut("ok", loss_nats, math.exp(loss_nats), bits, tokens)
