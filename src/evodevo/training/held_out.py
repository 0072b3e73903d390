"""Loss, perplexity and bits per byte of a language model on text that it was not trained on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from evodevo.training.loop import LossFunction, model_loss
from evodevo.training.precision import Batch, Precision, decide


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
    batches: Iterable[Batch],
    *,
    tokens: int,
    predicted_bytes: float | None = None,
    loss_function: LossFunction = model_loss,
    precision: Precision | None = None,
) -> HeldOut:
    """Measure a model; its mode (training or not) is restored afterwards.

    Args:
        model: Model on any device; it is moved to that of ``precision``.
        batches: Arrays, or named arrays, of windows of equal length on the first axis.
        tokens: Number of predicted tokens in all batches.
        predicted_bytes: Number of bytes of text behind all predicted tokens, for bits per byte.
        loss_function: Mean loss of a batch, in nats.
        precision: Device and number format; None = this machine's default device in float32.
    """
    precision = precision or decide()
    was_training = model.training
    model.to(precision.device).eval()
    sums, windows = [], 0
    with torch.no_grad():
        for batch in batches:
            rows = len(next(iter(batch.values())) if isinstance(batch, Mapping) else batch)
            with precision.autocast():
                loss = loss_function(model, precision.place(batch))
            # Weighted by rows, because the last batch may be smaller; kept on the device, to wait for it only once.
            sums.append(loss.detach().double() * rows)
            windows += rows
    model.train(was_training)
    loss_nats = float(torch.stack(sums).sum()) / windows if windows else math.nan
    # exp overflows a float beyond 709 nats; such a model is as useless as one with NaN.
    if not math.isfinite(loss_nats) or loss_nats > 700:
        return HeldOut("nan", None, None, None, tokens)
    bits = None if predicted_bytes is None else loss_nats * tokens / (math.log(2) * predicted_bytes)
    return HeldOut("ok", loss_nats, math.exp(loss_nats), bits, tokens)
