"""The files of the roots in the package: ``NAME.safetensors`` with its structure in the header, and ``NAME.md``.

Weights are read by ``paths.convolution.model``; here are the names, no torch.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors import safe_open

from evodevo.errors import unknown_name

BUILTIN = "builtin:"
"""Before the name of a root, where a folder of a checkpoint could stand."""
STRUCTURE = "structure"
"""Entry of the header of a file: the structure of the path, JSON."""
FOLDER = Path(__file__).parent


def builtin_root(word: str) -> Path | None:
    """The file of a root in the package; None where the word names no such root, but a folder.

    Args:
        word: ``builtin:NAME``, or anything else.

    Raises:
        UsageError: there is no root of that name.
    """
    if not word.startswith(BUILTIN):
        return None
    files = {file.stem: file for file in sorted(FOLDER.glob("*.safetensors"))}
    name = word.removeprefix(BUILTIN)
    if name not in files:
        raise unknown_name("root in the package", name, files)
    return files[name]


def structure_in(file: Path) -> dict[str, Any]:
    """The structure of the path in a file of a root."""
    with safe_open(file, framework="numpy") as opened:
        structure: dict[str, Any] = json.loads(opened.metadata()[STRUCTURE])
    return structure
