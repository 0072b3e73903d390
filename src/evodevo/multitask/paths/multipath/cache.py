"""The answers of frozen paths to samples, kept on disk (µ4Net section 3.2.2's caching).

Source: docs/spec/munet.md#caching-and-skipping.

A path never changes, so its answer to a sample that is prepared the same way every time is worth keeping: the training
of a multipath model then computes only two or three dense layers. See ``multitask.paths.multipath.rows`` for the files.

``tasks.feature_cache`` keeps sequences of whole splits that are made at once; here rows are made at their first
use, by many workers, and old ones make room.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from evodevo import canonical
from evodevo.errors import UsageError
from evodevo.multitask.paths.multipath.rows import FORMAT, CachedRows, CacheSettings

_KEY = re.compile(r"[0-9a-f]{64}")


def rows_key(
    path: str,
    components: Mapping[str, str],
    structure: Mapping[str, Any],
    answer: Literal["logits", "representation"],
    samples: str,
    preparation: Mapping[str, Any],
) -> str:
    """64 hexadecimal digits over all facts that rows depend on.

    Args:
        path: the path's full id, "agent/number".
        components: role -> digest of its weights.
        structure: structure of the path, with its inputs.
        answer: kind of the rows: a main path's logits, or a support's representation.
        samples: digest and split of the set of samples.
        preparation: preparation of a stored sample for the path; it must be deterministic.
    """
    facts: dict[str, Any] = {"format": FORMAT, "torch": version("torch"), "path": path, "answer": answer}
    facts |= {"components": dict(components), "structure": dict(structure)}
    return canonical.digest(facts | {"samples": samples, "preparation": dict(preparation)})


class PathCache:
    """A folder of rows.

    Args:
        folder: folder of the cache, made with the first block; many processes and systems may share it.
        settings: settings of this process; others may use the same folder with other ones.
    """

    def __init__(self, folder: Path, settings: CacheSettings | None = None) -> None:
        self.folder = folder / "paths"
        self.settings = settings or CacheSettings()

    def rows(self, key: str, count: int, width: int) -> CachedRows:
        """One path's rows of one set.

        Args:
            key: see ``rows_key``.
            count: N.
            width: W.
        """
        if not _KEY.fullmatch(key) or count < 1 or width < 1:
            raise UsageError(f"rows need a key of 64 hexadecimal digits, samples and numbers; got {key[:80]!r}.")
        place = self.folder / key[:2] / f"{key}-{self.settings.kept}-{width}"
        return CachedRows(place, count, width, self.settings, self.make_room)

    def bytes_used(self) -> int:
        """Bytes of all blocks."""
        return sum(size for _, size, _ in self._files())

    def make_room(self) -> None:
        """Throw out what has been unused for longest, until the limit holds; open maps stay readable."""
        limit = self.settings.limit_bytes
        if limit is None:
            return
        files = sorted(self._files())
        used = sum(size for _, size, _ in files)
        for _, size, path in files:
            if used <= limit:
                return
            path.unlink(missing_ok=True)
            used -= size

    def _files(self) -> list[tuple[float, int, Path]]:
        """(last use, bytes, path); what another process removes meanwhile is left out."""
        files = []
        for path in self.folder.glob("*/*/*.rows"):
            try:
                status = path.stat()
            except FileNotFoundError:
                continue
            files.append((status.st_mtime, status.st_size, path))
        return files
