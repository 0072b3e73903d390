"""The folder of a fit that has not ended: one folder per key, named by the digest of what is in it.

``begun.json`` has the data and the settings, ``used`` the seconds so far. A part whose bytes are not those that were
written is as good as none: it is trained again. So is one that is larger than the limit of what is read
(``evodevo.files``), which is not kept.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from pydantic import Field

from evodevo import canonical, files
from evodevo.errors import DataError, EvodevoError, RunOwnedError, UnsafeFileError, UsageError
from evodevo.estimators.automatic.candidates.arrays import from_safetensors, taken, to_safetensors
from evodevo.estimators.automatic.candidates.base import PREDICTORS
from evodevo.estimators.automatic.unfinished.begun import BegunFit
from evodevo.estimators.automatic.unfinished.clock import UsedTime
from evodevo.estimators.automatic.unfinished.record import FitRecord, KeptPart
from evodevo.estimators.automatic.unfinished.writing import DRAFT, remove_drafts, remove_folder, write_folder
from evodevo.settings import Settings, validate
from evodevo.storage.failpoints import failpoint

UNFINISHED = "unfinished"
"""Name of the folder within that of the model."""
BEGUN, USED, FACTS, ARRAYS = "begun.json", "used", "facts.json", "arrays.safetensors"
MOST_BYTES = 256 << 20


class _PartFacts(Settings):
    name: str
    seconds: float = Field(ge=0)
    note: str
    form: str
    facts: dict[str, Any]


class _ItemFacts(Settings):
    key: str
    arrays: str
    parts: tuple[_PartFacts, ...]


class UnfinishedFit(FitRecord):
    """Parts of a fit in a folder; see ``opened``.

    Args:
        folder: The folder, which exists.
        clock: Seconds used.
    """

    def __init__(self, folder: Path, clock: UsedTime) -> None:
        self.folder, self._clock = folder, clock
        self.used = clock.before
        self.count = sum(path.is_dir() for path in folder.iterdir())
        self.damaged: tuple[str, ...] = ()

    def get(self, key: str) -> Sequence[KeptPart] | None:
        found = self._places(key)
        for place in found:
            try:
                return self._read(place, key)
            except (EvodevoError, TypeError, KeyError, ValueError, OSError):
                continue
        if found:
            self.damaged = (*self.damaged, key)
        return None

    def put(self, key: str, parts: Sequence[KeptPart]) -> None:
        arrays: dict[str, NDArray[Any]] = {}
        kept = []
        for place, part in enumerate(parts):
            facts, own = part.model.to_state()
            arrays |= {f"{place}.model.{name}": array for name, array in own.items()}
            arrays[f"{place}.chances"] = part.chances
            kept.append(
                _PartFacts(name=part.name, seconds=part.seconds, note=part.note, form=part.model.form, facts=facts)
            )
        data = to_safetensors(arrays)
        facts_of = _ItemFacts(key=key, arrays=hashlib.sha256(data).hexdigest(), parts=tuple(kept))
        text = canonical.dumps(facts_of.model_dump(mode="json")).encode()
        if len(data) > files.most_input() or len(text) > MOST_BYTES:
            return  # it would not be read again
        failpoint("before_fit_part")
        for path in self._places(key):
            shutil.rmtree(path)
        write_folder(self.folder / f"{_slug(key)}-{_digest(text)}", {FACTS: text, ARRAYS: data})
        failpoint("after_fit_part")

    def end(self) -> None:
        self._clock.end()
        remove_folder(self.folder)

    def _places(self, key: str) -> list[Path]:
        return sorted(path for path in self.folder.glob(f"{_slug(key)}-*") if path.is_dir())

    def _read(self, place: Path, key: str) -> list[KeptPart]:
        text = files.read(place / FACTS, MOST_BYTES, inside=self.folder)
        data = files.read(place / ARRAYS, files.most_input(), inside=self.folder)
        known = validate(_ItemFacts, canonical.loads(text, what=FACTS, max_bytes=MOST_BYTES), what=FACTS)
        if place.name != f"{_slug(key)}-{_digest(text)}" or known.key != key:
            raise DataError(f"{place} is not what was written.")
        if hashlib.sha256(data).hexdigest() != known.arrays:
            raise DataError(f"{place / ARRAYS} is not what was written.")
        arrays = from_safetensors(data, str(place / ARRAYS))
        found = []
        for number, part in enumerate(known.parts):
            before = f"{number}.model."
            own = {name.removeprefix(before): array for name, array in arrays.items() if name.startswith(before)}
            model = PREDICTORS.get(part.form).from_state(part.facts, own)
            found.append(KeptPart(part.name, part.seconds, model, taken(arrays, f"{number}.chances", 2), part.note))
        return found


@contextmanager
def opened(to: Path, begun: BegunFit, began: float) -> Iterator[UnfinishedFit]:
    """The parts of a fit whose model goes to a folder; those of an earlier process where it has some.

    Args:
        to: Folder of the model; it is made where it is missing, and locked.
        begun: Data and settings of this call.
        began: Time by ``time.monotonic`` at which this process began to use the time of the fit.

    Raises:
        UsageError: The folder has the parts of a fit with other data or settings.
        RunOwnedError: Another process is fitting into the folder.
        DiskFullError: No space left.
    """
    to.mkdir(parents=True, exist_ok=True)
    held = os.open(to, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)  # dies with the process
        except BlockingIOError:
            raise RunOwnedError(f"another process is fitting into {to}; wait for it, or name another folder.") from None
        remove_drafts(to)
        folder = to / UNFINISHED
        if (folder / BEGUN).exists():
            _check(folder, begun)
            remove_drafts(folder)
        else:
            if folder.exists():
                shutil.rmtree(folder)
            write_folder(folder, {BEGUN: canonical.dumps(begun.model_dump(mode="json")).encode()})
        clock = UsedTime(folder / USED, began)
        clock.start()
        try:
            yield UnfinishedFit(folder, clock)
        finally:
            clock.end()
    finally:
        os.close(held)


def is_ours(path: Path) -> bool:
    """Whether an entry of a model's folder belongs to a fit that has not ended."""
    if path.name.startswith(DRAFT):
        return True
    return path.name == UNFINISHED and path.is_dir() and ((path / BEGUN).exists() or not any(path.iterdir()))


def _check(folder: Path, begun: BegunFit) -> None:
    hint = f"To begin anew remove {folder}, or name another folder."
    try:
        text = files.read_text(folder / BEGUN, MOST_BYTES, inside=folder)
        then = validate(BegunFit, canonical.loads(text, what=BEGUN, max_bytes=MOST_BYTES), what=BEGUN)
    except (UsageError, UnsafeFileError) as error:
        raise UsageError(f"the unfinished fit in {folder} cannot be read: {error} {hint}") from None
    found = then.differences(begun)
    if found:
        raise UsageError(
            f"{folder.parent} holds an unfinished fit, which goes on with the same data and settings alone: "
            f"{'; '.join(found)}. {hint}"
        )


def _slug(key: str) -> str:
    return re.sub(r"\W+", "_", key, flags=re.ASCII)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
