"""The files of a pretrained tower of a fitted model, and how its program reads through them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from evodevo.estimators.automatic.features.towers import TowerReading
from evodevo.networks.towers.images import read_preparation
from evodevo.networks.towers.model import MODEL_CLASSES
from evodevo.networks.towers.pooled import text_spec
from evodevo.networks.towers.spec import tower_sizes
from evodevo.operators.pretrained.files import weights_file
from evodevo.operators.pretrained.spec import model_folder
from evodevo.tasks.inputs import InputSpec

PROGRAM = "pretrained_towers.py"
FOLDER = "towers"


def written_tower(tower: TowerReading, files: dict[str, str | Path]) -> dict[str, Any]:
    """Facts of a tower for its program; its files are added to those of the export.

    Args:
        tower: The tower.
        files: Files of the export by name; see ``ProbabilityModel.source``.

    Raises:
        NotFoundError, DataError, UsageError, UnsafeFileError: The tower's files cannot be read.
    """
    folder = model_folder(tower.path)
    where = f"{FOLDER}/{tower.digest[:12]}"
    files[PROGRAM] = Path(__file__).with_name(PROGRAM).read_text(encoding="utf-8")
    files |= {f"{where}/{name}": folder / name for name in tower.beside}
    files[f"{where}/{weights_file(folder).name}"] = weights_file(folder)
    facts: dict[str, Any] = {"path": where, "reads": list(tower.reads)}
    if "tokens" in tower.reads:
        spec = text_spec(tower.path)
        sizes = tower_sizes(tower.path, spec)
        facts["texts"] = {
            "model": MODEL_CLASSES[sizes.tower][0],
            "width": sizes.width,
            "longest": spec.length,
            "prefix": list(sizes.prefix),
            "suffix": list(sizes.suffix),
        }
    if "image" in tower.reads:
        sizes = tower_sizes(tower.path, InputSpec("image", "image", height=1, width=1, channels=1))
        facts["images"] = {
            "model": MODEL_CLASSES[sizes.tower][0],
            "width": sizes.width,
            "image": list(sizes.image),
            "channels": sizes.channels,
            **asdict(read_preparation(folder, sizes.image)),
        }
    return facts
