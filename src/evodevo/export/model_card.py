"""The card (README.md) of an export: task, accuracy, components, and how to use it.

Front matter as the Hugging Face hub reads it. Text of users is quoted, never markup.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator

from evodevo import __version__
from evodevo.export.base import Exporter, ExportSubject, Provenance
from evodevo.export.verify import Verified

MOST_CLASSES = 200
"""Largest number of names that a card lists; ``spec.json`` has all."""
MOST_ANCESTORS = 40
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~!])")


def model_card(exporter: Exporter, subject: ExportSubject, verified: Verified) -> str:
    """The text of the card."""
    return "\n".join(_lines(exporter, subject, verified)) + "\n"


def _lines(exporter: Exporter, subject: ExportSubject, verified: Verified) -> Iterator[str]:
    made = subject.provenance
    yield from _front_matter(exporter, subject)
    yield ""
    yield f"# {plain_text(made.task)} — {plain_text(made.path)}"
    yield ""
    yield (
        f"Sorts {subject.input.subject} into {len(subject.classes)} classes. It answers the task {code_text(made.task)}"
        f" in the multitask system {code_text(made.system)}; agent {code_text(made.agent)}, path"
        f" {code_text(made.path)}, kind {code_text(made.kind)}."
    )
    yield ""
    yield "## Accuracy"
    yield "| split | accuracy | how it was used |"
    yield "|---|---|---|"
    yield f"| validation | {_accuracy(made.validation)} | chose this path among its agent's candidates: it flatters |"
    count = f"{made.test_samples:,} samples; " if made.test_samples else ""
    remark = f"{count}played no part in any choice" if made.test is not None else "run: evodevo extend run --test"
    yield f"| test | {_accuracy(made.test)} | {remark} |"
    yield ""
    yield "## Input and output"
    yield (
        f"{subject.input.words()} The answer is one row of logits for each sample, in the order of the classes below;"
        " their softmax gives probabilities. All of this is in `spec.json`."
    )
    yield ""
    yield from _classes(subject.classes)
    for heading, code in exporter.usage(subject):
        yield ""
        yield f"## {heading}"
        yield f"```python\n{code}```"
    yield ""
    yield "## What it is made of"
    yield from _parts(made)
    yield ""
    yield "## Lineage"
    yield from _ancestors(made)
    yield ""
    yield "## What to know"
    for note in (*exporter.notes(subject), *subject.notes):
        yield f"- {note}"
    yield (
        f"- Verified when it was written: loaded in a fresh process, {verified.samples} probes, largest difference of a"
        f" logit {verified.difference:.3g} where the largest logit is {verified.scale:.3g}."
    )
    yield "- `manifest.json` holds the SHA-256 of every file and of every component."
    yield "- Licence: weights are subject to the terms of the data and of the root that they were trained from; nobody"
    yield "  has stated them here. evodevo, which wrote this, is Apache-2.0 and is not needed to use it."


def _front_matter(exporter: Exporter, subject: ExportSubject) -> Iterator[str]:
    made = subject.provenance
    tags = ["evodevo", "evolved", "multitask", made.kind.replace("_", "-")]
    yield "---"
    yield f"library_name: {exporter.library}"
    yield f"pipeline_tag: {subject.input.tag}"
    yield "license: unknown"
    yield f"tags: {json.dumps(tags)}"
    yield f"datasets: {json.dumps([made.task])}"
    yield f"evodevo_version: {json.dumps(__version__)}"
    yield "---"


def _classes(names: tuple[str, ...]) -> Iterator[str]:
    yield "| logit | class |"
    yield "|---|---|"
    for number, name in enumerate(names[:MOST_CLASSES]):
        yield f"| {number} | {plain_text(name)} |"
    if len(names) > MOST_CLASSES:
        yield f"| … | {len(names) - MOST_CLASSES:,} more in `spec.json` |"


def _parts(made: Provenance) -> Iterator[str]:
    total = sum(made.distinct.values())
    yield (
        f"{total:,} parameters in {len(made.distinct)} components, of which {made.own:,}"
        f" ({made.own / max(total, 1):.1%}) are its agent's own; {made.flops / 1e6:,.3g} MFLOPs for a sample."
    )
    yield ""
    owners: Counter[str] = Counter()
    for name, size in made.distinct.items():
        owners[name.rpartition(":")[0]] += size
    yield "| components of | parameters |"
    yield "|---|---|"
    for owner, size in owners.most_common():
        yield f"| {plain_text(owner)} | {size:,} |"
    if made.paths:
        yield ""
        yield f"Main path: {code_text(made.paths[0])}. Supports: {', '.join(map(code_text, made.paths[1:])) or 'none'}."


def _ancestors(made: Provenance) -> Iterator[str]:
    if not made.ancestors:
        yield "It inherited from no other path."
    for path, change in made.ancestors[:MOST_ANCESTORS]:
        yield f"- {code_text(path)}{f': {plain_text(change)}' if change else ''}"
    if len(made.ancestors) > MOST_ANCESTORS:
        yield f"- … and {len(made.ancestors) - MOST_ANCESTORS} before them; all are in `manifest.json`"


def _accuracy(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.4f}"


def plain_text(text: str) -> str:
    """A user's text on one line, with all markup escaped."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))


def code_text(text: str) -> str:
    """A name as code; backticks, which would end the code, are replaced."""
    return f"`{' '.join(text.split()).replace('`', chr(39))}`"
