"""The card (README.md) of an exported model. Front matter as the Hugging Face hub reads it; texts of users are quoted,
never markup.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from evodevo import __version__
from evodevo.export.model_card import code_text, plain_text
from evodevo.export.models.base import ModelExporter, ModelSubject, Story, Written
from evodevo.export.verify import Verified

MOST_ANCESTORS = 40


def card(exporter: ModelExporter, subject: ModelSubject, written: Written, verified: Verified, *, drawing: str) -> str:
    """The text of the card; ``drawing`` is the file of the drawing."""
    return "\n".join(_lines(exporter, subject, written, verified, drawing)) + "\n"


def _lines(
    exporter: ModelExporter, subject: ModelSubject, written: Written, verified: Verified, drawing: str
) -> Iterator[str]:
    story = subject.story
    yield from _front_matter(exporter, subject, written)
    yield ""
    yield f"# {plain_text(story.title)}"
    yield ""
    for name, value in story.source.items():
        yield f"- {name}: {code_text(value)}"
    for heading, code in exporter.usage(subject, written):
        yield ""
        yield f"## {heading}"
        yield f"```python\n{code}```"
    yield ""
    yield "## Architecture"
    if story.svg is not None:
        yield f"![The architecture: one mark per layer, arcs where layers share]({drawing})"
        yield ""
    for sentence in story.architecture:
        yield plain_text(sentence)
        yield ""
    parameters = sum(parameter.numel() for parameter in subject.network.parameters())
    yield f"{parameters:,} parameters, each shared one counted and stored once."
    yield ""
    yield from _training(story)
    yield "## Lineage"
    yield from _lineage(story)
    yield ""
    yield "## What to know"
    for note in (*written.notes, *subject.notes, *story.notes):
        yield f"- {note}"
    yield (
        f"- Verified when it was written: loaded in a fresh process, {verified.samples} probes, largest difference of a"
        f" logit {verified.difference:.3g} where the largest logit is {verified.scale:.3g}."
    )
    yield "- `manifest.json` holds the SHA-256 of every file."
    yield "- Licence: weights are subject to the terms of the data of their training; nobody has stated them here."


def _front_matter(exporter: ModelExporter, subject: ModelSubject, written: Written) -> Iterator[str]:
    yield "---"
    yield f"library_name: {exporter.library(written)}"
    if subject.tokenizer is not None:
        yield "pipeline_tag: text-generation"
    yield "license: unknown"
    yield f"tags: {json.dumps(['evodevo', 'evolved', subject.kind.replace('_', '-')])}"
    yield f"evodevo_version: {json.dumps(__version__)}"
    yield "---"


def _training(story: Story) -> Iterator[str]:
    yield "## Training and scores"
    for name, value in story.training:
        yield f"- {plain_text(name)}: {plain_text(value)}"
    for heading, columns, rows in story.scores:
        yield ""
        yield f"{plain_text(heading)}:"
        yield ""
        yield f"| {' | '.join(map(plain_text, columns))} |"
        yield f"|{'---|' * len(columns)}"
        for row in rows:
            yield f"| {' | '.join(map(plain_text, row))} |"
    yield ""


def _lineage(story: Story) -> Iterator[str]:
    if not story.lineage:
        yield "It has no ancestors."
    for identity, operation, architecture in story.lineage[:MOST_ANCESTORS]:
        yield f"- {code_text(identity)}, {plain_text(operation)}: {code_text(architecture)}"
    if len(story.lineage) > MOST_ANCESTORS:
        yield f"- … and {len(story.lineage) - MOST_ANCESTORS} before them; all are in `manifest.json`"
