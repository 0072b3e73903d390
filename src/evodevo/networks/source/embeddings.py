"""Classes of generated files for the embedding of the iteration (``networks.iteration_embedding``)."""

from __future__ import annotations

from evodevo.networks.iteration_embedding import IterationEmbedding
from evodevo.operators.source.sheet import Fragment, SourceSheet

_VECTOR = '''
    def vector(self, t):
        """A learned vector of iteration t, plus a sinusoidal one; beyond the last the last learned one again."""
        width = self.learned.shape[1]
        half = torch.arange((width + 1) // 2, dtype=torch.float32, device=self.learned.device)
        angles = t * torch.exp(-math.log(10_000.0) * 2 * half / width)
        waves = torch.stack([angles.sin(), angles.cos()], -1).flatten()[:width]
        return self.learned[min(t, len(self.learned) - 1)] + 0.02 * waves
'''
ADDED = Fragment(
    "IterationEmbedding",
    f'''
class IterationEmbedding(nn.Module):
    """x (..., D) plus a vector of the iteration."""

    def __init__(self, iterations, width):
        super().__init__()
        self.learned = nn.Parameter(torch.empty(iterations, width))

    def forward(self, x, t):
        return x + self.vector(t)
{_VECTOR}''',
)
FILM = Fragment(
    "IterationModulation",
    f'''
class IterationModulation(nn.Module):
    """x (..., D), scaled and shifted by vectors of the iteration."""

    def __init__(self, iterations, width):
        super().__init__()
        self.learned = nn.Parameter(torch.empty(iterations, width))
        self.scale = nn.Parameter(torch.empty(iterations, width))

    def forward(self, x, t):
        return x * (1 + self.scale[min(t, len(self.scale) - 1)]) + self.vector(t)
{_VECTOR}''',
)


def embedding_source(sheet: SourceSheet, embedding: IterationEmbedding) -> str | None:
    """The expression of an embedding; None where there is none."""
    if embedding.learned is None:
        return None
    name = sheet.add(FILM if embedding.scale is not None else ADDED)
    return f"{name}({embedding.learned.shape[0]}, {embedding.learned.shape[1]})"
