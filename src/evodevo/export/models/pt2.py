"""The format ``pt2`` of trained models: a graph and its weights, made by torch.export, for PyTorch alone.

Any number of samples, and any number of tokens where the network allows it: recurrences are then one masked product
over the whole text, whose memory grows with the square of its length, as attention's scores do.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from evodevo.errors import DiskFullError, UsageError
from evodevo.export.models.base import Arrays, ModelExporter, ModelSubject, Written
from evodevo.export.models.process import ask
from evodevo.export.torch_export import MOST_SAMPLES, reason, share_equal, silence, tidy

FILE = "model.pt2"
MOST_TOKENS = 1 << 16
"""Largest number of tokens of a graph where the network has no limit."""
_TRACED = 3, 40
"""Samples and tokens of the traced batch; not 1, which torch.export takes for a constant."""

_LOAD = f"""\
program = torch.export.load(place + "/{FILE}").module()
def answers(*tensors):
    found = program(*tensors)
    return [list(found) if isinstance(found, (list, tuple)) else [found]]
"""
_ALONE = """\
import torch

program = torch.export.load("{file}").module()
{inputs}
with torch.no_grad():
    outputs = program({names})
for name, output in zip({outputs}, outputs):
    print(name, tuple(output.shape))
"""


class ModelGraph(ModelExporter):
    """Export as ``pt2``; see the module."""

    name = "pt2"

    def write(self, subject: ModelSubject, folder: Path) -> Written:
        """See ``ModelExporter.write``."""
        share_equal(subject.network)
        program, written = graph(subject, self.name)
        place = folder / FILE
        try:
            torch.export.save(program, os.fspath(place))
        except OSError as error:
            raise DiskFullError(f"{place} cannot be written ({error.strerror or error}). Free some space.") from None
        return written

    def ask(self, folder: Path, probes: Sequence[Arrays]) -> list[list[Arrays]]:
        """See ``ModelExporter.ask``."""
        return ask(_LOAD, folder, probes)

    def usage(self, subject: ModelSubject, written: Written) -> Sequence[tuple[str, str]]:
        """See ``ModelExporter.usage``."""
        lines = []
        for one in subject.inputs:
            tokens = written.lengths[0] if written.lengths else min(16, subject.longest or 16)
            sizes = ", ".join(str(tokens if size is None else size) for size in (written.samples or 2, *one.shape))
            lines.append(f"{_variable(one.name)} = torch.zeros({sizes}, dtype=torch.{one.dtype})  # yours")
        code = _ALONE.format(
            file=FILE,
            inputs="\n".join(lines),
            names=", ".join(_variable(one.name) for one in subject.inputs),
            outputs=[name for name, _, _ in subject.outputs],
        )
        return (("With PyTorch alone", code),)

    def library(self, written: Written) -> str:
        """See ``ModelExporter.library``."""
        return "pytorch"

    def versions(self) -> Mapping[str, str]:
        """See ``ModelExporter.versions``."""
        return {"torch": str(torch.__version__)}


def graph(subject: ModelSubject, format_name: str) -> tuple[torch.export.ExportedProgram, Written]:
    """The graph of a model: for any number of tokens, or for those of its context where the network allows no other.

    Raises:
        UsageError: torch.export cannot follow it.
    """
    texts = any(None in one.shape for one in subject.inputs)
    context = subject.context_length if texts else 0
    ways = [_Way(None, None)] if texts else []
    ways += [_Way(None, context), _Way(1, context)]
    for way in ways:
        try:
            program = _traced(subject, way)
        # torch.export runs the whole network symbolically; what it cannot do comes as errors of torch._dynamo,
        # torch.fx and sympy, or as ValueError, TypeError, RuntimeError and AssertionError of the network's own lines.
        except Exception as error:
            failure = error
        else:
            return program, _described(subject, way, texts)
    raise UsageError(f"{subject.name} cannot be written as {format_name}: {reason(failure)}.") from failure


@dataclass(frozen=True)
class _Way:
    """Numbers of samples and of tokens that a graph is fixed to; None is any."""

    samples: int | None
    tokens: int | None


def _described(subject: ModelSubject, way: _Way, texts: bool) -> Written:
    sentences = ["The file is frozen: it has no gradients, and no state of generation."]
    most = way.samples or MOST_SAMPLES
    facts = {"samples": [way.samples or 1, most]}
    if way.samples:
        sentences.append("It takes one sample at a time: the network's parts fix the number of samples of a graph.")
    if texts and way.tokens is None:
        longest = subject.longest or MOST_TOKENS
        facts["tokens"] = [1, longest]
        sentences.append(f"It takes 1 to {longest:,} tokens.")
    elif texts:
        facts["tokens"] = [way.tokens or 0, way.tokens or 0]
        sentences.append(
            f"It takes exactly {way.tokens:,} tokens. Where the network is causal, fill shorter texts on the right with"
            " any token, and leave out the outputs there."
        )
    lengths = (way.tokens,) if texts and way.tokens else None
    return Written(facts, lengths, tuple(sentences), samples=way.samples)


def _traced(subject: ModelSubject, way: _Way) -> torch.export.ExportedProgram:
    samples = None if way.samples else torch.export.Dim("samples", min=1, max=MOST_SAMPLES)
    free = way.tokens is None
    length = torch.export.Dim("tokens", min=1, max=subject.longest or MOST_TOKENS) if free else None
    tokens = min(_TRACED[1], subject.longest or MOST_TOKENS) if free else way.tokens or 0
    probe = tuple(torch.from_numpy(one.drawn(way.samples or _TRACED[0], tokens)) for one in subject.inputs)
    axes = tuple(_axes(one.shape, samples, length) for one in subject.inputs)
    with torch.no_grad(), silence():
        program = torch.export.export(subject.network, probe, dynamic_shapes=(axes,), strict=False)
    tidy(program)
    return program


def _axes(shape: tuple[int | None, ...], samples: Any, tokens: Any) -> dict[int, Any]:
    free = {axis: tokens for axis, size in enumerate(shape, 1) if size is None and tokens is not None}
    return free if samples is None else {0: samples, **free}


def _variable(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name)


PT2 = ModelGraph()
