"""Classes of generated files for the inputs of a network (``networks.inputs``)."""

from __future__ import annotations

from typing import cast

from evodevo.networks.canvas import fitting_heads
from evodevo.networks.inputs import InputLayer, Inputs, LatentReader
from evodevo.operators.layers.mlp import MLPLayer
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.operators.source.rows import layer_source
from evodevo.operators.source.sheet import Fragment, SourceSheet, call, listed

_TOKENS = """
        embedded = self.embedding(x)"""
_NUMBERS = """
        embedded = self.embedding(x.to(self.embedding.weight.dtype))"""
_VECTOR = """
        embedded = self.embedding(x.to(self.embedding.weight.dtype)).unsqueeze(1)"""
_PIXELS = """
        pixels = x.to(self.embedding.weight.dtype){scaled}
        side = self.patch  # zeros at the bottom and at the right complete the last patches
        pixels = F.pad(pixels, (0, 0, 0, -pixels.shape[2] % side, 0, -pixels.shape[1] % side))
        batch, height, width, channels = pixels.shape
        grid = pixels.view(batch, height // side, side, width // side, side, channels)
        patches = grid.permute(0, 1, 3, 2, 4, 5).reshape(batch, -1, side * side * channels)
        embedded = self.embedding(patches){activated}"""
_SHAPES = {
    "tokens": ("TokenInput", "token ids (B, L) -> (B, L, D)", _TOKENS),
    "features": ("FeatureInput", "vectors (B, L, C) -> (B, L, D)", _NUMBERS),
    "vector": ("VectorInput", "a vector (B, C) -> (B, 1, D)", _VECTOR),
    "image": ("ImageInput", "an image (B, height, width, channels) of bytes -> (B, patches, D)", _PIXELS),
}
_CLASS = '''
class {name}(nn.Module):
    """Reads {words}: embedding, learned positions, blocks.{absent}"""

    def __init__(self, embedding, width, length, blocks{arguments}):
        super().__init__(){keep}
        self.embedding = embedding{positions}{token}
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x, mask{default}):{body}
        for block in self.blocks:
            embedded = block(embedded, mask)
        return embedded, mask
'''
_PLACED = """
        embedded = embedded + self.positions[: embedded.shape[1]]"""
_MISSING = """
        if x is None:  # in all samples
            embedded = F.pad(self.missing.expand({rows}, 1, -1), (0, 0, 0, self.length - 1))
            mask = (torch.arange(self.length, device=embedded.device) == 0).expand({rows}, -1)
        else:{rest}"""
LATENT_READER = Fragment(
    "LatentReader",
    '''
class LatentReader(nn.Module):
    """Reads a sequence (B, L, D) into ``slots`` positions by cross-attention."""

    def __init__(self, width, slots, heads):
        super().__init__()
        self.slots = nn.Parameter(torch.empty(slots, width))
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True, bias=False)

    def forward(self, x, mask):
        queries = self.slots.expand(x.shape[0], -1, -1)
        padding = None if mask is None else ~mask
        return queries + self.attention(queries, x, x, key_padding_mask=padding, need_weights=False)[0]
''',
)
BESIDE = Fragment(
    "side_by_side",
    '''
def side_by_side(values, masks):
    """Inputs (B, L_i, D) with masks (B, L_i) or None, one after the other on one canvas of S positions: values
    (B, I, S, D), zero elsewhere, and masks (B, I, S)."""
    size, begin, placed, real = sum(x.shape[1] for x in values), 0, [], []
    for x, mask in zip(values, masks, strict=True):
        mask = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if mask is None else mask
        around = (begin, size - begin - x.shape[1])
        placed.append(F.pad(x * mask.unsqueeze(-1), (0, 0, *around)))
        real.append(F.pad(mask, around))
        begin += x.shape[1]
    return torch.stack(placed, 1), torch.stack(real, 1)
''',
)
TOGETHER = Fragment(
    "together",
    '''
def together(values, masks):
    """Inputs (B, L_i, D) with masks (B, L_i) or None, on the same S positions: values (B, I, S, D), zero elsewhere, and
    masks (B, I, S), None where every input has every position."""
    size, placed, real = max(x.shape[1] for x in values), [], []
    every = all(mask is None for mask in masks) and len({x.shape[1] for x in values}) == 1
    for x, mask in zip(values, masks, strict=True):
        mask = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if mask is None else mask
        placed.append(F.pad(x * mask.unsqueeze(-1), (0, 0, 0, size - x.shape[1])))
        real.append(F.pad(mask, (0, size - x.shape[1])))
    return torch.stack(placed, 1), None if every else torch.stack(real, 1)
''',
)


def blocks_source(sheet: SourceSheet, count: int, width: int, *, causal: bool, self_attention: bool = True) -> str:
    """The list of blocks of ``networks.inputs.build_blocks``."""
    spec = TransformerLayer(heads=fitting_heads(width)) if self_attention else MLPLayer()
    return listed([layer_source(spec, sheet, width, causal=causal) for _ in range(count)], 12)


def input_source(sheet: SourceSheet, layer: InputLayer, *, causal: bool, self_attention: bool = True) -> str:
    """The expression of an input layer."""
    spec, width = layer.spec, layer.width
    name = sheet.add(_input_class(layer))
    if spec.modality == "tokens":
        embedding = f"nn.Embedding({spec.vocabulary}, {width})"
    else:
        embedding = f"nn.Linear({layer.embedding.in_features}, {width})"
    blocks = blocks_source(sheet, len(layer.blocks), width, causal=causal, self_attention=self_attention)
    patch = layer.patch if spec.modality == "image" else None
    return call(name, embedding, width, layer.length, blocks, patch=patch)


def _input_class(layer: InputLayer) -> Fragment:
    name, words, body = _SHAPES[layer.spec.modality]
    if layer.spec.modality == "image":
        rectified = layer.activation == "relu"
        body = body.format(scaled=" / 127.5 - 1" if layer.normalise else "", activated=".relu()" if rectified else "")
        name = name if layer.normalise else f"Raw{name}"
        name = f"Rectified{name}" if rectified else name
    if layer.positions is not None:
        body += _PLACED
    else:
        name = f"Unplaced{name}"
    if layer.missing is not None:
        name = f"Optional{name}"
        body = _MISSING.format(rows="rows", rest=body.replace("\n", "\n    "))
    patch = layer.spec.modality == "image"
    text = _CLASS.format(
        name=name,
        words=words,
        absent=" A learned token replaces an input that is missing." if layer.missing is not None else "",
        arguments=", patch" if patch else "",
        keep="\n        self.patch = patch" * patch + "\n        self.length = length" * (layer.missing is not None),
        positions="\n        self.positions = nn.Parameter(torch.empty(length, width))" * (layer.positions is not None),
        token="\n        self.missing = nn.Parameter(torch.empty(width))" * (layer.missing is not None),
        default=", rows" if layer.missing is not None else "",
        body=body,
    )
    return Fragment(name, text)


def inputs_source(sheet: SourceSheet, inputs: Inputs, *, causal: bool) -> str:
    """The class that reads all inputs of a network; returns its name. It has ``forward(*tensors)``, as the file's model
    has it, and gives values (B, I, S, D), masks (B, I, S) or None, and the length of each input."""
    readers = cast("dict[str, InputLayer]", dict(inputs.layers.items()))
    layers = {name: input_source(sheet, layer, causal=causal) for name, layer in readers.items()}
    width = next(iter(readers.values())).width
    lines = [
        "class Inputs(nn.Module):",
        f'    """Reads {"the input" if len(layers) == 1 else "the inputs, which meet on one canvas"}."""',
        "",
        "    def __init__(self):",
        "        super().__init__()",
        "        self.layers = nn.ModuleDict({",
        *(f'            "{name}": {made},' for name, made in layers.items()),
        "        })",
    ]
    if inputs.segment is not None:
        lines.append(f"        self.segment = nn.Parameter(torch.empty({len(layers)}, {width}))")
    if inputs.canvas == "latents":
        reader = cast(LatentReader, next(iter(inputs.readers.values())))
        made = call(sheet.add(LATENT_READER), width, reader.slots.shape[0], heads=fitting_heads(width))
        lines.append(f"        self.readers = nn.ModuleDict({{name: {made} for name in self.layers}})")
    lines += ["", "    def forward(self, given, masks):"]
    absent = any(layer.missing is not None for layer in readers.values())
    if absent:
        lines.append("        rows = next(x.shape[0] for x in given if x is not None)")
    lines.append("        values, real = [], []")
    each, pair = "self.layers.values()", "layer"
    if inputs.segment is not None:
        each, pair = "enumerate(self.layers.values())", "(number, layer)"
    elif inputs.canvas == "latents":
        each, pair = "self.layers.items()", "(name, layer)"
    lines += [
        f"        for {pair}, x, mask in zip({each}, given, masks, strict=True):",
        f"            x, mask = layer(x, mask{', rows' if absent else ''})",
    ]
    if inputs.segment is not None:
        lines.append("            x = x + self.segment[number]")
    if inputs.canvas == "latents":
        lines.append("            x, mask = self.readers[name](x, mask), None")
    lines += ["            values.append(x)", "            real.append(mask)"]
    if len(layers) == 1:
        lines += [
            "        (x,), (mask,) = values, real",
            "        if mask is not None:",
            "            x, mask = x * mask.unsqueeze(-1), mask.unsqueeze(1)",
            "        return x.unsqueeze(1), mask, [x.shape[1]]",
        ]
    else:
        place = sheet.add(BESIDE if inputs.canvas == "segments" else TOGETHER)
        lines.append(f"        return *{place}(values, real), [x.shape[1] for x in values]")
    return sheet.write_class(("inputs", id(inputs)), "Inputs", "\n".join(lines))
