"""The format ``pt2``: a graph and its weights, made by torch.export, for PyTorch alone.

The file holds no Python and no class of ours.

Legend: B samples, C classes.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from keyword import iskeyword
from pathlib import Path

import torch
from torch import nn

from evodevo.errors import DiskFullError, UsageError
from evodevo.export.base import Exporter, ExportSubject, Logits, Samples
from evodevo.export.fresh_process import ask

_TRACED = 3
"""Number of samples in the traced batch; not 1, which torch.export takes for a constant."""
MOST_SAMPLES = 1 << 16
"""Largest number of samples in one batch."""

_TRACES = ("stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn")
"""Records of torch.export about a node's origin: folders of this machine, and names of our classes."""

_LOAD = """\
spec = json.load(open("spec.json"))
program = torch.export.load("{file}").module()"""
_ALONE = """\
import json

import torch

{load}
{example}
with torch.no_grad():
    probabilities = program({name}).softmax(-1)
for row in probabilities:
    print(spec["classes"][int(row.argmax())], round(float(row.max()), 4))
"""


class TorchExport(Exporter):
    """Export as ``pt2``; see the module."""

    name = "pt2"
    file = "model.pt2"
    library = "pytorch"

    def write(self, subject: ExportSubject, folder: Path) -> None:
        """See ``Exporter.write``: an input (B, …) of samples, an output (B, C) of logits."""
        share_equal(subject.network)
        program = exported(subject.network, subject)
        place = folder / self.file
        try:
            torch.export.save(program, os.fspath(place))
        except OSError as error:
            raise DiskFullError(f"{place} cannot be written ({error.strerror or error}). Free some space.") from None

    def ask(self, folder: Path, probes: Sequence[Samples]) -> list[Logits]:
        """See ``Exporter.ask``."""
        return ask(folder / self.file, probes)

    def usage(self, subject: ExportSubject) -> Sequence[tuple[str, str]]:
        """See ``Exporter.usage``: tensors with PyTorch alone; files."""
        given, load = subject.input, _LOAD.format(file=self.file)
        code = _ALONE.format(load=load, example=given.example, name=given.name)
        function = given.function('"{}"')
        own = f"{load}\n\n\n{function}" if function else load
        return (("Tensors, with PyTorch alone", code), *given.files(own, "program"))

    def notes(self, subject: ExportSubject) -> Sequence[str]:
        """See ``Exporter.notes``."""
        sentences = [
            f"`{self.file}` takes any number of samples from 1 to {MOST_SAMPLES:,} and is frozen: it has no gradients.",
            "`torch.export.load` runs no code of ours; load such files from people you trust, as any other program.",
        ]
        if subject.provenance.paths:
            sentences.append(
                "The multipath model is exported in its dense form: every sample passes every path. Skipping supports"
                " of negligible weight, as `evodevo predict` does, is not exported."
            )
        return sentences

    def versions(self) -> Mapping[str, str]:
        """See ``Exporter.versions``."""
        return {"torch": str(torch.__version__)}


def share_equal(module: nn.Module) -> int:
    """Let parameters of equal numbers be one, so that what several paths share is written once.

    Returns:
        How many numbers are left.
    """
    first: dict[tuple[object, ...], nn.Parameter] = {}
    for owner in module.modules():
        for name, parameter in list(owner._parameters.items()):
            if parameter is None:
                continue
            data = parameter.detach().cpu().contiguous()
            numbers = hashlib.sha256(data.reshape(-1).view(torch.uint8).numpy().tobytes()).digest()
            key = (tuple(data.shape), data.dtype, parameter.requires_grad, numbers)
            owner._parameters[name] = first.setdefault(key, parameter)
    return sum(
        parameter.numel() for parameter in {id(parameter): parameter for parameter in module.parameters()}.values()
    )


def exported(module: nn.Module, subject: ExportSubject) -> torch.export.ExportedProgram:
    """The graph of a module for any number of samples, without traces of its origin.

    Raises:
        UsageError: torch.export cannot trace it.
    """
    sample = torch.zeros(_TRACED, *subject.input.shape, dtype=getattr(torch, subject.input.dtype))
    batch = torch.export.Dim("samples", min=1, max=MOST_SAMPLES)
    try:
        with torch.no_grad(), silence():
            program = torch.export.export(module, (sample,), dynamic_shapes=({0: batch},), strict=False)
    # See export.models.pt2.graph: errors of torch.export have no common class.
    except Exception as error:
        raise UsageError(
            f"{subject.provenance.path} cannot be written as pt2: {reason(error)}. A path of plain transformer blocks"
            " can; see --agent."
        ) from error
    tidy(program)
    return program


def reason(error: Exception) -> str:
    """What torch.export cannot follow, in words."""
    if "data-dependent" in str(error):
        return (
            "it decides by the numbers of each sample which layers or modules run, and a graph is fixed; choose a"
            " network that runs all of them (an H-Model of the paper's stream, in the inference mode dense), or"
            " take --to source"
        )
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return f"torch.export cannot follow a part of it ({first[:300]})"


@contextmanager
def silence() -> Iterator[None]:
    """Without torch's warnings about itself, its log, and the graph that it prints where it cannot go on.

    What went wrong is in the error.
    """
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def tidy(program: torch.export.ExportedProgram) -> None:
    """Remove from a graph what torch.export recorded about the origin of its nodes, and rename parts that are called as
    a word of Python is, such as the head of an output ``class``.

    ``torch.export.load(…).module()`` writes code with their names, and that of torch 2.13 does not quote such words.
    """
    for part in program.graph_module.modules():
        for node in part.graph.nodes if isinstance(part, torch.fx.GraphModule) else ():
            for key in _TRACES:
                node.meta.pop(key, None)
    for spec in program.graph_signature.input_specs:
        name = spec.target or ""
        plain = ".".join(f"{part}_" if iskeyword(part) else part for part in name.split("."))
        if plain != name:
            for tensors in (program.state_dict, program.constants):
                if name in tensors:
                    tensors[plain] = tensors.pop(name)
            spec.target = plain


PT2 = TorchExport()
