"""``evodevo generate``: generate text with a trained individual."""

from __future__ import annotations

from typing import Annotated

import typer

from evodevo.cli import output
from evodevo.cli.options import DEFAULT_STORE, IndividualName, Json, StoreFolder, count_option

MOST_TOKENS = 1_000_000


def generate(
    individual: IndividualName,
    prompt: Annotated[str, typer.Option(help="Text to continue.")],
    tokens: Annotated[int, count_option("Number of tokens to generate.")] = 200,
    temperature: Annotated[float, typer.Option(help="Sampling temperature; 0 always takes the likeliest token.")] = 0.8,
    top_k: Annotated[int, typer.Option(help="Sample from the k likeliest tokens; 0 for all.")] = 0,
    top_p: Annotated[float, typer.Option(help="Sample from the likeliest tokens whose probabilities sum to p.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal text.")] = 0,
    store: StoreFolder = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Continue a text with a trained individual."""
    from evodevo.errors import UsageError
    from evodevo.runs.archive import Archive
    from evodevo.runs.sampling import SamplingSettings
    from evodevo.settings import validate

    if not 1 <= tokens <= MOST_TOKENS:
        raise UsageError(f"--tokens is {tokens}; it must be 1 to {MOST_TOKENS:,}.")
    if seed < 0:
        raise UsageError(f"--seed is {seed}; it must be 0 or more.")
    values = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    sampling = validate(SamplingSettings, values, what="generate")
    with Archive(store) as archive:
        record = archive.individual(individual)
        text = record.generate(prompt, tokens, sampling=sampling, seed=seed)
        if json:
            data = {"individual": record.id, "prompt": prompt, "text": text, "seed": seed, **values}
            output.document("evodevo.generate/1", data)
        else:
            output.line(prompt + text)
