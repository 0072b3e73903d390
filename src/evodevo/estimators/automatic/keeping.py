"""A fitted model as a folder: facts as JSON, arrays as safetensors; loading runs no code from the files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from pydantic import Field

from evodevo import canonical, files
from evodevo.errors import DataError, NotFoundError, UnsafeFileError, UsageError
from evodevo.estimators.automatic.candidates.arrays import from_safetensors, to_safetensors
from evodevo.estimators.automatic.candidates.base import PREDICTORS, ProbabilityModel
from evodevo.estimators.automatic.leaderboard import Row
from evodevo.estimators.automatic.scores import Metric, metric_of
from evodevo.estimators.automatic.unfinished.folder import is_ours
from evodevo.estimators.automatic.unfinished.writing import write_file
from evodevo.settings import Settings, validate
from evodevo.tasks.rows.samples import RowReading
from evodevo.tasks.rows.targets import Targets

ABOUT, ARRAYS = "model.json", "arrays.safetensors"
FORMAT = "evodevo.fitted_model/1"
MOST_BYTES = 256 << 20


class SavedModel(Settings):
    """Contents of ``model.json``."""

    format: str
    version: str
    reading: RowReading
    targets: Targets
    metric: str
    shares: tuple[float, ...]
    form: str
    facts: dict[str, Any]
    rows: tuple[Row, ...] = Field(min_length=1)
    held: int
    left_out: tuple[str, ...]
    about: dict[str, Any]


def save(kept: SavedModel, arrays: Mapping[str, NDArray[Any]], folder: Path) -> Path:
    """Write a model; see ``FittedModel.save``."""
    check_target(folder)
    folder.mkdir(parents=True, exist_ok=True)
    text, data = canonical.dumps(kept.model_dump(mode="json")), to_safetensors(arrays)
    (folder / ABOUT).unlink(missing_ok=True)  # so that a kill in between leaves nothing that looks whole
    write_file(folder / ARRAYS, data)
    write_file(folder / ABOUT, text.encode())
    return folder


def write(kept: SavedModel, arrays: Mapping[str, NDArray[Any]], folder: Path) -> None:
    """Write a model's files into a folder that has none."""
    (folder / ARRAYS).write_bytes(to_safetensors(arrays))
    (folder / ABOUT).write_text(canonical.dumps(kept.model_dump(mode="json")), encoding="utf-8")


def check_target(folder: Path) -> None:
    """Check that a model can be written to a folder.

    Raises:
        UsageError: It is a file, or holds other files.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; name a folder that is empty or new.")
    if folder.is_dir() and any(entry.name not in (ABOUT, ARRAYS) and not is_ours(entry) for entry in folder.iterdir()):
        raise UsageError(f"{folder} holds other files; name a folder that is empty or new.")


def load(folder: Path) -> tuple[SavedModel, ProbabilityModel, Metric]:
    """Read a model; see ``FittedModel.load``."""
    if not (folder / ABOUT).exists() or not (folder / ARRAYS).exists():
        raise NotFoundError(f"there is no fitted model in {folder}: {ABOUT} and {ARRAYS} are wanted.")
    try:
        text = files.read_text(folder / ABOUT, MOST_BYTES, inside=folder)
        arrays = from_safetensors(files.read(folder / ARRAYS, files.most_input(), inside=folder), str(folder / ARRAYS))
        kept = validate(SavedModel, canonical.loads(text, what=str(folder / ABOUT), max_bytes=MOST_BYTES), what=ABOUT)
        if kept.format != FORMAT:
            raise UsageError(f"its format is {kept.format[:60]!r}, wanted is {FORMAT!r}.")
        predictor = PREDICTORS.get(kept.form).from_state(kept.facts, arrays)
        metric = metric_of(kept.metric, kept.targets.kind)
    except (DataError, UsageError, TypeError, KeyError, ValueError) as error:
        raise UnsafeFileError(f"{folder} holds no fitted model of this evodevo: {error}") from None
    return kept, predictor, metric
