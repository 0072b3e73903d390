"""The program with the network of a root of the package, beside that of a fitted model."""

from __future__ import annotations

from pathlib import Path

from evodevo.estimators.automatic.features.package_root import WEIGHTS
from evodevo.multitask.paths.convolution.spec import ConvolutionStructure
from evodevo.multitask.roots.representations import BATCH
from evodevo.multitask.source.convolution import convolution_source
from evodevo.operators.source.sheet import SourceSheet

PROGRAM = "package_root.py"
_DOCSTRING = """Representations of images by a network that had learned characters and clothes before.

The weights of what reads images for other models are those of arrays.safetensors that begin with root.

Legend: B and n samples, c channels, s places of a row, S pixels of a side, D numbers of a representation."""
_NUMBERS = f'''
def numbers(arrays, images, present):
    """Representations (n, D) of each column of images, NaN where an image is not there.

    arrays: the weights, {WEIGHTS}NAME; images: bytes (n, height, width, channels) of each column; present: (n,)."""
    model = Model().eval()
    weights = {{name[{len(WEIGHTS)}:]: array for name, array in arrays.items() if name.startswith("{WEIGHTS}")}}
    model.load_state_dict({{f"parts.{{name}}": torch.tensor(array) for name, array in weights.items()}})
    found = []
    with torch.inference_mode():
        for pixels, there in zip(images, present):
            parts = [model(part) for part in torch.tensor(pixels).split({BATCH})]
            found.append(torch.cat(parts).double().masked_fill(~torch.tensor(there)[:, None], math.nan).numpy())
    return found
'''


def written_root(structure: ConvolutionStructure, files: dict[str, str | Path]) -> None:
    """Add the program of a root to the files of the export.

    Args:
        structure: Structure of the root.
        files: Files of the export by name; see ``ProbabilityModel.source``.
    """
    sheet = SourceSheet()
    made = convolution_source(structure, sheet).made.replace("\n    ", "\n")
    body = f'def Model():\n    """The network."""\n    return {made}'
    files[PROGRAM] = sheet.text(_DOCSTRING, body, _NUMBERS)
