"""Imported networks in generated files: what the network represents, with the norm and the head of the path."""

from __future__ import annotations

from torch import nn

from evodevo.multitask.paths.network.model import NetworkPath
from evodevo.multitask.paths.network.spec import NetworkInput
from evodevo.multitask.source.blocks import FITTED
from evodevo.multitask.source.written import WrittenPath
from evodevo.networks.base import Network
from evodevo.networks.source.arguments import argument_pairs
from evodevo.operators.source.sheet import Fragment, SourceSheet

SIZED = Fragment(
    "sized",
    '''
def sized(images, channels, height, width):
    """Images (B, any height and width, 1 or 3) of bytes -> bytes (B, height, width, channels)."""
    x = fitted(images, channels, height, width)
    return x.round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()
''',
    (FITTED,),
)
_PATH = '''
class NetworkPath(nn.Module):
    """{samples} -> logits (B, classes), or without a head what the network represents (B, D)."""

    def __init__(self, network, own):
        super().__init__()
        self.network = network
        self.own = nn.ModuleDict(own)

    def forward(self, samples):
{read}
        z = self.network({arguments})
        for part in self.own.values():
            z = part(z)
        return z
'''
_MASK = "samples >= 0"


def network_source(path: NetworkPath, sheet: SourceSheet) -> WrittenPath:
    """A path; the tensors of its network have the names that the network's own source gives them.

    Raises:
        UsageError: a kind of network whose representation has no source, or a part without source.
    """
    spec, _ = path.structure.network()
    written = type(spec).represented_source(path.network, sheet)
    (read,) = path.structure.read
    text = _PATH.format(
        samples=_WORDS[read.modality], read=_read(read, sheet), arguments=_arguments(read, path.network)
    )
    name = sheet.write_class(("network path", id(path)), "NetworkPath", text)
    own = "".join(f'                "{role}": {_own(part)},\n' for role, part in path.own.items())
    weights = {f"own.{role}": tensor for role, tensor in path.own.state_dict().items()}
    weights |= {f"network.{inside}": tensor for inside, tensor in written.weights.items()}
    return WrittenPath(f"{name}(\n            {written.name}(), {{\n{own}            }}\n        )", weights)


_WORDS = {"image": "Images of bytes", "tokens": "Texts", "vector": "Rows of numbers"}


def _read(read: NetworkInput, sheet: SourceSheet) -> str:
    """The line that makes what the network reads of samples."""
    if read.modality == "image":
        size = f"{read.channels}, {read.height}, {read.width}"
        return f"        samples = {sheet.add(SIZED)}(samples, {size})"
    return (
        f"        samples = samples[:, :{read.length}]"
        if read.modality == "tokens"
        else "        samples = samples.float()"
    )


def _arguments(read: NetworkInput, network: Network) -> str:
    """The arguments of the network: of the input that it reads, and None for the others."""
    words = []
    for spec, (_, mask) in zip(network.input_specs, argument_pairs(network), strict=True):
        chosen = spec.name == read.name
        tokens = read.modality == "tokens"
        words.append(("samples.clamp(min=0)" if tokens else "samples") if chosen else "None")
        if mask is not None:
            words.append(_MASK if chosen else "None")
    return ", ".join(words)


def _own(part: nn.Module) -> str:
    if isinstance(part, nn.LayerNorm):
        return f"nn.LayerNorm({part.normalized_shape[0]}, {part.eps!r})"
    assert isinstance(part, nn.Linear)
    return f"nn.Linear({part.in_features}, {part.out_features})"
