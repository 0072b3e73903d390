"""Objectives of a language model's prediction of validation text: bits per byte and perplexity."""

from __future__ import annotations

from evodevo.objectives.base import Objective, number

QUALITY = Objective(
    name="quality",
    unit="bits/byte",
    direction="minimise",
    needs="trained",
    summary="validation loss in bits per byte of text: comparable between tokenizers",
    measure=lambda subject: number(subject.held_out.bits_per_byte),
)
PERPLEXITY = Objective(
    name="perplexity",
    unit="per token",
    direction="minimise",
    needs="trained",
    summary="exp(validation loss), per token",
    measure=lambda subject: number(subject.held_out.perplexity),
)
