"""The text of ``model.py`` of one path of a system, and its weights: plain PyTorch, samples in, logits out.

A tensor that several paths share is stored once, under the name that it has in the first; the file says which others
are equal to it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.multitask.paths.kinds import KINDS
from evodevo.multitask.paths.multipath_spec import ROUTER, connector
from evodevo.multitask.run.dense_export import DensePath
from evodevo.multitask.source import blocks
from evodevo.operators.source.sheet import Program, SourceSheet

_SHARED = '''
def load(file=Path(__file__).with_name("model.safetensors")):
    """The trained network."""
    stored = load_file(file)
    stored |= {name: stored[first] for name, first in SHARED.items()}
    model = Model()
    model.load_state_dict(stored, assign=True)  # what paths share is one tensor
    return model.eval()
'''


def path_program(network: nn.Module) -> Program:
    """The source of a path, or of a multipath model in its dense form.

    Raises:
        UsageError: Any other network, or a block without source.
    """
    if not isinstance(network, DensePath):
        raise UsageError(
            f"a {type(network).__name__} has no source; exported are paths that read an image, a text or a row of"
            " numbers, and multipaths."
        )
    return _PathProgram(network).program()


class _PathProgram:
    def __init__(self, dense: DensePath) -> None:
        self.dense, self.model = dense, cast(Any, dense.network)
        self.sheet = SourceSheet()
        self.samples = next(iter(dense.reads.values()))
        joint = dense.alone is None
        self.renamed: dict[str, Mapping[str, Tensor]] = {}
        self.routed = joint and self.model.structure.has_router and ROUTER in self.model.shapes

    def program(self) -> Program:
        """See ``path_program``."""
        body = list(self._single() if self.dense.alone is not None else self._joint())
        weights, shared = self._weights()
        self.sheet.parts["SHARED"] = _table(shared)
        text = self.sheet.text("\n".join(self._docstring()), "\n".join(body), _SHARED)
        return Program(text, weights, (self.samples.name,))

    def _docstring(self) -> Iterator[str]:
        many = "" if self.dense.alone is not None else f" of {len(self.model.paths)} paths"
        yield f"A model{many}, in plain PyTorch."
        yield ""
        yield "    model = load()  # weights: model.safetensors beside this file"
        yield f"    logits = model({self.samples.name})"
        yield ""
        yield f"{self.samples.name}: {self.samples.words}; logits: (B, C)."
        yield ""
        yield "Legend: B samples, n tokens (the class token first), D width, c channels, P paths, C classes."

    # Weights

    def _weights(self) -> tuple[dict[str, Tensor], dict[str, str]]:
        """Tensors by their first name, and the other names of those that paths share."""
        stored: dict[str, Tensor] = {}
        shared: dict[str, str] = {}
        known: dict[tuple[object, ...], str] = {}
        for plain, tensor in self._tensors():
            if plain == f"{ROUTER}.average" or (plain.startswith(f"{ROUTER}.") and not self.routed):
                continue  # no answer reads it
            data = tensor.detach().cpu().contiguous()
            if plain.startswith("paths."):
                numbers = hashlib.sha256(data.reshape(-1).view(torch.uint8).numpy().tobytes()).digest()
                key = (plain.split(".", 2)[2], tuple(data.shape), data.dtype, numbers)
                first = known.setdefault(key, plain)
                if first != plain:
                    shared[plain] = first
                    continue
            stored[plain] = data
        return stored, shared

    def _tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Tensors by the names of the file."""
        for name, tensor in self.model.state_dict().items():
            plain = name.replace(".module.", ".", 1) if name.startswith("paths.") else name
            if not any(map(plain.startswith, self.renamed)):
                yield plain, tensor
        for prefix, weights in self.renamed.items():
            for name, tensor in weights.items():
                yield f"{prefix}{name}", tensor

    # Classes

    def _path(self, path: Any, prefix: str) -> str:
        """The expression of a path whose tensors' names begin with the prefix."""
        kind = getattr(path, "kind", "")
        if kind not in KINDS:
            raise UsageError(f"a {type(path).__name__} has no source: it names no kind of path; take --to pt2.")
        written = KINDS.get(kind).single().source(path, self.sheet)
        if written.weights is not None:
            self.renamed[prefix] = written.weights
        return written.made

    def _single(self) -> Iterator[str]:
        made = self._path(self.model, "")
        yield "def Model():"
        yield '    """The path."""'
        yield f"    return {made}".replace("\n    ", "\n")

    def _joint(self) -> Iterator[str]:
        model, classes = self.model, self.model.classes
        names = list(model.paths)
        made = {name: self._path(model.paths[name].module, f"paths.{name}.") for name in names}
        yield "class Model(nn.Module):"
        yield '    """The main path answers; each support adds an answer by its connector, weighted for each sample."""'
        yield ""
        yield "    def __init__(self):"
        yield "        super().__init__()"
        yield "        self.paths = nn.ModuleDict()"
        for name, one in made.items():
            yield f'        self.paths["{name}"] = {one}'
        for number, width in enumerate(model.widths, start=1):
            yield f"        self.{connector(number)} = nn.Linear({width}, {classes})"
        if self.routed:
            router = model.get_submodule(ROUTER)
            norm = f", nn.LayerNorm({classes}, eps={router.norm.eps!r})" if router.norm is not None else ""
            yield f"        self.{ROUTER} = {self.sheet.add(blocks.ROUTER)}({classes}, {len(names)}{norm})"
        yield ""
        yield f"    def forward(self, {self.samples.name}):"
        yield f'        main = self.paths["{names[0]}"]({self.samples.name})'
        if len(names) == 1:
            yield "        return main"
            return
        yield "        parts = ["
        yield "            main,"
        for number, name in enumerate(names[1:], start=1):
            yield f'            self.{connector(number)}(self.paths["{name}"]({self.samples.name})),'
        yield "        ]"
        if self.routed:
            yield f"        return (torch.stack(parts, 1) * self.{ROUTER}(main).unsqueeze(-1)).sum(1)"
        else:
            yield "        return torch.stack(parts, 1).sum(1)"


def _table(shared: dict[str, str]) -> str:
    lines = [f'    "{name}":\n        "{first}",' for name, first in shared.items()]
    return "\n".join(["# Other names of tensors that several paths share.", "SHARED = {", *lines, "}"])
