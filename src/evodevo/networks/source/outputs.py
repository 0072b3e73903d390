"""Classes of generated files for the outputs of a network (``networks.outputs``)."""

from __future__ import annotations

from typing import cast

from evodevo.networks.outputs import OutputLayer, Outputs
from evodevo.networks.source.inputs import blocks_source
from evodevo.operators.source.layers import MASKED_MEAN
from evodevo.operators.source.sheet import Fragment, SourceSheet

OUTPUT = Fragment(
    "Output",
    '''
class Output(nn.Module):
    """Blocks, then norm and linear map of the mean over real positions: (B, S, D) -> logits (B, classes)."""

    def __init__(self, width, size, blocks):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.RMSNorm(width, eps=1e-6)
        self.head = nn.Linear(width, size)

    def forward(self, y, mask):
        for block in self.blocks:
            y = block(y, mask)
        return self.head(self.norm(masked_mean(y, mask)))
''',
    (MASKED_MEAN,),
)
TOKEN_OUTPUT = Fragment(
    "TokenOutput",
    '''
class TokenOutput(nn.Module):
    """Blocks, then norm and linear map of the positions of one input: (B, S, D) -> logits (B, L, vocabulary)."""

    def __init__(self, width, size, blocks):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.RMSNorm(width, eps=1e-6)
        self.head = nn.Linear(width, size)

    def forward(self, y, mask, place):
        for block in self.blocks:
            y = block(y, mask)
        return self.head(self.norm(y[:, place]))
''',
)


def outputs_source(sheet: SourceSheet, outputs: Outputs, inputs: tuple[str, ...], *, causal: bool, beside: bool) -> str:
    """The class of all outputs; returns its name. It maps (B, O, S, D), masks (B, O, S) or None, and the lengths of the
    inputs to a tuple of logits.

    Args:
        sheet: The file.
        outputs: The outputs.
        inputs: Names of the inputs, in order.
        causal: Whether blocks are causal.
        beside: Whether the inputs lie side by side on the canvas.
    """
    made, calls = [], []
    layers = cast("dict[str, OutputLayer]", dict(outputs.layers.items()))
    for number, (name, layer) in enumerate(layers.items()):
        width = layer.norm.weight.shape[0]
        blocks = blocks_source(sheet, len(layer.blocks), width, causal=causal)
        tokens = layer.spec.kind == "tokens"
        one = sheet.add(TOKEN_OUTPUT if tokens else OUTPUT)
        made.append(f'            "{name}": {one}({width}, {layer.spec.size}, {blocks}),')
        words = [f"y[:, {number}]", f"None if masks is None else masks[:, {number}]"]
        if tokens:
            length = inputs.index(layer.spec.of)
            begin = f"sum(lengths[:{length}])" if beside and length else ""
            words.append(f"slice({begin}, {begin} + lengths[{length}])" if begin else f"slice(lengths[{length}])")
        calls.append(f'            self.layers["{name}"]({", ".join(words)}),')
    lines = [
        "class Outputs(nn.Module):",
        '    """What each output answers: a tuple of logits."""',
        "",
        "    def __init__(self):",
        "        super().__init__()",
        "        self.layers = nn.ModuleDict({",
        *made,
        "        })",
        "",
        "    def forward(self, y, masks, lengths):",
        "        return (",
        *calls,
        "        )",
    ]
    return sheet.write_class(("outputs", id(outputs)), "Outputs", "\n".join(lines))
