"""Classes of generated files for the components of paths of blocks and of multipath models (``multitask.paths``)."""

from __future__ import annotations

from collections.abc import Sequence

from evodevo.operators.source.sheet import Fragment

PATCHES = Fragment(
    "PatchEmbedding",
    '''
class PatchEmbedding(nn.Module):
    """Images (B, channels, S, S) -> tokens (B, n - 1, D), row by row."""

    def __init__(self, channels, width, patch):
        super().__init__()
        self.project = nn.Conv2d(channels, width, patch, patch)

    def forward(self, images):
        return self.project(images).flatten(2).transpose(1, 2)
''',
)
CLASS_TOKEN = Fragment(
    "ClassToken",
    '''
class ClassToken(nn.Module):
    """Puts the class token before the others."""

    def __init__(self, width):
        super().__init__()
        self.token = nn.Parameter(torch.empty(width))

    def forward(self, x):
        return torch.cat([self.token.expand(x.shape[0], 1, -1), x], 1)
''',
)
POSITIONS = Fragment(
    "Positions",
    '''
class Positions(nn.Module):
    """Adds the position embedding of each token."""

    def __init__(self, tokens, width):
        super().__init__()
        self.table = nn.Parameter(torch.empty(tokens, width))

    def forward(self, x):
        return x + self.table[: x.shape[1]]
''',
)
ATTENTION_BLOCK = Fragment(
    "AttentionBlock",
    '''
class AttentionBlock(nn.Module):
    """x + attention(norm(x)), then x + W_2 activation(W_1 norm(x)).

    Tokens (B, n) at which the mask is false are not read."""

    def __init__(self, width, heads, key_width, value_width, hidden, epsilon, activation):
        super().__init__()
        self.heads, self.activation = heads, activation
        self.attention_norm = nn.LayerNorm(width, epsilon)
        self.query = nn.Linear(width, heads * key_width)
        self.key = nn.Linear(width, heads * key_width)
        self.value = nn.Linear(width, heads * value_width)
        self.out = nn.Linear(heads * value_width, width)
        self.hidden_norm = nn.LayerNorm(width, epsilon)
        self.inner = nn.Linear(width, hidden)
        self.outer = nn.Linear(hidden, width)

    def forward(self, x, mask=None):
        y = self.attention_norm(x)
        query, key, value = (
            part(y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        mixed = F.scaled_dot_product_attention(query, key, value, None if mask is None else mask[:, None, None])
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.outer(self.activation(self.inner(self.hidden_norm(x))))
''',
)
GELU_TANH = Fragment(
    "gelu_tanh",
    '''
def gelu_tanh(x):
    """GELU in its approximation by tanh."""
    return F.gelu(x, approximate="tanh")
''',
)
LAYER_BLOCK = Fragment(
    "LayerBlock",
    '''
class LayerBlock(nn.Module):
    """x + g (layer(x) - x), with a gate g for each channel."""

    def __init__(self, layer, width):
        super().__init__()
        self.layer = layer
        self.gate = nn.Parameter(torch.empty(width))

    def forward(self, x, mask=None):
        return torch.lerp(x, self.layer(x, mask), self.gate)
''',
)
HEAD = Fragment(
    "Head",
    '''
class Head(nn.Module):
    """The class token (B, D) -> logits (B, classes)."""

    def __init__(self, width, classes):
        super().__init__()
        self.project = nn.Linear(width, classes)

    def forward(self, x):
        return self.project(x)
''',
)
FITTED = Fragment(
    "fitted",
    '''
def fitted(images, channels, height, width):
    """Images (B, any height and width, 1 or 3) of bytes -> numbers (B, channels, height, width), 0 to 255.

    Colour becomes brightness where the path reads grey; images of another size are resized without their aspect."""
    x = images.permute(0, 3, 1, 2).float()
    if x.shape[1] != channels and channels == 1:
        x = (x * x.new_tensor([0.299, 0.587, 0.114]).view(1, 3, 1, 1)).sum(1, keepdim=True)
    elif x.shape[1] != channels:
        x = x.expand(-1, channels, -1, -1)
    if tuple(x.shape[2:]) != (height, width):
        x = F.interpolate(x, (height, width), mode="bilinear", antialias=True, align_corners=False)
    return x
''',
)
PREPARED = Fragment(
    "prepared",
    '''
def prepared(images, channels, size):
    """Images (B, height, width, 1 or 3) of bytes -> (B, channels, size, size) in [-1, 1]."""
    return (fitted(images, channels, size, size) / 127.5 - 1).clamp(-1, 1)
''',
    (FITTED,),
)
VISION_PATH = Fragment(
    "VisionPath",
    '''
class VisionPath(nn.Module):
    """A path of components, in order: images of bytes -> logits, or without a head the class token (B, D)."""

    def __init__(self, channels, size, parts):
        super().__init__()
        self.channels, self.size = channels, size
        self.parts = nn.ModuleDict(parts)

    def forward(self, images):
        x = prepared(images, self.channels, self.size)
        for role, part in self.parts.items():
            x = part(x[:, 0] if role == "head" else x)
        return x if "head" in self.parts else x[:, 0]
''',
    (PREPARED,),
)
ROUTER = Fragment(
    "PathRouter",
    '''
class PathRouter(nn.Module):
    """Weights (B, P) of the paths, from the logits (B, C) of the main one."""

    def __init__(self, classes, paths, norm=None):
        super().__init__()
        self.norm = norm
        self.dense = nn.Linear(classes, paths)

    def forward(self, main):
        return self.dense(main if self.norm is None else self.norm(main)).softmax(-1)
''',
)


def path_of(name: str, sizes: str, parts: Sequence[tuple[str, str]]) -> str:
    """The expression of a path.

    Args:
        name: Class of the path; its last argument is the parts.
        sizes: Its other arguments.
        parts: (role, expression of the component), in the order in which a sample passes them.
    """
    lines = "\n".join(f'                "{role}": {made},' for role, made in parts)
    return f"{name}(\n            {sizes}, {{\n{lines}\n            }}\n        )"
