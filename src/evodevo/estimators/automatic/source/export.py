"""Export of a fitted model: written beside its target, verified in a fresh process, and only then renamed to it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from evodevo import __version__
from evodevo.errors import UsageError, VerificationError, unknown_name
from evodevo.estimators.automatic import keeping
from evodevo.estimators.automatic.candidates.base import ProbabilityModel
from evodevo.estimators.automatic.leaderboard import Leaderboard
from evodevo.estimators.automatic.source.probes import drawn
from evodevo.estimators.automatic.source.root_program import PROGRAM as ROOT
from evodevo.estimators.automatic.source.written_tower import FOLDER
from evodevo.estimators.automatic.source.written_tower import PROGRAM as TOWERS
from evodevo.export.folder import CARD, Export, check_target, publish, write_text
from evodevo.export.fresh_process import run
from evodevo.export.model_card import plain_text
from evodevo.export.verify import Verified
from evodevo.tasks.rows import sources
from evodevo.tasks.rows.samples import RowReading
from evodevo.tasks.rows.sources import Rows
from evodevo.tasks.rows.targets import Targets
from evodevo.tasks.sounds import spectrogram

PROGRAM, FORMAT = "predict.py", "source"
SOUNDS = "sounds.py"
"""Name under which the program finds the file that makes pictures of sounds."""
MOST_PROBES = 50
"""Largest number of rows on which an export is verified."""
TOLERANCE, NETWORK_TOLERANCE = 1e-9, 1e-5
"""Largest difference of a probability, or of a value in the largest one's size or 1; networks compute in single
precision."""
TOWER_TOLERANCE = 1e-4
"""The same where a pretrained tower reads: a program reads text by text, which adds up in another order."""
FORMS = ("constant", "linear", "neighbours", "network", "tower", "trees")
SCRIPT = """\
import json, sys
sys.modules["evodevo"] = None
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
from predict import Model
given = json.loads(sys.stdin.buffer.read())
print(json.dumps(Model().answers(given["rows"], given["folder"]).tolist()))
"""


class Exportable(Protocol):
    """The parts of a fitted model that an export needs; see ``FittedModel``."""

    @property
    def name(self) -> str: ...
    @property
    def reading(self) -> RowReading: ...
    @property
    def targets(self) -> Targets: ...
    @property
    def predictor(self) -> ProbabilityModel: ...
    @property
    def about(self) -> Mapping[str, Any]: ...
    @property
    def probes(self) -> Rows | None: ...
    def saved(self) -> tuple[keeping.SavedModel, dict[str, NDArray[Any]]]: ...
    def leaderboard(self) -> Leaderboard: ...


def check(to: str, target: Path) -> None:
    """Check that an export of this format may be written to a folder.

    Raises:
        UsageError: An unknown format, or a folder that holds something that no export wrote.
    """
    if to != FORMAT:
        raise unknown_name("format of fitted models", to, [FORMAT])
    check_target(target.absolute())


def export_fitted(model: Exportable, to: str, target: Path, probes: Any = None) -> Export:
    """Write a model as files that work without evodevo; see ``FittedModel.export``."""
    check(to, target)
    rows = model.probes if probes is None else sources.read(probes, model.targets.columns)
    kept, arrays = model.saved()
    _check_forms(kept.form, kept.facts, model.name)
    if rows is None:
        rows = drawn(model.reading, kept.facts)
    rows = rows.take(np.arange(min(rows.count, MOST_PROBES)))
    files: dict[str, str | Path] = {}
    kept = kept.model_copy(update={"facts": model.predictor.source(kept.facts, files)})

    def fill(draft: Path) -> tuple[Verified, dict[str, Any]]:
        keeping.write(kept, arrays, draft)
        shutil.copyfile(Path(__file__).with_name(PROGRAM), draft / PROGRAM)
        if model.reading.shapes:
            shutil.copyfile(spectrogram.__file__, draft / SOUNDS)
        for name, given in files.items():
            (draft / name).parent.mkdir(parents=True, exist_ok=True)
            if isinstance(given, Path):
                shutil.copyfile(given, draft / name)
            else:
                write_text(draft / name, given)
        verdict = model.leaderboard().verdict
        programs = [name for name, given in files.items() if isinstance(given, str)]
        write_text(draft / CARD, _card(model.name, verdict, programs, images=bool(model.reading.shapes)))
        wanted = model.predictor.probabilities(model.reading.read(rows))
        tolerance = TOWER_TOLERANCE if {TOWERS, ROOT} & {*programs} else NETWORK_TOLERANCE if programs else TOLERANCE
        verified = _verified(draft, rows, wanted, tolerance)
        about = {"model": model.name, "verdict": verdict, "data": dict(model.about)}
        return verified, {
            "format": FORMAT,
            "versions": {"evodevo": __version__},
            **about,
            "verified": verified.to_json(),
        }

    return replace(publish(target, fill), format=FORMAT)


def _forms_of(form: str, facts: Mapping[str, Any]) -> set[str]:
    """Forms of all models within one."""
    if form == "tower":
        return {form, *_forms_of(facts["form"], facts["facts"])}
    if "parts" not in facts or form != "mean":
        return {form}
    return set().union(*(_forms_of(part["form"], part["facts"]) for part in facts["parts"]))


def _check_forms(form: str, facts: Mapping[str, Any], name: str) -> None:
    others = sorted(_forms_of(form, facts) - set(FORMS))
    if others:
        raise UsageError(f"{name!r} holds a model of the form {others[0]!r}, which has no source. Keep it with save().")


def _card(name: str, verdict: str, files: Collection[str], *, images: bool) -> str:
    """Text of the card; ``files`` are programs beside the main one: of networks, and of towers."""
    networks = [file for file in files if file not in (TOWERS, ROOT)]
    needs = ["numpy", *(["pillow"] if images else []), *(["torch"] if files else [])]
    needs += ["transformers"] if TOWERS in files else []
    about = f"`{PROGRAM}` needs {' and '.join(needs)}."
    if images:
        about += f" Of .wav files `{SOUNDS}` makes the images; it needs scipy."
    if networks:
        about += f" Its networks are in {', '.join(f'`{file}`' for file in networks)}."
    if ROOT in files:
        about += f" `{ROOT}` makes numbers of images by a network that evodevo brings along. Its weights, which are in"
        about += (
            " `arrays.safetensors`, have learned fashion_mnist (MIT), omniglot (MIT), mnist10k (CC BY-SA 3.0) and the"
        )
        about += (
            " fonts of DejaVu (Bitstream Vera); evodevo's `multitask/roots/characters.md` states what that asks of you."
        )
    if TOWERS in files:
        about += f" `{TOWERS}` reads through the pretrained models in `{FOLDER}`, which are copies of those on disk."
    return f"# {plain_text(name)}\n\n{plain_text(verdict)}\n\n    python {PROGRAM} rows.csv > answers.csv\n\n{about}\n"


def _verified(place: Path, rows: Rows, wanted: NDArray[np.float64], tolerance: float) -> Verified:
    """Ask the program in a fresh process for its answers to rows, and compare them with those wanted, (n, C)."""
    plain = [
        {name: column[row] for name, column in rows.cells.items()}
        | {name: pixels[row].tolist() for name, pixels in rows.pixels.items()}
        for row in range(rows.count)
    ]
    given = json.dumps({"rows": plain, "folder": str((rows.folder or Path()).absolute())}).encode()
    found = np.asarray(json.loads(run(SCRIPT, place, given)))
    size = max(1.0, float(np.abs(wanted).max(initial=0.0)))  # of probabilities 1
    difference = float(np.abs(found - wanted).max()) / size if found.shape == wanted.shape and wanted.size else np.inf
    if not difference <= tolerance:
        raise VerificationError(
            f"the exported program answers otherwise (largest difference of a prediction {difference:.3g}); nothing "
            "was written."
        )
    return Verified(difference, 1.0, rows.count)
