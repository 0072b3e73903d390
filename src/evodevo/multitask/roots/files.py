"""The files of roots: ``NAME.safetensors`` with its structure in the header; in the package beside a card, ``NAME.md``.

Weights are read by ``paths.convolution.builder``; here are names and headers, no torch.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors import safe_open

from evodevo.errors import DataError, NotFoundError, unknown_name

BUILTIN = "builtin:"
"""Before the name of a root, where a folder of a checkpoint could stand."""
STRUCTURE = "structure"
"""Entry of the header of a file: the structure of the path, JSON."""
SUFFIX = ".safetensors"
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
    files = {file.stem: file for file in sorted(FOLDER.glob(f"*{SUFFIX}"))}
    name = word.removeprefix(BUILTIN)
    if name not in files:
        raise unknown_name("root in the package", name, files)
    return files[name]


def root_file(word: str) -> Path | None:
    """The file of a root, of the package or of one's own; None where the word names a folder of a checkpoint.

    Args:
        word: ``builtin:NAME``, a path that ends with ``.safetensors``, or anything else.

    Raises:
        UsageError: there is no root of that name in the package.
        NotFoundError: there is no such file.
    """
    if not word.endswith(SUFFIX):
        return builtin_root(word)
    file = Path(word).expanduser().resolve()
    if not file.is_file():
        raise NotFoundError(f"no file of a root at {file}.")
    return file


def structure_in(file: Path) -> dict[str, Any]:
    """The structure of the path in a file of a root, which nothing has checked.

    Raises:
        DataError: no safetensors file, or one whose header names no structure.
    """
    try:
        with safe_open(file, framework="numpy") as opened:
            structure = json.loads((opened.metadata() or {})[STRUCTURE])
    except Exception as error:  # a Rust error without a stable Python type, a header without the entry, no JSON
        raise DataError(
            f"{file} is no root: {str(error)[:200]}. A root is a file that python -m evodevo.multitask.roots.training "
            "wrote."
        ) from None
    if not isinstance(structure, dict):
        raise DataError(f"{file} is no root: the structure in its header is a {type(structure).__name__}.")
    return structure
