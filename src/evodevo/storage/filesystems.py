"""Detection of network file systems, on which SQLite's WAL mode fails: it needs memory shared within one kernel."""

from __future__ import annotations

import re
from pathlib import Path

# fmt: off
NETWORK_TYPES = frozenset({
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "fuse", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs",
    "nfs4", "ocfs2", "orangefs", "pvfs2", "smb2", "smb3", "smbfs", "vboxsf", "virtiofs",
})
# fmt: on


def filesystem_type(path: Path, mounts: str | None = None) -> str:
    """The kernel's name of the type of the file system that holds a path ("ext4", "nfs4", "fuse.sshfs").

    Args:
        path: Path, which need not exist yet.
        mounts: Text of /proc/self/mounts; None reads it now.

    Returns:
        The type, or "" where /proc is not available.
    """
    if mounts is None:
        try:
            mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return ""
    real = path.resolve()
    best: tuple[int, str] = (-1, "")
    for line in mounts.splitlines():
        words = line.split(" ")
        if len(words) < 3:
            continue
        point = Path(re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), words[1]))
        # Of several mounts on one point the last one is in effect, hence >=.
        if real.is_relative_to(point) and len(point.parts) >= best[0]:
            best = (len(point.parts), words[2])
    return best[1]


def is_network(path: Path, mounts: str | None = None) -> bool:
    """Whether other machines may mount the same file system (every FUSE file system but fuseblk counts)."""
    kind = filesystem_type(path, mounts)
    return kind in NETWORK_TYPES or kind.startswith("fuse.")
