"""Convolutional paths in generated files: classes, and the expression that makes a path."""

from __future__ import annotations

from evodevo.multitask.paths.blocks_spec import EMBEDDING, HEAD, NORM
from evodevo.multitask.paths.convolution.spec import ConvolutionStructure
from evodevo.multitask.source.blocks import HEAD as LINEAR
from evodevo.multitask.source.blocks import PREPARED, path_of
from evodevo.multitask.source.written import WrittenPath
from evodevo.operators.source.sheet import Fragment, SourceSheet

FIRST = Fragment(
    "ImageConvolution",
    '''
class ImageConvolution(nn.Module):
    """Images (B, channels, S, S) -> features (B, c, s, s)."""

    def __init__(self, channels, width, stride):
        super().__init__()
        self.project = nn.Conv2d(channels, width, 3, stride, 1)

    def forward(self, images):
        return self.project(images)
''',
)
BLOCK = Fragment(
    "ResidualBlock",
    '''
class ResidualBlock(nn.Module):
    """x + second(relu(norm(first(relu(norm(x)))))); around it leads x itself, or a 1 x 1 convolution."""

    def __init__(self, inputs, hidden, outputs, stride, group, epsilon):
        super().__init__()
        self.stride = stride
        self.first_norm = nn.GroupNorm(inputs // group, inputs, epsilon)
        self.first = nn.Conv2d(inputs, hidden, 3, stride, 1, bias=False)
        self.second_norm = nn.GroupNorm(hidden // group, hidden, epsilon)
        self.second = nn.Conv2d(hidden, outputs, 3, 1, 1, bias=False)
        self.around = nn.Conv2d(inputs, outputs, 1, bias=False) if stride > 1 or inputs != outputs else None

    def forward(self, x):
        y = F.relu(self.first_norm(x))
        if self.around is not None:
            x = self.around(F.avg_pool2d(y, 2, ceil_mode=True) if self.stride == 2 else y)
        return x + self.second(F.relu(self.second_norm(self.first(y))))
''',
)
MEAN = Fragment(
    "GridMean",
    '''
class GridMean(nn.Module):
    """Norm, relu, and the mean of each cell of a grid: (B, c, s, s) -> (B, D)."""

    def __init__(self, width, grid, group, epsilon):
        super().__init__()
        self.grid = grid
        self.norm = nn.GroupNorm(width // group, width, epsilon)

    def forward(self, x):
        stride = x.shape[-1] // self.grid
        return F.avg_pool2d(F.relu(self.norm(x)), x.shape[-1] - (self.grid - 1) * stride, stride).flatten(1)
''',
)
PATH = Fragment(
    "ConvolutionPath",
    '''
class ConvolutionPath(nn.Module):
    """A path of components, in order: images of bytes -> logits, or without a head the representation (B, D)."""

    def __init__(self, channels, size, parts):
        super().__init__()
        self.channels, self.size = channels, size
        self.parts = nn.ModuleDict(parts)

    def forward(self, images):
        x = prepared(images, self.channels, self.size)
        for part in self.parts.values():
            x = part(x)
        return x
''',
    (PREPARED,),
)


def convolution_source(structure: ConvolutionStructure, sheet: SourceSheet) -> WrittenPath:
    """A path; its classes are added to the sheet."""
    norm = f"{structure.group}, {structure.norm_epsilon!r}"
    parts = []
    for role in structure.roles:
        if role == EMBEDDING:
            made = f"{sheet.add(FIRST)}({structure.channels}, {structure.widths[0]}, {structure.stride})"
        elif role == NORM:
            made = f"{sheet.add(MEAN)}({structure.widths[-1]}, {structure.grid}, {norm})"
        elif role == HEAD:
            made = f"{sheet.add(LINEAR)}({structure.width}, {structure.classes})"
        else:
            block = structure.block(role)
            sizes = f"{block.inputs}, {block.hidden}, {block.outputs}, {block.stride}"
            made = f"{sheet.add(BLOCK)}({sizes}, {norm})"
        parts.append((role, made))
    return WrittenPath(path_of(sheet.add(PATH), f"{structure.channels}, {structure.image_size}", parts))
