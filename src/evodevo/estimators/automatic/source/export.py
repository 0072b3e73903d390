"""Export of a fitted model: written beside its target, verified in a fresh process, and only then renamed to it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import UsageError, VerificationError
from evodevo.export.fresh_process import run
from evodevo.scratch import Scratch

PROGRAM, CARD = "predict.py", "README.md"
TOLERANCE = 1e-9
"""Largest difference of a probability."""
FORMS = ("constant", "linear", "neighbours", "trees")
SCRIPT = """\
import json, sys
sys.modules["evodevo"] = None
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
from predict import Model
given = json.loads(sys.stdin.buffer.read())
print(json.dumps(Model().predict_proba(given["rows"], given["folder"]).tolist()))
"""


def check_target(folder: Path) -> None:
    """Check that an export can be written to a folder.

    Raises:
        UsageError: It is a file, or not empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} exists and is not empty; name a folder that is empty or new.")


def forms_of(form: str, facts: Mapping[str, Any]) -> set[str]:
    """Forms of all models within one."""
    if "parts" not in facts or form != "mean":
        return {form}
    return set().union(*(forms_of(part["form"], part["facts"]) for part in facts["parts"]))


def check_forms(form: str, facts: Mapping[str, Any], name: str) -> None:
    """Check that a model can be exported as source.

    Raises:
        UsageError: A part of it is a network.
    """
    others = sorted(forms_of(form, facts) - set(FORMS))
    if others:
        raise UsageError(
            f"{name!r} holds a {others[0]}, which cannot be exported as source yet. Fit with networks=False "
            "(--no-networks), or keep the model with save()."
        )


def finish(
    draft: Scratch,
    target: Path,
    card: str,
    rows: Sequence[Mapping[str, str]],
    folder: Path,
    wanted: NDArray[np.float64],
) -> float:
    """Add program and card to a saved model, verify it, and rename it to the target.

    Args:
        draft: Folder with the saved model.
        target: Folder that is missing or empty.
        card: Text for people.
        rows: Rows on which answers are compared.
        folder: Folder of their images.
        wanted: Probabilities of these rows, (n, classes).

    Returns:
        Largest difference of a probability.

    Raises:
        VerificationError: The program fails, or answers otherwise; nothing is left at the target.
    """
    place = Path(draft.path)
    shutil.copyfile(Path(__file__).with_name(PROGRAM), place / PROGRAM)
    (place / CARD).write_text(card, encoding="utf-8")
    given = json.dumps({"rows": list(rows), "folder": str(folder.absolute())}).encode()
    found = np.asarray(json.loads(run(SCRIPT, place, given)))
    difference = float(np.abs(found - wanted).max()) if found.shape == wanted.shape and wanted.size else np.inf
    if not difference <= TOLERANCE:
        raise VerificationError(
            f"the exported program answers otherwise (largest difference of a probability {difference:.3g}); nothing "
            "was written."
        )
    if target.exists():
        target.rmdir()
    draft.become(target)
    return difference
