"""Time to score the options of questions: with a shared prefill of each question, and each option from the start.

Run: python benchmarks/likelihood.py [--json PATH] [--width 128 --depth 8 --questions 16]

Questions are drawn tokens: a context, four options of 8 tokens. Both ways run in batches of as many tokens, on the same
model, in turns; their log-likelihoods must agree. The ratio is the time without sharing by that with it.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.networks.likelihood.options import Request, likelihoods
from evodevo.networks.likelihood.reader import Reader
from evodevo.operators.spec import Dimensions
from evodevo.randomness import generator
from evodevo.tasks.text.tokenizers import ByteTokenizer
from evodevo.testing.networks import small_backbone
from measuring import Report, arguments, ratio, take_turns

BACKBONES = ("transformer++", "striped-mamba")
CONTEXTS = (32, 128, 512)
OPTIONS, TOKENS = 4, 8
WAYS = {"shared": True, "alone": False}
TOLERANCE = 1e-2
"""Largest difference of a log-likelihood of 8 tokens in nats, in float32."""


def questions(count: int, context: int) -> list[Request]:
    """Contexts of ``context`` random bytes with four options."""
    rng = generator(0, "questions", context)
    draws = [rng.integers(1, 256, context + OPTIONS * TOKENS) for _ in range(count)]
    return [Request(ids[:context], tuple(np.split(ids[context:], OPTIONS))) for ids in draws]


def main() -> None:
    """Measure and report."""
    options = arguments(__doc__, width=128, depth=8, questions=16, rounds=5)
    shape = f"D={options.width}, {options.depth} LIVs, bytes, {OPTIONS} options of {TOKENS} tokens, float32"
    report = Report("Likelihoods of options", settings={"shape": shape, "questions": options.questions})
    space = BackboneSpace(BackboneSettings(depth=options.depth, dimensions=Dimensions(width=options.width)))
    for name in BACKBONES:
        reader = Reader.of(small_backbone(space, space.named(name), 256), ByteTokenizer(), max(CONTEXTS) + TOKENS)
        for context in CONTEXTS:
            asked = questions(options.questions, context)
            values = {
                cached: [
                    found.log_likelihood for answers in likelihoods(reader, asked, cached=cached) for found in answers
                ]
                for cached in (True, False)
            }
            gap = float(np.abs(np.subtract(values[True], values[False])).max())
            calls = {way: partial(likelihoods, reader, asked, cached=cached) for way, cached in WAYS.items()}
            seconds = take_turns(calls, options.rounds)
            times = ratio(seconds["alone"], seconds["shared"])
            report.rows.append(
                {
                    "backbone": name,
                    "context": context,
                    "shared, ms a question": f"{1e3 * np.median(seconds['shared']) / options.questions:.2f}",
                    "alone / shared": times.show(),
                    "largest difference, nats": f"{gap:.1e}",
                }
            )
            report.at_most(f"{name}, context {context}: difference in nats", gap, TOLERANCE)
            report.at_least(f"{name}, context {context}: time alone / shared", times.median, 1)
    report.finish(options.json)


if __name__ == "__main__":
    main()
