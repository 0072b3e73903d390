"""The folder of an export: written beside its target, verified, and only then renamed to it.

Files: that of the format, ``spec.json`` (inputs and outputs), ``README.md`` (the card) and ``manifest.json`` (origin,
and the SHA-256 of every other file).
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from evodevo import __version__, canonical
from evodevo.errors import DiskFullError, UsageError
from evodevo.export.base import Exporter, ExportSubject
from evodevo.export.model_card import model_card
from evodevo.export.verify import Verified, verify

SCHEMA = "evodevo.export/1"
MANIFEST, SPEC, CARD = "manifest.json", "spec.json", "README.md"
_MANIFEST_BYTES = 64 * 2**20
_PIECE = 1 << 20


@dataclass(frozen=True)
class Export:
    """A written export.

    Attributes:
        folder: Folder of the export.
        files: SHA-256 by file name, without the manifest.
        verified: Result of the verification.
        format: Name of the format.
        alone: Whether its files are read without evodevo.
    """

    folder: Path
    files: Mapping[str, str]
    verified: Verified
    format: str = "pt2"
    alone: bool = True


def write_export(exporter: Exporter, subject: ExportSubject, target: Path) -> Export:
    """Export to a folder that is missing, empty, or an earlier export, which is replaced. All or nothing.

    Raises:
        UsageError: The folder holds something else, cannot be written, or the format cannot hold the network.
        VerificationError: The outputs of the written file differ from the network's.
        DiskFullError: No space left.
    """

    def fill(draft: Path) -> tuple[Verified, dict[str, Any]]:
        exporter.write(subject, draft)
        for name, text in subject.input.beside().items():
            write_text(draft / name, text)
        verified = verify(exporter, subject, draft)
        write_json(draft / SPEC, _spec(exporter, subject))
        write_text(draft / CARD, model_card(exporter, subject, verified))
        return verified, _manifest(exporter, subject, verified)

    return replace(publish(target, fill), format=exporter.name)


def publish(target: Path, fill: Callable[[Path], tuple[Verified, dict[str, Any]]]) -> Export:
    """Write a folder beside its target and rename it there when it is whole. All or nothing.

    Args:
        target: A folder that is missing, empty, or an earlier export, which is replaced.
        fill: Writes all files but the manifest into a folder, verifies them, and returns the result of that and the
            manifest without its ``files``.

    Raises:
        UsageError: The target holds something else, or cannot be written.
        DiskFullError: No space left.
    """
    target = target.absolute()
    check_target(target)
    with _writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(target)
        draft = Path(tempfile.mkdtemp(prefix=_draft_prefix(target), dir=target.parent))
        held = os.open(draft, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        with _writing(target):
            verified, manifest = fill(draft)
            files = {name: file_digest(draft / name) for name in _names_below(draft)}
            write_json(draft / MANIFEST, {"schema": SCHEMA, **manifest, "files": files})
            for entry in (*draft.rglob("*"), draft):
                # Temporary folders, and the files of safetensors, are for their owner alone.
                entry.chmod((0o777 if entry.is_dir() else 0o666) & ~_mask())
                _sync(entry)
            _put(draft, target)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    finally:
        os.close(held)
    return Export(target, files, verified)


def _draft_prefix(target: Path) -> str:
    return f".{target.name}.draft-"


def _remove_abandoned(target: Path) -> None:
    """Remove the drafts of exports to this target that were killed: those that no process has locked."""
    for draft in target.parent.iterdir():
        if not draft.name.startswith(_draft_prefix(target)) or draft.is_symlink() or not draft.is_dir():
            continue
        handle = os.open(draft, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            shutil.rmtree(draft, ignore_errors=True)
        finally:
            os.close(handle)


def check_target(target: Path) -> None:
    """Check that an export may be written to a folder.

    Raises:
        UsageError: It holds something that no export wrote, or cannot be a folder.
    """
    above = next(folder for folder in target.absolute().parents if folder.exists())
    if not above.is_dir():
        raise UsageError(f"{above} is no folder, so that {target.name} cannot be in it; name another folder.")
    if not target.exists() and not target.is_symlink():
        return
    if not target.is_dir() or target.is_symlink():
        raise UsageError(f"{target} is no folder; name a new one for the export.")
    names = _names_below(target)
    if not names:
        return
    ours = _files_of(target / MANIFEST)
    strangers = [name for name in names if name not in ours]
    if strangers:
        raise UsageError(
            f"{target} holds {strangers[0]!r}, which no export wrote, and would be replaced. Name a new folder."
        )


def _names_below(folder: Path) -> list[str]:
    """Relative paths of the files below a folder, and of empty folders, which no export has."""
    found = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir() or not any(path.iterdir()))
    return sorted(path.relative_to(folder).as_posix() for path in found)


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    hashed = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            hashed.update(piece)
    return hashed.hexdigest()


def _files_of(manifest: Path) -> set[str]:
    """Names of a manifest of evodevo and of the files that it lists; none where it is another file.

    Names are paths relative to its folder.
    """
    try:
        manifest_data = canonical.loads(manifest.read_bytes(), what=str(manifest), max_bytes=_MANIFEST_BYTES)
    except (OSError, UsageError):
        return set()
    if (
        not isinstance(manifest_data, dict)
        or manifest_data.get("schema") != SCHEMA
        or not isinstance(manifest_data.get("files"), dict)
    ):
        return set()
    return {manifest.name, *manifest_data["files"]}


def _spec(exporter: Exporter, subject: ExportSubject) -> dict[str, Any]:
    return {
        "schema": "evodevo.export_spec/1",
        "task": subject.provenance.task,
        "format": exporter.name,
        "file": exporter.file,
        "input": subject.input.to_json(),
        "output": {"name": "logits", "dtype": "float32", "shape": [None, len(subject.classes)], "then": "softmax"},
        "classes": list(subject.classes),
    }


def _manifest(exporter: Exporter, subject: ExportSubject, verified: Verified) -> dict[str, Any]:
    made = subject.provenance
    return {
        "format": exporter.name,
        "versions": {"evodevo": __version__, **exporter.versions()},
        "system": made.system,
        "agent": made.agent,
        "task": made.task,
        "path": made.path,
        "kind": made.kind,
        "paths": list(made.paths),
        "created": made.created,
        "accuracy": {"validation": made.validation, "test": made.test, "test_samples": made.test_samples},
        "classes": list(subject.classes),
        "input": subject.input.to_json(),
        "parameters": {"distinct": sum(made.distinct.values()), "own": made.own},
        "flops": made.flops,
        "components": [asdict(component) for component in made.components],
        "ancestors": [{"path": path, "changed": change} for path, change in made.ancestors],
        "verified": verified.to_json(),
    }


def write_text(path: Path, text: str) -> None:
    """Write a file in UTF-8."""
    path.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write a file of JSON that people can read."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def _put(draft: Path, target: Path) -> None:
    """Rename into place. An earlier export is moved aside first and comes back where that fails."""
    if not target.exists():
        draft.rename(target)
    else:
        aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        target.rename(aside / "before")
        try:
            draft.rename(target)
        except OSError:
            (aside / "before").rename(target)
            aside.rmdir()
            raise
        shutil.rmtree(aside, ignore_errors=True)
    _sync(target.parent)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _mask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextmanager
def _writing(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFullError(f"no space left for {target}. Free some, or name a folder on another disk.") from None
        raise UsageError(f"{target} cannot be written ({error.strerror or error}); name another folder.") from None
