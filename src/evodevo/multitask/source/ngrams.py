"""Bags of n-grams in generated files: classes, and the expression that makes a path."""

from __future__ import annotations

from evodevo.multitask.paths.blocks_spec import EMBEDDING, HEAD, NORM
from evodevo.multitask.paths.ngrams.model import CAPITALS, FACTOR, PRIME, SPACE, SPREAD
from evodevo.multitask.paths.ngrams.spec import NgramStructure
from evodevo.multitask.source.blocks import HEAD as LINEAR
from evodevo.multitask.source.blocks import path_of
from evodevo.multitask.source.mlp import BLOCK
from evodevo.multitask.source.written import WrittenPath
from evodevo.operators.source.sheet import Fragment, SourceSheet

BAG = Fragment(
    "NgramBag",
    f'''
class NgramBag(nn.Module):
    """Texts (B, L) -> (B, D): the sum of the vectors of a text's n-grams over the root of their number.

    An n-gram is a sequence of bytes; capital letters are read as small ones, with a space around the text. Its hash
    h = h * {FACTOR} + byte + 1 modulo {PRIME} chooses the vector."""

    def __init__(self, buckets, width, shortest, longest):
        super().__init__()
        self.shortest, self.longest = shortest, longest
        self.table = nn.Parameter(torch.empty(buckets, width))

    def forward(self, texts):
        real = texts >= 0
        begun = F.pad(real, (1, 0), value=True)
        there = F.pad(begun, (0, 1), value=False) | F.pad(begun, (1, 0), value=False)  # with the space behind
        small = torch.where((texts >= {CAPITALS[0]}) & (texts <= {CAPITALS[1]}), texts + {SPACE}, texts)
        text = F.pad(torch.where(real, small, {SPACE}), (1, 1), value={SPACE}) + 1
        code, whole, count = text, there, self.table.new_zeros(texts.shape[0], 1)
        total = self.table.new_zeros(texts.shape[0], self.table.shape[1])
        for size in range(1, min(self.longest, text.shape[1]) + 1):
            if size > 1:
                code = (code[:, :-1] * {FACTOR} + text[:, size - 1 :]) % {PRIME}
                whole = whole[:, :-1] & there[:, size - 1 :]
            if size >= self.shortest:
                buckets, weights = code * {SPREAD} % {PRIME} % self.table.shape[0], whole.to(self.table.dtype)
                total = total + F.embedding_bag(buckets, self.table, mode="sum", per_sample_weights=weights)
                count = count + weights.sum(1, keepdim=True)
        return total / count.clamp(min=1).sqrt()
''',
)
PATH = Fragment(
    "NgramPath",
    '''
class NgramPath(nn.Module):
    """A path of components, in order: texts (B, L) -> logits, or without a head the representation (B, D).

    It reads the first bytes of a text; what is behind the end counts nothing."""

    def __init__(self, length, parts):
        super().__init__()
        self.length = length
        self.parts = nn.ModuleDict(parts)

    def forward(self, texts):
        x = texts[:, : self.length]
        for part in self.parts.values():
            x = part(x)
        return x
''',
)


def ngram_source(structure: NgramStructure, sheet: SourceSheet) -> WrittenPath:
    """A path; its classes are added to the sheet."""
    width, epsilon = structure.width, structure.norm_epsilon
    parts = []
    for role in structure.roles:
        if role == EMBEDDING:
            sizes = f"{structure.buckets}, {width}, {structure.shortest}, {structure.longest}"
            made = f"{sheet.add(BAG)}({sizes})"
        elif role == NORM:
            made = f"nn.LayerNorm({width}, eps={epsilon!r})"
        elif role == HEAD:
            made = f"{sheet.add(LINEAR)}({width}, {structure.classes})"
        else:
            made = f"{sheet.add(BLOCK)}({width}, {structure.behind.hidden}, {epsilon!r})"
        parts.append((role, made))
    return WrittenPath(path_of(sheet.add(PATH), str(structure.length), parts))
