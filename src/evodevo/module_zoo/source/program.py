"""The text of ``model.py`` of one zoo of modules: plain PyTorch, with what this network uses and nothing else.

Parts have the names of the network's own state dict. What the answers do not read is left out: alignment and summaries
of the sides, the terms of the loss, modules that do not count. Two tensors are computed when the file is written: the
bias of each module by its contribution, and keys that are made from genotypes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import torch
from torch import Tensor

from evodevo.errors import UsageError, quoted_list
from evodevo.module_zoo.encoders.extractors import GivenFeatures
from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.router.graph_attention import standardised
from evodevo.module_zoo.source.fusion import JOINED, fusion_source
from evodevo.module_zoo.source.modules import module_source
from evodevo.module_zoo.source.router import SCORES, router_source
from evodevo.networks.inputs import InputLayer
from evodevo.networks.source.arguments import argument_pairs, arguments, usage_lines
from evodevo.networks.source.inputs import input_source
from evodevo.networks.source.routing import LARGEST
from evodevo.operators.source.layers import MASKED_MEAN
from evodevo.operators.source.sheet import Fragment, Program, RepresentationSource, SourceSheet

NOTE = (
    "`model.py` needs torch and safetensors. It computes what the trained network answers in evaluation mode, with"
    " gradients; dropout, the other terms of the loss and modules that do not count are not in it."
)
_GIVEN = '''
class {name}(nn.Module):
    """Numbers as they are: {words}.{absent}"""
{init}
    def forward(self, x, mask{rows}):{missing}
        return x{shaped}, mask
'''
_GIVEN_INIT = """
    def __init__(self, size):
        super().__init__()
        self.missing = nn.Parameter(torch.empty(size))
"""
_GIVEN_MISSING = """
        if x is None:  # in all samples
            mask = torch.ones(rows, 1, dtype=torch.bool, device=self.missing.device)
            return self.missing.expand(rows, 1, -1), mask"""
ANSWER = Fragment(
    "Answer",
    '''
class Answer(nn.Module):
    """Norm and linear map: (B, D) -> logits (B, size)."""

    def __init__(self, width, size):
        super().__init__()
        self.norm = nn.RMSNorm(width, eps=1e-6)
        self.head = nn.Linear(width, size)

    def forward(self, z):
        return self.head(self.norm(z))
''',
)
_POOL = '''
class Modules(nn.Module):
    """The modules, by id."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleDict({{
{parts}
        }}){learned}

    def forward(self, x, mask, chosen=None):
        """The output of each module (B, N, D), a mean over positions. With ``chosen`` (B, N) a module runs only for its
        samples, and its output is 0 for the others."""
        outputs = []
        for number, module in enumerate(self.parts.values()):
            if chosen is None or chosen[:, number].all():
                outputs.append(self.pooled(module(x, mask), mask))
                continue
            rows, u = chosen[:, number], x.new_zeros(len(x), x.shape[-1])
            if rows.any():
                some = None if mask is None else mask[rows]
                u[rows] = self.pooled(module(x[rows], some), some)
            outputs.append(u)
        return torch.stack(outputs, 1)

    def pooled(self, y, mask):
        """(B, L, D) -> (B, D)."""
{pooled}
'''
_MEAN = "        return masked_mean(y, mask)"
_MAPPED = """        places = y.shape[1]
        weights = self.maps[:places].flatten(0, 1)
        if mask is None:
            return y.flatten(1) @ weights / places
        real = mask.to(y.dtype)
        return (y * real.unsqueeze(-1)).flatten(1) @ weights / real.sum(1, keepdim=True).clamp(min=1.0)"""
_READOUT = Fragment(
    "Readout",
    '''
class Readout(nn.Module):
    """A layer of hidden units beside the identity: (B, D) -> (B, D)."""

    def __init__(self, width, hidden):
        super().__init__()
        self.norm = nn.RMSNorm(width, eps=1e-6)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, z):
        return z + self.down(F.gelu(self.up(self.norm(z))))
''',
)
_QUERIED = """        scores = (y @ self.query) * y.shape[-1] ** -0.5
        if mask is None:
            return (scores.softmax(-1).unsqueeze(1) @ y).squeeze(1)
        weights = scores.masked_fill(~mask, torch.finfo(y.dtype).min).softmax(-1) * mask
        return (weights.unsqueeze(1) @ y).squeeze(1)"""


def zoo_program(zoo: ModuleZoo, *, alone: bool = True) -> Program:
    """The zoo as source.

    Args:
        zoo: The zoo.
        alone: Whether the file reads a file of weights itself; otherwise another program fills ``Model``.

    Raises:
        UsageError: A node or a layer without source, a pretrained extractor, or modules that are half born.
    """
    return _ZooProgram(zoo, alone=alone).program()


def zoo_representation(zoo: ModuleZoo, sheet: SourceSheet) -> RepresentationSource:
    """The mixture z_r (B, D) of a zoo's modules as a class; see ``NetworkSpec.represented_source``.

    Raises:
        UsageError: as ``zoo_program``.
    """
    return _ZooProgram(zoo, sheet).representation()


class _ZooProgram:
    def __init__(self, zoo: ModuleZoo, sheet: SourceSheet | None = None, *, alone: bool = True) -> None:
        self.alone, self.represents = alone, sheet is not None
        self.zoo, self.structure, self.ids = zoo, zoo.structure, zoo.live
        self.width = zoo.structure.width
        self.sheet = SourceSheet() if sheet is None else sheet
        young = [name for name in self.ids if zoo.births.get(name, 1.0) < 1]
        if young:
            raise UsageError(
                f"modules that are half born ({quoted_list(young)}) have no source; take --to pt2, or train on until"
                " they are mature."
            )

    def program(self) -> Program:
        """See ``zoo_program``."""
        self.sheet.add(ANSWER)
        body = "\n".join(self._model("Model", *self._classes()))
        text = self.sheet.text("\n".join(self._docstring()), body, load=None if self.alone else "")
        return Program(text, self._weights(), arguments(self.zoo), notes=(NOTE,))

    def representation(self) -> RepresentationSource:
        """See ``zoo_representation``."""
        parts = self._classes()
        name = self.sheet.write(("zoo", id(self.zoo)), "Zoo", lambda free: "\n".join(self._model(free, *parts)))
        return RepresentationSource(name, self._weights())

    def _classes(self) -> tuple[str, str | None, str, str]:
        """Names of the classes of senses, fusion, modules and router."""
        zoo, structure, sheet = self.zoo, self.structure, self.sheet
        senses = self._senses()
        fusion = None if zoo.fusion is None else fusion_source(sheet, zoo.fusion, self.width)
        pool = self._pool()
        router = router_source(sheet, zoo.router, structure.router, self.ids, self.width)
        sheet.add(MASKED_MEAN)
        return senses, fusion, pool, router

    def _docstring(self) -> Iterator[str]:
        yield f"A zoo of {len(self.ids)} modules with a router, in plain PyTorch."
        yield ""
        yield "Written by evodevo."
        yield ""
        yield from usage_lines(self.zoo, load=self.alone)
        yield ""
        yield "Legend: B samples, L positions of one input, S positions that the modules read, D width, N modules,"
        yield "H heads of the router, P = D / H."

    # Weights

    def _weights(self) -> dict[str, Tensor]:
        zoo, weights = self.zoo, {}
        others = {module.id for module in self.structure.modules} - set(self.ids)
        for name, tensor in zoo.state_dict().items():
            if name.startswith(("alignment.", "statistics.", "senses.statistics.", "genotype_keys.")):
                continue
            if self.represents and name.startswith(("heads.", "readout.")):
                continue
            if name.startswith("predictor.") and not self._predicts():
                continue
            if not any(part in others for part in name.split(".")):
                weights[name] = tensor
        router = self.structure.router
        with torch.no_grad():
            if router.kind == "graph_attention" and router.contribution:
                known = zoo.statistics.contribution(self.ids)
                weights["router.contribution"] = router.contribution * standardised(known).float()
            if zoo.genotype_keys is not None:
                weights["keys"] = zoo.genotype_keys(self.ids).detach()
        return weights

    def _predicts(self) -> bool:
        """Whether the predictor leaves modules out."""
        limit = self.zoo.top_k
        return self.zoo.predictor is not None and limit is not None and limit + 1 < len(self.ids)

    # Parts

    def _senses(self) -> str:
        zoo, sheet, width = self.zoo, self.sheet, self.width
        made, channels = {}, {}
        for spec in zoo.senses.specs:
            extractor = zoo.senses.extractors[spec.name]
            channels[spec.name] = int(cast(int, extractor.width))
            if isinstance(extractor, InputLayer):
                attends = self.structure.extractor_of(spec.name).self_attention
                made[spec.name] = input_source(sheet, extractor, causal=False, self_attention=attends)
            elif isinstance(extractor, GivenFeatures):
                made[spec.name] = self._given(extractor)
            else:
                raise UsageError(f"the pretrained extractor of the input {spec.name!r} has no source; take --to pt2.")
        lines = [
            "class Senses(nn.Module):",
            '    """Reads the inputs: tokens (B, L, D) of each, and their masks."""',
            "",
        ]
        lines += ["    def __init__(self):", "        super().__init__()", "        self.extractors = nn.ModuleDict({"]
        lines += [f'            "{name}": {one},' for name, one in made.items()]
        lines += ["        })", "        self.projections = nn.ModuleDict({"]
        lines += [f'            "{name}": nn.Linear({size}, {width}),' for name, size in channels.items()]
        lines.append("        })")
        if len(zoo.senses.segments):
            sizes = ", ".join(f"nn.Parameter(torch.empty({one.shape[0]}, {width}))" for one in zoo.senses.segments)
            lines.append(f"        self.segments = nn.ParameterList([{sizes}])")
        lines += ["", "    def read(self, name, x, mask, rows):"]
        lines.append('        """Tokens (B, L, D) of one input and its mask."""')
        optional = self.structure.missing
        lines.append(f"        x, mask = self.extractors[name](x, mask{', rows' if optional else ''})")
        lines.append("        return self.projections[name](x), mask")
        return sheet.write_class(("senses", id(zoo)), "Senses", "\n".join(lines))

    def _given(self, extractor: GivenFeatures) -> str:
        vector, optional = extractor.spec.modality == "vector", extractor.missing is not None
        name = ("Optional" if optional else "") + ("GivenVector" if vector else "GivenFeatures")
        text = _GIVEN.format(
            name=name,
            words="(B, C) -> (B, 1, C)" if vector else "(B, L, C) -> (B, L, C)",
            absent=" A learned token replaces an input that is missing." if optional else "",
            init=_GIVEN_INIT if optional else "",
            rows=", rows" if optional else "",
            missing=_GIVEN_MISSING if optional else "",
            shaped=".unsqueeze(1)" if vector else "",
        )
        made = self.sheet.add(Fragment(name, text))
        return f"{made}({extractor.width})" if optional else f"{made}()"

    def _pool(self) -> str:
        genotypes = {module.id: module.genotype for module in self.structure.modules}
        parts = [f'            "{name}": {module_source(self.sheet, genotypes[name])},' for name in self.ids]
        kind, pool = self.structure.pool, self.zoo.pool
        if kind == "mean":
            self.sheet.add(MASKED_MEAN)
        learned = {name: one for name, one in (("query", pool.query), ("maps", pool.maps)) if one is not None}
        text = _POOL.format(
            parts="\n".join(parts),
            learned="".join(
                f"\n        self.{name} = nn.Parameter(torch.empty({', '.join(map(str, one.shape))}))"
                for name, one in learned.items()
            ),
            pooled={"mean": _MEAN, "attention": _QUERIED, "positions": _MAPPED}[kind],
        )
        return self.sheet.write_class(("modules", id(self.zoo)), "Modules", text)

    # The network

    def _model(self, name: str, senses: str, fusion: str | None, pool: str, router: str) -> Iterator[str]:
        zoo, structure, width = self.zoo, self.structure, self.width
        yield f"class {name}(nn.Module):"
        yield f'    """Senses, fusion, modules, router{"" if self.represents else ", answers"}."""'
        yield ""
        yield "    def __init__(self):"
        yield "        super().__init__()"
        yield f"        self.senses = {senses}()"
        if fusion:
            yield f"        self.fusion = {fusion}()"
        if zoo.chunk is not None:
            yield f"        self.chunk = nn.Linear({zoo.chunk.in_features}, {width})"
        yield f"        self.pool = {pool}()"
        yield f"        self.router = {router}()"
        if self._predicts():
            hidden = structure.router.predictor_hidden or width
            yield f"        self.predictor = {self.sheet.add(SCORES)}({list(self.ids)}, {width}, {hidden})"
        if zoo.genotype_keys is not None:
            yield f'        self.register_buffer("keys", torch.zeros({len(self.ids)}, {width}))  # made from genotypes'
        if not self.represents:
            yield "        self.heads = nn.ModuleDict({"
            for spec in zoo.output_specs:
                yield f'            "{spec.name}": Answer({width}, {spec.size}),'
            yield "        })"
            if zoo.readout is not None:
                yield f"        self.readout = {self.sheet.add(_READOUT)}({width}, {structure.readout})"
        yield ""
        yield f"    def forward(self, {', '.join(arguments(zoo))}):"
        yield f'        """{"The mixture (B, D)" if self.represents else "Logits, one tensor for each output"}."""'
        yield from self._sides()
        yield from self._routed()
        if self.represents:
            yield "        return z"
            return
        if zoo.readout is not None:
            yield "        z = self.readout(z)"
        yield "        return tuple(head(z) for head in self.heads.values())"

    def _sides(self) -> Iterator[str]:
        zoo, senses = self.zoo, self.zoo.senses
        pairs = {spec.name: pair for spec, pair in zip(zoo.input_specs, argument_pairs(zoo), strict=True)}
        if self.structure.missing:
            given = ", ".join(pair[0] for pair in pairs.values())
            yield f"        rows = next((len(x) for x in ({given},) if x is not None), 1)  # one where all are missing"
        segments = 0
        for side, title in zip(senses.sides, ("image", "text"), strict=True):
            names = [senses.specs[place].name for place in side]
            for number, name in enumerate(names):
                x, mask = pairs[name]
                one = f"{title}_{number}" if len(names) > 1 else f"{title}_side"
                rows = "rows" if self.structure.missing else "None"
                yield f'        {one}, {one}_mask = self.senses.read("{name}", {x}, {mask}, {rows})'
            if len(names) > 1:
                self.sheet.add(JOINED)
                places = range(len(names))
                pieces = ", ".join(f"{title}_{n} + self.senses.segments[{segments}][{n}]" for n in places)
                masks = ", ".join(f"{title}_{n}_mask" for n in places)
                yield f"        {title}_side, {title}_side_mask = joined([{pieces}], [{masks}])"
                segments += 1
        if zoo.fusion is not None:
            yield "        x, mask, f = self.fusion(image_side, image_side_mask, text_side, text_side_mask)"
            return
        only = "image" if senses.sides[0] else "text"
        yield f"        x, mask = {only}_side, {only}_side_mask"
        yield "        f = masked_mean(x, mask)"

    def _routed(self) -> Iterator[str]:
        zoo, structure = self.zoo, self.structure
        if zoo.chunk is not None:
            yield f"        x, mask = self.chunk(f.unflatten(-1, ({structure.chunks}, -1))), None"
        if zoo.genotype_keys is not None:
            yield "        weights = self.router(f, self.keys.unsqueeze(0), None)"
            yield "        outputs = self.pool(x, mask, weights.mean(1) > 0)"
        elif self._predicts():
            self.sheet.add(LARGEST)
            yield f"        chosen = largest(self.predictor(f), {(zoo.top_k or 0) + 1})"
            yield "        outputs = self.pool(x, mask, chosen)"
            yield "        weights = self.router(f, outputs, chosen)"
        else:
            yield "        outputs = self.pool(x, mask)"
            yield "        weights = self.router(f, outputs, None)"
        yield "        z = self.router.mix(weights, outputs, f)"
