"""The format ``source``: one readable file of plain PyTorch and its weights, without evodevo.

The text is written by the row of the network's kind (``NetworkSpec.source``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file

from evodevo.errors import UsageError
from evodevo.export.folder import write_text
from evodevo.export.models.base import Arrays, ModelExporter, ModelSubject, Written
from evodevo.export.models.process import ask
from evodevo.operators.source.sheet import FILE, WEIGHTS, Program

# The whole at once; where the file keeps states of texts, also the first half, then token by token.
_LOAD = """\
sys.path.insert(0, place)
sys.dont_write_bytecode = True
import model as written
network = written.load()
def answers(*tensors):
    whole = network(*tensors)
    if not hasattr(network, "new_states"):
        return [list(whole)]
    (tokens,) = tensors
    states, half = network.new_states(), tokens.shape[1] // 2
    steps = [network(tokens[:, :half], states)] if half else []
    steps += [network(tokens[:, place : place + 1], states) for place in range(half, tokens.shape[1])]
    return [[whole], [torch.cat(steps, 1)]]
"""
_ALONE = """\
import torch

import model as written

model = written.load()
{inputs}
with torch.no_grad():
    outputs = model({names})
for name, output in zip({outputs}, outputs):
    print(name, tuple(output.shape))
"""


class Source(ModelExporter):
    """Export as ``source``; see the module."""

    name = "source"

    def check(self, subject: ModelSubject) -> None:
        """See ``ModelExporter.check``; every part of the network must have a source."""
        super().check(subject)
        _program(subject)

    def write(self, subject: ModelSubject, folder: Path) -> Written:
        """See ``ModelExporter.write``."""
        program = _program(subject)
        write_text(folder / FILE, program.text)
        save_file({name: tensor.contiguous() for name, tensor in program.weights.items()}, folder / WEIGHTS)
        facts = {"file": FILE, "weights": WEIGHTS, "arguments": list(program.inputs)}
        return Written(facts, None, program.notes)

    def ask(self, folder: Path, probes: Sequence[Arrays]) -> list[list[Arrays]]:
        """See ``ModelExporter.ask``."""
        return ask(_LOAD, folder, probes)

    def usage(self, subject: ModelSubject, written: Written) -> Sequence[tuple[str, str]]:
        """See ``ModelExporter.usage``."""
        program = _program(subject)
        example = program.example or _example(subject, program)
        text = [("Text", program.text_example)] if subject.tokenizer and program.text_example else []
        return (("With PyTorch and safetensors", example), *text)

    def library(self, written: Written) -> str:
        """See ``ModelExporter.library``."""
        return "pytorch"

    def versions(self) -> Mapping[str, str]:
        """See ``ModelExporter.versions``."""
        return {"torch": str(torch.__version__)}


def _program(subject: ModelSubject) -> Program:
    if subject.program is None:
        raise UsageError(f"{subject.name} is a network of kind {subject.kind!r}, which has no source; take --to pt2.")
    try:
        return subject.program()
    except UsageError as error:
        raise UsageError(f"{subject.name} cannot be written as source: {error}") from None


def _example(subject: ModelSubject, program: Program) -> str:
    lines = []
    for name, one in zip(program.inputs, subject.inputs, strict=True):
        tokens = min(16, subject.longest or 16)
        sizes = ", ".join(str(tokens if size is None else size) for size in (2, *one.shape))
        filled = "ones" if one.dtype == "bool" else "zeros"
        lines.append(f"{name} = torch.{filled}({sizes}, dtype=torch.{one.dtype})  # yours")
    return _ALONE.format(
        inputs="\n".join(lines), names=", ".join(program.inputs), outputs=[name for name, _, _ in subject.outputs]
    )


SOURCE = Source()
