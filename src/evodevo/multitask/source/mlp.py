"""Multilayer perceptrons over rows in generated files: classes, and the expression that makes a path."""

from __future__ import annotations

from evodevo.multitask.paths.blocks_spec import EMBEDDING, HEAD, NORM
from evodevo.multitask.paths.mlp.model import BOUND
from evodevo.multitask.paths.mlp.spec import MLPStructure
from evodevo.multitask.source.blocks import HEAD as LINEAR
from evodevo.multitask.source.written import WrittenPath
from evodevo.operators.source.sheet import Fragment, SourceSheet

FIRST = Fragment(
    "RowEmbedding",
    f'''
class RowEmbedding(nn.Module):
    """Numbers (B, G) -> (B, D): standardised, 0 where one is missing, pulled below {BOUND:g}, and projected.

    The first numbers may be missing; as many indicators of that follow them."""

    def __init__(self, inputs, indicated, width):
        super().__init__()
        self.indicated = indicated
        self.register_buffer("mean", torch.zeros(inputs))
        self.register_buffer("factor", torch.ones(inputs))
        self.project = nn.Linear(inputs, width)

    def forward(self, rows):
        x, n = (rows - self.mean) * self.factor, self.indicated
        if n:
            x = torch.cat([x[:, :n] * (1 - rows[:, n : 2 * n]), x[:, n:]], 1)
        x = x.clamp(-1e15, 1e15)
        return self.project(x / (1 + (x / {BOUND!r}) ** 2).sqrt())
''',
)
BLOCK = Fragment(
    "MLPBlock",
    '''
class MLPBlock(nn.Module):
    """x + second(relu(first(norm(x))))."""

    def __init__(self, width, hidden, epsilon):
        super().__init__()
        self.norm = nn.LayerNorm(width, epsilon)
        self.first = nn.Linear(width, hidden)
        self.second = nn.Linear(hidden, width)

    def forward(self, x):
        return x + self.second(F.relu(self.first(self.norm(x))))
''',
)
NORMED = Fragment(
    "RectifiedNorm",
    '''
class RectifiedNorm(nn.Module):
    """relu(norm(x))."""

    def __init__(self, width, epsilon):
        super().__init__()
        self.norm = nn.LayerNorm(width, epsilon)

    def forward(self, x):
        return F.relu(self.norm(x))
''',
)
PATH = Fragment(
    "MLPPath",
    '''
class MLPPath(nn.Module):
    """A path of components, in order: rows -> logits, or without a head the representation (B, D)."""

    def __init__(self, parts):
        super().__init__()
        self.parts = nn.ModuleDict(parts)

    def forward(self, rows):
        x = rows.float()
        for part in self.parts.values():
            x = part(x)
        return x
''',
)


def mlp_source(structure: MLPStructure, sheet: SourceSheet) -> WrittenPath:
    """A path; its classes are added to the sheet."""
    width, epsilon = structure.width, structure.norm_epsilon
    lines = []
    for role in structure.roles:
        if role == EMBEDDING:
            made = f"{sheet.add(FIRST)}({structure.inputs}, {structure.indicated}, {width})"
        elif role == NORM:
            made = f"{sheet.add(NORMED)}({width}, {epsilon!r})"
        elif role == HEAD:
            made = f"{sheet.add(LINEAR)}({width}, {structure.classes})"
        else:
            made = f"{sheet.add(BLOCK)}({width}, {structure.hidden}, {epsilon!r})"
        lines.append(f'                "{role}": {made},')
    inside = "\n".join(lines)
    return WrittenPath(f"{sheet.add(PATH)}(\n            {{\n{inside}\n            }}\n        )")
