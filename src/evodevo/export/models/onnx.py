"""The format ``onnx``: one file for ONNX Runtime, made from the graph of ``pt2`` by torch's exporter."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from evodevo.errors import UsageError, missing_extra
from evodevo.export.models.base import Arrays, ModelExporter, ModelSubject, Written
from evodevo.export.models.process import ask
from evodevo.export.models.pt2 import graph
from evodevo.export.torch_export import share_equal

FILE = "model.onnx"
PACKAGES = ("onnx", "onnxscript", "onnxruntime")

_LOAD = f"""\
import onnxruntime
session = onnxruntime.InferenceSession(place + "/{FILE}", providers=["CPUExecutionProvider"])
names = [one.name for one in session.get_inputs()]
def answers(*tensors):
    found = session.run(None, {{name: one.numpy() for name, one in zip(names, tensors)}})
    return [[torch.from_numpy(one) for one in found]]
"""
_ALONE = """\
import onnxruntime

session = onnxruntime.InferenceSession("{file}", providers=["CPUExecutionProvider"])
print([(one.name, one.shape, one.type) for one in session.get_inputs()])
"""


class Onnx(ModelExporter):
    """Export as ``onnx``; see the module."""

    name = "onnx"

    def check(self, subject: ModelSubject) -> None:
        """See ``ModelExporter.check``; its packages must be installed."""
        super().check(subject)
        for package in PACKAGES:
            if find_spec(package) is None:
                raise missing_extra(package, "onnx", "an export to onnx")

    def write(self, subject: ModelSubject, folder: Path) -> Written:
        """See ``ModelExporter.write``."""
        share_equal(subject.network)
        program, written = graph(subject, self.name)
        names = [one.name for one in subject.inputs], [name for name, _, _ in subject.outputs]
        try:
            with warnings.catch_warnings():
                # torch's exporter calls what torch has deprecated.
                warnings.simplefilter("ignore", FutureWarning)
                made = torch.onnx.export(
                    program, dynamo=True, input_names=names[0], output_names=names[1], verbose=False
                )
            model = made.model_proto if made is not None else None
        # Only calls of torch.onnx and onnxscript, whose passes and translations raise errors without a common class:
        # OnnxExporterError, RuntimeError, NotImplementedError, ValueError, TypeError, AssertionError and more.
        except Exception as error:
            first: BaseException = error
            while (before := first.__cause__ or first.__context__) is not None:
                first = before
            reason = next((line.strip() for line in str(first).splitlines() if line.strip()), type(first).__name__)
            raise UsageError(
                f"{subject.name} cannot be written as onnx: its exporter cannot follow a part of it ({reason[:300]})."
                " Take --to pt2."
            ) from error
        assert model is not None, "torch.onnx.export returns a program where dynamo is set"
        (folder / FILE).write_bytes(_without_history(model))
        return written

    def ask(self, folder: Path, probes: Sequence[Arrays]) -> list[list[Arrays]]:
        """See ``ModelExporter.ask``."""
        return ask(_LOAD, folder, probes)

    def usage(self, subject: ModelSubject, written: Written) -> Sequence[tuple[str, str]]:
        """See ``ModelExporter.usage``."""
        return (("With ONNX Runtime", _ALONE.format(file=FILE)),)

    def library(self, written: Written) -> str:
        """See ``ModelExporter.library``."""
        return "onnx"

    def versions(self) -> Mapping[str, str]:
        """See ``ModelExporter.versions``."""
        return {package: metadata.version(package) for package in PACKAGES} | {"torch": str(torch.__version__)}


def _without_history(model: Any) -> bytes:
    """A model's bytes without notes on its making, which differ from one export of equal networks to the next."""
    graph = model.graph
    for row in (model, graph, *graph.node, *graph.value_info, *graph.input, *graph.output, *graph.initializer):
        del row.metadata_props[:]
    return bytes(model.SerializeToString(deterministic=True))


ONNX = Onnx()
