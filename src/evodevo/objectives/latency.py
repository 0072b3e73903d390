"""Latency objectives, measured on the built model's device: prefill of a context, and decoding of one token."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

from evodevo.objectives.base import Measurement, Objective, Subject

REPETITIONS = 7
DECODED = 16


def _timed(action: Callable[[], None], device: Any, scale: float) -> Measurement:
    """Median of the repetitions and half their range without the two extremes, in milliseconds."""
    import torch

    def once() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        begin = time.perf_counter()
        action()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return (time.perf_counter() - begin) * 1000 * scale

    once()  # the first call allocates memory and compiles kernels
    times = sorted(once() for _ in range(REPETITIONS))
    return Measurement(median(times), (times[-2] - times[1]) / 2)


def _prefill(subject: Subject) -> Measurement:
    import torch

    model = subject.model
    device = next(model.parameters()).device
    prompt = torch.zeros((1, subject.length), dtype=torch.long, device=device)
    with torch.inference_mode():
        return _timed(lambda: model.next_logits(prompt, state=model.initial_state(1, subject.length)), device, 1.0)


def _decode(subject: Subject) -> Measurement:
    import torch

    model = subject.model
    device = next(model.parameters()).device
    token = torch.zeros((1, 1), dtype=torch.long, device=device)
    with torch.inference_mode():
        state = model.initial_state(1, subject.length + DECODED * (REPETITIONS + 1))
        model.next_logits(token.expand(1, subject.length), state=state)

        def decode() -> None:
            for _ in range(DECODED):
                model.next_logits(token, state=state)

        return _timed(decode, device, 1 / DECODED)


PREFILL_LATENCY = Objective(
    name="prefill_latency",
    unit="ms",
    direction="minimise",
    needs="model",
    summary="milliseconds to read a full context, measured",
    measure=_prefill,
    timed=True,
)
DECODE_LATENCY = Objective(
    name="decode_latency",
    unit="ms/token",
    direction="minimise",
    needs="model",
    summary="milliseconds per token written after a full context, measured",
    measure=_decode,
    timed=True,
)
