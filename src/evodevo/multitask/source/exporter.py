"""The format ``source`` of paths: one readable file of plain PyTorch and its weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file

from evodevo.export.base import Exporter, ExportSubject, Images, Logits
from evodevo.export.folder import write_text
from evodevo.export.models import process
from evodevo.multitask.source.program import path_program
from evodevo.operators.source.sheet import FILE, WEIGHTS

_LOAD = """\
sys.path.insert(0, place)
sys.dont_write_bytecode = True
import model as written
network = written.load()
def answers(images):
    return [[network(images)]]
"""
_ALONE = """\
import json
import sys

import torch

sys.path.insert(0, ".")  # the folder of model.py
import model as written

spec, model = json.load(open("spec.json")), written.load()
images = torch.zeros(4, {height}, {width}, {channels}, dtype=torch.uint8)  # your images: 0 to 255
with torch.no_grad():
    probabilities = model(images).softmax(-1)
for row in probabilities:
    print(spec["classes"][int(row.argmax())], round(float(row.max()), 4))
"""
_FILES = """\
import json
import sys

import numpy
import torch
from PIL import Image

sys.path.insert(0, ".")  # the folder of model.py
import model as written

spec, model = json.load(open("spec.json")), written.load()
for name in sys.argv[1:]:
    picture = Image.open(name).convert("{mode}").resize(({width}, {height}), Image.Resampling.BILINEAR)
    pixels = numpy.array(picture, dtype=numpy.uint8).reshape(1, {height}, {width}, {channels})
    with torch.no_grad():
        probabilities = model(torch.from_numpy(pixels)).softmax(-1)[0]
    print(name, spec["classes"][int(probabilities.argmax())], round(float(probabilities.max()), 4))
"""


class PathSource(Exporter):
    """Export as ``source``; see the module."""

    name = "source"
    file = FILE
    library = "pytorch"

    def write(self, subject: ExportSubject, folder: Path) -> None:
        """See ``Exporter.write``; its weights are beside it."""
        program = path_program(subject.network)
        write_text(folder / FILE, program.text)
        save_file(dict(program.weights), folder / WEIGHTS)

    def ask(self, folder: Path, probes: Sequence[Images]) -> list[Logits]:
        """See ``Exporter.ask``."""
        return [ways[0][0] for ways in process.ask(_LOAD, folder, [(images,) for images in probes])]

    def usage(self, subject: ExportSubject) -> Sequence[tuple[str, str]]:
        """See ``Exporter.usage``: tensors; files with Pillow."""
        image = subject.image
        sizes = {"height": image.height, "width": image.width, "channels": image.channels}
        mode = "L" if image.channels == 1 else "RGB"
        return (
            ("Tensors, with PyTorch and safetensors", _ALONE.format(**sizes)),
            ("Image files, with Pillow: `python classify.py a.png`", _FILES.format(**sizes, mode=mode)),
        )

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
