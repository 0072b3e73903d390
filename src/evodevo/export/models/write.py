"""The folder of a model's export.

Files: those of the format, ``spec.json`` (inputs and outputs), ``README.md`` (the card), ``architecture.svg``,
``tokenizer.json`` of a model of text, and ``manifest.json`` (origin, lineage, and the SHA-256 of every other file).
"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from evodevo import __version__
from evodevo.export.folder import CARD, SPEC, Export, check_target, publish, write_json, write_text
from evodevo.export.models.base import ModelExporter, ModelSubject, Written
from evodevo.export.models.card import card
from evodevo.export.models.verify import verify
from evodevo.export.verify import Verified

DRAWING = "architecture.svg"
TOKENIZER = "tokenizer.json"


def write_model(exporter: ModelExporter, subject: ModelSubject, target: Path) -> Export:
    """Export to a folder that is missing, empty, or an earlier export, which is replaced. All or nothing.

    Raises:
        UsageError: The folder holds something else, cannot be written, or the format cannot hold the network.
        VerificationError: The outputs of the written files differ from the network's.
        DiskFullError: No space left.
    """
    check_target(target.absolute())
    exporter.check(subject)

    alone = True

    def fill(draft: Path) -> tuple[Verified, dict[str, Any]]:
        nonlocal alone
        if subject.tokenizer is not None:
            from evodevo.tasks.text.published_tokenizer import tokenizer_json

            write_text(draft / TOKENIZER, tokenizer_json(subject.tokenizer))
        written = exporter.write(subject, draft)
        verified = verify(exporter, subject, written, draft)
        alone = written.alone
        write_json(draft / SPEC, _spec(exporter, subject, written))
        if subject.story.svg is not None:
            write_text(draft / DRAWING, subject.story.svg)
        write_text(draft / CARD, card(exporter, subject, written, verified, drawing=DRAWING))
        return verified, _manifest(exporter, subject, verified)

    done = publish(target, fill)
    return replace(done, format=exporter.name, alone=alone)


def _spec(exporter: ModelExporter, subject: ModelSubject, written: Written) -> dict[str, Any]:
    return {
        "schema": "evodevo.export_model/1",
        "format": exporter.name,
        "kind": subject.kind,
        "inputs": [one.to_json() for one in subject.inputs],
        "outputs": [{"name": name, "kind": kind, "names": list(names)} for name, kind, names in subject.outputs],
        "context_length": subject.context_length,
        "lengths": None if written.lengths is None else list(written.lengths),
        **written.facts,
    }


def _manifest(exporter: ModelExporter, subject: ModelSubject, verified: Verified) -> dict[str, Any]:
    story = {name: value for name, value in asdict(subject.story).items() if name != "svg"}
    parameters = sum(parameter.numel() for parameter in subject.network.parameters())  # each once
    return {
        "format": exporter.name,
        "versions": {"evodevo": __version__, **exporter.versions()},
        "kind": subject.kind,
        "parameters": parameters,
        **story,
        "verified": verified.to_json(),
    }
