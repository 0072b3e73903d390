"""The text of ``model.py``: one backbone as plain PyTorch, for reading, changing and running without evodevo.

It has the names of the backbone's own state dict, so that the file of weights is that dict: every shared tensor once.
Equal backbones give equal text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from evodevo.backbone.genome import LIVPlan
from evodevo.backbone.model import Backbone
from evodevo.backbone.spec import BackboneStructure
from evodevo.operators.source.livs import WEIGHTS_CLASS, OperatorSource, WrittenClass
from evodevo.operators.source.pieces import CHUNK, pieces
from evodevo.operators.source.sheet import WEIGHTS, Program
from evodevo.operators.spec import Dimensions, OperatorSpec

_DIFFERENCE = '''
class DifferentialPair(nn.Module):
    """Two operators of one kind, with weights of their own: the second's output is subtracted."""

    def __init__(self, kind):
        super().__init__()
        self.first, self.second = kind(), kind()

    def forward(self, x, weights, made, state):
        outputs = []
        for copy, operator in (("first", self.first), ("second", self.second)):
            groups = made.setdefault(copy, {})
            outputs.append(operator(x, weights[copy], groups, state.setdefault(copy, {})))
        return outputs[0] - outputs[1]
'''
_BLOCK = '''
class PreNorm(nn.Module):
    """The pre-norm operator of a layer; the model adds its output to the residual stream."""

    def __init__(self, layer):
        super().__init__()
        self.norm = nn.RMSNorm(WIDTH, eps=NORM_EPSILON) if layer.normed else nn.Identity()
        self.operator = {make}

    def forward(self, x, weights, made, state):
        return self.operator(self.norm(x), weights, made, state)
'''
_MAIN = '''
def load(file=Path(__file__).with_name("{weights}")):
    """The trained model."""
    model = Model()
    model.load_state_dict(load_file(file))
    return model.eval()


if __name__ == "__main__":
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(Path(__file__).with_name("tokenizer.json")))
    prompt = sys.argv[1] if len(sys.argv) > 1 else "The "
    ids = tokenizer.encode(prompt, add_special_tokens=False).ids
    print(prompt + tokenizer.decode(load().generate(torch.tensor([ids]), 200, temperature=0.8)[0].tolist()))
'''


_ALONE = """\
import torch

import model as written

model = written.load()
logits = model(torch.zeros(2, 8, dtype=torch.long))  # (B, T) token ids -> (B, T, V)
print(tuple(logits.shape), model.generate(torch.zeros(1, 4, dtype=torch.long), 8).tolist())
"""
_TEXT = """\
import torch
from tokenizers import Tokenizer

import model as written

tokenizer, model = Tokenizer.from_file("tokenizer.json"), written.load()
prompt = torch.tensor([tokenizer.encode("The ", add_special_tokens=False).ids])
print(tokenizer.decode(model.generate(prompt, 100, temperature=0.8)[0].tolist()))
"""
_NOTE = (
    "`model.py` needs torch and safetensors. Generation keeps a state per layer: a token costs one step. Texts of a"
    " batch have equal lengths."
)


def backbone_program(backbone: Backbone) -> Program:
    """A trained backbone as source; the file also generates text."""
    return Program(
        program(backbone.structure, backbone.input_specs[0].vocabulary),
        backbone.state_dict(),
        ("tokens",),
        notes=(_NOTE,),
        example=_ALONE,
        text_example=_TEXT,
    )


def program(structure: BackboneStructure, vocabulary: int) -> str:
    """The text of ``model.py``.

    Args:
        structure: genome and sizes.
        vocabulary: number of token ids V.
    """
    return _Program(structure, vocabulary).text()


class _Program:
    def __init__(self, structure: BackboneStructure, vocabulary: int) -> None:
        self.structure = structure
        self.vocabulary = vocabulary
        self.plans = structure.plans()
        self.dims: Dimensions = structure.space.dimensions
        self.names = self._class_names()
        self.paired = any(plan.spec.copies == 2 for plan in self.plans)
        self.residual = any(plan.residual is not None for plan in self.plans)
        self.lent = any(plan.origin[role] != plan.position for plan in self.plans for role in plan.origin)

    def _class_names(self) -> dict[OperatorSpec, str]:
        names: dict[OperatorSpec, str] = {}
        for plan in self.plans:
            kind = _kind(plan.spec)
            if kind not in names:
                plain = re.sub(r"\W", "", plan.row.name.removesuffix("-Diff")) or "Operator"
                name = plain if not plain[0].isdigit() else f"Operator{plain}"
                taken = sum(other.rstrip("_") == name for other in names.values())
                names[kind] = name + "_" * taken
        return names

    def text(self) -> str:
        written = [self._operator(kind, name) for kind, name in self.names.items()]
        constants = set().union(*(one.constants for one in written))
        functions = pieces(set().union(*(one.pieces for one in written)))
        parts = [
            self._head(constants, functions),
            *functions,
            WEIGHTS_CLASS.text.strip("\n"),
            *("\n".join(one.lines) for one in written),
            *([_DIFFERENCE.strip("\n")] if self.paired else []),
            "\n".join(self._table()),
            self._block(),
            "\n".join(self._model()),
            _MAIN.format(weights=WEIGHTS).strip("\n"),
        ]
        return "\n\n\n".join(parts) + "\n"

    def _operator(self, kind: OperatorSpec, name: str) -> WrittenClass:
        plans = [plan for plan in self.plans if _kind(plan.spec) == kind]
        borrowed = {role for plan in plans for role, owner in plan.origin.items() if owner != plan.position}
        return OperatorSource(name, plans[0].row.name.removesuffix("-Diff"), kind, self.dims, borrowed).written()

    def _head(self, constants: set[str], functions: list[str]) -> str:
        mathematics = any("math." in function for function in functions)
        lines = [
            f'"""A language model of {len(self.plans)} layers, in plain PyTorch.',
            "",
            "Written by evodevo from the genome",
            "",
            *_wrapped(self.structure.parse()[0].print(self.structure.parse()[1])),
            "",
            "    model = load()                      # weights: model.safetensors beside this file",
            "    logits = model(tokens)              # (B, T) token ids -> (B, T, V), of each next token",
            "    new = model.generate(tokens, 100)   # (B, T) -> (B, 100)",
            "",
            "Texts of a batch have equal lengths: there is no mask of padding. Legend: B batch, T tokens of a call,",
            "S tokens so far, D width, H heads, P head size, N state size, V vocabulary.",
            '"""',
            "",
            *(["import math"] if mathematics else []),
            "import sys",
            "from collections import namedtuple",
            "from pathlib import Path",
            "",
            "import torch",
            "from safetensors.torch import load_file",
            "from torch import nn",
            "from torch.nn import functional as F",
            "",
            f"VOCABULARY = {self.vocabulary}",
            f"WIDTH = {self.dims.width}",
            *([f"HEAD = {self.dims.head}"] if "HEAD" in constants else []),
            *([CHUNK.format(self.dims.chunk)] if "CHUNK" in constants else []),
            *([f"POSITIONS = {self.dims.max_length}  # of the long filters"] if "POSITIONS" in constants else []),
            "NORM_EPSILON = 1e-6",
        ]  # fmt: skip
        return "\n".join(lines)

    def _table(self) -> Iterator[str]:
        fields = ["operator", "weights", "borrowed", "normed"]
        fields += ["pair"] * self.paired + ["residual"] * self.residual
        yield f'Layer = namedtuple("Layer", "{" ".join(fields)}")'
        yield ""
        yield "# Layer by layer: the operator; for each feature group that it computes, the layer that names its"
        yield "# weights in the bank (an earlier one: shared weights); for each group that it borrows, the layer whose"
        yield "# features it takes; whether its input is normalised" + self._more_fields()
        yield "LAYERS = ("
        for plan in self.plans:
            yield f"    {self._row(plan)},"
        yield ")"

    def _more_fields(self) -> str:
        words = ["; whether it is a difference of two"] * self.paired
        words += ["; the earlier layer whose output is added to its input"] * self.residual
        return "".join(words) + "."

    def _row(self, plan: LIVPlan) -> str:
        borrowed = {role: owner for role, owner in plan.origin.items() if owner != plan.position}
        values = [self.names[_kind(plan.spec)], _dict(plan.weights), _dict(borrowed), str(plan.reads_input)]
        values += [str(plan.spec.copies == 2)] * self.paired + [str(plan.residual)] * self.residual
        return f"Layer({', '.join(values)})"

    def _block(self) -> str:
        make = (
            "DifferentialPair(layer.operator) if layer.pair else layer.operator()"
            if self.paired
            else "layer.operator()"
        )
        return _BLOCK.format(make=make).strip("\n")

    def _model(self) -> Iterator[str]:
        tied = self.structure.tied
        yield "class Model(nn.Module):"
        yield '    """Embedding, layers, norm, head. Weights of feature groups are stored once in ``bank``."""'
        yield ""
        yield "    def __init__(self):"
        yield "        super().__init__()"
        yield "        self.embedding = nn.Embedding(VOCABULARY, WIDTH)"
        yield "        self.bank = nn.ModuleDict()"
        yield "        for layer in LAYERS:"
        yield "            for role, owner in layer.weights.items():"
        if self.paired:
            yield '                for copy in ("_first", "_second") if layer.pair else ("",):'
            yield '                    if f"{owner}_{role}{copy}" not in self.bank:'
            yield '                        self.bank[f"{owner}_{role}{copy}"] = Weights(layer.operator.GROUPS[role])'
        else:
            yield '                if f"{owner}_{role}" not in self.bank:'
            yield '                    self.bank[f"{owner}_{role}"] = Weights(layer.operator.GROUPS[role])'
        yield "        self.blocks = nn.ModuleList(PreNorm(layer) for layer in LAYERS)"
        yield "        self.norm = nn.RMSNorm(WIDTH, eps=NORM_EPSILON)"
        if not tied:
            yield "        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)"
        yield ""
        yield "    def forward(self, tokens, states=None):"
        yield '        """(B, T) token ids -> (B, T, V). With ``states`` of ``new_states``, which it updates, the next'
        yield '        call continues the text, in pieces of any length."""'
        yield "        states = self.new_states() if states is None else states"
        yield "        x = self.embedding(tokens)"
        if self.lent:
            yield "        features = []"
        if self.residual:
            yield "        outputs = []"
        yield "        for layer, block, state in zip(LAYERS, self.blocks, states, strict=True):"
        if self.residual:
            yield "            if layer.residual is not None:"
            yield "                x = x + outputs[layer.residual]"
        yield from (f"            {line}" for line in self._made())
        yield "            x = x + block(x, self.weights(layer), made, state)"
        if self.lent:
            yield "            features.append(made)"
        if self.residual:
            yield "            outputs.append(x)"
        yield f"        return F.linear(self.norm(x), self.{'embedding' if tied else 'head'}.weight)"
        yield ""
        yield from self._weights()
        yield ""
        yield "    def new_states(self):"
        yield '        """States of the layers before the first token of a text."""'
        yield "        return [{} for _ in LAYERS]"
        yield ""
        yield "    @torch.no_grad()"
        yield "    def generate(self, tokens, count, temperature=1.0):"
        yield '        """(B, T) -> (B, count) tokens that continue it, one step each; temperature 0: the likeliest."""'
        yield "        states, written = self.new_states(), tokens[:, :0]"
        yield "        for _ in range(count):"
        yield "            logits = self(tokens, states)[:, -1]"
        yield "            if temperature == 0:"
        yield "                tokens = logits.argmax(-1, keepdim=True)"
        yield "            else:"
        yield "                tokens = torch.multinomial((logits / temperature).softmax(-1), 1)"
        yield "            written = torch.cat([written, tokens], 1)"
        yield "        return written"

    def _made(self) -> Iterator[str]:
        if not self.lent:
            yield "made = {}"
        elif not self.paired:
            yield "made = {role: features[owner][role] for role, owner in layer.borrowed.items()}"
        else:
            yield "if layer.pair:"
            yield "    made = {"
            yield "        copy: {role: features[owner][copy][role] for role, owner in layer.borrowed.items()}"
            yield '        for copy in ("first", "second")'
            yield "    }"
            yield "else:"
            yield "    made = {role: features[owner][role] for role, owner in layer.borrowed.items()}"

    def _weights(self) -> Iterator[str]:
        yield "    def weights(self, layer):"
        yield '        """The layer\'s entries of the bank, by feature group."""'
        if self.paired:
            yield "        if layer.pair:"
            yield "            names = layer.weights.items()"
            yield "            return {"
            yield '                copy: {role: self.bank[f"{at}_{role}_{copy}"] for role, at in names}'
            yield '                for copy in ("first", "second")'
            yield "            }"
        yield '        return {role: self.bank[f"{owner}_{role}"] for role, owner in layer.weights.items()}'


def _kind(spec: OperatorSpec) -> OperatorSpec:
    """The operator of each copy: a literal difference is two of the plain ones."""
    return replace(spec, differential="none") if spec.differential == "literal" else spec


def _dict(values: dict[str, int]) -> str:
    return "{" + ", ".join(f'"{name}": {value}' for name, value in values.items()) + "}"


def _wrapped(genome: str) -> Iterator[str]:
    segments = genome.split()
    for start in range(0, len(segments), 12):
        yield "    " + " ".join(segments[start : start + 12])
