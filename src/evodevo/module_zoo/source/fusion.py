"""Classes of generated files for the fusion of two sides (``module_zoo.encoders.fusion``)."""

from __future__ import annotations

from collections.abc import Iterator

from evodevo.module_zoo.encoders.fusion import Fusion
from evodevo.module_zoo.encoders.spec import BUCKETS, FARTHEST
from evodevo.operators.source.layers import MASKED_MEAN
from evodevo.operators.source.sheet import Fragment, SourceSheet

JOINED = Fragment(
    "joined",
    '''
def joined(pieces, masks):
    """Sequences (B, L, D) one after the other, and which positions are real: (B, S), None where all are."""
    together = torch.cat(pieces, 1)
    if all(mask is None for mask in masks):
        return together, None
    whole = [
        torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if mask is None else mask
        for x, mask in zip(pieces, masks, strict=True)
    ]
    return together, torch.cat(whole, 1)
''',
)
_BUCKETS = Fragment(
    "distance_buckets",
    f'''
def distance_buckets(distance):
    """The bucket of each distance, key minus query (Raffel et al. 2020): single ones near 0, growing to {FARTHEST}."""
    half, exact = {BUCKETS // 2}, {BUCKETS // 4}
    far = distance.abs()
    steps = (far.clamp(min=1).double() / exact).log() / math.log({FARTHEST} / exact) * (half - exact)
    grown = (exact + steps.long()).clamp(max=half - 1)
    return torch.where(far < exact, far, grown) + half * (distance > 0)
''',
)
_ATTENTION = '''
class CrossAttention(nn.Module):
    """Attention of (B, Q, D) to the real positions of (B, K, D): (B, Q, D), zeros where none is real."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False){parameters}

    def forward(self, asking, answering, mask):
        query, key, value = (
            x.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for x in (self.query(asking), self.key(answering), self.value(answering))
        ){scaled}
        seen = None if mask is None else (mask | ~mask.any(1, keepdim=True))[:, None, None, :]{biased}
        y = F.scaled_dot_product_attention(query, key, value, attn_mask=seen).transpose(1, 2).flatten(2){projected}
        return y if mask is None else y * mask.any(1)[:, None, None]
'''
_BIASED = """
        places = torch.arange(max(query.shape[2], key.shape[2]), device=query.device)
        distance = places[: key.shape[2]] - places[: query.shape[2], None]
        bias = self.bias(distance_buckets(distance)).permute(2, 0, 1).unsqueeze(0)
        seen = bias if seen is None else bias.masked_fill(~seen, -torch.inf)"""


def fusion_source(sheet: SourceSheet, fusion: Fusion, width: int) -> str:
    """The class ``Fusion``; returns its name.

    It maps tokens and mask of the image side and of the text side to F (B, S, D), its mask and f (B, D).
    """
    lines = list(_lines(sheet, fusion, width))
    return sheet.write_class(("fusion", id(fusion)), "Fusion", "\n".join(lines))


def _attention(sheet: SourceSheet, fusion: Fusion) -> str:
    structure = fusion.structure
    parameters = ""
    needs: tuple[Fragment, ...] = ()
    if structure.projection:
        parameters += "\n        self.project = nn.Linear(width, width)"
    if structure.temperature == "learned":
        parameters += "\n        self.log_temperature = nn.Parameter(torch.empty(()))"
    if structure.relative_positions:
        parameters += f"\n        self.bias = nn.Embedding({BUCKETS}, heads)"
        needs = (_BUCKETS,)
    text = _ATTENTION.format(
        parameters=parameters,
        scaled="\n        query = query * (-self.log_temperature).exp()" if structure.temperature == "learned" else "",
        biased=_BIASED if structure.relative_positions else "",
        projected="\n        y = self.project(y)" if structure.projection else "",
    )
    return sheet.add(Fragment("CrossAttention", text, needs))


def _lines(sheet: SourceSheet, fusion: Fusion, width: int) -> Iterator[str]:
    structure = fusion.structure
    sheet.add(MASKED_MEAN)
    yield "class Fusion(nn.Module):"
    yield '    """Two sides become one sequence F and one vector f."""'
    yield ""
    yield "    def __init__(self):"
    yield "        super().__init__()"
    assert fusion.gate is not None
    if fusion.gate.map is not None:
        yield f'        self.gate = nn.ModuleDict({{"map": nn.Linear({2 * width}, {fusion.gate.map.out_features})}})'
    if len(fusion.attentions):
        made = f"{_attention(sheet, fusion)}({width}, {structure.heads})"
        yield f"        self.attentions = nn.ModuleList([{made} for _ in range({len(fusion.attentions)})])"
    if len(fusion.maps):
        maps = ", ".join(f"nn.Linear({one.in_features}, {one.out_features})" for one in fusion.maps)
        yield f"        self.maps = nn.ModuleList([{maps}])"
    if len(fusion.norms):
        yield f"        self.norms = nn.ModuleList([nn.LayerNorm({width}) for _ in range({len(fusion.norms)})])"
    yield ""
    if fusion.gate.map is not None:
        yield "    def gated(self, x, y):"
        yield '        """How much x counts, against y: in [0, 1]."""'
        yield '        return self.gate["map"](torch.cat([x, y], -1)).sigmoid()'
        yield ""
    yield "    def forward(self, image, image_mask, text, text_mask):"
    if structure.query == "image":
        yield "        asking, asking_mask, answering, answering_mask = image, image_mask, text, text_mask"
    else:
        yield "        asking, asking_mask, answering, answering_mask = text, text_mask, image, image_mask"
    yield from _fused(sheet, fusion)
    if structure.concat_query:
        sheet.add(JOINED)
        yield "        return *joined([tokens, asking], [mask, asking_mask]), f"
    else:
        yield "        return tokens, mask, f"


def _fused(sheet: SourceSheet, fusion: Fusion) -> Iterator[str]:
    structure = fusion.structure
    kind, half = structure.kind, fusion.gate is None or fusion.gate.map is None
    yield "        mean, other_mean = masked_mean(asking, asking_mask), masked_mean(answering, answering_mask)"
    if kind == "gmu":
        gate = "0.5" if half else "self.gated(asking, other_mean.unsqueeze(1).expand_as(asking))"
        yield f"        g = {gate}"
        yield "        x, y = self.maps[0](asking).tanh(), self.maps[1](other_mean).tanh()"
        yield f"        tokens = {_normed(fusion, 'g * x + (1 - g) * y.unsqueeze(1)', 0)}"
        yield "        mask, f = asking_mask, masked_mean(tokens, asking_mask)"
        return
    yield f"        g = {'0.5' if half else 'self.gated(mean, other_mean)'}"
    if kind in ("symmetric", "concat"):
        sheet.add(JOINED)
        yield f"        one = {_normed(fusion, _attended(fusion, 'asking', 'answering', 0), 0)}"
        yield f"        other = {_normed(fusion, _attended(fusion, 'answering', 'asking', 1), 1)}"
        yield "        tokens, mask = joined([one, other], [asking_mask, answering_mask])"
        yield "        f = g * masked_mean(one, asking_mask) + (1 - g) * masked_mean(other, answering_mask)"
        return
    if kind == "bilinear":
        yield "        y = self.maps[1](other_mean).tanh().unsqueeze(1)"
        yield f"        tokens = {_normed(fusion, 'self.maps[2](self.maps[0](asking).tanh() * y)', 0)}"
    else:
        yield f"        tokens = {_normed(fusion, _attended(fusion, 'asking', 'answering', 0), 0)}"
    yield "        mask, f = asking_mask, g * masked_mean(tokens, asking_mask) + (1 - g) * other_mean"


def _attended(fusion: Fusion, asking: str, answering: str, number: int) -> str:
    if not len(fusion.attentions):
        return asking
    source = answering if fusion.structure.values == "other" else asking
    attended = f"self.attentions[{number}]({asking}, {source}, {source}_mask)"
    return attended if fusion.structure.kind == "paper" else f"{asking} + {attended}"


def _normed(fusion: Fusion, tokens: str, number: int) -> str:
    return f"self.norms[{number}]({tokens})" if len(fusion.norms) else tokens
