"""Text paths in generated files: classes, and the expression that makes a path."""

from __future__ import annotations

from evodevo.multitask.paths.blocks_spec import BLOCK
from evodevo.multitask.paths.text.spec import TextStructure
from evodevo.multitask.source.blocks import path_of
from evodevo.multitask.source.transformer import block_parts
from evodevo.multitask.source.written import WrittenPath
from evodevo.operators.source.sheet import Fragment, SourceSheet

TOKENS = Fragment(
    "TokenEmbedding",
    '''
class TokenEmbedding(nn.Module):
    """Ids (B, L) -> tokens (B, L, D)."""

    def __init__(self, vocabulary, width):
        super().__init__()
        self.table = nn.Parameter(torch.empty(vocabulary, width))

    def forward(self, ids):
        return F.embedding(ids, self.table)
''',
)
PATH = Fragment(
    "TextPath",
    f'''
class TextPath(nn.Module):
    """A path of components, in order: texts (B, L) -> logits, or without a head the class token (B, D).

    It reads as many tokens of a text as it has positions; what is behind the end counts nothing."""

    def __init__(self, length, parts):
        super().__init__()
        self.length = length
        self.parts = nn.ModuleDict(parts)

    def forward(self, texts):
        texts = texts[:, : self.length]
        x, mask = texts.clamp(min=0), F.pad(texts >= 0, (1, 0), value=True)
        for role, part in self.parts.items():
            if role.startswith("{BLOCK}"):
                x = part(x, mask)
            else:
                x = part(x[:, 0] if role == "head" else x)
        return x if "head" in self.parts else x[:, 0]
''',
)


def text_source(structure: TextStructure, sheet: SourceSheet) -> WrittenPath:
    """A path; its classes are added to the sheet.

    Raises:
        UsageError: a block without source.
    """
    embedding = f"{sheet.add(TOKENS)}({structure.vocabulary}, {structure.width})"
    parts = block_parts(structure, sheet, embedding)
    return WrittenPath(path_of(sheet.add(PATH), str(structure.length), parts))
