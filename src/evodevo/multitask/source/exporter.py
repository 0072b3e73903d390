"""The format ``source`` of paths: one readable file of plain PyTorch and its weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file

from evodevo.export.base import Exporter, ExportSubject, Logits, Samples
from evodevo.export.folder import write_text
from evodevo.export.models import process
from evodevo.multitask.source.program import path_program
from evodevo.operators.source.sheet import FILE, WEIGHTS

_LOAD = """\
sys.path.insert(0, place)
sys.dont_write_bytecode = True
import model as written
network = written.load()
def answers(samples):
    return [[network(samples)]]
"""
_ALONE = """\
import json
import sys

import torch

{load}
{example}
with torch.no_grad():
    probabilities = model({name}).softmax(-1)
for row in probabilities:
    print(spec["classes"][int(row.argmax())], round(float(row.max()), 4))
"""
_MODEL = """\
sys.path.insert(0, ".")  # the folder of model.py
import model as written

spec, model = json.load(open("spec.json")), written.load()"""


class PathSource(Exporter):
    """Export as ``source``; see the module."""

    name = "source"
    file = FILE
    library = "pytorch"

    def write(self, subject: ExportSubject, folder: Path) -> None:
        """See ``Exporter.write``; its weights are beside it."""
        program = path_program(subject.network)
        function = subject.input.function('Path(__file__).with_name("{}")')
        write_text(folder / FILE, f"{program.text}\n\n{function}" if function else program.text)
        save_file(dict(program.weights), folder / WEIGHTS)

    def ask(self, folder: Path, probes: Sequence[Samples]) -> list[Logits]:
        """See ``Exporter.ask``."""
        return [ways[0][0] for ways in process.ask(_LOAD, folder, [(samples,) for samples in probes])]

    def usage(self, subject: ExportSubject) -> Sequence[tuple[str, str]]:
        """See ``Exporter.usage``: tensors; files."""
        code = _ALONE.format(load=_MODEL, example=subject.input.example, name=subject.input.name)
        load = f"{_MODEL}\nencoded = written.encoded" if subject.input.function("") else _MODEL
        return (("Tensors, with PyTorch and safetensors", code), *subject.input.files(load, "model"))

    def notes(self, subject: ExportSubject) -> Sequence[str]:
        """See ``Exporter.notes``."""
        sentences = [
            f"`{FILE}` is plain PyTorch, to be read, changed and trained further; its weights are in `{WEIGHTS}`."
        ]
        if subject.provenance.paths:
            sentences.append(
                "The multipath model is exported in its dense form: every sample passes every path. What paths share is"
                " stored once."
            )
        return sentences

    def versions(self) -> Mapping[str, str]:
        """See ``Exporter.versions``."""
        return {"torch": str(torch.__version__)}


PATH_SOURCE = PathSource()
