"""Time per generated token: of single LIVs over the length of the context, and of transformer++ against Llama.

Run: python benchmarks/decoding.py [--json PATH] [--width 768 --depth 24 --vocabulary 8192]

LIVs are fed a context of that many tokens at once, then single steps are timed. Recurrences, GConv-1 and the modal
GConv-2 keep a state of constant size: their time must not grow. Attention reads all of its cache: its time is shown.
transformer++ and transformers' Llama have equal sizes; both continue the same prompt greedily with their caches, the
prompt included in the time. ``generate`` of both is called as a user would.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from evodevo.networks.sampling import SamplingSettings
from evodevo.operators.build import build_operator
from evodevo.operators.classes import OPERATORS
from evodevo.operators.spec import Dimensions
from measuring import Report, Spread, arguments, ratio, take_turns
from training_step import count, llama, ours

CONTEXTS = (128, 256, 512, 1024, 2048, 4096)
CONSTANT = ("Rec-1", "Rec-2", "GConv-1", "GConv-2")
GROWING = ("SA-1", "SA-3")
FLAT = 1.1
PROMPTS = (128, 1024)


@torch.no_grad()
def step_times(name: str, width: int, rounds: int, steps: int) -> dict[int, list[float]]:
    """Seconds of CPU per token of one LIV after each context; the contexts take turns."""
    operator = build_operator(OPERATORS.get(name).spec, Dimensions(width=width))
    x = torch.randn(1, 1, width)
    states: dict[int, dict[str, Any]] = {}
    for context in CONTEXTS:
        room = context + (2 * rounds + 1) * steps
        state = operator.initial_state(1, room, torch.float32, torch.device("cpu"))
        states[context] = operator(torch.randn(1, context, width), state=state).state

    def run(context: int) -> Callable[[], None]:
        def several() -> None:
            for _ in range(steps):
                states[context] = operator(x, state=states[context]).state

        return several

    times = take_turns({str(context): run(context) for context in CONTEXTS}, rounds)
    return {int(context): [value / steps for value in values] for context, values in times.items()}


def writers(width: int, depth: int, vocabulary: int, prompt: int, tokens: int) -> tuple[dict[str, nn.Module], Any]:
    """Two models, and per model a call that continues the prompt by so many tokens."""
    mine = ours("transformer++", width, depth, vocabulary).eval()
    theirs = llama(width, depth, vocabulary, prompt + tokens).eval()
    theirs.config.use_cache = True
    theirs.generation_config.use_cache = True
    ids = torch.randint(0, vocabulary, (1, prompt))
    greedy = SamplingSettings(temperature=0.0)
    settings: dict[str, Any] = {"do_sample": False, "use_cache": True, "eos_token_id": None, "pad_token_id": 0}

    def ours_writes() -> None:
        assert mine.continue_text(ids, tokens, sampling=greedy).shape == (1, tokens)

    def theirs_write() -> None:
        written = theirs.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, **settings)
        assert written.shape == (1, prompt + tokens)

    names = "evodevo transformer++", "transformers Llama"
    return dict(zip(names, (mine, theirs), strict=True)), dict(zip(names, (ours_writes, theirs_write), strict=True))


def main() -> None:
    """Measure and report."""
    options = arguments(__doc__, width=768, depth=24, vocabulary=8192, tokens=64, rounds=7, steps=32, turns=12)
    shape = f"B=1 D={options.width}, float32; whole models: {options.depth} LIVs, V={options.vocabulary}"
    report = Report("Decoding", settings={"shape": shape})
    for name in CONSTANT + GROWING:
        seconds = step_times(name, options.width, options.turns, options.steps)
        growth = ratio(seconds[CONTEXTS[-1]], seconds[CONTEXTS[0]])
        report.rows.append(
            {"us per token": name}
            | {f"after {context}": f"{Spread.of(values).median * 1e6:.0f}" for context, values in seconds.items()}
            | {"4096 / 128": growth.show()}
        )
        if name in CONSTANT:
            report.at_most(f"{name}: time per token after 4096 tokens / after 128", growth.median, FLAT)
    for prompt in PROMPTS:
        models, calls = writers(options.width, options.depth, options.vocabulary, prompt, options.tokens)
        seconds = take_turns(calls, options.rounds)
        ours_name, theirs_name = calls
        for name, values in seconds.items():
            speeds = Spread.of([options.tokens / value for value in values])
            key = f"{name}, {count(models[name]):,} parameters, {options.tokens} tokens after {prompt}"
            report.settings[key] = f"{speeds.show()} tokens/s"
        times = ratio(seconds[theirs_name], seconds[ours_name])
        report.at_least(f"transformer++: tokens per second / Llama's, after {prompt}", times.median, 1)
    report.finish(options.json)


if __name__ == "__main__":
    main()
